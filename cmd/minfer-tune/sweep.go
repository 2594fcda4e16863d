package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/emit/cuda"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/tune"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/conform"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/plan"
)

// subject is a shape that a gate is asked about, and what may run it.
type subject struct {
	fam        *model.Family
	format     *model.Format
	query      kernel.Query
	depth      int64 // positions before the token, of attention
	uses       []string
	contenders []*contender // the one that the gate chooses without any measurement of this kind first
}

// contender is a kernel that may run a subject.
type contender struct {
	base     *model.Variant // of the spec
	variant  *model.Variant // the same, or with other values of its free parameters
	settings []model.Setting
	dropped  string // why it does not take part; "" where it does
	times    []float64
}

// shape is the subject in a file of routes: the sizes that its family has. How long a context may become is the session's choice.
func (s *subject) shape() tune.Shape {
	x := tune.Shape{Kernel: s.fam.Name}
	if s.format != nil {
		x.Format = s.format.Name
	}
	var dims []model.Dim
	for _, d := range s.fam.Dims {
		if d != model.ShareOf && d != model.Context && !slices.Contains(dims, d) {
			dims = append(dims, d)
			x.Sizes = append(x.Sizes, model.Size{Dim: d, Value: s.query.Dim(string(d))})
		}
	}
	return x
}

// measured is the subject once it was timed.
func (s *subject) measured() tune.Measured {
	m := tune.Measured{Shape: s.shape()}
	for _, x := range s.contenders {
		if !slices.Contains(m.Variants, x.base.Name) {
			m.Variants = append(m.Variants, x.base.Name)
		}
	}
	return m
}

func formatOf(c *model.Catalog, name string) *model.Format {
	if i := slices.IndexFunc(c.Formats, func(f *model.Format) bool { return f.Name == name }); i >= 0 {
		return c.Formats[i]
	}
	return nil
}

