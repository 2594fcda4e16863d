package numeric

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestRounding(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x                 float32
		even, away, floor int // within -8..7, -8..7 and 0..15
	}{
		{0, 0, 0, 0}, {0.5, 0, 1, 0}, {1.5, 2, 2, 1}, {2.5, 2, 3, 2}, {-0.5, 0, -1, 0}, {-1.5, -2, -2, 0}, {-2.5, -2, -3, 0},
		{0.49999997, 0, 0, 0}, {0.50000006, 1, 1, 0}, {6.5, 6, 7, 6}, {7.4, 7, 7, 7}, {7.6, 7, 7, 7}, {99, 7, 7, 15}, {-7.5, -8, -8, 0},
		{-99, -8, -8, 0}, {14.999999, 7, 7, 14}, {inf, 7, 7, 15}, {-inf, -8, -8, 0}, {nan, -8, -8, 0}, {0x1p-149, 0, 0, 0},
	} {
		if got := RoundEven(c.x, -8, 7); got != c.even {
			t.Errorf("RoundEven(%g) = %d, want %d", c.x, got, c.even)
		}
		if got := RoundAway(c.x, -8, 7); got != c.away {
			t.Errorf("RoundAway(%g) = %d, want %d", c.x, got, c.away)
		}
		if got := Floor(c.x, 15); got != c.floor {
			t.Errorf("Floor(%g) = %d, want %d", c.x, got, c.floor)
		}
	}
}

func TestRoundingAgreesWithMath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float32Range(-130, 130).Draw(t, "x")
		clamp := func(v float64) int { return int(max(-128, min(127, v))) }
		if got, want := RoundEven(x, -128, 127), clamp(math.RoundToEven(float64(x))); got != want {
			t.Fatalf("RoundEven(%g) = %d, want %d", x, got, want)
		}
		if got, want := RoundAway(x, -128, 127), clamp(math.Round(float64(x))); got != want {
			t.Fatalf("RoundAway(%g) = %d, want %d", x, got, want)
		}
	})
}

func TestExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x                    []float32
		abs, extreme, lo, hi float32
	}{
		{[]float32{0, 0}, 0, 0, 0, 0},
		{[]float32{1, -3, 2}, 3, -3, -3, 2},
		{[]float32{3, -3}, 3, 3, -3, 3}, // the first of equal magnitudes
		{[]float32{5}, 5, 5, 5, 5},
		{[]float32{1, inf}, inf, nan, nan, nan},
		{[]float32{-inf, 1}, inf, nan, nan, nan},
		{[]float32{1, nan, 2}, nan, nan, nan, nan},
		{[]float32{nan, inf}, nan, nan, nan, nan},
	} {
		same := func(what string, got, want float32) {
			if got != want && (got == got || want == want) {
				t.Errorf("%s(%v) = %g, want %g", what, c.x, got, want)
			}
		}
		same("AbsMax", AbsMax(c.x), c.abs)
		same("Extreme", Extreme(c.x), c.extreme)
		lo, hi := MinMax(c.x)
		same("MinMax least", lo, c.lo)
		same("MinMax greatest", hi, c.hi)
	}
}

// A run that is made of codes exactly is fitted exactly; a search never does worse than the fit without one.
func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		scale := float32(math.Exp(2 * r.NormFloat64()))
		x := make([]float32, 16)
		for i := range x {
			x[i] = scale * float32(r.IntN(64)-32)
		}
		x[0] = scale * -32
		if got := FitScale(x, -32, 31, 9); math.Abs(float64(got/scale)-1) > 1e-6 {
			t.Fatalf("FitScale = %g, want %g", got, scale)
		}
		offset := scale * float32(r.IntN(16))
		for i := range x {
			x[i] = scale*float32(r.IntN(16)) - offset
		}
		x[0], x[1] = -offset, scale*15-offset
		s, o := FitScaleOffset(x, 15, 8)
		if math.Abs(float64(s/scale)-1) > 1e-5 || math.Abs(float64(o-offset)) > 1e-5*float64(scale*15) {
			t.Fatalf("FitScaleOffset = %g, %g, want %g, %g", s, o, scale, offset)
		}
	}
	for range 200 {
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		searched, plain := scaleError(x, FitScale(x, -8, 7, 9)), scaleError(x, FitScale(x, -8, 7, 0))
		if searched > plain*1.0001 {
			t.Fatalf("FitScale: squared error %g with a search, %g without", searched, plain)
		}
		s, o := FitScaleOffset(x, 15, 8)
		s0, o0 := FitScaleOffset(x, 15, 0)
		if a, b := offsetError(x, s, o), offsetError(x, s0, o0); a > b*1.0001 {
			t.Fatalf("FitScaleOffset: squared error %g with a search, %g without", a, b)
		}
	}
}

func scaleError(x []float32, s float32) (sum float64) {
	for _, v := range x {
		e := float64(v) - float64(s)*float64(RoundEven(v*Reciprocal(s), -8, 7))
		sum += e * e
	}
	return sum
}

func offsetError(x []float32, s, o float32) (sum float64) {
	for _, v := range x {
		e := float64(v+o) - float64(s)*float64(RoundEven((v+o)*Reciprocal(s), 0, 15))
		sum += e * e
	}
	return sum
}

// The nested integers are at least as good as those nearest to scale/d and offset/dmin.
func TestNesting(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(r.NormFloat64() * 3)
		}
		scale := FitScale(x, -8, 7, 9)
		d := scale / float32(20+r.IntN(100))
		sc := NestScale(x, scale, d, -128, 127, -8, 7)
		if a, b := scaleError(x, d*float32(sc)), scaleError(x, d*float32(RoundEven(scale/d, -128, 127))); a > b {
			t.Fatalf("NestScale: squared error %g, %g for the nearest", a, b)
		}
		s, o := FitScaleOffset(x, 15, 8)
		d, dmin := s/float32(20+r.IntN(43)), o/float32(20+r.IntN(43))
		c, m := NestScaleOffset(x, s, o, d, dmin, 63, 63, 15)
		nearest := offsetError(x, d*float32(RoundEven(s/d, 0, 63)), dmin*float32(RoundEven(o/dmin, 0, 63)))
		if a := offsetError(x, d*float32(c), dmin*float32(m)); a > nearest*1.0001 {
			t.Fatalf("NestScaleOffset: squared error %g, %g for the nearest", a, nearest)
		}
		if c < 0 || c > 63 || m < 0 || m > 63 {
			t.Fatalf("NestScaleOffset = %d, %d", c, m)
		}
	}
}

// Whatever the numbers, the fits do not panic and their integers are in range.
func TestFitsAreTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32(), 16, 16).Draw(t, "x")
		scale, offset := FitScaleOffset(x, 15, 8)
		if scale < 0 || offset < 0 || (scale != scale) != !finite(AbsMax(x)) {
			t.Fatalf("FitScaleOffset = %g, %g", scale, offset)
		}
		d, dmin := F16(ToF16(scale/63)), F16(ToF16(offset/63))
		if sc, m := NestScaleOffset(x, scale, offset, d, dmin, 63, 63, 15); sc < 0 || sc > 63 || m < 0 || m > 63 {
			t.Fatalf("NestScaleOffset = %d, %d", sc, m)
		}
		s := FitScale(x, -32, 31, 9)
		if (s != s) != !finite(AbsMax(x)) {
			t.Fatalf("FitScale = %g", s)
		}
		if sc := NestScale(x, s, F16(ToF16(s/-128)), -128, 127, -32, 31); sc < -128 || sc > 127 {
			t.Fatalf("NestScale = %d", sc)
		}
	})
}
