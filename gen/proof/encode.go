package proof

import (
	"fmt"
	"math"
	"slices"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/model"
)

// sumsHold: a redundant sum is stored by itself, over fewer digits than what it sums, and its code can hold it.
func sumsHold(c *checker) {
	if len(c.format.Sums) == 0 {
		return
	}
	s := c.format.Segs[0]
	for _, sum := range c.format.Sums {
		at, what := c.pos.At(c.format, "sums."+sum.Code.Name), "sums."+sum.Code.Name
		for _, list := range lists(s.Value) {
			if slices.Contains(list, sum.Code) {
				c.addf(at, "%s: the value reads it; a redundant sum is part of no value", what)
			}
		}
		if !stored(sum.Code) {
			c.addf(at, "%s: it reads another code; a sum is stored in fields", what)
		}
		mine, of := domain(s, sum.Code.Planes), domain(s, sum.Of.Planes)
		over := Instances(s, sum.Of)
		for i := range s.Shape {
			if mine[i] && !of[i] {
				c.addf(at, "%s: it depends on digit %s, which %s does not; a sum runs over digits of what it sums", what, s.Shape[i].Name, sum.Of.Name)
			}
		}
		over /= Instances(s, sum.Code)
		if over < 2 {
			c.addf(at, "%s: it sums one %s; it must depend on fewer digits than what it sums", what, sum.Of.Name)
			continue
		}
		lo, hi, known := Range(s, sum.Of)
		if len(sum.Times) > 0 || !known || floating(sum.Code.As) {
			continue // a rounded number, whose range is the scale's
		}
		least, greatest := 0.0, math.Ldexp(1, sum.Code.Bits)-1
		if sum.Code.As == model.Signed {
			least, greatest = -math.Ldexp(1, sum.Code.Bits-1), math.Ldexp(1, sum.Code.Bits-1)-1
		}
		if n := float64(over); lo*n < least || hi*n > greatest {
			c.addf(at, "%s: the sum of %d times %g..%g does not fit in %d bits (%g..%g)", what, over, lo, hi, sum.Code.Bits, least, greatest)
		}
	}
}

// floating reports whether a word is read as floating point.
func floating(n model.Number) bool {
	return n != model.Unsigned && n != model.Signed && n != model.Levels
}

// stored reports whether a code reads fields alone.
func stored(code *model.Code) bool {
	return !slices.ContainsFunc(code.Planes, func(p model.Plane) bool { return p.Code != nil })
}

// encodeWorks: the rounding scheme sets every code that the value reads, and each can be set: it is stored in fields,
// bit by bit its own, and read as an integer or as a plain float.
func encodeWorks(c *checker) {
	e := c.format.Encode
	if e == nil {
		return
	}
	s := c.format.Segs[0]
	v := s.Value

	c.encodeLists(e, v)
	c.encodeCode(e, s)
	c.encodeSums(e, s)
	for _, list := range []struct {
		name  string
		codes []*model.Code
	}{{"scale", e.Scale}, {"offset", e.Offset}} {
		for i, code := range list.codes {
			c.encodeFactor(s, code, i, fmt.Sprintf("encode.%s[%d]", list.name, i), c.pos.At(e, fmt.Sprintf("%s[%d]", list.name, i)))
		}
	}
	for i, code := range e.Offset {
		if i < len(e.Scale) && !slices.Equal(domain(s, code.Planes), domain(s, e.Scale[i].Planes)) {
			c.addf(c.pos.At(e, fmt.Sprintf("offset[%d]", i)), "encode.offset[%d]: %s and %s depend on different digits; an offset goes with its scale", i, code.Name, e.Scale[i].Name)
		}
	}
}

