package sample

import "math"

// exp and log are fixed to the bit on every platform: plain float64 operations in a fixed order, each product rounded
// by a conversion so that no compiler fuses it with the sum it goes into. (math.Exp and math.Log have assembly forms on
// some architectures, with other last bits.) The reductions and polynomials are the classic ones: exp by a Remez
// polynomial for r*(exp(r)+1)/(exp(r)-1), log by the series in s = f/(2+f).

const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
	log2E   = 1.44269504088896338700e+00
)

// exp returns e^x for x <= 0, within 1 unit in the last place; below -745.2 it is 0, and NaN stays NaN.
func exp(x float64) float64 {
	const (
		p1 = 1.66666666666666657415e-01
		p2 = -2.77777777770155933842e-03
		p3 = 6.61375632143793436117e-05
		p4 = -1.65339022054652515390e-06
		p5 = 4.13813679705723846039e-08
	)
	switch {
	case x != x:
		return x
	case x < -745.2:
		return 0
	}
	k := math.Floor(float64(x*log2E) + 0.5)
	high := x - float64(k*ln2High)
	low := float64(k * ln2Low)
	r := high - low
	t := float64(r * r)
	c := p4 + float64(t*p5)
	c = p3 + float64(t*c)
	c = p2 + float64(t*c)
	c = p1 + float64(t*c)
	c = r - float64(t*c)
	y := 1 - ((low - float64(float64(r*c)/(2-c))) - high)
	return math.Ldexp(y, int(k))
}

// log returns the natural logarithm of x > 0; log(0) is negative infinity.
func log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	switch {
	case x == 0:
		return math.Inf(-1)
	case x < 0 || x != x || math.IsInf(x, 1):
		return math.NaN()
	}
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f *= 2
		e--
	}
	f--
	k := float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	a := l5 + float64(s4*l7)
	a = l3 + float64(s4*a)
	a = float64(s2 * (l1 + float64(s4*a)))
	b := l4 + float64(s4*l6)
	b = float64(s4 * (l2 + float64(s4*b)))
	half := float64(float64(0.5*f) * f)
	return float64(k*ln2High) - ((half - (float64(s*(half+(a+b))) + float64(k*ln2Low))) - f)
}
