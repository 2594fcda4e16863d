// Package bench measures how many tokens a second a model computes, of a prompt and after it.
//
// What is timed is what a run with the default sampler has a session do, alone: tokenizing, sampling and loading are not. Prompt
// tokens are drawn from the vocabulary at random, from a seed; their logits are computed for the last one, as a run needs
// them. The tokens of a generation are fed one at a time, each after the logits of the one before have come: all of them,
// or where the device finds the largest, those that the sampler draws from (Session.Forward, Topper.ForwardTop). At a depth,
// the cache first gets that many tokens, untimed.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/sample"
)

// Case is what to measure. Of Prompt and Generate at least one is positive.
type Case struct {
	Prompt   int // tokens of a prompt, 0: none is measured
	Generate int // tokens fed one at a time, 0: none are
	Depth    int // tokens that are in the cache before
}

// Context is the number of tokens that the model's context must hold.
func (c Case) Context() int { return c.Depth + max(c.Prompt, c.Generate) }

// Options say how to measure.
type Options struct {
	Repetitions int    // samples of each rate; 0: 5
	NoWarmup    bool   // do not run a case once before it counts
	Seed        uint64 // of the tokens
	// Progress, if not nil, hears of each sample that is about to be taken.
	Progress func(text string)
}

// Rate is a speed in tokens a second: its samples in the order they were taken.
type Rate struct {
	Tokens  int       // of each sample
	Samples []float64 // tokens/s
}

// Median is the middle sample, or the mean of the middle two; NaN of none.
func (r *Rate) Median() float64 {
	s := slices.Sorted(slices.Values(r.Samples))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Mean is the mean of the samples.
func (r *Rate) Mean() float64 {
	sum := 0.0
	for _, x := range r.Samples {
		sum += x
	}
	return sum / float64(len(r.Samples))
}

// StdDev is the standard deviation of the samples, as an estimate from them; 0 of one.
func (r *Rate) StdDev() float64 {
	if len(r.Samples) < 2 {
		return 0
	}
	mean, sum := r.Mean(), 0.0
	for _, x := range r.Samples {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(r.Samples)-1))
}

// Result is what a Case came to. A rate that was not measured is nil.
type Result struct {
	Case
	Top    int   // logits that came back for each token, the largest; 0: all
	PP, TG *Rate // of the prompt, of the generation
}

// Run measures a case on a model whose context holds it.
func Run(ctx context.Context, m *engine.Model, c Case, o Options) (Result, error) {
	switch {
	case c.Prompt < 0 || c.Generate < 0 || c.Depth < 0 || c.Prompt == 0 && c.Generate == 0:
		return Result{}, fmt.Errorf("nothing to measure: %d prompt tokens and %d generated at depth %d", c.Prompt, c.Generate, c.Depth)
	case c.Context() > m.Context():
		return Result{}, fmt.Errorf("%d tokens at depth %d: %w", max(c.Prompt, c.Generate), c.Depth, &device.ContextError{Tokens: c.Context(), Context: m.Context()})
	case o.Repetitions < 0:
		return Result{}, fmt.Errorf("%d repetitions", o.Repetitions)
	}
	if o.Repetitions == 0 {
		o.Repetitions = 5
	}
	s, err := m.NewSession()
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	sampler, err := sample.New(sample.Defaults())
	if err != nil {
		return Result{}, err
	}
	top, _ := engine.Top(s, sampler)
	r := &run{ctx: ctx, top: top, session: s, vocab: m.Graph().Vocab, random: rand.New(rand.NewPCG(o.Seed, 0)), o: o, depth: c.Depth}
	if c.Depth > 0 {
		r.say("filling the cache to depth %d", c.Depth)
		if _, err := s.Forward(ctx, r.tokens(c.Depth), device.LogitsNone); err != nil {
			return Result{}, err
		}
	}
	result := Result{Case: c, Top: top}
	if c.Prompt > 0 {
		if result.PP, err = r.measure("pp", c.Prompt, r.forward); err != nil {
			return Result{}, err
		}
	}
	if c.Generate > 0 {
		if result.TG, err = r.measure("tg", c.Generate, r.generate); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// run is a measurement under way.
type run struct {
	ctx     context.Context
	session device.Session
	top     int // of engine.Top
	vocab   int
	random  *rand.Rand
	o       Options
	depth   int
}

func (r *run) say(format string, args ...any) {
	if r.o.Progress != nil {
		r.o.Progress(fmt.Sprintf(format, args...))
	}
}

func (r *run) tokens(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.random.Int32N(int32(r.vocab))
	}
	return ids
}

// measure samples a rate, each time from the same depth.
func (r *run) measure(name string, n int, f func(tokens []int32) error) (*Rate, error) {
	rate := &Rate{Tokens: n}
	first := 0
	if !r.o.NoWarmup {
		first = -1
	}
	for i := first; i < r.o.Repetitions; i++ {
		if i < 0 {
			r.say("%s%d warm-up", name, n)
		} else {
			r.say("%s%d sample %d of %d", name, n, i+1, r.o.Repetitions)
		}
		tokens := r.tokens(n)
		start := time.Now()
		if err := f(tokens); err != nil {
			return nil, err
		}
		took := time.Since(start)
		if err := r.session.Truncate(r.depth); err != nil {
			return nil, err
		}
		if i >= 0 {
			rate.Samples = append(rate.Samples, float64(n)/max(took, 1).Seconds())
		}
	}
	return rate, nil
}

func (r *run) forward(tokens []int32) (err error) {
	if r.top > 0 {
		_, _, err = r.session.(device.Topper).ForwardTop(r.ctx, tokens, r.top)
	} else {
		_, err = r.session.Forward(r.ctx, tokens, device.LogitsLast)
	}
	return err
}

func (r *run) generate(tokens []int32) error {
	for i := range tokens {
		if err := r.forward(tokens[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}
