package cpu

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
	"github.com/minfer/minfer/runtime/kernel"
)

func blocks(info format.Info, n int, r *rand.Rand) []byte {
	b := make([]byte, n*info.BlockBytes)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// kernelsOf is the kernels that are made for a layout and a level, and for none below it.
func kernelsOf(f *tile.Format, level cpufeature.Level) (kernels []tileKernel) {
	for _, s := range gateOf(f.Name, device.Q8).Steps {
		for _, b := range s.Variant.Bounds {
			if b.Kind == kernel.Feature && string(s.Variant.Weights) == f.Layout && b.Feature == level.String() {
				kernels = append(kernels, tileKernel{s.Variant.TokenTile, tile.Kernel(s.Variant.Symbol)})
			}
		}
	}
	return kernels
}

// layoutAt is the layout that kernels are made for at a level and for none below it; nil where there are none.
func layoutAt(info format.Info, level cpufeature.Level) *tile.Format {
	for _, layout := range tile.Layouts {
		if f, ok := tile.For(info.Type, layout); ok && len(kernelsOf(f, level)) > 0 {
			return f
		}
	}
	return nil
}

func TestTileKernels(t *testing.T) {
	for _, info := range format.All() {
		k, _ := kernels.For(info.Type)
		var words map[int]float32 // what tiles of words have
		for _, level := range cpufeature.Levels() {
			f := layoutAt(info, level)
			if f == nil {
				if _, ok := tile.For(info.Type, tile.Layout); ok && level != cpufeature.Portable && level != cpufeature.AVX512VBMI {
					t.Errorf("%s: no kernel of %s", info.Name, level)
				}
				continue
			}
			t.Run(info.Name+"/"+level.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				const nb = 3
				cols := nb * info.BlockElems
				const tokens = 16
				xf := make([]float32, cols)
				rowBytes := cols / 32 * kernels.ActivationBlockBytes
				x := make([]byte, tokens*rowBytes)
				for i := range tokens {
					for j := range xf {
						xf[j] = float32(r.NormFloat64())
					}
					kernels.QuantizeActivations(x[i*rowBytes:][:rowBytes], xf)
				}
				w := make([][]byte, tile.Rows)
				tl := aligned(nb * f.BlockBytes)
				mem := make([]int8, f.BlockElems)
				for i := range w {
					for {
						w[i] = blocks(info, nb, r)
						y := make([]float32, cols)
						k.Dequantize(y, w[i])
						if fine(y) {
							break
						}
					}
					f.Pack(tl, i, w[i], mem)
				}
				y := make([]float32, tile.Rows*tokens)
				first := map[int]float32{}
				for _, kk := range kernelsOf(f, level) {
					for t0 := 0; t0 < tokens; t0 += kk.tokens {
						panel := aligned(cols / 32 * tile.PanelBytes(kk.tokens))
						for i := range kk.tokens {
							tile.PutPanel(panel, kk.tokens, i, x[(t0+i)*rowBytes:][:rowBytes])
						}
						bias := make([]float32, tile.Rows)
						scratch := aligned(tile.ScratchBytes)
						clear(y)
						a := tile.Args{W: unsafe.Pointer(&tl[0]), X: unsafe.Pointer(&panel[0]), Bias: unsafe.Pointer(&bias[0]), Y: unsafe.Pointer(&y[0]),
							Scratch: unsafe.Pointer(&scratch[0]), Tiles: 1, Blocks: nb, YStride: 4 * tile.Rows}
						kk.run(&a)
						if a.Bad != 0 {
							t.Errorf("bad %d", a.Bad)
						}
						for i := range kk.tokens {
							for row := range tile.Rows {
								got := y[i*tile.Rows+row]
								want := k.DotQ8(w[row], x[(t0+i)*rowBytes:][:rowBytes])
								if math.Abs(float64(got-want)) > 1e-5*magnitude(k, w[row], x[(t0+i)*rowBytes:][:rowBytes]) {
									t.Fatalf("tokens %d: token %d row %d: %g, want %g", kk.tokens, t0+i, row, got, want)
								}
								key := (t0+i)*100 + row
								if old, ok := first[key]; ok && old != got {
									t.Fatalf("tokens %d: token %d row %d: %g, with one token %g", kk.tokens, t0+i, row, got, old)
								}
								first[key] = got
							}
						}
					}
				}
				// The same sums in the same order: indices change nothing but where words come from.
				switch level {
				case cpufeature.AVX512VNNI:
					words = first
				case cpufeature.AVX512VBMI:
					if !maps.Equal(first, words) {
						t.Error("tiles with indices have other bits")
					}
				}
			})
		}
	}
}

// magnitude is the sum of the magnitudes of scale times integer dot and of offset times sum, over all units, or more.
func magnitude(k kernels.Kernels, w, x []byte) float64 {
	n := len(x) / kernels.ActivationBlockBytes * kernels.ActivationBlockElems
	a, b := make([]float32, n), make([]float32, n)
	k.Dequantize(a, w)
	kernels.DequantizeActivations(b, x)
	var sum float64
	for i := range a {
		sum += math.Abs(float64(a[i]) * float64(b[i]))
	}
	return sum
}

func fine(y []float32) bool {
	for _, v := range y {
		if v-v != 0 || math.Abs(float64(v)) > 1e20 {
			return false
		}
	}
	return true
}

// benchBytes is the memory that benchmarks read: more than any cache holds.
const benchBytes = 256 << 20

// stretches times runs of work that are shorter than what the system gives a thread at a time, and reports the rate that the best
// tenth of them reach: what else the machine does then shows in memory alone.
type stretches []float64

