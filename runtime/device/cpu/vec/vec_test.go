package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/numeric"
)

var portable = &Kernels{}

// levels runs a test at every level with assembly.
func levels(t *testing.T, test func(t *testing.T, k *Kernels)) {
	t.Helper()
	for _, l := range cpufeature.Levels() {
		if l != l.Vector() || l == cpufeature.Portable {
			continue
		}
		t.Run(l.String(), func(t *testing.T) { test(t, For(l)) })
	}
	if cpufeature.Best() == cpufeature.Portable {
		t.Skip("no vector instructions here: portable code is all there is")
	}
}

// lengths are at, below and above groups, blocks and unrolled steps.
var lengths = []int{1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 96, 128, 1000, 1536, 8960}

var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
	0x1p-126, -0x1.fffffcp-127, math.MaxFloat32, -math.MaxFloat32, 65504, 65519.996, 65520, -65520, 0x1p-24, 0x1p-25, 0x1.000002p-25,
	-88.7, 88.7, -103.9, -104, 104, -200, 200, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// inputs gives rows of a length: random ones of several sizes, zeros, and a random one for each special number, at a
// random place.
func inputs(n int, seed uint64) [][]float32 {
	rng := rand.New(rand.NewPCG(uint64(n), seed))
	row := func(size float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * size)
		}
		return x
	}
	rows := [][]float32{row(1), row(1e-3), row(30), row(1e-38), row(1e30), make([]float32, n)}
	for _, s := range special {
		x := row(2)
		x[rng.IntN(n)] = s
		rows = append(rows, x)
		if n > 1 {
			x[rng.IntN(n)] = special[rng.IntN(len(special))]
		}
	}
	return rows
}

