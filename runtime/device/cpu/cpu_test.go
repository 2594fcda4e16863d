package cpu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/op"
)

// TestDevice holds every level that this machine runs to the contract of devices; with -short the one in use.
func TestDevice(t *testing.T) {
	active, err := cpufeature.Active()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range cpufeature.Levels() {
		if l != active && testing.Short() {
			continue
		}
		t.Run(l.String(), func(t *testing.T) {
			t.Setenv(cpufeature.Switch, l.String())
			devicetest.Run(t, Device{}, devicetest.CPU)
		})
	}
}

// mutant is a cpu device whose products leave out the last activation block of a row, as a kernel does that covers too
// little.
type mutant struct{ Device }

func (d mutant) Load(ctx context.Context, g *op.Graph, o device.LoadOptions) (device.Model, error) {
	loaded, err := d.Device.Load(ctx, g, o)
	if err != nil {
		return nil, err
	}
	for w, m := range loaded.(*model).matrices {
		if w.Name == "table" {
			continue
		}
		dotQ8, dequantize := m.dotQ8, m.dequantize
		m.dequantize = func(dst []float32, src []byte) {
			dequantize(dst, src)
			clear(dst[len(dst)-kernels.ActivationBlockElems:])
		}
		if m.tiles != nil {
			units := m.Cols / tile.UnitElems
			for i := range m.tiles.kernels {
				k := &m.tiles.kernels[i]
				whole := k.run
				k.run = func(a *tile.Args) {
					size := tile.PanelBytes(k.tokens)
					clear(unsafe.Slice((*byte)(a.X), units*size)[(units-1)*size:])
					whole(a)
				}
			}
		}
		for i := range m.plain {
			k := &m.plain[i]
			whole := k.run
			k.run = func(a *tile.PlainArgs) {
				short := *a
				short.Steps--
				whole(&short)
			}
		}
		if dotQ8 != nil {
			m.dotQ8 = func(w, x []byte) float32 {
				x = slices.Clone(x)
				clear(x[len(x)-kernels.ActivationBlockBytes:])
				return dotQ8(w, x)
			}
		}
	}
	return loaded, nil
}

// TestNoticesLostUnit: the check of products tells a device that drops the last of 592 units, or of any number, from
// one that does not.
func TestNoticesLostUnit(t *testing.T) {
	for _, typ := range []format.Type{format.F16, format.Q8_0, format.Q4_0, format.Q4K, format.Q6K} {
		for _, cols := range []int{256, 18944} {
			for _, p := range []device.Precision{device.Q8, device.F32} {
				if err := devicetest.CheckProduct(Device{}, typ, 5, cols, p); err != nil {
					t.Errorf("type %d, %d columns, %s: %v", typ, cols, p, err)
				}
				if err := devicetest.CheckProduct(mutant{}, typ, 5, cols, p); err == nil {
					t.Errorf("type %d, %d columns, %s: a lost unit goes unnoticed", typ, cols, p)
				}
			}
		}
	}
}

// TestSteadyStateAllocations: decoding a token allocates nothing.
func TestSteadyStateAllocations(t *testing.T) {
	for _, c := range []struct {
		precision device.Precision
		kv        format.Type
	}{{device.Q8, format.F16}, {device.F32, format.F32}, {device.Q8, format.Q8_0}} {
		m := archtest.Small("qwen2")
		m.HD, m.Embd = 32, 128
		m.Quantize, m.Context = format.Q8_0, 4096
		s := openModel(t, m, device.LoadOptions{Precision: c.precision, Threads: 2}, device.SessionOptions{Context: 4096, KVType: c.kv})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		one := []int32{1}
		step := func() {
			if _, err := s.Forward(ctx, one, device.LogitsLast); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations a token", c.precision, n)
		}
	}
}

func openModel(t testing.TB, m archtest.Model, lo device.LoadOptions, so device.SessionOptions) device.Session {
	t.Helper()
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	model, err := Device{}.Load(context.Background(), g, lo)
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.NewSession(so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); model.Close() })
	return s
}

// TestCancelSoon ends a context in the middle of a long prompt of a model large enough that a step takes tens of seconds.
// What a worker does between two looks at the context takes milliseconds; the limit leaves room for a busy machine.
func TestCancelSoon(t *testing.T) {
	m := archtest.Small("llama")
	m.Embd, m.FF, m.HD, m.Context, m.Vocab = 1024, 4096, 256, 2048, 100
	s := openModel(t, m, device.LoadOptions{}, device.SessionOptions{Context: 2048, KVType: format.F16, Batch: 2048})
	ids := make([]int32, 2048)
	ctx, cancel := context.WithCancel(context.Background())
	var cancelledAt time.Time
	time.AfterFunc(200*time.Millisecond, func() { cancelledAt = time.Now(); cancel() })
	_, err := s.Forward(ctx, ids, device.LogitsLast)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v after a cancellation", err)
	}
	if late := time.Since(cancelledAt); late > 3*time.Second {
		t.Errorf("cancelled %v late", late)
	}
	if s.Len() != 0 {
		t.Errorf("length %d", s.Len())
	}
}

