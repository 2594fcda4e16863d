package numeric

import "math"

// The functions below find how a run of numbers is rounded to small codes: x ~ scale*q - offset. They are
// written so that no product is fused with a sum: every platform yields the same bits.
//
// A run that holds NaN or an infinity has a scale of NaN, so that what is made of it is NaN as well rather than
// a wrong number; its codes are the least there is.

// AbsMax is the greatest magnitude of x: infinite or NaN if one of them is, 0 for an empty run.
func AbsMax(x []float32) float32 {
	var m uint32
	for _, v := range x {
		m = max(m, math.Float32bits(v)&0x7fffffff) // magnitudes are ordered as their bits, NaN above all
	}
	return math.Float32frombits(m)
}

// Extreme is the number of greatest magnitude with its sign, the first of several; NaN if one is not finite.
func Extreme(x []float32) float32 {
	var amax, extreme float32
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > amax {
			amax, extreme = a, v
		}
	}
	if !finite(AbsMax(x)) {
		return nan
	}
	return extreme
}

// MinMax is the least and the greatest number of a run that is not empty; NaN if one is not finite.
func MinMax(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if !finite(AbsMax(x)) {
		return nan, nan
	}
	return lo, hi
}

var nan = float32(math.NaN())

func finite(x float32) bool { return math.Float32bits(x)&0x7f800000 != 0x7f800000 }

// Reciprocal is 1/x, and 0 for 0: the scale of zeros.
func Reciprocal(x float32) float32 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

// Quotient is x/d, and 0 where d is 0: the scale of numbers too small for it.
func Quotient(x, d float32) float32 {
	if d == 0 {
		return 0
	}
	return x / d
}

// Floor is the greatest integer that is at most x, held within 0..hi; NaN gives 0.
func Floor(x float32, hi int) int {
	if !(x > 0) {
		return 0
	}
	if x >= float32(hi) {
		return hi
	}
	return int(x)
}

// RoundEven is the integer nearest to x, ties to even, held within lo..hi, which lie within -2^22..2^22; NaN gives lo.
func RoundEven(x float32, lo, hi int) int {
	if !(x > float32(lo)) {
		return lo
	}
	if x >= float32(hi) {
		return hi
	}
	// The sum has no bits left behind the point; its fraction is the integer. Converted, so that no machine fuses it with the caller's product.
	return int(int32(math.Float32bits(float32(x)+0x1.8p23)) - 0x4b400000)
}

// RoundAway is the integer nearest to x, ties away from zero, held within lo..hi; NaN gives lo.
func RoundAway(x float32, lo, hi int) int {
	if !(x > float32(lo)) {
		return lo
	}
	if x >= float32(hi) {
		return hi
	}
	return int(float64(x) + math.Copysign(0.5, float64(x))) // exact in float64
}

// FitScale finds the scale for x ~ scale*q with q in lo..hi, lo < 0, of least squared error among 2*search+1
// candidates: the one that maps the number of greatest magnitude to lo, and others that map it a tenth of a
// code further each, all refined to the best scale for the codes they yield. NaN if a number is not finite.
func FitScale(x []float32, lo, hi, search int) float32 {
	extreme := Extreme(x)
	if extreme == 0 || extreme != extreme {
		return extreme
	}
	if search == 0 {
		return extreme / float32(lo)
	}
	var best float32
	gain := -1.0 // how much of sum x^2 the candidate explains: (sum x*q)^2 / sum q^2
	for i := -search; i <= search; i++ {
		inverse := (float32(lo) + float32(float32(i)*0.1)) / extreme
		if !finite(inverse) {
			return extreme / float32(lo)
		}
		var xq, qq float64
		for _, v := range x {
			q := float64(RoundEven(v*inverse, lo, hi))
			xq += float64(float64(v) * q)
			qq += float64(q * q)
		}
		if qq > 0 && float64(xq*xq) > float64(gain*qq) {
			gain, best = xq*xq/qq, float32(xq/qq)
		}
	}
	return best
}