func sameNumber(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// canary surrounds what is written.
const canary = 0x1.8p77

// guarded is a row between canaries, filled with NaN.
type guarded struct {
	all []float32
	n   int
}

func guard(n int) guarded {
	g := guarded{make([]float32, n+64), n}
	for i := range g.all {
		g.all[i] = canary
	}
	for i := range g.row() {
		g.row()[i] = float32(math.NaN())
	}
	return g
}

func (g guarded) row() []float32 { return g.all[32:][:g.n] }

func (g guarded) check(t *testing.T, what string, want []float32) {
	t.Helper()
	for i := range 32 {
		if g.all[i] != canary || g.all[len(g.all)-1-i] != canary {
			t.Fatalf("%s of %d: written past its end", what, g.n)
		}
	}
	for i, x := range g.row() {
		if !sameNumber(x, want[i]) {
			t.Fatalf("%s of %d: element %d is %x (%08x), portable %x (%08x)", what, g.n, i, x, math.Float32bits(x), want[i], math.Float32bits(want[i]))
		}
	}
}

// TestRows holds the functions of one or two rows to the portable ones, bit for bit.
func TestRows(t *testing.T) {
	tests := map[string]func(k *Kernels, y, a, b, c []float32) bool{
		"rmsnorm":       func(k *Kernels, y, a, b, c []float32) bool { return k.RMSNorm(y, a, b, 1e-6) },
		"scale":         func(k *Kernels, y, a, b, c []float32) bool { return k.Scale(y, a, b[0]) },
		"merge":         func(k *Kernels, y, a, b, c []float32) bool { copy(y, c); k.Merge(y, a, b[0], c[0]); return true },
		"add":           func(k *Kernels, y, a, b, c []float32) bool { return k.Add(y, a, b) },
		"add in place":  func(k *Kernels, y, a, b, c []float32) bool { copy(y, a); return k.Add(y, y, b) },
		"silumul":       func(k *Kernels, y, a, b, c []float32) bool { return k.SiLUMul(y, a, b) },
		"finite":        func(k *Kernels, y, a, b, c []float32) bool { clear(y); return k.Finite(a) },
		"turn halves":   func(k *Kernels, y, a, b, c []float32) bool { turnRow(k.TurnHalves, y, a, b, c); return true },
		"turn adjacent": func(k *Kernels, y, a, b, c []float32) bool { turnRow(k.TurnAdjacent, y, a, b, c); return true },
		"turn in place": func(k *Kernels, y, a, b, c []float32) bool { turnRow(k.TurnHalves, y, copyTo(y, a), b, c); return true },
		"turn in place adjacent": func(k *Kernels, y, a, b, c []float32) bool {
			turnRow(k.TurnAdjacent, y, copyTo(y, a), b, c)
			return true
		},
	}
	levels(t, func(t *testing.T, k *Kernels) {
		for name, f := range tests {
			for _, n := range lengths {
				a, b, c := inputs(n, 1), inputs(n, 2), inputs(n, 3)
				for i := range a {
					want := make([]float32, n)
					finite := f(portable, want, a[i], b[i%3], c[i%2])
					got := guard(n)
					if f(k, got.row(), a[i], b[i%3], c[i%2]) != finite {
						t.Fatalf("%s of %d: finite is %v in portable code", name, n, finite)
					}
					got.check(t, name, want)
				}
			}
		}
	})
}

func copyTo(y, a []float32) []float32 { copy(y, a); return y[:len(a)] }

func turnRow(turn func(y, x, sin, cos []float32), y, x, sin, cos []float32) {
	pairs := len(x) / 2
	turn(y[:2*pairs], x[:2*pairs], sin[:pairs], cos[:pairs])
	copy(y[2*pairs:], x[2*pairs:])
}

func TestSumSquares(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		for _, n := range lengths {
			for _, x := range inputs(n, 4) {
				got, want := k.SumSquares(x), portable.SumSquares(x)
				if math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
					t.Fatalf("%d: %x, portable %x", n, got, want)
				}
			}
		}
	})
	for _, n := range lengths { // the portable one is right
		x := inputs(n, 4)[0]
		var want float64
		for _, v := range x {
			want += float64(v) * float64(v)
		}
		if got := portable.SumSquares(x); math.Abs(got-want) > 1e-13*want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// TestExpEverywhere compares exponentials at every level over numbers of all sizes.
func TestExpEverywhere(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		x := make([]float32, 4096)
		for first := uint64(0); first < 1<<32; first += 4096 * 997 {
			for i := range x {
				x[i] = math.Float32frombits(uint32(first + uint64(i)*811))
				if x[i] > 0 {
					x[i] = -x[i]
				}
				if !(x[i] <= 0) {
					x[i] = 0
				}
			}
			want, got := slices.Clone(x), slices.Clone(x)
			wm, ws := portable.Softmax(want, len(x), 0)
			gm, gs := k.Softmax(got, len(x), 0)
			if !sameNumber(gm, wm) || !sameNumber(gs, ws) {
				t.Fatalf("from %08x: greatest %v, sum %v, portable %v, %v", first, gm, gs, wm, ws)
			}
			for i := range x {
				if !sameNumber(got[i], want[i]) {
					t.Fatalf("exp(%x): %x, portable %x", x[i], got[i], want[i])
				}
			}
		}
	})
}

