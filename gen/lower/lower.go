// Package lower analyses how a unit of consecutive elements of a block comes out of its bytes: for every plane of every
// code, which bytes the unit reads, by which shift, and whether four neighbouring elements lie in four bytes of one word, in
// adjacent bits, or share one word. Targets print what it finds; it knows no target and no format.
package lower

import (
	"fmt"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// Quad is the number of elements that targets decode at a time.
const Quad = 4

// Kind is how the four elements of a quad lie in a plane.
type Kind int

// The kinds.
const (
	Scalar Kind = iota // all share the same bits
	Bytes              // in four consecutive bytes, at one shift
	Packed             // in adjacent bits of one item
)

// Unit is a run of Elems elements, Count of them in a block.
type Unit struct {
	Format *model.Format
	Place  Placement
	Elems  int
	Count  int
	Shape  layout.Shape // digits of the unit's index in its block
	Value  model.Value
	Codes  map[*model.Code]*Code
	// Irregular says why the unit must be decoded element by element; "" when it need not.
	Irregular string
}

// Code is a code as the unit reads it.
type Code struct {
	Code   *model.Code
	Group  int // consecutive elements that share one instance of it: 1 for a weight code
	Planes []Plane
}

// Plane is one plane of a code over the unit.
type Plane struct {
	Plane *model.Plane
	Kind  Kind
	Pos   int // of its bits in the word
	// The bit address of instance i of the unit with digits d is 8*(Byte(d) + At[i]) + Shift(d) + ShiftAt[i],
	// counted from the start of the field (or of the derived word, where Byte is zero). Instance i is quad i for the
	// kinds Bytes and Packed, group i for Scalar.
	Byte, Shift layout.Affine
	At, ShiftAt []int
	// Item is the width in bits that a Scalar is loaded with: Byte and At are then multiples of Item/8.
	Item int
}

// Analyse lowers a format to units of elems elements under a placement of its fields. The unit's format is the stored one.
func Analyse(f *model.Format, place Placement, elems int) (*Unit, error) {
	f = place.Format
	u := &Unit{Format: f, Place: place, Elems: elems, Codes: map[*model.Code]*Code{}}
	if elems%Quad != 0 || f.Elems%elems != 0 {
		return nil, fmt.Errorf("%s: a unit of %d elements is no whole part of a block of %d, or no multiple of %d", f.Name, elems, f.Elems, Quad)
	}
	u.Count = f.Elems / elems
	u.Value = f.Segs[0].Value
	if len(f.Segs) > 1 {
		u.Irregular = fmt.Sprintf("its elements come in %d segments of unlike shape", len(f.Segs))
		return u, nil
	}
	seg := f.Segs[0]
	shape, split := refine(seg.Shape, elems)
	if split < 0 {
		u.Irregular = fmt.Sprintf("no digit of an element's index ends at %d elements", elems)
		return u, nil
	}
	u.Shape = binary(shape[:split])
	for _, c := range seg.Codes {
		lc, why := u.code(c, seg.Shape)
		if why != "" {
			u.Irregular = fmt.Sprintf("%s: %s", c.Name, why)
			return u, nil
		}
		u.Codes[c] = lc
	}
	return u, nil
}

// refine splits the digit that straddles the unit boundary; the digits before index split number the units.
func refine(s layout.Shape, elems int) (refined layout.Shape, split int) {
	for i, d := range s {
		w := s.Weight(i)
		switch {
		case w >= elems:
			refined = append(refined, d)
		case w*d.Radix <= elems:
			if split == 0 && w*d.Radix < elems && len(refined) == i && i == 0 {
				return nil, -1
			}
			if w*d.Radix == elems {
				split = len(refined)
			}
			refined = append(refined, d)
		default:
			if elems%w != 0 || d.Radix%(elems/w) != 0 {
				return nil, -1
			}
			inner := elems / w
			refined = append(refined, layout.Digit{Name: d.Name, Radix: d.Radix / inner})
			split = len(refined)
			refined = append(refined, layout.Digit{Name: d.Name, Radix: inner})
		}
	}
	return refined, split
}

// binary splits digits whose radix is a power of two into digits of radix 2, so that a stride that carries from bits into
// bytes is still affine in each.
func binary(s layout.Shape) (out layout.Shape) {
	for _, d := range s {
		if d.Radix&(d.Radix-1) != 0 || d.Radix == 1 {
			out = append(out, d)
			continue
		}
		for r := d.Radix; r > 1; r /= 2 {
			out = append(out, layout.Digit{Name: d.Name, Radix: 2})
		}
	}
	return out
}

// code analyses one code by enumerating the addresses of its planes.
func (u *Unit) code(c *model.Code, shape layout.Shape) (*Code, string) {
	lc := &Code{Code: c, Group: u.group(c, shape)}
	pos := 0
	for i := range c.Planes {
		p := &c.Planes[i]
		lp, why := u.plane(lc, p, shape)
		if why != "" {
			return nil, why
		}
		lp.Pos = pos
		pos += p.Bits
		lc.Planes = append(lc.Planes, lp)
	}
	return lc, ""
}

// group is the largest power of two of consecutive elements, at most a unit, within which neither the planes of the code
// nor those of its sources move.
func (u *Unit) group(c *model.Code, shape layout.Shape) int {
	n := u.Elems
	for _, p := range c.Planes {
		for g := n; ; g /= 2 {
			if same(p.Layout, shape, g) {
				n = g
				break
			}
		}
		if p.Code != nil {
			n = min(n, u.group(p.Code, shape))
		}
	}
	return n
}

// same reports whether the layout is constant over each aligned run of g elements.
func same(a layout.Affine, shape layout.Shape, g int) bool {
	for e := 0; e < shape.Size(); e += g {
		at := a.At(shape.Digits(e))
		for k := 1; k < g; k++ {
			if a.At(shape.Digits(e+k)) != at {
				return false
			}
		}
	}
	return true
}

func (u *Unit) plane(c *Code, p *model.Plane, shape layout.Shape) (Plane, string) {
	out := Plane{Plane: p, Item: 8}
	address := func(e int) int { return p.Layout.At(shape.Digits(e)) }
	step := Quad
	switch {
	case c.Group >= Quad:
		out.Kind, step = Scalar, c.Group
		if p.Field != nil {
			out.Item = p.Field.Type.Bits
		}
	case strided(address, shape.Size(), 8) && p.Bits <= 8:
		out.Kind = Bytes
	case strided(address, shape.Size(), p.Bits):
		out.Kind = Packed
		if p.Field != nil {
			out.Item = p.Field.Type.Bits
		}
	default:
		return out, "neighbouring elements lie neither in consecutive bytes nor in adjacent bits"
	}
	if p.Code != nil {
		out.Item = 1 << 30 // a derived word is one item: everything is shift
	}
	// Address = item part + shift part, each a function of the unit plus a constant of the instance, without carry.
	n := u.Elems / step
	unitAt := func(k, i int) (item, shift int) {
		a := address(k*u.Elems + i*step)
		return a / out.Item, a % out.Item
	}
	item0, shift0 := unitAt(0, 0)
	for i := range n {
		item, shift := unitAt(0, i)
		out.At, out.ShiftAt = append(out.At, (item-item0)*(out.Item/8)), append(out.ShiftAt, shift-shift0)
	}
	if p.Code != nil {
		for i := range out.At {
			out.At[i] = 0
		}
	}
	fit := func(f func(k int) int) (layout.Affine, bool) {
		a := layout.Affine{Base: f(0), Stride: make([]int, len(u.Shape))}
		for d := range u.Shape {
			if u.Shape[d].Radix > 1 {
				a.Stride[d] = f(u.Shape.Weight(d)) - f(0)
			}
		}
		for k := range u.Count {
			if a.At(u.Shape.Digits(k)) != f(k) {
				return a, false
			}
		}
		return a, true
	}
	scale := out.Item / 8
	if p.Code != nil {
		scale = 0
	}
	var ok1, ok2 bool
	out.Byte, ok1 = fit(func(k int) int { item, _ := unitAt(k, 0); return item * scale })
	out.Shift, ok2 = fit(func(k int) int { _, shift := unitAt(k, 0); return shift })
	if !ok1 || !ok2 {
		return out, "its address is no affine function of the unit"
	}
	width := p.Bits
	if out.Kind == Packed {
		width *= Quad
	}
	for k := range u.Count {
		for i := range n {
			item, shift := unitAt(k, i)
			if item*scale != out.Byte.At(u.Shape.Digits(k))+out.At[i] || shift != out.Shift.At(u.Shape.Digits(k))+out.ShiftAt[i] {
				return out, "its address mixes the unit and the element"
			}
			if p.Field != nil && shift+width > out.Item {
				return out, "four elements cross an item"
			}
		}
	}
	if p.Code == nil {
		out.Item = max(out.Item, 8)
	}
	return out, ""
}

// strided reports whether each aligned quad's elements are stride bits apart.
func strided(address func(int) int, n, stride int) bool {
	for e := 0; e < n; e += Quad {
		for k := 1; k < Quad; k++ {
			if address(e+k) != address(e)+k*stride {
				return false
			}
		}
	}
	return true
}
