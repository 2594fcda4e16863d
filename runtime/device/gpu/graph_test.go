package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// recorder makes a gpu.Grapher and a gpu.Sharer of the emulator, which is neither. A recording is the list of calls. Shared memory is as late
// as it may be: kernels see what the host has there when they run, uploads copy it then, and the host sees what kernels wrote after a wait.
type recorder struct {
	*emu.Driver
	recording          *recording
	recorded, replayed int
	open               int // recordings that are not closed
	refuse             error

	shared  []gpu.Shared
	pending []func() error // uploads
	calls   []string
}

type recording struct {
	r      *recorder
	steps  []func() error
	closed bool
}

func (r *recorder) Share(bytes int) (gpu.Shared, error) {
	p, err := r.Alloc(int64(bytes))
	m := gpu.Shared{Bytes: make([]byte, bytes), Pointer: p}
	r.shared = append(r.shared, m)
	return m, err
}

func (r *recorder) Upload(to gpu.Pointer, src []byte) error {
	r.calls = append(r.calls, "upload")
	for _, m := range r.shared {
		if &m.Bytes[0] == &src[0] {
			do := func() error { return r.Driver.Upload(to, src) }
			if r.recording != nil {
				r.recording.steps = append(r.recording.steps, do)
			} else {
				r.pending = append(r.pending, do)
			}
			return nil
		}
	}
	if r.recording != nil {
		return errors.New("an upload is recorded")
	}
	return r.Driver.Upload(to, src)
}

func (r *recorder) flush() error {
	var errs []error
	for _, do := range r.pending {
		errs = append(errs, do())
	}
	r.pending = nil
	return errors.Join(errs...)
}

func (r *recorder) Launch(l gpu.Launch) error {
	if r.recording != nil {
		l.Args = slices.Clone(l.Args)
		r.recording.steps = append(r.recording.steps, func() error { return r.Driver.Launch(l) })
		return nil
	}
	return errors.Join(r.flush(), r.Driver.Launch(l))
}

// wait brings what kernels wrote to shared memory to the host.
func (r *recorder) wait() error {
	err := r.flush()
	for _, m := range r.shared {
		kernels := make([]byte, len(m.Bytes)) // NaN where they wrote nothing
		err = errors.Join(err, r.Driver.Download(kernels, m.Pointer))
		copy(m.Bytes, kernels)
	}
	return err
}

func (r *recorder) Sync() error {
	r.calls = append(r.calls, "sync")
	return errors.Join(r.wait(), r.Driver.Sync())
}

func (r *recorder) Download(to []byte, from gpu.Pointer) error {
	r.calls = append(r.calls, "download")
	return errors.Join(r.wait(), r.Driver.Download(to, from))
}

func (r *recorder) Free(p gpu.Pointer) error {
	r.shared = slices.DeleteFunc(r.shared, func(m gpu.Shared) bool { return m.Pointer == p })
	return r.Driver.Free(p)
}

func (r *recorder) Capture(record func() error) (gpu.Graph, error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	g := &recording{r: r}
	r.recording = g
	err := record()
	r.recording = nil
	if err != nil {
		return nil, err
	}
	r.recorded++
	r.open++
	return g, nil
}