// ulps is the distance of got from want in units in the last place of want's binade, of the smallest normal number's
// where want is below the normal numbers.
func ulps(got float32, want float64) float64 {
	if want == 0 {
		return math.Abs(float64(got)) / 0x1p-149
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

// TestExp holds the documented bound on a sample.
func TestExp(t *testing.T) {
	worst, at := 0.0, float32(0)
	for b := uint64(0); b < 1<<32; b += 4093 {
		x := math.Float32frombits(uint32(b))
		got, want := Exp(x), math.Exp(float64(x))
		switch {
		case x != x:
			if got == got {
				t.Fatalf("exp(NaN) is %v", got)
			}
		case float64(float32(want)) > math.MaxFloat32:
			if !math.IsInf(float64(got), 1) {
				t.Fatalf("exp(%v) is %v", x, got)
			}
		default:
			if u := ulps(got, want); u > worst {
				worst, at = u, x
			}
		}
	}
	t.Logf("at most %.3f units in the last place, at %x", worst, at)
	if worst > 1 {
		t.Errorf("exp(%x) is off by %v units in the last place", at, worst)
	}
	for x, want := range map[float32]float32{0: 1, -104: 0, -105: 0, -1e30: 0, float32(math.Inf(-1)): 0} {
		if got := Exp(x); math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("exp(%v) is %v", x, got)
		}
	}
}

func TestSiLU(t *testing.T) {
	worst := 0.0
	for x := float32(-87); x < 100; x += 0.00317 {
		y := make([]float32, 1)
		portable.SiLUMul(y, []float32{x}, []float32{1})
		worst = max(worst, ulps(y[0], float64(x)/(1+math.Exp(-float64(x)))))
	}
	t.Logf("at most %.3f units in the last place", worst)
	if worst > 3 {
		t.Errorf("off by %v units in the last place", worst)
	}
}

func TestSoftmax(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		for _, n := range []int{16, 32, 48, 64} {
			for seen := 1; seen <= n; seen++ {
				for _, x := range inputs(n, 5) {
					for _, before := range []float32{float32(math.Inf(-1)), 0, 3} {
						want, got := slices.Clone(x), guard(n)
						copy(got.row(), x)
						wm, ws := portable.Softmax(want, seen, before)
						gm, gs := k.Softmax(got.row(), seen, before)
						if ws != ws {
							if gs == gs {
								t.Fatalf("sum %v, portable %v", gs, ws)
							}
							continue // a NaN among the scores: how far it spreads is left open
						}
						got.check(t, "softmax", want)
						if gm != wm || !sameNumber(gs, ws) { // greatest may be either zero
							t.Fatalf("greatest %v, sum %v; portable %v, %v", gm, gs, wm, ws)
						}
						for _, p := range want[seen:] {
							if math.Float32bits(p) != 0 {
								t.Fatalf("%v past the end", p)
							}
						}
					}
				}
			}
		}
	})
}

func TestToF16(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		for _, n := range lengths {
			for _, x := range inputs(n, 6) {
				want, got := make([]uint16, n), make([]uint16, n+8)
				got[n] = 0xabcd
				if f := portable.ToF16(want, x); f != k.ToF16(got, x) {
					t.Fatalf("finite is %v in portable code", f)
				}
				if !slices.Equal(got[:n], want) || got[n] != 0xabcd {
					t.Fatalf("%d: %04x, portable %04x", n, got, want)
				}
			}
		}
		x, y := make([]float32, 4096), make([]uint16, 4096)
		for first := uint64(0); first < 1<<32; first += 4096 * 499 {
			for i := range x {
				x[i] = math.Float32frombits(uint32(first + uint64(i)*487))
			}
			k.ToF16(y, x)
			for i := range x {
				if y[i] != numeric.ToF16(x[i]) {
					t.Fatalf("%x: %04x, want %04x", x[i], y[i], numeric.ToF16(x[i]))
				}
			}
		}
	})
}

// TestQuantize holds blocks to the generated quantizer, byte for byte.
func TestQuantize(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		check := func(x []float32) {
			t.Helper()
			n := len(x) / kernels.ActivationBlockElems * kernels.ActivationBlockBytes
			want, got := make([]byte, n), make([]byte, n+8)
			for i := range got {
				got[i] = 0x5a
			}
			kernels.QuantizeActivations(want, x)
			f := portable.Quantize(make([]byte, n), x)
			if g := k.Quantize(got[:n], x); g != f {
				t.Fatalf("finite is %v, in portable code %v", g, f)
			}
			for i := range n {
				if got[i] != want[i] {
					t.Fatalf("%d elements, byte %d of block %d: %d, want %d\n%v", len(x), i%kernels.ActivationBlockBytes, i/kernels.ActivationBlockBytes, got[i], want[i], x)
				}
			}
			if !slices.Equal(got[n:], []byte{0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a}) {
				t.Fatal("written past the end")
			}
		}
		for _, n := range []int{0, 32, 64, 96, 1536, 8960} {
			if n == 0 {
				check(nil)
				continue
			}
			for _, x := range inputs(n, 7) {
				check(x)
			}
		}
		rng := rand.New(rand.NewPCG(1, 8))
		for range 20000 {
			x := make([]float32, 32)
			size := math.Exp2(float64(rng.IntN(60) - 40))
			for i := range x {
				switch rng.IntN(4) {
				case 0: // halfway between codes
					x[i] = float32((float64(rng.IntN(254)-127) + 0.5) * size)
				case 1:
					x[i] = float32(float64(rng.IntN(255)-127) * size)
				default:
					x[i] = float32(rng.NormFloat64() * size)
				}
			}
			check(x)
		}
	})
}

