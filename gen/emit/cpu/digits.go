package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// A nest is a segment made ready for a loop nest: its digits, perhaps split, and the element's index over them.
type nest struct {
	shape layout.Shape
	elem  layout.Affine // index of the element in the block
	codes []*model.Code
	value model.Value
}

// newNest takes a segment as it stands.
func newNest(s *model.Segment) *nest {
	n := &nest{shape: s.Shape, codes: s.Codes, value: s.Value, elem: layout.Affine{Base: s.FirstElem}}
	for i := range s.Shape {
		n.elem.Stride = append(n.elem.Stride, s.Shape.Weight(i))
	}
	return n
}

// mapCodes copies the codes with every plane's strides passed through restride.
func (n *nest) mapCodes(restride func(stride []int) []int) {
	to := make(map[*model.Code]*model.Code, len(n.codes))
	codes := make([]*model.Code, len(n.codes))
	for i, c := range n.codes {
		cc := *c
		cc.Planes = slices.Clone(c.Planes)
		for j := range cc.Planes {
			p := &cc.Planes[j]
			p.Layout.Stride = restride(p.Layout.Stride)
			if p.Code != nil {
				p.Code = to[p.Code]
			}
		}
		codes[i], to[c] = &cc, &cc
	}
	n.codes = codes
	list := func(l []*model.Code) []*model.Code {
		out := make([]*model.Code, len(l))
		for i, c := range l {
			out[i] = to[c]
		}
		return out
	}
	v := &n.value
	v.Scale, v.Weight, v.Bias, v.Minus, v.Plus = list(v.Scale), list(v.Weight), list(v.Bias), list(v.Minus), list(v.Plus)
}

// split makes digit i two: the more significant keeps the name, the less significant has the given radix.
func (n *nest) split(i, radix int) {
	if n.shape[i].Radix == radix {
		return
	}
	restride := func(stride []int) []int {
		s := slices.Clone(stride)
		s[i] = stride[i] * radix
		return slices.Insert(s, i+1, stride[i])
	}
	n.mapCodes(restride)
	n.elem.Stride = restride(n.elem.Stride)
	d := n.shape[i]
	n.shape = slices.Clone(n.shape)
	n.shape[i].Radix = d.Radix / radix
	n.shape = slices.Insert(n.shape, i+1, layout.Digit{Name: d.Name + "0", Radix: radix})
}

// uses is the set of digits, as bits, that a code depends on by itself or through the codes it reads.
func (n *nest) uses(c *model.Code) uint64 {
	var set uint64
	for _, p := range c.Planes {
		for i := range n.shape {
			if p.Layout.Uses(n.shape, i) {
				set |= 1 << i
			}
		}
		if p.Code != nil {
			set |= n.uses(p.Code)
		}
	}
	return set
}

func (n *nest) usesAll(codes []*model.Code) uint64 {
	var set uint64
	for _, c := range codes {
		set |= n.uses(c)
	}
	return set
}

// An access is how a plane's bits are read: from the item of width Bits that starts Bits*At after the
// field's start, shifted right by Shift. Without ok the items straddle: the address is Bit alone.
type access struct {
	bits  int // width of the item
	at    layout.Affine
	shift layout.Affine
	ok    bool
}

// access finds the narrowest item, from the field's own type up to 64 bits, for which the shift never carries
// into the item's index: then both are constants plus constant strides.
func (n *nest) access(p model.Plane) access {
	if p.Field == nil {
		return access{shift: p.Layout, ok: true}
	}
	for bits := p.Field.Type.Bits; bits <= 64 && p.Field.Bits()%bits == 0; bits *= 2 {
		if q, r, ok := p.Layout.Divide(n.shape, bits); ok {
			return access{bits: bits, at: q, shift: r, ok: true}
		}
	}
	return access{bits: p.Field.Type.Bits}
}

// The most element statements in the body of a loop: digits of the weight's own shift are unrolled up to it.
const maxUnroll = 8

