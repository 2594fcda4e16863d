package numeric

import (
	"math"
	"testing"

	"github.com/x448/float16"
)

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func TestF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got, want := F16(h), float16.Frombits(h).Float32()
		if got != got != (want != want) || got == got && !sameBits(got, want) {
			t.Fatalf("F16(%#04x) = %g, want %g", h, got, want)
		}
		if got == got && ToF16(got) != h {
			t.Fatalf("ToF16(F16(%#04x)) = %#04x", h, ToF16(got))
		}
		if got != got && F16(ToF16(got)) == F16(ToF16(got)) {
			t.Fatalf("NaN %#04x did not stay NaN", h)
		}
	}
}

// Every float32 near a rounding boundary of binary16: each f16 value, its neighbour's midpoint, and the
// float32s on both sides of each.
func TestToF16Rounds(t *testing.T) {
	check := func(x float32) {
		t.Helper()
		got, want := ToF16(x), float16.Fromfloat32(x).Bits()
		if got != want {
			t.Fatalf("ToF16(%g = %#08x) = %#04x, want %#04x", x, math.Float32bits(x), got, want)
		}
	}
	for i := range 0x7c00 {
		a := F16(uint16(i))
		b := float32(65536)
		if i+1 < 0x7c00 {
			b = F16(uint16(i + 1))
		}
		mid := (a + b) / 2
		for _, x := range []float32{a, mid} {
			for _, y := range []float32{x, math.Nextafter32(x, -1), math.Nextafter32(x, math.MaxFloat32)} {
				check(y)
				check(-y)
			}
		}
	}
	for _, x := range []float32{0x1p-25, 0x1p-26, 0x1p-149, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1))} {
		check(x)
	}
}

func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		x := BF16(h)
		if x != x {
			if y := BF16(ToBF16(x)); y == y {
				t.Fatalf("NaN %#04x did not stay NaN", h)
			}
			continue
		}
		if ToBF16(x) != h {
			t.Fatalf("ToBF16(BF16(%#04x)) = %#04x", h, ToBF16(x))
		}
		if h&0x7fff >= 0x7f7f {
			continue
		}
		// The midpoint to the next magnitude goes to the even one; its neighbours go to the nearer one.
		mid := math.Float32frombits(uint32(h)<<16 | 0x8000)
		even := h + h&1
		if got := ToBF16(mid); got != even {
			t.Fatalf("ToBF16(midpoint above %#04x) = %#04x, want %#04x", h, got, even)
		}
		if got := ToBF16(math.Float32frombits(math.Float32bits(mid) - 1)); got != h {
			t.Fatalf("below the midpoint above %#04x: %#04x", h, got)
		}
		if got := ToBF16(math.Float32frombits(math.Float32bits(mid) + 1)); got != h+1 {
			t.Fatalf("above the midpoint above %#04x: %#04x", h, got)
		}
	}
	if got := ToBF16(math.MaxFloat32); got != 0x7f80 {
		t.Fatalf("ToBF16(max) = %#04x, want infinity", got)
	}
}

func TestE8M0(t *testing.T) {
	for i := range 256 {
		if got, want := E8M0(uint8(i)), math.Ldexp(1, i-127); got != want {
			t.Fatalf("E8M0(%d) = %g, want %g", i, got, want)
		}
	}
}

func TestUE4M3(t *testing.T) {
	for i := range 256 {
		e, m := i>>3&15, float64(i&7)
		want := math.Ldexp(1+m/8, e-7)
		if e == 0 {
			want = math.Ldexp(m, -9)
		}
		if i == 0x7f {
			want = 0
		}
		if got := float64(UE4M3(uint8(i))); got != want {
			t.Fatalf("UE4M3(%#x) = %g, want %g", i, got, want)
		}
	}
}

func BenchmarkF16(b *testing.B) {
	h := make([]uint16, 4096)
	for i := range h {
		h[i] = uint16(i*977) & 0xbbff
	}
	b.SetBytes(2 * 4096)
	var s float32
	for b.Loop() {
		for _, v := range h {
			s += F16(v)
		}
	}
	_ = s
}
