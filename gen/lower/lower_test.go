package lower

import (
	"testing"

	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/specs"
)

func catalog(t *testing.T) *model.Catalog {
	t.Helper()
	c, _ := shared.Catalog(t, specs.FS)
	return c
}

// irregular is the formats whose units no plane analysis describes; every other must have one.
var irregular = map[string]bool{"tq1_0": true}

// The bit that the analysis reads for every element of every unit is the bit that the layout says, for units of 32 and of 64.
func TestAddressesAreTheLayouts(t *testing.T) {
	for _, f := range catalog(t).Formats {
		if f.Plain() {
			continue
		}
		for _, elems := range []int{32, 64} {
			if f.Elems%elems != 0 {
				continue
			}
			u, err := Analyse(f, Place(f, model.LayoutPadded), elems)
			if err != nil {
				t.Fatal(err)
			}
			if (u.Irregular != "") != irregular[f.Name] {
				t.Errorf("%s, units of %d: irregular %q", f.Name, elems, u.Irregular)
			}
			if u.Irregular == "" {
				checkAddresses(t, f, u)
			}
		}
	}
}

func checkAddresses(t *testing.T, f *model.Format, u *Unit) {
	shape := f.Segs[0].Shape
	for _, c := range f.Segs[0].Codes {
		lc := u.Codes[c]
		if lc == nil {
			t.Errorf("%s: code %s is not analysed", f.Name, c.Name)
			continue
		}
		pos := 0
		for i, p := range lc.Planes {
			if p.Pos != pos {
				t.Errorf("%s.%s: plane %d at bit %d of the word, want %d", f.Name, c.Name, i, p.Pos, pos)
			}
			pos += p.Plane.Bits
			for e := range f.Elems {
				unit, in := e/u.Elems, e%u.Elems
				digits := u.Shape.Digits(unit)
				step, inner := lc.Group, 0
				switch p.Kind {
				case Bytes:
					step, inner = Quad, 8*(in%Quad)
				case Packed:
					step, inner = Quad, p.Plane.Bits*(in%Quad)
				}
				n := in / step
				have := 8*(p.Byte.At(digits)+p.At[n]) + p.Shift.At(digits) + p.ShiftAt[n] + inner
				if want := p.Plane.Layout.At(shape.Digits(e)); have != want {
					t.Fatalf("%s.%s: element %d, plane %d: bit %d, the layout says %d", f.Name, c.Name, e, i, have, want)
				}
			}
		}
	}
}

// A padded block keeps every field whole, wide fields on 16 bytes, and its moves take every bit of the file's block once.
func TestPaddedPlacement(t *testing.T) {
	for _, f := range catalog(t).Formats {
		if f.Plain() || !f.InFile() {
			continue
		}
		p := Place(f, model.LayoutPadded)
		if p.BlockBytes%16 != 0 || p.BlockBytes < f.Bytes || p.BlockBytes >= f.Bytes+16 {
			t.Errorf("%s: a padded block of %d bytes for %d", f.Name, p.BlockBytes, f.Bytes)
		}
		owner := make([]string, p.BlockBytes)
		for _, x := range f.Fields {
			if n := x.Bits() / 8; n >= 16 && p.At[x]%16 != 0 {
				t.Errorf("%s.%s: %d bytes at %d", f.Name, x.Name, n, p.At[x])
			}
			for i := range x.Bits() / 8 {
				if owner[p.At[x]+i] != "" {
					t.Fatalf("%s: byte %d belongs to %s and %s", f.Name, p.At[x]+i, owner[p.At[x]+i], x.Name)
				}
				owner[p.At[x]+i] = x.Name
			}
		}
		moved := make([]int, 8*f.Bytes)
		for _, m := range p.Moves(f) {
			for i := range m.Count {
				for b := range m.Bits {
					moved[m.From+8*i+b]++
				}
			}
		}
		for i, n := range moved {
			if n != 1 {
				t.Errorf("%s: bit %d of the file's block is moved %d times", f.Name, i, n)
			}
		}
	}
}