func (s *stretches) time(amount float64, run func()) {
	before := time.Now()
	run()
	*s = append(*s, amount/float64(time.Since(before)))
}

func (s stretches) rate() float64 {
	slices.Sort(s)
	return s[len(s)*9/10]
}

// BenchmarkTile multiplies out of memory for one token, out of the cache for more, with one thread.
func BenchmarkTile(b *testing.B) {
	data, err := allocate(benchBytes)
	if err != nil {
		b.Fatal(err)
	}
	defer release(data)
	for i := range data {
		data[i] = byte(i*7) & 0x3f
	}
	for _, info := range format.All() {
		for _, level := range cpufeature.Levels() {
			f := layoutAt(info, level)
			if f == nil {
				continue
			}
			for _, k := range kernelsOf(f, level) {
				b.Run(fmt.Sprintf("%s/%s/%d", f.Name, level, k.tokens), func(b *testing.B) {
					const cols = 1536
					blocks := cols / info.BlockElems
					size := blocks * f.BlockBytes
					n := 4
					if k.tokens == 1 {
						n = max(1, 2<<20/size)
					}
					x := aligned(cols / tile.UnitElems * tile.PanelBytes(k.tokens))
					bias, scratch := make([]float32, tile.Rows), aligned(tile.ScratchBytes)
					y := make([]float32, tile.Rows*n*k.tokens)
					a := new(tile.Args)
					at := 0
					var bytes, products stretches
					for b.Loop() {
						for range 32 {
							*a = tile.Args{W: unsafe.Pointer(&data[at]), X: unsafe.Pointer(&x[0]), Bias: unsafe.Pointer(&bias[0]), Y: unsafe.Pointer(&y[0]),
								Scratch: unsafe.Pointer(&scratch[0]), Tiles: n, Blocks: blocks, YStride: 4 * tile.Rows * n}
							bytes.time(float64(n*size), func() {
								products.time(float64(n*tile.Rows*cols*k.tokens), func() { k.run(a) })
							})
							if k.tokens == 1 {
								if at += n * size; at+n*size > len(data) {
									at = 0
								}
							}
						}
					}
					if k.tokens == 1 {
						b.ReportMetric(bytes.rate(), "GB/s")
					}
					b.ReportMetric(products.rate(), "Gproducts/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// readAhead reads memory at the most that a thread reaches: it asks for what follows a little ahead and does next to nothing else.
func readAhead(k *vec.Kernels, b []byte) {
	const piece, ahead = 4 << 10, 8 << 10
	for ; len(b) >= piece; b = b[piece:] {
		vec.Fetch(b[min(ahead, len(b)):min(ahead+piece, len(b))])
		k.Finite(unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), piece/4))
	}
}

// reading is the task of reading memory, each worker a part of it.
type reading struct {
	k     *vec.Kernels
	b     []byte
	parts int
}

func (r *reading) run(_, lo, hi int) {
	readAhead(r.k, r.b[shareOf(len(r.b)>>12, lo, r.parts)<<12:shareOf(len(r.b)>>12, hi, r.parts)<<12])
}

// BenchmarkRead reads memory that no cache holds: what tile kernels of one token are held against. It is timed as they are.
func BenchmarkRead(b *testing.B) {
	data, err := allocate(benchBytes)
	if err != nil {
		b.Fatal(err)
	}
	defer release(data)
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
	k := vec.For(cpufeature.Best())
	for threads := 1; threads <= runtime.GOMAXPROCS(0); threads *= 2 {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := newPool(threads, nil)
			defer p.end()
			stretch := 2 << 20
			if threads > 1 {
				stretch = 64 << 20 // between two waits
			}
			var bytes stretches
			for b.Loop() {
				for lo := 0; lo < benchBytes; lo += stretch {
					r := &reading{k, data[lo:][:stretch], threads}
					bytes.time(float64(stretch), func() { p.run(context.Background(), r, threads, 1) })
				}
			}
			b.ReportMetric(bytes.rate(), "GB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkToken computes tokens with layers of Qwen2.5-1.5B, each in turn with reading as many bytes by the same threads: other
// work on the machine slows both, so that the median of the ratios is the share of the machine's read bandwidth that tokens reach.
func BenchmarkToken(b *testing.B) {
	for _, typ := range []format.Type{format.Q4_0, format.F16} {
		info, _ := format.Lookup(typ)
		b.Run(info.Name, func(b *testing.B) {
			m := archtest.Small("qwen2")
			m.Layers, m.Embd, m.Heads, m.KV, m.HD, m.FF, m.Context, m.Quantize = 4, 1536, 12, 2, 128, 8960, 64, typ
			s := openModel(b, m, device.LoadOptions{}, device.SessionOptions{Context: 64}).(*session)
			if s.model.arena == nil {
				b.Skip("no vector code")
			}
			arena := s.model.arena[:len(s.model.arena)-hugeBytes] // see allocate
			threads := s.model.pool.threads()
			read := &reading{s.vec, arena, threads}
			ctx := context.Background()
			var token, plain, share []float64
			for b.Loop() {
				begin := time.Now()
				s.Truncate(0)
				if _, err := s.Forward(ctx, []int32{1}, device.LogitsLast); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				s.model.pool.run(ctx, read, threads, 1)
				t, r := middle.Sub(begin).Seconds(), time.Since(middle).Seconds()
				token, plain, share = append(token, t), append(plain, r), append(share, r/t)
			}
			median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
			gb := float64(len(arena)) / 1e9
			b.ReportMetric(gb/median(token), "token-GB/s")
			b.ReportMetric(gb/median(plain), "read-GB/s")
			b.ReportMetric(median(share), "share")
			b.ReportMetric(0, "ns/op")
		})
	}
}
