package op

import (
	"errors"
	"fmt"
	"math"
)

// Pairing says which elements of a head turn together.
type Pairing uint8

// The pairings, for d = Rotary.Dims.
const (
	Halves   Pairing = iota // element i with i + d/2 (GPT-NeoX order)
	Adjacent                // element 2i with 2i + 1 (original LLaMA order)
)

func (p Pairing) String() string {
	if p == Adjacent {
		return "adjacent"
	}
	return "halves"
}

// Scaling stretches rotary positions to contexts longer than the base was trained for.
type Scaling uint8

// The scalings.
const (
	ScaleNone   Scaling = iota
	ScaleLinear         // every angle is divided by Factor
	ScaleYaRN           // slow pairs are divided by Factor, fast ones are not, with a ramp between
)

func (s Scaling) String() string {
	switch s {
	case ScaleLinear:
		return "linear"
	case ScaleYaRN:
		return "yarn"
	}
	return "none"
}

// Rotary is a rotary position embedding. Pair i of a head at position p turns by p*f(i), where without scaling
// f(i) = Base^(-2i/Dims) / Divisors[i]; the turned pair is multiplied by the magnitude.
type Rotary struct {
	Pairing  Pairing
	Dims     int // elements of a head that turn; even
	Base     float64
	Divisors []float32 // one for each pair, or nil

	Scaling Scaling
	Factor  float64 // of ScaleLinear and ScaleYaRN
	// The rest belongs to YaRN (Peng et al. 2023), save AttnFactor which always multiplies the magnitude.
	OriginalContext    int
	ExtFactor          float64 // share of the ramp, 1 for the paper's; 0 leaves linear scaling
	BetaFast, BetaSlow float64 // turns over the original context beyond which a pair is fast, below which it is slow
	AttnFactor         float64
}

// Validate refuses parameters that Frequencies cannot use for heads of the given width.
func (r *Rotary) Validate(headDim int) error {
	switch {
	case r == nil:
		return errors.New("no rotary parameters")
	case r.Dims <= 0 || r.Dims%2 != 0 || r.Dims > headDim:
		return fmt.Errorf("rotary dimensions %d are not an even number from 2 to the head width %d", r.Dims, headDim)
	case r.Divisors != nil && len(r.Divisors) != r.Dims/2:
		return fmt.Errorf("%d rotary divisors for %d pairs", len(r.Divisors), r.Dims/2)
	case !(r.Base > 0) || math.IsInf(r.Base, 0):
		return fmt.Errorf("rotary base %v is not a positive number", r.Base)
	case !(r.AttnFactor > 0) || math.IsInf(r.AttnFactor, 0):
		return fmt.Errorf("rotary attention factor %v is not a positive number", r.AttnFactor)
	case r.Scaling != ScaleNone && (!(r.Factor > 0) || math.IsInf(r.Factor, 0)):
		return fmt.Errorf("rotary scaling factor %v is not a positive number", r.Factor)
	case r.Scaling > ScaleYaRN || r.Pairing > Adjacent:
		return fmt.Errorf("unknown rotary scaling %d or pairing %d", r.Scaling, r.Pairing)
	}
	for i, d := range r.Divisors {
		if !(d > 0) || math.IsInf(float64(d), 0) {
			return fmt.Errorf("rotary divisor %d is %v, not a positive number", i, d)
		}
	}
	if r.Scaling == ScaleYaRN {
		switch {
		case r.OriginalContext <= 0:
			return fmt.Errorf("yarn needs the original context, got %d", r.OriginalContext)
		case !(r.BetaFast > 0) || !(r.BetaSlow > 0) || math.IsInf(r.BetaFast, 0) || math.IsInf(r.BetaSlow, 0):
			return fmt.Errorf("yarn betas %v and %v are not positive numbers", r.BetaFast, r.BetaSlow)
		case r.Base == 1:
			return errors.New("yarn with a rotary base of 1")
		case math.IsNaN(r.ExtFactor) || r.ExtFactor < 0 || math.IsInf(r.ExtFactor, 0):
			return fmt.Errorf("yarn extrapolation factor %v is negative or not a number", r.ExtFactor)
		}
	}
	return nil
}

// Frequencies gives the angle of each pair for one step of position, and the magnitude. The rotary must be valid.
func (r *Rotary) Frequencies() (perPosition []float64, magnitude float64) {
	perPosition = make([]float64, r.Dims/2)
	magnitude = r.AttnFactor
	ramped := r.Scaling == ScaleYaRN && r.ExtFactor != 0
	var low, high float64
	if ramped {
		// the pair that makes `turns` turns over the original context: context * base^(-2i/dims) = 2*pi*turns
		pairOf := func(turns float64) float64 {
			return float64(r.Dims) * math.Log(float64(r.OriginalContext)/(turns*2*math.Pi)) / (2 * math.Log(r.Base))
		}
		low = max(0, math.Floor(pairOf(r.BetaFast)))
		high = min(float64(r.Dims-1), math.Ceil(pairOf(r.BetaSlow)))
		magnitude *= 1 + 0.1*math.Log(r.Factor)
	}
	for i := range perPosition {
		f := math.Pow(r.Base, -2*float64(i)/float64(r.Dims))
		if r.Divisors != nil {
			f /= float64(r.Divisors[i])
		}
		if r.Scaling != ScaleNone {
			slow := f / r.Factor
			if ramped {
				ramp := 1 - min(1, max(0, (float64(i)-low)/max(0.001, high-low))) // 1 for fast pairs, 0 for slow ones
				ramp *= r.ExtFactor
				f = slow*(1-ramp) + f*ramp
			} else {
				f = slow
			}
		}
		perPosition[i] = f
	}
	return perPosition, magnitude
}

// Table gives the sine and cosine, times the magnitude, of each pair at positions 0 to positions-1: [positions, Dims/2]
// row-major. Angles are reduced in float64: in float32 the fast pairs lose a digit at each tenfold position.
func (r *Rotary) Table(positions int) (sin, cos []float32) {
	f, magnitude := r.Frequencies()
	sin, cos = make([]float32, positions*len(f)), make([]float32, positions*len(f))
	for p := range positions {
		for i, fi := range f {
			s, c := math.Sincos(float64(p) * fi)
			sin[p*len(f)+i], cos[p*len(f)+i] = float32(s*magnitude), float32(c*magnitude)
		}
	}
	return sin, cos
}