// TestOuter holds the products of attention to the portable ones, in the two shapes that attention uses and odd ones.
func TestOuter(t *testing.T) {
	levels(t, func(t *testing.T, k *Kernels) {
		for _, s := range []Tiles{
			{Groups: 1, GroupStride: 64, Runs: 1, RunStride: 0, Run: 4},
			{Groups: 4, GroupStride: 16 * 128, Runs: 1, RunStride: 0, Run: 128},   // keys
			{Groups: 8, GroupStride: 16 * 16, Runs: 4, RunStride: 2048, Run: 16},  // values
			{Groups: 3, GroupStride: 16*12 + 48, Runs: 2, RunStride: 800, Run: 8}, // gaps
		} {
			for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 96} {
				t.Run(fmt.Sprintf("%+v x %d", s, n), func(t *testing.T) {
					b := inputs(s.end(), 9)[0]
					h := make([]uint16, len(b))
					portable.ToF16(h, b)
					yStride, aStride := 16*s.Groups+5, s.Runs*s.Run+3
					a := Rows{inputs((n-1)*aStride+s.Runs*s.Run, 10)[0], aStride}
					for _, keep := range []bool{false, true} {
						start := inputs((n-1)*yStride+16*s.Groups, 11)[0]
						run := func(f func(y Rows)) guarded {
							g := guard(len(start))
							copy(g.row(), start)
							f(Rows{g.row(), yStride})
							return g
						}
						want := run(func(y Rows) { portable.OuterF32(y, a, n, b, s, keep) })
						run(func(y Rows) { k.OuterF32(y, a, n, b, s, keep) }).check(t, "f32", want.row())
						want = run(func(y Rows) { portable.OuterF16(y, a, n, h, s, keep) })
						run(func(y Rows) { k.OuterF16(y, a, n, h, s, keep) }).check(t, "f16", want.row())
					}
				})
			}
		}
	})
}

// TestOuterReference holds the portable product to a sum in float64.
func TestOuterReference(t *testing.T) {
	s := Tiles{Groups: 2, GroupStride: 200, Runs: 2, RunStride: 450, Run: 8}
	b, a, y := inputs(s.end(), 1)[0], inputs(3*16, 2)[0], make([]float32, 3*40)
	portable.OuterF32(Rows{y, 40}, Rows{a, 16}, 3, b, s, false)
	for q := range 3 {
		for g := range s.Groups {
			for l := range Lanes {
				var want float64
				for i := range 16 {
					want += float64(a[q*16+i]) * float64(b[g*200+i/8*450+i%8*16+l])
				}
				if got := float64(y[q*40+16*g+l]); math.Abs(got-want) > 1e-5 {
					t.Errorf("row %d, group %d, lane %d: %v, want %v", q, g, l, got, want)
				}
			}
		}
	}
	for name, f := range map[string]func(){
		"b": func() { portable.OuterF32(Rows{y, 40}, Rows{a, 16}, 3, b[:len(b)-1], s, false) },
		"a": func() { portable.OuterF32(Rows{y, 40}, Rows{a[:47], 16}, 3, b, s, false) },
		"y": func() { portable.OuterF32(Rows{y[:111], 40}, Rows{a, 16}, 3, b, s, false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s too short: computed", name)
				}
			}()
			f()
		}()
	}
}
