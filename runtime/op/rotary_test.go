package op

import (
	"math"
	"strings"
	"testing"
)

// yarn is the frequencies and the attention factor as the authors' reference code (and later transformers' modeling
// utilities) write them: interpolated and extrapolated inverse frequencies blended by a mask over the pairs. It shares
// no formula with Frequencies: the mask is made from wavelengths in tokens, not from logarithms of pair numbers.
func yarn(dims int, base, factor, original, fast, slow float64) (freqs []float64, attention float64) {
	pairs := dims / 2
	freqs = make([]float64, pairs)
	turns := func(i float64) float64 { return original / (2 * math.Pi * math.Pow(base, 2*i/float64(dims))) }
	// the pair, as a real number, that makes n turns: by bisection, turns falls with i
	pairOf := func(n float64) float64 {
		lo, hi := -1000.0, 1000.0
		for range 200 {
			if mid := (lo + hi) / 2; turns(mid) > n {
				lo = mid
			} else {
				hi = mid
			}
		}
		return lo
	}
	low, high := math.Floor(pairOf(fast)), math.Ceil(pairOf(slow))
	low, high = max(low, 0), min(high, float64(dims-1))
	if low == high {
		high += 0.001
	}
	for i := range freqs {
		wave := math.Pow(base, 2*float64(i)/float64(dims))
		mask := 1 - min(1, max(0, (float64(i)-low)/(high-low)))
		freqs[i] = 1/(factor*wave)*(1-mask) + 1/wave*mask
	}
	return freqs, 0.1*math.Log(factor) + 1
}

func TestFrequencies(t *testing.T) {
	near := func(t *testing.T, what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-12*math.Abs(want)) {
			t.Errorf("%s: %.17g, want %.17g", what, got, want)
		}
	}
	plain := func(i, dims int, base float64) float64 {
		return math.Exp(-2 * float64(i) / float64(dims) * math.Log(base))
	}

	t.Run("none", func(t *testing.T) {
		r := Rotary{Dims: 128, Base: 1e6, AttnFactor: 1}
		f, m := r.Frequencies()
		near(t, "magnitude", m, 1)
		for i := range f {
			near(t, "pair", f[i], plain(i, 128, 1e6))
		}
	})
	t.Run("linear", func(t *testing.T) {
		r := Rotary{Dims: 64, Base: 1e4, AttnFactor: 1.25, Scaling: ScaleLinear, Factor: 4}
		f, m := r.Frequencies()
		near(t, "magnitude", m, 1.25)
		for i := range f {
			near(t, "pair", f[i], plain(i, 64, 1e4)/4)
		}
	})
	t.Run("divisors", func(t *testing.T) {
		d := make([]float32, 32)
		for i := range d {
			d[i] = 1 + float32(i)/4
		}
		r := Rotary{Dims: 64, Base: 5e5, AttnFactor: 1, Divisors: d}
		f, _ := r.Frequencies()
		for i := range f {
			near(t, "pair", f[i], plain(i, 64, 5e5)/(1+float64(i)/4))
		}
	})
	for _, c := range []struct {
		name                               string
		dims                               int
		base, factor, original, fast, slow float64
	}{
		{"yarn qwen2.5 to 131072", 128, 1e6, 4, 32768, 32, 1},
		{"yarn llama", 128, 1e4, 16, 4096, 32, 1},
		{"yarn narrow ramp", 64, 1e4, 8, 2048, 4, 3.9},
		{"yarn other betas", 96, 5e5, 2.5, 8192, 64, 2},
		{"yarn short original context", 64, 1e6, 4, 64, 32, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rotary{Dims: c.dims, Base: c.base, AttnFactor: 1, Scaling: ScaleYaRN, Factor: c.factor,
				OriginalContext: int(c.original), ExtFactor: 1, BetaFast: c.fast, BetaSlow: c.slow}
			if err := r.Validate(c.dims); err != nil {
				t.Fatal(err)
			}
			f, m := r.Frequencies()
			want, attention := yarn(c.dims, c.base, c.factor, c.original, c.fast, c.slow)
			near(t, "magnitude", m, attention)
			scaled := 0
			for i := range f {
				near(t, "pair", f[i], want[i])
				if f[i] < plain(i, c.dims, c.base)*0.999 {
					scaled++
				}
			}
			if scaled == 0 {
				t.Errorf("no pair of %d is scaled: the case shows nothing", len(f))
			}
		})
	}
	t.Run("yarn without extrapolation is linear", func(t *testing.T) {
		r := Rotary{Dims: 64, Base: 1e4, AttnFactor: 1, Scaling: ScaleYaRN, Factor: 4, OriginalContext: 2048, BetaFast: 32, BetaSlow: 1}
		f, m := r.Frequencies()
		near(t, "magnitude", m, 1)
		for i := range f {
			near(t, "pair", f[i], plain(i, 64, 1e4)/4)
		}
	})
	t.Run("a shared ramp", func(t *testing.T) { // half the ramp is half way between linear and yarn
		r := Rotary{Dims: 64, Base: 1e4, AttnFactor: 1, Scaling: ScaleYaRN, Factor: 4, OriginalContext: 2048, ExtFactor: 0.5, BetaFast: 32, BetaSlow: 1}
		f, _ := r.Frequencies()
		full, _ := yarn(64, 1e4, 4, 2048, 32, 1)
		for i := range f {
			near(t, "pair", f[i], (plain(i, 64, 1e4)/4+full[i])/2)
		}
	})
}