// unrolled chooses the digits to unroll, as a set: those that shift a word already loaded, so that the shifts
// become constants and a loaded word serves all its elements. They are taken innermost first.
func (n *nest) unrolled() uint64 {
	var shifting uint64
	var visit func(c *model.Code)
	visit = func(c *model.Code) {
		for _, p := range c.Planes {
			if a := n.access(p); a.ok {
				for i := range n.shape {
					if a.shift.Uses(n.shape, i) {
						shifting |= 1 << i
					}
				}
			}
			if p.Code != nil {
				visit(p.Code)
			}
		}
	}
	for _, c := range slices.Concat(n.value.Weight, n.value.Bias) {
		visit(c)
	}
	var set uint64
	statements := 1
	for i := len(n.shape) - 1; i >= 0; i-- {
		if r := n.shape[i].Radix; shifting&(1<<i) != 0 && statements*r <= maxUnroll {
			set |= 1 << i
			statements *= r
		}
	}
	return set
}

// statements is the number of element statements that unrolling a set of digits yields.
func (n *nest) statements(set uint64) int {
	count := 1
	for i, d := range n.shape {
		if set&(1<<i) != 0 {
			count *= d.Radix
		}
	}
	return count
}

// widen splits the innermost loop digit so that at least want elements are handled by one loop body.
func (n *nest) widen(set uint64, want int) uint64 {
	have := n.statements(set)
	for i := len(n.shape) - 1; i >= 0 && have < want; i-- {
		d := n.shape[i]
		if set&(1<<i) != 0 || d.Radix == 1 {
			continue
		}
		if by := want / have; d.Radix > by && d.Radix%by == 0 {
			n.split(i, by)
			low := set & (1<<(i+1) - 1)
			set = low | set&^low<<1 | 1<<(i+1)
		}
		break
	}
	return set
}

// A point gives the unrolled digits their values.
type point []int

// points lists all values of a set of digits, the last digit running fastest; other digits are zero.
func (n *nest) points(set uint64) []point {
	list := []point{make(point, len(n.shape))}
	for i, d := range n.shape {
		if set&(1<<i) == 0 {
			continue
		}
		var next []point
		for _, p := range list {
			for v := range d.Radix {
				q := slices.Clone(p)
				q[i] = v
				next = append(next, q)
			}
		}
		list = next
	}
	return list
}

// suffix tells the variables of different points apart: the values of the digits in the set.
func (n *nest) suffix(p point, set uint64) string {
	s := ""
	for i := range n.shape {
		if set&(1<<i) != 0 {
			s += fmt.Sprint(p[i])
		}
	}
	return s
}

// restrict fixes the digits in the set at a point: what is left depends on the other digits alone.
func restrict(a layout.Affine, set uint64, p point) layout.Affine {
	r := layout.Affine{Base: a.Base, Stride: slices.Clone(a.Stride)}
	for i := range r.Stride {
		if set&(1<<i) != 0 {
			r.Base += r.Stride[i] * p[i]
			r.Stride[i] = 0
		}
	}
	return r
}

// terms writes an affine number as Go: 16 + 64*a + l, or 0.
func (n *nest) terms(a layout.Affine, name func(i int) string) string {
	var t []string
	for i, s := range a.Stride {
		switch {
		case n.shape[i].Radix == 1 || s == 0:
		case s == 1:
			t = append(t, name(i))
		default:
			t = append(t, fmt.Sprintf("%d*%s", s, name(i)))
		}
	}
	if a.Base != 0 || len(t) == 0 {
		t = append(t, fmt.Sprint(a.Base))
	}
	return strings.ReplaceAll(strings.Join(t, "+"), "+-", "-")
}

// constant reports whether an affine number depends on no digit.
func (n *nest) constant(a layout.Affine) bool {
	for i := range a.Stride {
		if a.Uses(n.shape, i) {
			return false
		}
	}
	return true
}