func (g *recording) Replay() error {
	if g.closed {
		return errors.New("replay of a closed recording")
	}
	g.r.replayed++
	g.r.calls = append(g.r.calls, "replay")
	if err := g.r.flush(); err != nil {
		return err
	}
	for _, do := range g.steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (g *recording) Close() error {
	if g.closed {
		return errors.New("closed twice")
	}
	g.closed = true
	g.r.open--
	return nil
}

// forwards are lengths of the pieces in which a session gets its tokens, and what is wanted of each: a number of the largest logits, if any.
var forwards = []struct {
	tokens int
	want   device.Want
	top    int
}{{9, device.LogitsLast, 0}, {1, device.LogitsLast, 0}, {1, device.LogitsLast, 0}, {1, device.LogitsLast, 0}, {3, device.LogitsAll, 0}, {1, device.LogitsLast, 0},
	{1, device.LogitsNone, 0}, {1, device.LogitsNone, 0}, {3, device.LogitsAll, 0}, {3, device.LogitsAll, 0}, {1, device.LogitsLast, 0}, {1, device.LogitsLast, 0},
	{1, device.LogitsLast, 5}, {1, device.LogitsLast, 5}, {1, device.LogitsLast, 5}}

// run computes forwards on a small model, with shared memory or without, and returns all logits.
func run(t *testing.T, o device.LoadOptions, share bool) (*recorder, [][]float32) {
	t.Helper()
	small := archtest.Small("llama")
	small.Vocab = 3000 // the largest logits take two launches
	f, err := small.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	var r *recorder
	d := gpu.New("recorder", func() (gpu.Driver, error) {
		e, err := emu.Open(t.Context(), emu.Options{})
		r = &recorder{Driver: e}
		if !share {
			return struct {
				gpu.Driver
				gpu.Grapher
			}{r, r}, err
		}
		return r, err
	}, nil)
	m, err := d.Load(context.Background(), g, o)
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: 40, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	var all [][]float32
	next := int32(0)
	for i, f := range forwards {
		var tokens []int32
		for range f.tokens {
			next = (next*7 + 3) % int32(g.Vocab)
			tokens = append(tokens, next)
		}
		r.calls = nil
		var rows [][]float32
		if f.top > 0 {
			ids, logits, err2 := s.(device.Topper).ForwardTop(context.Background(), tokens, f.top)
			err = err2
			for _, id := range ids {
				rows = append(rows, []float32{float32(id)})
			}
			rows = append(rows, logits)
		} else {
			rows, err = s.Forward(context.Background(), tokens, f.want)
		}
		if err != nil {
			t.Fatalf("forward %d: %v", i, err)
		}
		for _, row := range rows {
			all = append(all, slices.Clone(row))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if r.open != 0 {
		t.Errorf("%d recordings are left open", r.open)
	}
	return r, all
}

// A recorded step gives the bits of the one whose launches are made anew.
func TestReplayGivesTheSameBits(t *testing.T) {
	eager, want := run(t, device.LoadOptions{Eager: true}, false)
	if eager.recorded != 0 || eager.replayed != 0 {
		t.Errorf("eager: recorded %d, replayed %d", eager.recorded, eager.replayed)
	}
	if _, have := run(t, device.LoadOptions{Eager: true}, true); cmp.Diff(want, have) != "" {
		t.Error("with shared memory:", cmp.Diff(want, have))
	}
	for share, calls := range map[bool][]string{false: {"upload", "replay", "download"}, true: {"replay", "sync"}} {
		replayed, have := run(t, device.LoadOptions{}, share)
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("shared memory %v: %s", share, d)
		}
		// One token with logits: the second of three is recorded; all is dropped when three rows of logits need more room; of the four
		// after that the second is recorded again. One token without logits, three with, and the largest of one: recorded the second time.
		if replayed.recorded != 5 || replayed.replayed != 2+1+2+2+2 {
			t.Errorf("shared memory %v: recorded %d steps and replayed %d, want 5 and 9", share, replayed.recorded, replayed.replayed)
		}
		if d := cmp.Diff(calls, replayed.calls); d != "" {
			t.Errorf("shared memory %v: the last step calls %s", share, d)
		}
		if len(replayed.shared) != 0 {
			t.Errorf("%d pieces of shared memory are left", len(replayed.shared))
		}
	}
	t.Setenv(gpu.NoGraph, "1")
	if off, have := run(t, device.LoadOptions{}, true); off.recorded != 0 || cmp.Diff(want, have) != "" {
		t.Errorf("%s=1: recorded %d", gpu.NoGraph, off.recorded)
	}
}

// A step that cannot be recorded is an error, not a silent other way.
func TestRecordingFails(t *testing.T) {
	f, err := archtest.Small("llama").File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	broken := fmt.Errorf("cannot record")
	d := gpu.New("recorder", func() (gpu.Driver, error) {
		e, err := emu.Open(t.Context(), emu.Options{})
		return &recorder{Driver: e, refuse: broken}, err
	}, nil)
	m, err := d.Load(context.Background(), g, device.LoadOptions{})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: 8, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Forward(context.Background(), []int32{1}, device.LogitsLast); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forward(context.Background(), []int32{1}, device.LogitsLast); !errors.Is(err, broken) {
		t.Errorf("the second step: %v", err)
	}
	if s.Len() != 1 {
		t.Errorf("the session has %d tokens after the failure", s.Len())
	}
}
