package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/chat/jinja"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/sample"
	"github.com/minfer/minfer/runtime/token"
)

// Reason is why a generation ended.
type Reason string

// The reasons.
const (
	ReasonEnd    Reason = "end"    // the model chose an end token
	ReasonStop   Reason = "stop"   // a stop string came
	ReasonLength Reason = "length" // MaxTokens were generated, or the context is full
	ReasonCancel Reason = "cancel" // the caller stopped reading, or its context ended
	ReasonError  Reason = "error"  // an error was yielded
)

// Request asks for text. Exactly one of Prompt, Messages and Tokens is given; a Prompt may be empty where the model has
// a start token.
type Request struct {
	Prompt   string         // the user's message; with Raw the text to go on with
	Raw      bool           // Prompt goes to the model as it is, special tokens parsed
	System   string         // the system message before Prompt, without Raw
	Messages []chat.Message // a conversation for the chat template
	Tokens   []int32        // the prompt as ids, taken as they are

	Tools     any          // tool descriptions for the template, see chat.Options
	Variables jinja.Object // further variables of the template, such as enable_thinking

	Params    *sample.Params // nil: sample.Defaults
	MaxTokens int            // 0: until the model ends or the context is full
	Stop      []string       // texts that end the answer and are not part of it
	IgnoreEnd bool           // end tokens are never drawn (--ignore-eos)
	// ShowSpecial writes control tokens by their text instead of leaving them out.
	ShowSpecial bool
}

// Piece is what one token adds to the answer. Text holds whole characters; it is empty while a character or what may
// become a stop string is incomplete, and comes with a later piece then.
type Piece struct {
	Text  string
	Token int32 // -1 for text that is held back until the end
}

// Result says how a generation went.
type Result struct {
	Reason      Reason
	ContextFull bool // with ReasonLength: it was the context, not MaxTokens
	Prompt      int  // tokens
	Cached      int  // tokens of the prompt that an earlier generation left in the cache
	Generated   int  // tokens, the end token not counted
	Seed        int64
	// PromptTime is the time to compute the prompt and the first logits, GenerateTime that of all that followed; what
	// the consumer did between pieces is in neither.
	PromptTime, GenerateTime time.Duration

	// Top is how many of the largest logits the device gave for each token; 0: all logits were copied from it, or it is this machine. WhyAll
	// says why all were, on a device that finds the largest.
	Top    int
	WhyAll string

	steps int // computed after the prompt
}

// PromptRate is the prompt tokens computed per second; 0 if none were.
func (r Result) PromptRate() float64 { return rate(r.Prompt-r.Cached, r.PromptTime) }

// GenerateRate is the tokens computed per second after the prompt, which brings the first one along.
func (r Result) GenerateRate() float64 { return rate(r.steps, r.GenerateTime) }

func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Generation is a request under way. It serves one goroutine.
type Generation struct {
	model    *Model
	ctx      context.Context
	request  Request
	prompt   []int32
	warnings []string
	sampler  *sample.Sampler
	result   Result
	started  bool

	ids    []int32 // of logits, where they are the largest alone
	logits []float32
	next   [1]int32
}

// Generate checks a request and encodes its prompt. Nothing is computed before Pieces is read.
func (m *Model) Generate(ctx context.Context, r Request) (*Generation, error) {
	g := &Generation{model: m, ctx: ctx, request: r}
	var err error
	if g.prompt, g.warnings, err = m.Encode(ctx, r); err != nil {
		return nil, err
	}
	if len(g.prompt) > m.Context() {
		return nil, fmt.Errorf("the prompt has %d tokens, the context holds %d: %w", len(g.prompt), m.Context(),
			&device.ContextError{Tokens: len(g.prompt), Context: m.Context()})
	}
	if r.MaxTokens < 0 {
		return nil, fmt.Errorf("%d tokens to generate; 0 is no limit", r.MaxTokens)
	}
	for _, stop := range r.Stop {
		if stop == "" || !utf8.ValidString(stop) {
			return nil, fmt.Errorf("stop string %q is empty or not UTF-8", stop)
		}
	}
	params := sample.Defaults()
	if r.Params != nil {
		params = *r.Params
	}
	if r.IgnoreEnd {
		params.Forbidden = append(slices.Clone(params.Forbidden), m.tokenizer.Ends()...)
	}
	if g.sampler, err = sample.New(params); err != nil {
		return nil, err
	}
	g.result = Result{Prompt: len(g.prompt), Seed: g.sampler.Seed()}
	return g, nil
}

// Prompt is the encoded prompt.
func (g *Generation) Prompt() []int32 { return g.prompt }

// Warnings are what a user should know about the prompt, a sentence each.
func (g *Generation) Warnings() []string { return g.warnings }

// Result is complete when Pieces has returned.
func (g *Generation) Result() Result { return g.result }

