package emu_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/kernel"
)

// driver is an emulator that poses as a Hopper GPU.
func driver(t testing.TB) *emu.Driver {
	t.Helper()
	d, err := emu.Open(t.Context(), emu.Options{Arch: 90})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// weights is rows of blocks of a format whose numbers are moderate, and their values.
func weights(t testing.TB, name string, rows, cols int, r *rand.Rand) (info format.Info, blocks []byte, values []float32) {
	t.Helper()
	info, ok := format.ByName(name)
	if !ok {
		t.Fatal("no format ", name)
	}
	kernels, _ := cpu.For(info.Type)
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	blocks = make([]byte, len(x)/info.BlockElems*info.BlockBytes)
	kernels.Quantize(blocks, x)
	values = make([]float32, len(x))
	kernels.Dequantize(values, blocks)
	return info, blocks, values
}

func entry(t testing.TB, family, f string) *kernel.Entry {
	t.Helper()
	for _, e := range gate.All {
		if e.Family == family && e.Format == f {
			return e
		}
	}
	t.Fatalf("no gate of %s for %s", family, f)
	return nil
}

// put uploads bytes to memory of their own.
func put(t testing.TB, d gpu.Driver, b []byte) gpu.Pointer {
	t.Helper()
	p, err := d.Alloc(int64(max(1, len(b))))
	if err == nil {
		err = d.Upload(p, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func floats(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		u := math.Float32bits(v)
		b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(u), byte(u>>8), byte(u>>16), byte(u>>24)
	}
	return b
}

func read(t testing.TB, d gpu.Driver, p gpu.Pointer, n int) []float32 {
	t.Helper()
	b := make([]byte, 4*n)
	if err := d.Download(b, p); err != nil {
		t.Fatal(err)
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24)
	}
	return x
}

// Every streaming kernel, at widths up to and at its ceiling and with runs of rows of every kind (none, fewer than a tile, a tile, more
// than the ring holds), is as near an exact sum as the roundings of its additions allow, and processes every unit once.
func TestRingKernels(t *testing.T) {
	d := driver(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"q4_K", "q6_K"} {
		e := entry(t, "matvec-ring-q8", name)
		for i := range e.Steps {
			v := e.Steps[i].Variant
			if err := gpu.LoadVariants(d, []*kernel.Variant{v}); err != nil {
				t.Fatal(err)
			}
			ceiling := int64(0)
			for _, b := range v.Bounds {
				if b.Kind == kernel.Max && b.Dim == "cols" {
					ceiling = b.Value
				}
			}
			for _, c := range []struct{ cols, rows, shares int64 }{
				{256, 1, 3}, {256, 70, 1}, {768, 131, 2}, {ceiling, 13, 3}, {ceiling - 256, 9, 1}, {ceiling - 3*256, 64, 2}, {ceiling, 1, 4},
			} {
				t.Run(fmt.Sprintf("%s/%s/%dx%d/%d", name, v.Name, c.rows, c.cols, c.shares), func(t *testing.T) {
					q := kernel.Query{Rows: c.rows, Cols: c.cols, Tokens: 1, Shares: c.shares, Weights: v.Weights, Arch: 90, SharedBytes: int64(d.Info().SharedOptInBytes)}
					if b := e.Steps[i].Refuse(&q); b >= 0 {
						t.Fatalf("refused: %s", v.Bounds[b])
					}
					checkRing(t, d, v, &q, r)
				})
			}
			over := kernel.Query{Rows: 1, Cols: ceiling + 256, Tokens: 1, Shares: 1, Weights: v.Weights, Arch: 90, SharedBytes: int64(d.Info().SharedOptInBytes)}
			if e.Steps[i].Refuse(&over) < 0 {
				t.Errorf("%s admits rows past its ceiling of %d", v, ceiling)
			}
		}
	}
}

func checkRing(t *testing.T, d *emu.Driver, v *kernel.Variant, q *kernel.Query, r *rand.Rand) {
	rows, cols := int(q.Rows), int(q.Cols)
	info, blocks, values := weights(t, v.Format, rows, cols, r)
	place := gate.Placements[v.Format][v.Weights]
	packed := make([]byte, rows*place.RowBytes(cols/info.BlockElems))
	place.Pack(packed, blocks, cols/info.BlockElems)
	x := make([]float32, cols)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	codes := make([]byte, cols/cpu.ActivationBlockElems*cpu.ActivationBlockBytes)
	cpu.QuantizeActivations(codes, x)
	cpu.DequantizeActivations(x, codes)
	bias := make([]float32, rows)
	for i := range bias {
		bias[i] = float32(r.NormFloat64())
	}
	nan := make([]float32, rows)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	args := map[string]gpu.Arg{"w": gpu.PointerArg(put(t, d, packed)), "x": gpu.PointerArg(put(t, d, codes)), "bias": gpu.PointerArg(put(t, d, floats(bias))),
		"y": gpu.PointerArg(put(t, d, floats(nan))), "rows": gpu.I32(int32(rows)), "cols": gpu.I32(int32(cols))}
	l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(q), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(q), Dependent: v.Awaits}
	for _, a := range v.Args {
		l.Args = append(l.Args, args[a.Name])
	}
	if err := d.StartWitness(gpu.CoverSpace{Rows: q.Rows, Units: q.Cols / 32, Tokens: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Launch(l); err != nil {
		t.Fatal(err)
	}
	cover, err := d.StopWitness()
	if err == nil {
		err = cover.Exact()
	}
	if err != nil {
		t.Fatal(err)
	}
	y := read(t, d, gpu.Pointer(args["y"].Bits), rows)
	for m := range rows {
		want, size := float64(bias[m]), math.Abs(float64(bias[m]))
		for k, w := range values[m*cols : (m+1)*cols] {
			want += float64(w) * float64(x[k])
			size += math.Abs(float64(w) * float64(x[k]))
		}
		if off := math.Abs(float64(y[m]) - want); !(off <= size*0x1p-20) {
			t.Fatalf("row %d is %g, exact %g (off by %.3g of the size of its terms)", m, y[m], want, off/size)
		}
	}
	for _, a := range args {
		if a.Kind == gpu.ArgPointer {
			d.Free(gpu.Pointer(a.Bits))
		}
	}
}

// A model whose weights allow it decodes by streaming kernels on a Hopper GPU and by the others on an older one; both give the logits of
// the CPU device, as near as the rounding of activations to 8 bits makes them.
func TestRoutesFollowTheArchitecture(t *testing.T) {
	for _, golden := range archtest.Goldens(t) {
		if golden.Name != "qwen2-tall-q4_K_M" && golden.Name != "llama-small-q4_K_M" {
			continue
		}
		f, err := gguf.Open(golden.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		g, err := arch.Build(f)
		if err != nil {
			t.Fatal(err)
		}
		want := devicetest.Steps(t, "cpu", g, device.LoadOptions{}, golden.Tokens, golden.Peer.Tokens[:3])
		for _, c := range []struct {
			sm   int
			off  kernel.Switches
			want []string // families among the routes
		}{
			{80, nil, nil},
			{90, nil, []string{"project-ring-q8", "gate-ring-q8"}},
			{90, kernel.Switches{"MINFER_FUSE": true}, []string{"matvec-ring-q8"}},
		} {
			t.Run(fmt.Sprintf("%s/sm_%d/%v", golden.Name, c.sm, c.want), func(t *testing.T) {
				d := gpu.New("emu", func() (gpu.Driver, error) { return emu.Open(t.Context(), emu.Options{Arch: c.sm}) }, c.off)
				m, err := d.Load(t.Context(), g, device.LoadOptions{})
				if errors.Is(err, emu.ErrNoCompiler) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				families := map[string]bool{}
				for _, r := range m.Routes() {
					family, _, _ := strings.Cut(r.Kernel, "/")
					families[family] = true
				}
				for _, f := range []string{"matvec-ring-q8", "project-ring-q8", "gate-ring-q8"} {
					if families[f] != slices.Contains(c.want, f) {
						t.Errorf("routes through %v, want %v", families, c.want)
					}
				}
				s, err := m.NewSession(device.SessionOptions{Context: 64})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for i := range want {
					next := golden.Tokens
					if i > 0 {
						next = golden.Peer.Tokens[i-1 : i]
					}
					rows, err := s.Forward(t.Context(), next, device.LogitsLast)
					if err != nil {
						t.Fatal(err)
					}
					if apart, allowed := archtest.Distance(rows[0], want[i]), max(0.02, golden.ClassTolerance()); !(apart <= allowed) {
						t.Errorf("step %d: logits are %.4f from the CPU device's, allowed %.4f", i, apart, allowed)
					}
				}
			})
		}
	}
}
