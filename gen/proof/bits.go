package proof

import (
	"fmt"

	"github.com/minfer/minfer/gen/model"
)

// bitAt is one bit of the block (instance -1 of source "") or of one instance of a code's word.
type bitAt struct {
	source   string
	instance int
	bit      int
}

// bitsOnce: by enumeration, (instance of a code, bit of it) and (what it reads, bit of it) stand one to one. A shared
// plane declares that its bits serve many instances; then each value of its own digits counts as one.
func bitsOnce(c *checker) {
	owner := map[bitAt]bitAt{} // what is read -> who reads it
	from := map[bitAt]bitAt{}  // who reads -> what is read
	ids := identities(c.format)
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			pos := 0
			for i, p := range code.Planes {
				c.planeOnce(s, code, i, p, pos, ids, owner, from)
				pos += p.Bits
			}
		}
	}
	if c.format.Padded || len(c.diags) > 0 {
		return
	}
	for _, d := range c.format.Fields {
		if bits := unusedOf(d, owner); len(bits) > 0 {
			c.addf(c.pos.At(d, ""), "field %s: bit %d (%d bits in all) is read by no code; every bit of a field is part of a code", d.Name, bits[0], len(bits))
		}
	}
}

// planeOnce enters what one plane reads and reports the first clash.
func (c *checker) planeOnce(s *model.Segment, code *model.Code, i int, p model.Plane, pos int, ids map[*model.Code]string, owner, from map[bitAt]bitAt) {
	me := domain(s, code.Planes)
	if p.Shared {
		me = domain(s, []model.Plane{p})
	}
	source, its := "", make([]bool, len(s.Shape))
	offset := 0
	if p.Field != nil {
		offset = 8 * p.Field.AtBytes
	} else {
		source, its = ids[p.Code], domain(s, p.Code.Planes)
	}
	what := fmt.Sprintf("%splane %d of code %s", c.label(s), i, code.Name)
	for e := range s.Elems() {
		digits := s.Shape.Digits(e)
		reader := bitAt{source: ids[code], instance: instance(s, me, digits)}
		read := bitAt{source: source, instance: -1}
		if p.Field == nil {
			read.instance = instance(s, its, digits)
		}
		address := p.Layout.At(digits)
		for k := range p.Bits {
			reader.bit, read.bit = pos+k, offset+address+k
			if first, taken := owner[read]; taken && first != reader {
				c.addf(c.pos.Plane(code, i, ""), "%s: bit %d of %s serves element %d, but is already bit %d of %s; every bit serves one instance of one code (or shared: true)",
					what, address+k, sourceName(p), e, first.bit, name(first))
				return
			}
			if first, taken := from[reader]; taken && first != read {
				c.addf(c.pos.Plane(code, i, ""), "%s: for element %d it reads bit %d of %s, but for another element of the same instance of %s bit %d of what it reads; a code depends on the digits of its strides alone",
					what, e, address+k, sourceName(p), code.Name, first.bit-offset)
				return
			}
			owner[read], from[reader] = reader, read
		}
	}
}

func sourceName(p model.Plane) string {
	if p.Field != nil {
		return "field " + p.Field.Name
	}
	return "code " + p.Code.Name
}

func name(b bitAt) string {
	return fmt.Sprintf("code %s[%d]", b.source, b.instance)
}

// identities names the codes of a format. A code that is the same for all elements and reads the same bits in several
// segments is one code; others are distinct.
func identities(f *model.Format) map[*model.Code]string {
	ids, planes := map[*model.Code]string{}, map[string]string{}
	for i, s := range f.Segs {
		for _, code := range s.Codes {
			id := code.Name
			if len(f.Segs) > 1 {
				common := fmt.Sprint(bases(code))
				if old, known := planes[code.Name]; !constant(s, code) || known && old != common {
					id = fmt.Sprintf("segments[%d].%s", i, code.Name)
				} else {
					planes[code.Name] = common
				}
			}
			ids[code] = id
		}
	}
	return ids
}

// constant reports whether all elements of the segment share one instance of the code.
func constant(s *model.Segment, code *model.Code) bool {
	for _, in := range domain(s, code.Planes) {
		if in {
			return false
		}
	}
	return true
}

// bases lists what a constant code reads.
func bases(code *model.Code) []string {
	var out []string
	for _, p := range code.Planes {
		out = append(out, fmt.Sprint(sourceName(p), " ", p.Layout.Base, "+", p.Bits))
	}
	return out
}

// domain marks the digits that planes depend on, through the codes that they read as well.
func domain(s *model.Segment, planes []model.Plane) []bool {
	in := make([]bool, len(s.Shape))
	for _, p := range planes {
		for i := range s.Shape {
			in[i] = in[i] || p.Layout.Uses(s.Shape, i)
		}
		if p.Code != nil {
			for i, d := range domain(s, p.Code.Planes) {
				in[i] = in[i] || d
			}
		}
	}
	return in
}

// instance numbers the values of the digits in a domain.
func instance(s *model.Segment, in []bool, digits []int) int {
	n := 0
	for i, d := range s.Shape {
		if in[i] {
			n = n*d.Radix + digits[i]
		}
	}
	return n
}

// Instances is how many instances of a code a segment has.
func Instances(s *model.Segment, code *model.Code) int {
	n := 1
	for i, in := range domain(s, code.Planes) {
		if in {
			n *= s.Shape[i].Radix
		}
	}
	return n
}

func unusedOf(d *model.Field, owner map[bitAt]bitAt) []int {
	var bits []int
	for b := range d.Bits() {
		if _, used := owner[bitAt{"", -1, 8*d.AtBytes + b}]; !used {
			bits = append(bits, b)
		}
	}
	return bits
}
