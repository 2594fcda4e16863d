// Package proof holds the model to its rules before anything is emitted. Each rule is a small function from a format
// to diagnostics; the facts that follow from a proved format (ranges, alignment, groups) are computed here too.
//
// What is proved of a format: its segments and digits give every element once; its fields tile the block; every plane
// lies in what it reads, and within one item of a field; every bit of the block serves exactly one bit of one instance
// of a code, and back; every index into a table or a list of levels is in range; every number is exact in f32; the sums
// and the rounding scheme are of the kind that encoders can compute; blocks are whole units of 32 elements, and weights
// before scaling are 8-bit integers, as kernels take them. That the layout is the right one, no proof can
// say: golden blocks made elsewhere do.
package proof

import (
	"fmt"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
)

// rules are all rules for formats, each resting on those before it.
var rules = []func(*checker){
	elements,
	fieldsTile,
	planesInside,
	everythingUsed,
	tablesCover,
	numbersExact,
	bitsOnce,
	sumsHold,
	encodeWorks,
	wholeUnits,
	weightsSmall,
}

// Prove checks every format of a catalog, then every kernel, whose proof rests on the formats'.
func Prove(c *model.Catalog, pos *load.Positions) diag.List {
	var diags diag.List
	for _, f := range c.Formats {
		if found := Format(f, pos); len(found) > 0 {
			diags.Add(found)
		} else {
			diags.Add(Layouts(f, pos))
			for _, t := range f.Tiles {
				diags.Add(Format(t.Stored, pos))
			}
		}
	}
	if len(diags) == 0 {
		diags.Add(Kernels(c, pos))
	}
	return diags
}

// Format checks one format. A rule that fails keeps the later rules, which rest on it, from running.
func Format(f *model.Format, pos *load.Positions) diag.List {
	c := &checker{format: f, pos: pos}
	for _, rule := range rules {
		if rule(c); len(c.diags) > 0 {
			break
		}
	}
	return c.diags
}

// checker is the format under proof and what was found.
type checker struct {
	format *model.Format
	pos    *load.Positions
	diags  diag.List
}

func (c *checker) addf(at diag.Pos, format string, args ...any) { c.diags.Addf(at, format, args...) }

// label names a segment in messages.
func (c *checker) label(s *model.Segment) string {
	if len(c.format.Segs) == 1 {
		return ""
	}
	for i := range c.format.Segs {
		if c.format.Segs[i] == s {
			return fmt.Sprintf("segments[%d]: ", i)
		}
	}
	panic("BUG: a segment of another format")
}

// elements: the digits of the segments count the elements of the block.
func elements(c *checker) {
	f, n := c.format, 0
	for _, s := range f.Segs {
		if s.FirstElem != n {
			c.addf(c.pos.At(s, "shape"), "%sthe segment begins at element %d, but the segments before it have %d", c.label(s), s.FirstElem, n)
		}
		n += s.Elems()
	}
	switch {
	case n == f.Elems:
	case len(f.Segs) == 1 && len(f.Segs[0].Shape) == 0:
		c.addf(c.pos.At(f, "block.elems"), "block.elems is %d, but there is no shape; give the digits of an element's index, whose radices multiply to %d", f.Elems, f.Elems)
	case len(f.Segs) == 1:
		c.addf(c.pos.At(f.Segs[0], "shape"), "shape: the radices multiply to %d, but block.elems is %d", n, f.Elems)
	default:
		c.addf(c.pos.At(f, "block.elems"), "block.elems is %d, but the segments have %d elements together", f.Elems, n)
	}
}

// fieldsTile: the fields lie in the block, apart from each other, and leave no gap unless the format is padded.
func fieldsTile(c *checker) {
	f, end, last := c.format, 0, (*model.Field)(nil)
	for _, d := range f.Fields { // by offset
		at := c.pos.At(d, "at")
		switch {
		case d.AtBytes < end:
			c.addf(at, "field %s begins at byte %d, inside %s, which ends at byte %d; fields lie apart", d.Name, d.AtBytes, last.Name, end)
		case d.AtBytes > end && !f.Padded:
			c.addf(at, "field %s begins at byte %d, but what lies before it ends at byte %d; fields leave no gap (or padded: true)", d.Name, d.AtBytes, end)
		}
		if e := d.AtBytes + d.Bits()/8; e > end {
			end, last = e, d
		}
	}
	switch {
	case end > f.Bytes:
		c.addf(c.pos.At(last, "at"), "field %s ends at byte %d, but block.bytes is %d", last.Name, end, f.Bytes)
	case end < f.Bytes && !f.Padded:
		c.addf(c.pos.At(f, "block.bytes"), "block.bytes is %d, but the fields end at byte %d (or padded: true)", f.Bytes, end)
	}
}

// planesInside: every plane of every element lies in what it reads, and within one item of a field's type, so that
// the type is a load that suffices.
func planesInside(c *checker) {
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			for i, p := range code.Planes {
				c.planeInside(s, code, i, p)
			}
		}
	}
}

func (c *checker) planeInside(s *model.Segment, code *model.Code, i int, p model.Plane) {
	limit, source := 0, ""
	if p.Field != nil {
		limit, source = p.Field.Bits(), fmt.Sprintf("field %s of %d items of %d bits", p.Field.Name, p.Field.Count, p.Field.Type.Bits)
	} else {
		limit, source = p.Code.ThenBits, fmt.Sprintf("code %s of %d bits", p.Code.Name, p.Code.ThenBits)
	}
	lo, hi := p.Layout.Range(s.Shape)
	what := fmt.Sprintf("%splane %d of code %s", c.label(s), i, code.Name)
	if lo < 0 || hi+p.Bits > limit {
		c.addf(c.pos.Plane(code, i, "base"), "%s reads bits %d to %d, but %s ends at bit %d", what, lo, hi+p.Bits-1, source, limit-1)
		return
	}
	if p.Field == nil {
		return
	}
	item := p.Field.Type.Bits
	for e := range s.Elems() {
		if a := p.Layout.At(s.Shape.Digits(e)); a%item+p.Bits > item {
			c.addf(c.pos.Plane(code, i, "bits"), "%s crosses an item of %s: element %d reads bits %d to %d; give the field a wider type, or split the plane", what, source, e, a, a+p.Bits-1)
			return
		}
	}
}

// everythingUsed: every code is read by the value, a sum or another code.
func everythingUsed(c *checker) {
	read := map[*model.Code]bool{}
	for _, s := range c.format.Segs {
		for _, list := range lists(s.Value) {
			for _, code := range list {
				read[code] = true
			}
		}
		for _, code := range s.Codes {
			for _, p := range code.Planes {
				read[p.Code] = true
			}
		}
	}
	for _, sum := range c.format.Sums {
		read[sum.Code] = true
	}
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			if !read[code] {
				c.addf(c.pos.At(code, ""), "%scode %s is read by nothing; name it in value or sums, or in another code's from", c.label(s), code.Name)
			}
		}
	}
}

// unitElems is what kernels take at a time, and what activations are quantized by.
const unitElems = 32

// wholeUnits: a block is one number or whole units.
func wholeUnits(c *checker) {
	if n := c.format.Elems; n != 1 && n%unitElems != 0 {
		c.addf(c.pos.At(c.format, "block.elems"), "block.elems is %d; kernels take %d elements at a time, so 1 or a multiple of %d is due", n, unitElems, unitElems)
	}
}

// lists are the lists of a value.
func lists(v model.Value) [][]*model.Code {
	return [][]*model.Code{v.Scale, v.Weight, v.Bias, v.Minus, v.Plus}
}
