package gpu_test

import (
	"encoding/binary"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// idle is a driver of a machine that computes nothing: all numbers are 0. What is left is what a session does itself.
type idle struct{ next gpu.Pointer }

func (d *idle) Info() gpu.Info {
	return gpu.Info{Name: "idle", Arch: 90, SMs: 132, WarpSize: 32, SharedBytes: 48 << 10, SharedOptInBytes: 227 << 10, MaxThreads: 1024}
}
func (d *idle) Load(gpu.Module) error { return nil }
func (d *idle) Alloc(bytes int64) (gpu.Pointer, error) {
	d.next += gpu.Pointer(bytes+255) &^ 255
	return d.next, nil
}
func (d *idle) Free(gpu.Pointer) error                    { return nil }
func (d *idle) Upload(gpu.Pointer, []byte) error          { return nil }
func (d *idle) Download([]byte, gpu.Pointer) error        { return nil }
func (d *idle) Fill(gpu.Pointer, byte, int64) error       { return nil }
func (d *idle) Launch(gpu.Launch) error                   { return nil }
func (d *idle) Sync() error                               { return nil }
func (d *idle) Close() error                              { return nil }
func (d *idle) Capture(f func() error) (gpu.Graph, error) { return idleGraph{}, f() }
func (d *idle) Share(bytes int) (gpu.Shared, error) {
	p, err := d.Alloc(int64(bytes))
	return gpu.Shared{Bytes: make([]byte, bytes), Pointer: p}, err
}

// Symbol gives the bounds of the gates.
func (d *idle) Symbol(name string) (data []byte, err error) {
	for _, e := range gate.All {
		for _, s := range e.Steps {
			if name == "minfer_bounds_"+s.Variant.Symbol {
				for _, b := range s.Variant.Bounds {
					data = binary.LittleEndian.AppendUint64(data, uint64(b.Value))
				}
				return data, nil
			}
		}
	}
	return nil, gpu.ErrUnknownSymbol
}

type idleGraph struct{}

func (idleGraph) Replay() error { return nil }
func (idleGraph) Close() error  { return nil }

// idleSession makes a session on an idle machine.
func idleSession(t testing.TB, vocab int) device.Session {
	m := archtest.Small("llama")
	m.Vocab = vocab
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	model, err := gpu.New("idle", func() (gpu.Driver, error) { return &idle{}, nil }, nil).Load(t.Context(), g, device.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	s, err := model.NewSession(device.SessionOptions{Context: 32, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// steps is what computes a token of a session on an idle machine.
func steps(t testing.TB, vocab int) map[string]func() {
	s, ctx, tokens := idleSession(t, vocab), t.Context(), []int32{1}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() == s.Context() {
			s.Truncate(0)
		}
	}
	return map[string]func(){
		"top":    func() { _, _, err := s.(device.Topper).ForwardTop(ctx, tokens, 40); check(err) },
		"logits": func() { _, err := s.Forward(ctx, tokens, device.LogitsLast); check(err) },
		"none":   func() { _, err := s.Forward(ctx, tokens, device.LogitsNone); check(err) },
	}
}

// What a session shared with its device is gone once it is closed: it computes nothing, and touches nothing.
func TestClosedSession(t *testing.T) {
	s, ctx := idleSession(t, 3000), t.Context()
	for _, want := range []device.Want{device.LogitsNone, device.LogitsLast, device.LogitsAll} {
		if _, err := s.Forward(ctx, []int32{1}, want); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []device.Want{device.LogitsNone, device.LogitsLast, device.LogitsAll} {
			if _, err := s.Forward(ctx, []int32{1}, want); err == nil {
				t.Errorf("want %v: a closed session computes", want)
			}
		}
		if _, _, err := s.(device.Topper).ForwardTop(ctx, []int32{1}, 40); err == nil {
			t.Error("a closed session finds the largest")
		}
	}
}

// A recorded step allocates nothing.
func TestStepsAllocateNothing(t *testing.T) {
	for name, step := range steps(t, 3000) {
		for range 3 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %g allocations a token", name, n)
		}
	}
}

// BenchmarkSession is what a session does for a token beside the calls of its driver.
func BenchmarkSession(b *testing.B) {
	for name, step := range steps(b, 152064) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				step()
			}
		})
	}
}