// FitScaleOffset finds scale and offset, neither negative, for x ~ scale*q - offset with q in 0..hi, of least
// squared error among search+1 candidates: scales that spread the run over hi-1 .. hi+1 codes, refined with
// the offset to the best for the codes they yield. Both are NaN if a number is not finite.
func FitScaleOffset(x []float32, hi, search int) (scale, offset float32) {
	least, most := MinMax(x)
	if least != least {
		return nan, nan
	}
	least = min(least, 0)
	span := most - least
	if span <= 0 || !finite(float32(hi+1)/span) || !finite(span) {
		return 0, -least
	}
	scale, offset = span/float32(hi), -least
	if search == 0 {
		return scale, offset
	}
	best := math.Inf(1)
	for i := range search + 1 {
		inverse := (float32(hi-1) + 2*float32(i)/float32(search)) / span
		s, o, e := leastSquares(x, least, inverse, hi)
		if e < best {
			best, scale, offset = e, s, o
		}
	}
	return scale, offset
}

// leastSquares refines scale and offset for the codes q = (x-least)*inverse, and yields the squared error.
func leastSquares(x []float32, least, inverse float32, hi int) (scale, offset float32, squares float64) {
	var sx, sq, xx, xq, qq float64
	for _, v := range x {
		f, q := float64(v), float64(RoundEven((v-least)*inverse, 0, hi))
		sx, sq = sx+f, sq+q
		xx += float64(f * f)
		xq += float64(f * q)
		qq += float64(q * q)
	}
	n := float64(len(x))
	det := float64(n*qq) - float64(sq*sq)
	var s, o float64
	if det > 0 {
		s = (float64(n*xq) - float64(sx*sq)) / det
		o = (float64(s*sq) - sx) / n
	}
	if o < 0 || det <= 0 { // an offset is never negative: the best scale without one
		o, s = 0, 0
		if qq > 0 {
			s = xq / qq
		}
	}
	if s < 0 {
		return 0, 0, math.Inf(1)
	}
	// sum (x - s*q + o)^2
	e := xx + float64(s*s*qq) + float64(n*o*o) - float64(2*s*xq) + float64(2*o*sx) - float64(2*s*o*sq)
	return float32(s), float32(o), e
}

// NestScale rounds a run's scale to d*sc: the integer sc, held within lo..hi, next to scale/d whose codes q in
// qlo..qhi have the least squared error. NaN, and a d of 0, give the integer nearest to 0.
func NestScale(x []float32, scale, d float32, lo, hi, qlo, qhi int) (sc int) {
	at := RoundEven(Quotient(scale, d), lo, hi)
	if d == 0 || d != d || scale != scale {
		return min(max(0, lo), hi)
	}
	best := math.Inf(1)
	sc = at
	for _, c := range [...]int{at, at - 1, at + 1} {
		if c < lo || c > hi {
			continue
		}
		s := d * float32(c)
		inverse := Reciprocal(s)
		var e float64
		for _, v := range x {
			r := float64(v - float32(s*float32(RoundEven(v*inverse, qlo, qhi))))
			e += float64(r * r)
		}
		if e < best {
			best, sc = e, c
		}
	}
	return sc
}

// NestScaleOffset rounds a run's scale to d*sc and its offset to dmin*m: the integers within 0..scHi and 0..mHi next to
// scale/d and offset/dmin whose codes q in 0..qHi have the least squared error.
func NestScaleOffset(x []float32, scale, offset, d, dmin float32, scHi, mHi, qHi int) (sc, m int) {
	if d != d || dmin != dmin || scale != scale {
		return 0, 0
	}
	sc0, m0 := RoundEven(Quotient(scale, d), 0, scHi), RoundEven(Quotient(offset, dmin), 0, mHi)
	best := math.Inf(1)
	sc, m = sc0, m0
	for _, i := range [...]int{0, -1, 1} {
		for _, j := range [...]int{0, -1, 1} {
			c, n := sc0+i, m0+j
			if c < 0 || c > scHi || n < 0 || n > mHi {
				continue
			}
			s, o := d*float32(c), dmin*float32(n)
			inverse := Reciprocal(s)
			var e float64
			for _, v := range x {
				q := RoundEven((v+o)*inverse, 0, qHi)
				r := float64(v + o - float32(s*float32(q)))
				e += float64(r * r)
			}
			if e < best {
				best, sc, m = e, c, n
			}
		}
	}
	return sc, m
}
