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

// recorder makes a gpu.Grapher of the emulator, which has none: a recording is the list of launches.
type recorder struct {
	*emu.Driver
	recording          *recording
	recorded, replayed int
	open               int // recordings that are not closed
	refuse             error
}

type recording struct {
	r        *recorder
	launches []gpu.Launch
	closed   bool
}

func (r *recorder) Launch(l gpu.Launch) error {
	if r.recording != nil {
		l.Args = slices.Clone(l.Args)
		r.recording.launches = append(r.recording.launches, l)
		return nil
	}
	return r.Driver.Launch(l)
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
	for _, l := range g.launches {
		if err := g.r.Driver.Launch(l); err != nil {
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

// forwards are lengths of the pieces in which a session gets its tokens, and what is wanted of each.
var forwards = []struct {
	tokens int
	want   device.Want
}{{9, device.LogitsLast}, {1, device.LogitsLast}, {1, device.LogitsLast}, {1, device.LogitsLast}, {3, device.LogitsAll}, {1, device.LogitsLast}, {1, device.LogitsNone},
	{1, device.LogitsNone}, {3, device.LogitsAll}, {3, device.LogitsAll}, {1, device.LogitsLast}, {1, device.LogitsLast}}

// run computes forwards on a small model and returns all logits.
func run(t *testing.T, o device.LoadOptions) (*recorder, [][]float32) {
	t.Helper()
	f, err := archtest.Small("llama").File()
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
		rows, err := s.Forward(context.Background(), tokens, f.want)
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
	eager, want := run(t, device.LoadOptions{Eager: true})
	if eager.recorded != 0 || eager.replayed != 0 {
		t.Errorf("eager: recorded %d, replayed %d", eager.recorded, eager.replayed)
	}
	replayed, have := run(t, device.LoadOptions{})
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
	// One token with logits: the second of three is recorded; all is dropped when three rows of logits need more room; of the four
	// after that the second is recorded again. One token without logits and three with: recorded the second time.
	if replayed.recorded != 4 || replayed.replayed != 2+1+2+2 {
		t.Errorf("recorded %d steps and replayed %d, want 4 and 7", replayed.recorded, replayed.replayed)
	}
	t.Setenv(gpu.NoGraph, "1")
	if off, have := run(t, device.LoadOptions{}); off.recorded != 0 || cmp.Diff(want, have) != "" {
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