// encodeLists: the scheme's lists are the value's.
func (c *checker) encodeLists(e *model.Encode, v model.Value) {
	offsets, name := v.Minus, "value.minus"
	if len(v.Plus) > 0 {
		offsets, name = v.Plus, "value.plus"
	}
	switch {
	case !slices.Equal(v.Weight, []*model.Code{e.Code}) || len(v.Bias) > 0:
		c.addf(c.pos.At(e, "code"), "encode.code: a rounding scheme needs a value whose weight is %s alone, with no bias", e.Code.Name)
	case !slices.Equal(e.Scale, v.Scale):
		c.addf(c.pos.At(e, "scale[0]"), "encode.scale is %s; it must be value.scale, %s", names(e.Scale), names(v.Scale))
	case len(e.Scale) > 2:
		c.addf(c.pos.At(e, "scale[2]"), "encode.scale: %d codes; at most the block's and a sub-block's are allowed", len(e.Scale))
	case e.Fit == model.FitMinMax && (len(e.Offset) != len(e.Scale) || !slices.Equal(e.Offset, offsets)):
		c.addf(c.pos.At(e, "fit"), "encode.offset is %s; fit minmax needs as many offsets as scales, those of %s, %s", names(e.Offset), name, names(offsets))
	case e.Fit != model.FitMinMax && len(e.Offset)+len(offsets) > 0:
		c.addf(c.pos.At(e, "fit"), "encode.fit: %s has no offset, but the value or the scheme has one; allowed with an offset: minmax", e.Fit)
	}
}

// encodeCode: every element has a code of its own, with the range that the fit relies on.
func (c *checker) encodeCode(e *model.Encode, s *model.Segment) {
	at, code := c.pos.At(e, "code"), e.Code
	lo, hi, ok := Range(s, code)
	switch {
	case !invertible(code) || floating(code.As) || code.As == model.Levels:
		c.addf(at, "encode.code: %s cannot be rounded to; an integer code (as u or i) whose planes read fields is due", code.Name)
	case Instances(s, code) != s.Elems():
		c.addf(at, "encode.code: %s is shared by elements; each element needs a code of its own", code.Name)
	case !ok || !counts(code):
		c.addf(at, "encode.code: %s must have at most %d bits, mul 1 and a whole add, so that its numbers are consecutive integers", code.Name, maxWordBits)
	case e.Fit == model.FitMinMax && lo != 0:
		c.addf(at, "encode.code: %s begins at %g; fit minmax needs a code that begins at 0", code.Name, lo)
	case e.Fit != model.FitMinMax && (lo >= 0 || hi <= 0):
		c.addf(at, "encode.code: %s has the range %g..%g; fit %s needs one on both sides of 0", code.Name, lo, hi, e.Fit)
	}
}

// encodeFactor: a scale or an offset can be stored; the block's as a float, a sub-block's as an integer.
func (c *checker) encodeFactor(s *model.Segment, code *model.Code, i int, what string, at diag.Pos) {
	switch {
	case !invertible(code):
		c.addf(at, "%s: %s cannot be set; a code whose planes read fields is due", what, code.Name)
	case i == 0 && (!constant(s, code) || code.As != model.F16):
		c.addf(at, "%s: %s must be one f16 for the whole block", what, code.Name)
	case i == 1 && (constant(s, code) || !counts(code)):
		c.addf(at, "%s: %s must be an integer (as u or i, mul 1, a whole add) of a sub-block", what, code.Name)
	}
}

// encodeSums: beside the value's codes an encoder stores at most the block's sum of the elements' codes.
func (c *checker) encodeSums(e *model.Encode, s *model.Segment) {
	for i, sum := range c.format.Sums {
		if i > 0 || sum.Of != e.Code || len(sum.Times) > 0 || !constant(s, sum.Code) || sum.Code.As != model.Signed {
			c.addf(c.pos.At(c.format, "sums."+sum.Code.Name), "sums.%s: with encode, a stored sum must be the only one: one signed integer for the block, the sum of %s", sum.Code.Name, e.Code.Name)
		}
	}
}

// counts reports whether the numbers of a code are consecutive integers, one for each word.
func counts(code *model.Code) bool {
	return (code.As == model.Unsigned || code.As == model.Signed) && code.Mul == 1 && code.Add == math.Trunc(code.Add)
}

// invertible reports whether a word can be stored by running the planes backwards.
func invertible(code *model.Code) bool {
	return stored(code) && code.Then == nil && !slices.ContainsFunc(code.Planes, func(p model.Plane) bool { return p.Shared })
}

func names(codes []*model.Code) string {
	text := "["
	for i, code := range codes {
		if i > 0 {
			text += ", "
		}
		text += code.Name
	}
	return text + "]"
}
