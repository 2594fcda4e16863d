package bench

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/demo"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/sample"
)

func TestRate(t *testing.T) {
	for _, c := range []struct {
		samples              []float64
		median, mean, stdDev float64
	}{
		{[]float64{3}, 3, 3, 0},
		{[]float64{4, 1}, 2.5, 2.5, math.Sqrt(4.5)},
		{[]float64{9, 1, 2}, 2, 4, math.Sqrt(19)},
	} {
		r := &Rate{Samples: c.samples}
		before := slices.Clone(c.samples)
		if r.Median() != c.median || r.Mean() != c.mean || r.StdDev() != c.stdDev {
			t.Errorf("%v: median %v, mean %v, deviation %v; want %v, %v, %v", c.samples, r.Median(), r.Mean(), r.StdDev(), c.median, c.mean, c.stdDev)
		}
		if !slices.Equal(r.Samples, before) {
			t.Errorf("samples changed their order: %v", r.Samples)
		}
	}
}

func open(t *testing.T, context_ int) *engine.Model {
	t.Helper()
	f, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.OpenFile(context.Background(), f, engine.Options{Context: context_})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestRun(t *testing.T) {
	m := open(t, 24)
	var said []string
	r, err := Run(context.Background(), m, Case{Prompt: 8, Generate: 3, Depth: 16}, Options{Repetitions: 2, Progress: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	for name, rate := range map[string]*Rate{"pp": r.PP, "tg": r.TG} {
		if rate == nil || len(rate.Samples) != 2 || slices.Min(rate.Samples) <= 0 {
			t.Errorf("%s: %+v", name, rate)
		}
	}
	want := []string{"filling the cache to depth 16", "pp8 warm-up", "pp8 sample 1 of 2", "pp8 sample 2 of 2", "tg3 warm-up", "tg3 sample 1 of 2", "tg3 sample 2 of 2"}
	if !slices.Equal(said, want) {
		t.Errorf("progress %q, want %q", said, want)
	}
	if r, err := Run(context.Background(), m, Case{Generate: 1}, Options{Repetitions: 1, NoWarmup: true}); err != nil || r.PP != nil || len(r.TG.Samples) != 1 {
		t.Errorf("a generation alone: %+v, %v", r, err)
	}
}

// finding is the CPU device with sessions that find the largest logits, and notes for how many tokens and how many logits they were asked.
type finding struct{ device.Device }

type findingModel struct{ device.Model }

type findingSession struct{ device.Session }

var asked [][2]int

func init() {
	device.Register("finding", func(string) (device.Device, error) {
		d, err := device.Open("cpu")
		return finding{d}, err
	})
}

func (d finding) Load(ctx context.Context, g *op.Graph, o device.LoadOptions) (device.Model, error) {
	m, err := d.Device.Load(ctx, g, o)
	return findingModel{m}, err
}

func (m findingModel) NewSession(o device.SessionOptions) (device.Session, error) {
	s, err := m.Model.NewSession(o)
	return findingSession{s}, err
}

func (findingSession) Tops(int) bool { return true }

func (s findingSession) ForwardTop(ctx context.Context, tokens []int32, k int) ([]int32, []float32, error) {
	asked = append(asked, [2]int{len(tokens), k})
	_, err := s.Forward(ctx, tokens, device.LogitsLast)
	return nil, nil, err
}

// A device that finds the largest logits is asked for those that a run with default sampling draws from.
func TestRunTakesTheLargest(t *testing.T) {
	f, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.OpenFile(context.Background(), f, engine.Options{Device: "finding", Context: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := Run(context.Background(), m, Case{Prompt: 8, Generate: 2}, Options{Repetitions: 1, NoWarmup: true})
	if k := sample.Defaults().TopK; err != nil || r.Top != k || !slices.Equal(asked, [][2]int{{8, k}, {1, k}, {1, k}}) {
		t.Errorf("asked for %v of the best %d (%v)", asked, r.Top, err)
	}
}

func TestRunRefuses(t *testing.T) {
	m := open(t, 24)
	var full *device.ContextError
	if _, err := Run(context.Background(), m, Case{Prompt: 9, Depth: 16}, Options{}); !errors.As(err, &full) {
		t.Errorf("more than the context: %v", err)
	}
	for _, c := range []Case{{}, {Prompt: -1}, {Generate: 1, Depth: -1}} {
		if _, err := Run(context.Background(), m, c, Options{}); err == nil {
			t.Errorf("%+v is measured", c)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, m, Case{Prompt: 8}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestParseList(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
	}{
		{"512", []int{512}},
		{"0", []int{0}},
		{"512,1024", []int{512, 1024}},
		{"1-4", []int{1, 2, 3, 4}},
		{"128-512+128", []int{128, 256, 384, 512}},
		{"128-512*2,1000", []int{128, 256, 512, 1000}},
		{"100-250+100", []int{100, 200}},
	} {
		got, err := ParseList(c.text, 1024)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", ",", "x", "-1", "1,", "1025", "1-", "4-1", "1-4+0", "1-4*1", "0-4*2", "1-4+", "5,5", "1-3,2", "+5", "1 ", "0-1024", "99999999999999999999"} {
		got, err := ParseList(bad, 1024)
		if err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestParseCPUModel(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: other\n", "Some CPU @ 2.00GHz"},
		{"processor\t: 0\nBogoMIPS\t: 50\n", runtime.GOARCH},
		{"", runtime.GOARCH},
	} {
		if got := parseCPUModel(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if h := Here(); h.CPU == "" || h.Cores < 1 || !strings.HasPrefix(h.Go, "go") && !strings.HasPrefix(h.Go, "devel") {
		t.Errorf("here is %+v", h)
	}
}
