package emu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/op"
)

// needCompiler skips the test where kernels cannot be compiled.
func needCompiler(t *testing.T) {
	t.Helper()
	d, err := emu.Open(t.Context(), emu.Options{})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

func built(t *testing.T, m archtest.Model) *op.Graph {
	t.Helper()
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func session(t *testing.T, d device.Device, g *op.Graph) device.Session {
	t.Helper()
	m, err := d.Load(t.Context(), g, device.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.NewSession(device.SessionOptions{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// All logits of a prompt, where the output matrix alone has its format, so that nothing else needs its kernels for many rows.
func TestOutputOfItsOwnFormat(t *testing.T) {
	needCompiler(t)
	m := archtest.Small("llama")
	m.Layers, m.Embd, m.FF, m.HD, m.Vocab, m.Quantize = 1, 256, 256, 64, 300, format.Q8_0
	x := make([]float32, m.Embd*m.Vocab)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = float32(r.NormFloat64() / 16)
	}
	data, err := archtest.Encode(format.Q4_0, m.Embd, x)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensor["output.weight"] = archtest.TensorOptions{Type: format.Q4_0, Data: data}
	g := built(t, m)
	judge, err := device.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("emu")
	if err != nil {
		t.Fatal(err)
	}
	judged, s := session(t, judge, g), session(t, d, g)
	for _, n := range []int{2, 9, 40} {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(m.Vocab))
		}
		judged.Truncate(0)
		s.Truncate(0)
		want, err := judged.Forward(t.Context(), ids, device.LogitsAll)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Forward(t.Context(), ids, device.LogitsAll)
		if err != nil {
			t.Fatalf("%d tokens: %v", n, err)
		}
		for i := range want {
			if d := archtest.Distance(got[i], want[i]); d > 0.15 {
				t.Errorf("%d tokens: the logits of token %d are %.3f apart", n, i, d)
			}
		}
	}
}

// scarce is a driver that has no memory left while *left is 0, and then so many allocations.
type scarce struct {
	gpu.Driver
	left *int
}

func (s scarce) Alloc(n int64) (gpu.Pointer, error) {
	if *s.left == 0 {
		return 0, fmt.Errorf("%d bytes: %w", n, gpu.ErrMemory)
	}
	*s.left--
	return s.Driver.Alloc(n)
}

// A session whose memory ran out goes on once there is some.
func TestMemoryComesBack(t *testing.T) {
	needCompiler(t)
	driver, err := emu.Open(context.Background(), emu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const plenty = 1 << 30
	left := plenty
	d := gpu.New("scarce", func() (gpu.Driver, error) { return scarce{driver, &left}, nil }, nil)
	m := archtest.Small("llama")
	m.Vocab = 5000 // the largest logits take two launches
	s := session(t, d, built(t, m))
	ids := []int32{1, 2, 3, 4}
	for name, forward := range map[string]func() error{
		"the best 5": func() error { _, _, err := s.(device.Topper).ForwardTop(t.Context(), ids, 5); return err },
		"all logits": func() error { _, err := s.Forward(t.Context(), ids, device.LogitsAll); return err },
	} {
		for had := range 2 {
			left = had
			if err := forward(); err == nil {
				t.Errorf("%s: no error with memory for %d more", name, had)
			}
		}
		left = plenty
		s.Truncate(0)
		if err := forward(); err != nil {
			t.Errorf("%s, with memory again: %v", name, err)
		}
		if _, err := s.Forward(t.Context(), ids, device.LogitsLast); err != nil {
			t.Errorf("then the last logits: %v", err)
		}
		s.Truncate(0)
	}
}
