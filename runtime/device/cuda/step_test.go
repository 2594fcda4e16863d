//go:build cuda && linux && cgo

package cuda_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/device"
	driver "github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/synth"
)

// BenchmarkStep splits what a decode step costs beside its kernels, all of them short: a recording of 8 launches alone, then with what a step
// is given and brings back in the ways there are. copy: uploads and downloads of their own; shared: through memory that both sides reach.
//
//	go test -tags cuda -run '^$' -bench 'BenchmarkStep|BenchmarkToken' ./runtime/device/cuda
func BenchmarkStep(b *testing.B) {
	d := open(b, driver.Options{})
	const vocab = 152064
	a := newAdd(b, d, vocab)
	s, err := d.(gpu.Sharer).Share(4 * vocab)
	if err != nil {
		b.Fatal(err)
	}
	inputs, err := d.Alloc(64)
	if err != nil {
		b.Fatal(err)
	}
	few := a.launch // writes a few numbers
	few.Grid[0], few.Args = 1, slices.Clone(few.Args)
	few.Args[3] = gpu.I32(64)
	found := few // as the last launch that finds the largest logits
	found.Args = slices.Clone(few.Args)
	found.Args[2] = gpu.PointerArg(s.Pointer)
	record := func(upload bool, last gpu.Launch) gpu.Graph {
		g, err := d.(gpu.Grapher).Capture(func() error {
			if upload {
				if err := d.Upload(inputs, s.Bytes[:12]); err != nil {
					return err
				}
			}
			for range 7 {
				if err := d.Launch(few); err != nil {
					return err
				}
			}
			return d.Launch(last)
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { g.Close() })
		return g
	}
	plain, uploads, shares, both := record(false, few), record(true, few), record(false, found), record(true, found)
	own := make([]byte, 4*vocab)
	copies := func() error {
		return errors.Join(d.Upload(inputs, own[:4]), d.Upload(inputs+4, own[:4]), d.Upload(inputs+8, own[:4]))
	}
	for _, c := range []struct {
		name string
		f    func() error
	}{
		{"wait for nothing", d.Sync},
		{"upload alone, copy of 4 bytes", func() error { return errors.Join(d.Upload(inputs, own[:4]), d.Sync()) }},
		{"upload alone, shared 12 bytes", func() error { return errors.Join(d.Upload(inputs, s.Bytes[:12]), d.Sync()) }},
		{"replay alone", func() error { return errors.Join(plain.Replay(), d.Sync()) }},
		{"replay, uploads copied", func() error { return errors.Join(copies(), plain.Replay(), d.Sync()) }},
		{"replay, upload shared before", func() error { return errors.Join(d.Upload(inputs, s.Bytes[:12]), plain.Replay(), d.Sync()) }},
		{"replay, upload recorded", func() error { return errors.Join(uploads.Replay(), d.Sync()) }},
		{"replay, 320 bytes copied back", func() error { return errors.Join(plain.Replay(), d.Download(own[:320], a.out)) }},
		{"replay, 320 bytes shared back", func() error { return errors.Join(plain.Replay(), d.Download(s.Bytes[:320], a.out)) }},
		{"replay, found in shared memory", func() error { return errors.Join(shares.Replay(), d.Sync()) }},
		{"replay, upload recorded, found in shared memory", func() error { return errors.Join(both.Replay(), d.Sync()) }},
		{"replay, logits copied back", func() error { return errors.Join(plain.Replay(), d.Download(own, a.out)) }},
		{"replay, logits shared back", func() error { return errors.Join(plain.Replay(), d.Download(s.Bytes, a.out)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkToken is a whole decode step of one layer of a real shape, by what comes back of its logits.
func BenchmarkToken(b *testing.B) {
	d := first(b)
	for _, eager := range []bool{false, true} {
		name := map[bool]string{false: "replay", true: "eager"}[eager]
		s := layer(b, d, synth.Options{Shape: "qwen2.5-1.5b", Format: "q4_K_M", Layers: 1}, device.LoadOptions{Eager: eager})
		step := func(name string, f func() error) {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
					if s.Len() == s.Context() {
						s.Truncate(0)
					}
				}
			})
		}
		tokens := []int32{1}
		for _, k := range []int{1, 40} {
			step(name+map[int]string{1: ", the largest", 40: ", the 40 largest"}[k], func() error {
				_, _, err := s.(device.Topper).ForwardTop(b.Context(), tokens, k)
				return err
			})
		}
		step(name+", all logits", func() error { _, err := s.Forward(b.Context(), tokens, device.LogitsLast); return err })
		step(name+", none", func() error { _, err := s.Forward(b.Context(), tokens, device.LogitsNone); return err })
	}
}

// TestShare: kernels and the host reach the same memory, copies from it wait for their turn, and it is not to be had twice.
func TestShare(t *testing.T) {
	d := open(t, driver.Options{})
	a := newAdd(t, d, 1000)
	s, err := d.(gpu.Sharer).Share(4000)
	if err != nil {
		t.Fatal(err)
	}
	l := a.launch
	l.Args = slices.Clone(l.Args)
	l.Args[2] = gpu.PointerArg(s.Pointer)
	if err := errors.Join(d.Launch(l), d.Sync()); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 4000)
	if err := errors.Join(d.Launch(a.launch), d.Download(want, a.out)); err != nil {
		t.Fatal(err)
	}
	if string(want) != string(s.Bytes) {
		t.Error("the host does not see what a kernel wrote")
	}
	g, err := d.(gpu.Grapher).Capture(func() error { return d.Upload(a.out, s.Bytes[:8]) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(3) {
		s.Bytes[0], s.Bytes[7] = i, 100+i
		have := make([]byte, 8)
		if err := errors.Join(g.Replay(), d.Download(have, a.out)); err != nil {
			t.Fatal(err)
		}
		if have[0] != i || have[7] != 100+i {
			t.Errorf("replay %d uploads %v", i, have)
		}
	}
	if err := errors.Join(d.Download(s.Bytes[4:12], a.out), g.Close()); err != nil || s.Bytes[4] != 2 || s.Bytes[11] != 102 {
		t.Errorf("a download into it: %v, %v", s.Bytes[4:12], err)
	}
	if err := d.Free(s.Pointer); err != nil {
		t.Error(err)
	}
	if err := d.Free(s.Pointer); !errors.Is(err, gpu.ErrArgument) {
		t.Errorf("freed twice: %v", err)
	}
	if _, err := d.(gpu.Sharer).Share(0); !errors.Is(err, gpu.ErrArgument) {
		t.Errorf("none at all: %v", err)
	}
}

// layer is a session of a synthetic model.
func layer(t testing.TB, d device.Device, o synth.Options, load device.LoadOptions) device.Session {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Load(t.Context(), g, load)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.NewSession(device.SessionOptions{Context: 512, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