// TestContextBeyondMemory asks for more cache than any machine has, and for more than an integer counts.
func TestContextBeyondMemory(t *testing.T) {
	if _, known := availableBytes(); !known {
		t.Skip("the memory available is not known on this system")
	}
	for _, c := range []struct {
		layers, heads, dim int
		want               string
	}{
		{1, 64, 1024, "GiB of memory is available; ask for a smaller context"},
		{1 << 10, 1 << 13, 1 << 17, "larger than any memory"},
	} {
		g := &op.Graph{Vocab: 1, Context: 1<<31 - 1}
		for range c.layers {
			g.KV = append(g.KV, op.KV{KeyWidth: c.heads * c.dim, ValueWidth: c.heads * c.dim})
		}
		m := &model{graph: g, pool: newPool(1, nil)}
		_, err := m.NewSession(device.SessionOptions{Context: 1<<31 - 1, KVType: format.F32})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
		m.Close()
	}
}

func TestName(t *testing.T) {
	if d, err := device.Open("cpu"); err != nil || d.Name() != "cpu" {
		t.Errorf("cpu: %v, %v", d, err)
	}
	if _, err := device.Open("cpu:1"); err == nil {
		t.Error("cpu:1 is opened")
	}
	_, err := device.Open("tpu")
	if err == nil || !strings.Contains(err.Error(), `no device "tpu": this build has cpu`) {
		t.Errorf("tpu: %v", err)
	}
	device.RegisterMissing("abacus", "build with beads")
	_, err = device.Open("abacus:2")
	if err == nil || !strings.Contains(err.Error(), `"abacus:2" is not in this build: build with beads`) {
		t.Errorf("abacus: %v", err)
	}
}

// TestReasons: an overflow says what overflowed and what helps.
func TestReasons(t *testing.T) {
	m := archtest.Small("qwen2")
	m.Quantize = format.Q8_0
	large := func(int) float32 { return 1e9 }
	m.Tensor["blk.0.ffn_norm.weight"] = archtest.TensorOptions{Each: large}
	s := openModel(t, m, device.LoadOptions{}, device.SessionOptions{Context: 16, KVType: format.F16})
	check := func(s device.Session, value string, wants ...string) {
		t.Helper()
		_, err := s.Forward(context.Background(), []int32{3, 4}, device.LogitsLast)
		var bad *device.NonFiniteError
		if !errors.As(err, &bad) || bad.Value != value {
			t.Fatalf("%v, want a NonFiniteError of %s", err, value)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q, want one with %q", err, want)
			}
		}
	}
	check(s, "blk.0.ffn_norm", "at position 0", "past what activations of 8 bits can hold; use f32 precision")
	delete(m.Tensor, "blk.0.ffn_norm.weight")
	m.Tensor["blk.0.attn_v.bias"] = archtest.TensorOptions{Each: large}
	s = openModel(t, m, device.LoadOptions{}, device.SessionOptions{Context: 16, KVType: format.F16})
	check(s, "blk.0.attn_v", "at position 0", "past what the f16 cache can hold; use a cache in f32")
	m.HD, m.Embd = 32, 128
	s = openModel(t, m, device.LoadOptions{}, device.SessionOptions{Context: 16, KVType: format.Q8_0})
	check(s, "blk.0.attn_v", "at position 0", "past what the q8_0 cache can hold; use a cache in f32")
}

func BenchmarkDecode(b *testing.B) {
	for _, g := range archtest.Goldens(b) {
		if g.Name != "qwen2-896-q4_K_M" && g.Name != "qwen2-896-q8_0" {
			continue
		}
		for _, p := range []device.Precision{device.Q8, device.F32} {
			b.Run(g.Name+"/"+string(p), func(b *testing.B) {
				s := openGolden(b, g, device.LoadOptions{Precision: p}, format.F16)
				one := []int32{1}
				for b.Loop() {
					if s.Len() == s.Context() {
						if err := s.Truncate(0); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := s.Forward(context.Background(), one, device.LogitsLast); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

func BenchmarkPrompt(b *testing.B) {
	for _, g := range archtest.Goldens(b) {
		if g.Name != "qwen2-896-q4_K_M" {
			continue
		}
		for _, p := range []device.Precision{device.Q8, device.F32} {
			b.Run(g.Name+"/"+string(p), func(b *testing.B) {
				s := openGolden(b, g, device.LoadOptions{Precision: p}, format.F16)
				ids := make([]int32, s.Context())
				for b.Loop() {
					if err := s.Truncate(0); err != nil {
						b.Fatal(err)
					}
					if _, err := s.Forward(context.Background(), ids, device.LogitsLast); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
