package lower

import (
	"fmt"

	"github.com/minfer/minfer/gen/model"
)

// Repack compares two descriptions of the same codes and returns, for each bit of the stored block, the bit of the file's block that
// belongs there, or -1 for padding. It is the proof that nothing is lost: each bit of the file's fields has exactly one place in the
// stored block and each place one bit. Otherwise flaw says which code, which element.
func Repack(file, stored *model.Format) (from []int, flaw string) {
	from, to := filled(8*stored.Bytes), filled(8*file.Bytes)
	if len(file.Segs) != 1 || len(stored.Segs) != 1 || file.Elems != stored.Elems {
		return nil, "a layout moves the codes of one shape, and of as many elements"
	}
	a, b := file.Segs[0], stored.Segs[0]
	codes := map[string]*model.Code{}
	for _, c := range b.Codes {
		codes[c.Name] = c
	}
	for _, c := range a.Codes {
		if !readsFields(c) {
			continue
		}
		d := codes[c.Name]
		switch {
		case d == nil:
			return nil, fmt.Sprintf("code %s lies nowhere", c.Name)
		case d.Bits != c.Bits:
			return nil, fmt.Sprintf("code %s has %d bits, stored are %d", c.Name, c.Bits, d.Bits)
		case d.As != c.As:
			return nil, fmt.Sprintf("code %s reads as %s, stored it would read as %s", c.Name, c.As, d.As)
		}
		for e := range file.Elems {
			x, y := wordBits(c, a, e), wordBits(d, b, e)
			for k := range x {
				i, j := x[k], y[k]
				switch {
				case (i < 0) != (j < 0):
					return nil, fmt.Sprintf("bit %d of code %s comes from a field here and from a code there", k, c.Name)
				case i < 0:
				case from[j] >= 0 && from[j] != i:
					return nil, fmt.Sprintf("bit %d of the stored block is to hold bit %d of code %s for element %d, but already holds bit %d of the file's block, not bit %d", j, k, c.Name, e, from[j], i)
				case to[i] >= 0 && to[i] != j:
					return nil, fmt.Sprintf("bit %d of code %s for element %d (bit %d of the file's block) is stored twice, at bits %d and %d", k, c.Name, e, i, to[i], j)
				default:
					from[j], to[i] = i, j
				}
			}
		}
	}
	if f, n := unmoved(file, to); f != nil {
		return nil, fmt.Sprintf("%d bits of field %s of the file are stored nowhere", n, f.Name)
	}
	if f, n := unmoved(stored, from); f != nil {
		return nil, fmt.Sprintf("%d bits of field %s hold no bit of the file", n, f.Name)
	}
	return from, ""
}

func filled(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = -1
	}
	return v
}

func readsFields(c *model.Code) bool {
	for _, p := range c.Planes {
		if p.Field != nil {
			return true
		}
	}
	return false
}

// wordBits is the bit of the block that each bit of the code's word is read from for element e; -1 where a code is read.
func wordBits(c *model.Code, s *model.Segment, e int) (bits []int) {
	digits := s.Shape.Digits(e)
	for _, p := range c.Planes {
		at := p.Layout.At(digits)
		for k := range p.Bits {
			if p.Field == nil {
				bits = append(bits, -1)
			} else {
				bits = append(bits, 8*p.Field.AtBytes+at+k)
			}
		}
	}
	return bits
}

// unmoved is the first field with bits that the map leaves out, and how many.
func unmoved(f *model.Format, moved []int) (*model.Field, int) {
	for _, x := range f.Fields {
		n := 0
		for b := range x.Bits() {
			if moved[8*x.AtBytes+b] < 0 {
				n++
			}
		}
		if n > 0 {
			return x, n
		}
	}
	return nil, 0
}

// Move is Count items of Bits bits, none of which crosses a byte: item i goes from bit From+8*i of the file's block to bit
// To+8*i of the placed one.
type Move struct{ From, To, Bits, Count int }

// moves writes a map of bits as few moves: runs of adjacent bits, then runs of neighbouring bytes.
func moves(from []int) (list []Move) {
	for j := 0; j < len(from); {
		i := from[j]
		if i < 0 {
			j++
			continue
		}
		n := 1
		for (j+n)%8 != 0 && (i+n)%8 != 0 && from[j+n] == i+n {
			n++
		}
		list = append(list, Move{i, j, n, 1})
		j += n
	}
	// Of each kind (shift and width) the items in consecutive bytes are one move.
	var out []Move
	open := map[[3]int]int{}
	for _, m := range list {
		kind := [3]int{m.From % 8, m.To % 8, m.Bits}
		if k, ok := open[kind]; ok && out[k].From+8*out[k].Count == m.From && out[k].To+8*out[k].Count == m.To {
			out[k].Count++
			continue
		}
		open[kind] = len(out)
		out = append(out, m)
	}
	return out
}
