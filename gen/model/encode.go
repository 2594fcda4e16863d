package model

// Fit is how the scale of a run of elements follows from the elements.
type Fit string

// The fits.
const (
	FitAbsMax  Fit = "absmax"  // scale = max|x| / greatest number of the code: 127 for 8 bits, so that -x fits where x does
	FitExtreme Fit = "extreme" // scale = x of the greatest magnitude / least number of the code; the sign goes into the scale
	FitMinMax  Fit = "minmax"  // scale = (max - min) / greatest number of the code, offset = min; the code begins at 0
)

// Rounding is how x/scale becomes a code.
type Rounding string

// The roundings.
const (
	RoundEven   Rounding = "even"    // to nearest, ties to even
	RoundAway   Rounding = "away"    // to nearest, ties away from zero
	RoundHalfUp Rounding = "half_up" // floor(x + 1/2)
)

// Encode is a rounding scheme: how a run of numbers becomes a block. With two scale codes the first is the
// block's and the second a sub-block's, rounded in turn; likewise with two offset codes.
type Encode struct {
	Fit    Fit
	Round  Rounding
	Code   *Code   // the code chosen for each element
	Scale  []*Code // [d] or [d, sc]
	Offset []*Code // none, [m] or [dmin, m]
	Search int     // neighbouring scales tried for the least squared error; 0 takes the fitted one
}