// subjects are the launches of a plan, for each number of tokens, that have a choice: each shape once.
func subjects(c *model.Catalog, p *plan.Plan, tokens []int, depth int64, deep bool, match func(family string) bool) (all []*subject, err error) {
	seen := map[string]*subject{}
	for _, n := range tokens {
		launches, err := p.Step(n, 1)
		if err != nil {
			return nil, err
		}
		for i := range launches {
			l := &launches[i]
			if l.Weight == nil && l.Query.KVHeads == 0 || !match(l.Variant.Family) {
				continue
			}
			s := &subject{fam: c.Families[slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == l.Variant.Family })], format: formatOf(c, l.Variant.Format), query: l.Query, depth: depth}
			key := s.shape().String() + " " + string(l.Query.Weights)
			if first := seen[key]; first != nil {
				first.uses = append(first.uses, l.Name)
				continue
			}
			seen[key] = s
			s.uses = []string{l.Name}
			if s.contend(c, l.Variant, deep); len(s.contenders) > 1 {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// contend lists what may run the subject: the variants of the spec that admit it, and those with other values of the free parameters of the
// one that the gate chooses (deep: of all).
func (s *subject) contend(c *model.Catalog, chosen *kernel.Variant, deep bool) {
	e := gate.All[slices.IndexFunc(gate.All, func(e *kernel.Entry) bool { return e.Family == chosen.Family && e.Format == chosen.Format })]
	var admitted []kernel.Step
	for _, step := range e.Steps {
		if step.Variant.Base == "" && step.Refuse(&s.query) < 0 && !s.query.Off[step.Variant.Switch] {
			plain := *step.Variant
			plain.First = nil
			admitted = append(admitted, kernel.Step{Variant: &plain, Refuse: step.Refuse, Prefer: step.Prefer})
		}
	}
	first := kernel.Choose(&s.query, nil, admitted)
	slices.SortStableFunc(admitted, func(a, b kernel.Step) int { return btoi(b.Variant == first) - btoi(a.Variant == first) })
	for i, step := range admitted {
		v := s.fam.Variants[slices.IndexFunc(s.fam.Variants, func(v *model.Variant) bool { return v.Name == step.Variant.Name })]
		s.contenders = append(s.contenders, &contender{base: v, variant: v})
		if i > 0 && !deep {
			continue
		}
		for _, x := range tune.Candidates(c, s.fam, v, s.format, shapeOf(&s.query)) {
			s.contenders = append(s.contenders, &contender{base: v, variant: x.Variant, settings: x.Settings, dropped: x.Dropped})
		}
	}
	// What is there comes before what would have to be made.
	slices.SortStableFunc(s.contenders[1:], func(a, b *contender) int { return len(a.settings) - len(b.settings) })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sweep measures subjects on a driver.
type sweep struct {
	ctx     context.Context
	catalog *model.Catalog
	driver  gpu.Driver
	timer   *timing.Timer
	rounds  int
	note    func(format string, args ...any) // progress
	faults  map[string]string                // by symbol of a kernel that was made and judged: what is wrong with it, or ""
}

// compile loads all contenders of all subjects at once, which compiles them side by side. A kernel that cannot be compiled or loaded is
// no error yet: make finds out about each by itself, and what was compiled is in the cache.
func (w *sweep) compile(all []*subject) error {
	var variants []*kernel.Variant
	sources := map[string]string{}
	for _, s := range all {
		for _, x := range s.contenders {
			if x.dropped != "" {
				continue
			}
			v := variantOf(w.catalog, s.fam, x.variant, s.format)
			if sources[v.Source] != "" {
				continue
			}
			text, err := cuda.Source(w.catalog, s.fam, x.variant, s.format)
			if err != nil {
				return err
			}
			sources[v.Source] = text
			variants = append(variants, v)
		}
	}
	w.note("compiling %d kernels", len(variants))
	err := gpu.LoadSources(w.driver, variants, sources)
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case errors.Is(err, gpu.ErrLost):
		return err
	}
	return nil
}

// measure makes each contender, judges it and times all of them in turn. A contender that fails is dropped with the reason.
func (w *sweep) measure(s *subject) error {
	entries := make([]*kernel.Entry, len(s.contenders))
	var benches []*timing.Bench
	defer func() {
		for _, b := range benches {
			if b != nil {
				b.Close()
			}
		}
	}()
	for i, x := range s.contenders {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		benches = append(benches, nil)
		if x.dropped != "" {
			continue
		}
		entries[i] = entryOf(w.catalog, s.fam, x.variant, s.format)
		w.note("%s: compiling and judging %s", s.shape(), x.variant.Name)
		fault, err := w.make(s, x, entries[i])
		if err != nil {
			return err
		}
		if x.dropped = fault; fault != "" {
			continue
		}
		v := entries[i].Steps[0].Variant
		b, err := w.timer.Bench(v, s.query, s.depth, v.Awaits && w.driver.Info().Arch >= overlapArch)
		if err != nil {
			if errors.Is(err, gpu.ErrLost) {
				return fmt.Errorf("%s: %w", v, err)
			}
			x.dropped = "cannot be timed: " + firstLine(err)
			continue
		}
		benches[i] = b
	}
	// The order turns from round to round, so that none profits from what ran before it; the first round warms up.
	n := len(s.contenders)
	for round := range w.rounds + 1 {
		w.note("%s: round %d of %d", s.shape(), round, w.rounds)
		for k := range n {
			i := (k + round) % n
			if benches[i] == nil {
				continue
			}
			if err := w.ctx.Err(); err != nil {
				return err
			}
			micros, err := benches[i].Once()
			if err != nil {
				return fmt.Errorf("%s: timing %s: %w", s.shape(), s.contenders[i].variant.Name, err)
			}
			if round > 0 {
				s.contenders[i].times = append(s.contenders[i].times, micros)
			}
		}
	}
	return nil
}

// overlapArch is the first architecture that overlaps a launch with the end of its predecessor.
const overlapArch = 90

// make compiles and loads a contender alone, and judges one that is in no gate by the conformance suite. It returns what is wrong with the
// kernel; the error is of the device.
func (w *sweep) make(s *subject, x *contender, e *kernel.Entry) (fault string, err error) {
	v := e.Steps[0].Variant
	if fault, known := w.faults[v.Symbol]; known {
		return fault, nil
	}
	source, err := cuda.Source(w.catalog, s.fam, x.variant, s.format)
	if err != nil {
		return "", err
	}
	err = gpu.LoadSources(w.driver, []*kernel.Variant{v}, map[string]string{v.Source: source})
	switch {
	case w.ctx.Err() != nil:
		return "", w.ctx.Err()
	case errors.Is(err, gpu.ErrLost):
		return "", fmt.Errorf("%s: %w", v, err)
	case err != nil:
		fault = "does not load: " + firstLine(err)
	case len(x.settings) > 0:
		report, err := conform.Judge(w.driver, e, geometryOf(s.fam, x.variant, s.format))
		if err == nil {
			err = w.driver.Sync()
		}
		if err != nil {
			return "", fmt.Errorf("judging %s: %w", v, err)
		}
		if len(report.Failures) > 0 {
			fault = "judged wrong: " + report.Failures[0].String()
		}
	}
	w.faults[v.Symbol] = fault
	return fault, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// spread is the median of times, and the distance between their quartiles.
func spread(times []float64) (median, quartiles float64) {
	t := slices.Sorted(slices.Values(times))
	n := len(t)
	return t[n/2], t[(3*n)/4] - t[n/4]
}

// verdict is what the times say: the fastest contender, and whether it wins over the gate's own choice by more than the noise: the larger
// distance between the quartiles of the two.
func (s *subject) verdict() (best *contender, wins bool, figure string) {
	own := s.contenders[0]
	if len(own.times) == 0 {
		return nil, false, ""
	}
	have, noise := spread(own.times)
	least := have
	best = own
	for _, x := range s.contenders[1:] {
		if len(x.times) == 0 {
			continue
		}
		if median, _ := spread(x.times); median < least {
			best, least = x, median
		}
	}
	_, other := spread(best.times)
	noise = max(noise, other)
	return best, have-least > noise, fmt.Sprintf("%.2f us against %.2f of %s, medians of %d; noise %.2f", least, have, own.variant.Name, len(own.times), noise)
}
