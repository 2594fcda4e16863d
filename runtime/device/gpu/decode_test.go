package gpu

import (
	"math"
	"testing"
)

func TestDecodeFinite(t *testing.T) {
	ends := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 0x1p-126, 42}
	inf := float32(math.Inf(1))
	for _, bad := range []float32{inf, -inf, float32(math.NaN()), math.Float32frombits(0xff800001), math.Float32frombits(0x7fffffff)} {
		for at := range ends {
			in := append([]float32{}, ends...)
			in[at] = bad
			out := make([]float32, len(in))
			if got := decodeFinite(out, floatBytes(in)); got != at {
				t.Errorf("%v at %d: %d", bad, at, got)
			}
		}
	}
	out := make([]float32, len(ends))
	if got := decodeFinite(out, floatBytes(ends)); got != -1 {
		t.Errorf("finite numbers: %d", got)
	}
	for i, x := range ends {
		if math.Float32bits(out[i]) != math.Float32bits(x) {
			t.Errorf("%v becomes %v", x, out[i])
		}
	}
}

func BenchmarkDecodeFinite(b *testing.B) {
	out, raw := make([]float32, 152064), make([]byte, 4*152064)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if decodeFinite(out, raw) >= 0 {
			b.Fatal("zeros are finite")
		}
	}
}
