// Package numeric converts between float32 and the narrow number types that weight formats store. Every
// conversion is exact, or rounds to nearest with ties to even; none depends on the platform.
package numeric

import "math"

// F16 is the value of the IEEE 754 binary16 with these bits. A NaN keeps its sign and payload.
func F16(h uint16) float32 {
	// With sign, exponent and fraction moved into place this is the number times 2^(15-127), subnormals included.
	b := uint32(int16(h)) << 13 & 0x8fffe000
	if h&0x7c00 == 0x7c00 { // infinities and NaNs
		return math.Float32frombits(b | 0x7f800000)
	}
	return math.Float32frombits(b) * 0x1p112
}

// ToF16 rounds to the nearest binary16, ties to even. Magnitudes of 65520 and more become infinite, those
// of 2^-25 and less become zero, NaN stays NaN (quiet).
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: adding 0.5 leaves the subnormal's 10 bits at the end of the sum's fraction
		v := math.Float32bits(math.Float32frombits(b)+0.5) - 0x3f000000
		return sign | uint16(v)
	}
	b += 0xfff + b>>13&1 // round the 13 bits that go; a carry into the exponent is right
	return sign | uint16((b-(127-15)<<23)>>13)
}

// BF16 is the value of the bfloat16 with these bits: the upper half of a float32.
func BF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even; NaN stays NaN (quiet).
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// E8M0 is 2^(x-127), which for x = 255 lies above float32: hence the wider result.
func E8M0(x uint8) float64 { return math.Float64frombits((uint64(x) + 1023 - 127) << 52) }

// UE4M3 is the value of an unsigned number with 4 bits of exponent (bias 7) and 3 of fraction, as ggml
// reads it: 0x7f is zero, not NaN, and otherwise bit 7 is ignored.
func UE4M3(x uint8) float32 {
	if x == 0x7f {
		return 0
	}
	e, m := int(x>>3&15), float32(x&7)
	if e == 0 {
		return m * 0x1p-9
	}
	return math.Float32frombits(uint32(e-7+127)<<23) * (1 + m/8)
}