// Pieces generates: it is an iter.Seq2 to range over once. Every generated token but an end token is one Piece; the
// end of the text may be one more, with Token -1. An error is yielded once, at the end, and is the context's where that
// ended.
func (g *Generation) Pieces(yield func(Piece, error) bool) {
	if g.started {
		yield(Piece{Token: -1}, errors.New("a generation can be read once; make another"))
		return
	}
	g.started = true
	reading := true
	send := func(p Piece) bool {
		reading = yield(p, nil)
		return reading
	}
	cache, err := g.model.take(g.prompt)
	if err == nil {
		g.result.Cached = len(cache.tokens)
		err = g.run(cache, send)
		err = errors.Join(err, g.model.give(cache))
	}
	if err == nil {
		return
	}
	g.result.Reason = ReasonError
	if g.ctx.Err() != nil {
		g.result.Reason = ReasonCancel
	}
	if reading {
		yield(Piece{Token: -1}, err)
	}
}

// run is the loop over tokens. send reports false when the consumer has stopped reading.
func (g *Generation) run(c *cached, send func(Piece) bool) error {
	m, r := g.model, &g.result
	for _, id := range g.prompt {
		g.sampler.Accept(id)
	}
	decoder := m.tokenizer.NewDecoder(token.DecodeOptions{ShowSpecial: g.request.ShowSpecial, Continuation: true})
	stop := stopper{stops: g.request.Stop}
	next, spent := g.prompt[len(c.tokens):], &r.PromptTime
	r.Top, r.WhyAll = Top(c.session, g.sampler)
	for {
		start := time.Now()
		err := g.forward(c.session, next)
		*spent += time.Since(start)
		if err != nil {
			return err
		}
		if spent == &r.GenerateTime {
			r.steps++
		}
		c.tokens = append(c.tokens, next...)
		start, spent = time.Now(), &r.GenerateTime
		id, err := g.choose()
		if err != nil {
			return err
		}
		r.Reason = ReasonEnd
		if !m.tokenizer.IsEnd(id) {
			g.sampler.Accept(id)
			r.Generated++
			text, stopped := stop.next(decoder.Next(id))
			*spent += time.Since(start)
			if stopped {
				r.Reason = ReasonStop
				send(Piece{text, id})
				return nil
			}
			if !send(Piece{text, id}) {
				r.Reason = ReasonCancel
				return nil
			}
			full := c.session.Len() == c.session.Context()
			if r.Generated != g.request.MaxTokens && !full {
				g.next[0] = id
				next = g.next[:]
				continue
			}
			r.Reason, r.ContextFull = ReasonLength, full && r.Generated != g.request.MaxTokens
		}
		text, stopped := stop.next(decoder.Flush())
		if stopped {
			r.Reason, r.ContextFull = ReasonStop, false
		} else {
			text += stop.held
		}
		if text != "" {
			send(Piece{text, -1})
		}
		return nil
	}
}

// Top is how many of the largest logits a generation asks a session for, and has copied, for each token; 0: for all. whyAll says why, where the
// session finds the largest.
func Top(s device.Session, by *sample.Sampler) (k int, whyAll string) {
	t, ok := s.(device.Topper)
	if !ok {
		return 0, ""
	}
	if k, whyAll = by.Top(); k > 0 && !t.Tops(k) {
		return 0, fmt.Sprintf("the device does not find the %d largest", k)
	}
	return k, whyAll
}

// forward computes tokens and takes their last logits: the largest alone, where the device finds them and they decide.
func (g *Generation) forward(s device.Session, tokens []int32) (err error) {
	if g.result.Top > 0 {
		g.ids, g.logits, err = s.(device.Topper).ForwardTop(g.ctx, tokens, g.result.Top)
		return err
	}
	rows, err := s.Forward(g.ctx, tokens, device.LogitsLast)
	if err == nil {
		g.logits = rows[0]
	}
	return err
}

// choose draws the next token from them.
func (g *Generation) choose() (int32, error) {
	if g.result.Top > 0 {
		return g.sampler.SampleTop(g.ids, g.logits, g.model.graph.Vocab)
	}
	return g.sampler.Sample(g.logits)
}

// Greedy feeds a prompt and then n-1 times the token of the largest logit, the lowest id among equals, past end tokens
// too: the run that golden files hold. visit gets the logits of each of the n steps, valid during the call, and the
// token chosen from them.
func (m *Model) Greedy(ctx context.Context, prompt []int32, n int, visit func(step int, logits []float32, id int32) error) error {
	if len(prompt)+n-1 > m.Context() {
		return fmt.Errorf("%d tokens of prompt and %d steps: %w", len(prompt), n, &device.ContextError{Tokens: len(prompt) + n - 1, Context: m.Context()})
	}
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	next := prompt
	for step := range n {
		rows, err := s.Forward(ctx, next, device.LogitsLast)
		if err != nil {
			return err
		}
		best := 0
		for i, l := range rows[0] {
			if l > rows[0][best] {
				best = i
			}
		}
		if err := visit(step, rows[0], int32(best)); err != nil {
			return err
		}
		next = []int32{int32(best)}
	}
	return nil
}
