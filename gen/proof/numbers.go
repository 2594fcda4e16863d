package proof

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/minfer/minfer/gen/model"
)

// maxWordBits bounds the words that are enumerated.
const maxWordBits = model.MaxWordBits

// tablesCover: every word indexes an entry of its table, and every word that can occur a level.
func tablesCover(c *checker) {
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			if t := code.Then; t != nil && t.Table != nil && (code.Bits > maxWordBits || len(t.Table.Entries) != 1<<code.Bits) {
				c.addf(c.pos.At(code, "then"), "%scode %s has %d bits, but table %s has %d entries; it must have 2^%d",
					c.label(s), code.Name, code.Bits, t.Table.Name, len(t.Table.Entries), code.Bits)
			}
		}
	}
	if len(c.diags) > 0 {
		return // Words indexes tables
	}
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			if code.As != model.Levels {
				continue
			}
			words := Words(s, code)
			switch {
			case words == nil:
				c.addf(c.pos.At(code, "levels"), "%scode %s has %d bits; levels are allowed for at most %d", c.label(s), code.Name, code.Bits, maxWordBits)
			case len(code.Levels) != int(words[len(words)-1])+1:
				c.addf(c.pos.At(code, "levels"), "%scode %s has %d levels, but its words run from 0 to %d; one level a word is due",
					c.label(s), code.Name, len(code.Levels), words[len(words)-1])
			}
		}
	}
}

// Words lists the words that a code can hold: see model.Segment.Words.
func Words(s *model.Segment, code *model.Code) []uint64 { return s.Words(code) }

// Numbers lists the numbers that a code can take: see model.Segment.Numbers.
func Numbers(s *model.Segment, code *model.Code) []float64 { return s.Numbers(code) }

// numbersExact: mul*as(word) + add is a number that f32 holds, so that no kernel has to round it; a floating-point
// word is only ever scaled by a power of two.
func numbersExact(c *checker) {
	for _, s := range c.format.Segs {
		for _, code := range s.Codes {
			switch code.As {
			case model.Unsigned, model.Signed, model.Levels:
				c.smallNumbersExact(s, code)
			default:
				if m, _ := math.Frexp(math.Abs(code.Mul)); m != 0.5 {
					c.addf(c.pos.At(code, "mul"), "%scode %s is read as %s and multiplied by %g; a power of two is due, which keeps it exact", c.label(s), code.Name, code.As, code.Mul)
				}
				if code.Add != 0 {
					c.addf(c.pos.At(code, "add"), "%scode %s is read as %s and %g is added; only 0 keeps it exact", c.label(s), code.Name, code.As, code.Add)
				}
			}
		}
	}
}

func (c *checker) smallNumbersExact(s *model.Segment, code *model.Code) {
	words := Words(s, code)
	if words == nil {
		if code.Mul != 1 || code.Add != 0 {
			c.addf(c.pos.At(code, "mul"), "%scode %s of %d bits has mul or add; at most %d bits are allowed with them", c.label(s), code.Name, code.Bits, maxWordBits)
		}
		return
	}
	mul, add := new(big.Float).SetPrec(200).SetFloat64(code.Mul), new(big.Float).SetPrec(200).SetFloat64(code.Add)
	for _, w := range words {
		x := new(big.Float).SetPrec(200).SetFloat64(code.Plain(w))
		x.Mul(x, mul).Add(x, add)
		if y, accuracy := x.Float32(); accuracy != big.Exact || math.IsInf(float64(y), 0) {
			part := "mul"
			if code.Add != 0 {
				part = "add"
			}
			c.addf(c.pos.At(code, part), "%scode %s: word %d is the number %s, which f32 does not hold exactly", c.label(s), code.Name, w, x.Text('g', 20))
			return
		}
	}
}

// biasSteps is the finest fraction of a bias: kernels add biases in steps of 1/biasSteps.
const biasSteps = 8

// weightsSmall: what kernels multiply with 8-bit activations, the weight before scaling, is an 8-bit integer; so is
// biasSteps times the weight with its biases.
func weightsSmall(c *checker) {
	if c.format.Plain() {
		return
	}
	for _, s := range c.format.Segs {
		lo, hi := 1.0, 1.0
		at := c.pos.At(s, "value.weight[0]")
		for i, code := range s.Value.Weight {
			numbers := Numbers(s, code)
			if whole := func(x float64) bool { return x == math.Trunc(x) }; numbers == nil || !all(numbers, whole) {
				c.addf(c.pos.At(s, fmt.Sprintf("value.weight[%d]", i)), "%svalue.weight: %s is no integer; kernels multiply weights with 8-bit activations, so integers from -128 to 127 are due (fractions belong in the scale)", c.label(s), code.Name)
				return
			}
			a, b := slices.Min(numbers), slices.Max(numbers)
			p := []float64{lo * a, lo * b, hi * a, hi * b}
			lo, hi = slices.Min(p), slices.Max(p)
		}
		if lo < -128 || hi > 127 {
			c.addf(at, "%svalue.weight runs from %g to %g; kernels multiply weights with 8-bit activations, so integers from -128 to 127 are due", c.label(s), lo, hi)
			continue
		}
		if len(s.Value.Bias) == 0 {
			continue
		}
		for i, code := range s.Value.Bias {
			numbers := Numbers(s, code)
			if step := func(x float64) bool { return biasSteps*x == math.Trunc(biasSteps*x) }; numbers == nil || !all(numbers, step) {
				c.addf(c.pos.At(s, fmt.Sprintf("value.bias[%d]", i)), "%svalue.bias: %s is no multiple of 1/%d, as kernels need it", c.label(s), code.Name, biasSteps)
				return
			}
			lo, hi = lo+slices.Min(numbers), hi+slices.Max(numbers)
		}
		if biasSteps*lo < -128 || biasSteps*hi > 127 {
			c.addf(at, "%svalue.weight with its bias runs from %g to %g; from -16 to 15.875 is due, %d times which fits in 8 bits", c.label(s), lo, hi, biasSteps)
		}
	}
}

func all(numbers []float64, holds func(float64) bool) bool {
	return !slices.ContainsFunc(numbers, func(x float64) bool { return !holds(x) })
}

// Range is the least and the greatest number of a code; false when Numbers is nil.
func Range(s *model.Segment, code *model.Code) (lo, hi float64, ok bool) {
	n := Numbers(s, code)
	if n == nil {
		return 0, 0, false
	}
	return slices.Min(n), slices.Max(n), true
}

// WeightRange is the range of product(weight) + sum(bias) over all segments, the numbers that a dot product multiplies
// activations with; false when a part of the weight is floating point or too wide to enumerate.
func WeightRange(f *model.Format) (lo, hi float64, ok bool) {
	for i, s := range f.Segs {
		l, h := 1.0, 1.0
		for _, code := range s.Value.Weight {
			a, b, ok := Range(s, code)
			if !ok {
				return 0, 0, false
			}
			p := []float64{l * a, l * b, h * a, h * b}
			l, h = slices.Min(p), slices.Max(p)
		}
		for _, code := range s.Value.Bias {
			a, b, ok := Range(s, code)
			if !ok {
				return 0, 0, false
			}
			l, h = l+a, h+b
		}
		if i == 0 {
			lo, hi = l, h
		}
		lo, hi = min(lo, l), max(hi, h)
	}
	return lo, hi, true
}