func TestTable(t *testing.T) {
	r := Rotary{Dims: 8, Base: 100, AttnFactor: 2}
	sin, cos := r.Table(5000)
	f, _ := r.Frequencies()
	for _, p := range []int{0, 1, 4999} {
		for i := range f {
			s, c := math.Sin(float64(p)*f[i])*2, math.Cos(float64(p)*f[i])*2
			if math.Abs(float64(sin[p*4+i])-s) > 1e-6 || math.Abs(float64(cos[p*4+i])-c) > 1e-6 {
				t.Errorf("position %d pair %d: %v %v, want %v %v", p, i, sin[p*4+i], cos[p*4+i], s, c)
			}
		}
	}
	if len(sin) != 5000*4 || len(cos) != 5000*4 {
		t.Errorf("table of %d and %d", len(sin), len(cos))
	}
}

func TestRotaryValidate(t *testing.T) {
	good := Rotary{Dims: 8, Base: 1e4, AttnFactor: 1, Scaling: ScaleYaRN, Factor: 4, OriginalContext: 16, ExtFactor: 1, BetaFast: 32, BetaSlow: 1}
	if err := good.Validate(8); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, c := range map[string]struct {
		change func(*Rotary)
		want   string
	}{
		"odd":             {func(r *Rotary) { r.Dims = 7 }, "dimensions 7"},
		"wide":            {func(r *Rotary) { r.Dims = 10 }, "head width 8"},
		"zero":            {func(r *Rotary) { r.Dims = 0 }, "dimensions 0"},
		"base":            {func(r *Rotary) { r.Base = 0 }, "base 0"},
		"base nan":        {func(r *Rotary) { r.Base = nan }, "base NaN"},
		"base one":        {func(r *Rotary) { r.Base = 1 }, "base of 1"},
		"factor":          {func(r *Rotary) { r.Factor = -1 }, "factor -1"},
		"attention":       {func(r *Rotary) { r.AttnFactor = 0 }, "attention factor 0"},
		"original":        {func(r *Rotary) { r.OriginalContext = 0 }, "original context"},
		"betas":           {func(r *Rotary) { r.BetaSlow = nan }, "betas"},
		"extrapolation":   {func(r *Rotary) { r.ExtFactor = -2 }, "extrapolation factor -2"},
		"divisors":        {func(r *Rotary) { r.Divisors = []float32{1} }, "1 rotary divisors for 4 pairs"},
		"divisor of zero": {func(r *Rotary) { r.Divisors = []float32{1, 1, 0, 1} }, "divisor 2 is 0"},
		"scaling":         {func(r *Rotary) { r.Scaling = 9 }, "unknown rotary scaling 9"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			if err := r.Validate(8); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if err := (*Rotary)(nil).Validate(8); err == nil {
		t.Error("nil passed")
	}
}
