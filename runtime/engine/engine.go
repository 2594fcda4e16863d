// Package engine opens a model and generates text with it: what a program imports to run GGUF models.
//
//	m, err := engine.Open(ctx, "model.gguf", engine.Options{})
//	g, err := m.Generate(ctx, engine.Request{Prompt: "What is the capital of France?"})
//	for piece, err := range g.Pieces {
//		fmt.Print(piece.Text)
//	}
//	fmt.Println(g.Result().Reason)
//
// The policies, in one place:
//   - A prompt goes through the model's chat template unless Raw is set; a raw prompt begins with the start token where
//     the model declares one, and never ends with an end token, since the text is to go on.
//   - A prompt longer than the context is refused with both numbers. Generation that fills the context stops with
//     reason "length"; nothing is shifted out.
//   - The same request gives the same text on every run, for any number of threads and whatever ran before: a seed is
//     drawn only where none is given, and is reported.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/device"
	_ "github.com/minfer/minfer/runtime/device/cpu" // always there
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/token"
)

// DefaultContext is the most tokens that a context gets where Options.Context is 0. A model trained for more would
// take memory for its cache that few uses need.
const DefaultContext = 4096

// Options are the choices made when a model is opened. The zero value is a good one.
type Options struct {
	Device       string           // device.Open's name; empty: "cpu"
	Context      int              // tokens of prompt and answer together; 0: what the model was trained for, at most DefaultContext
	Threads      int              // 0: one for each CPU
	Pin          bool             // each thread keeps to one CPU: for machines that do nothing else
	Batch        int              // prompt tokens computed at a time; 0: the device's choice
	KVType       string           // a name of device.KVTypes; the empty string is "f16"
	Precision    device.Precision // one of device.Precisions; the empty string is device.Q8
	ChatTemplate chat.Choice      // instead of the template in the file
	// Progress, if not nil, is called while the weights are made ready, with bytes.
	Progress func(doneBytes, totalBytes int64)
}

// Model is an open model. Its methods may be called from several goroutines; each generation has a cache of its own.
type Model struct {
	file      *gguf.File
	ownsFile  bool
	graph     *op.Graph
	tokenizer *token.Tokenizer
	device    device.Device
	model     device.Model
	session   device.SessionOptions
	choice    chat.Choice
	load      time.Duration

	mu       sync.Mutex
	template *chat.Template // nil until it is asked for
	idle     *cached        // a cache that nothing uses, kept for the next generation
}

// cached is a session with the tokens that its cache holds.
type cached struct {
	session device.Session
	tokens  []int32
}

// Open opens a model file; any part of a split model opens all of it.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := OpenFile(ctx, f, o)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m.ownsFile = true
	return m, nil
}

// OpenFile opens a model that is parsed already, such as an embedded one (see gguf.Parse). The file stays the caller's,
// to be closed after the Model.
func OpenFile(ctx context.Context, f *gguf.File, o Options) (*Model, error) {
	start := time.Now()
	m := &Model{file: f, choice: o.ChatTemplate}
	var err error
	if m.session.KVType, err = device.ParseKVType(o.KVType); err != nil {
		return nil, err
	}
	name := o.Device
	if name == "" {
		name = "cpu"
	}
	if m.device, err = device.Open(name); err != nil {
		return nil, err
	}
	if m.graph, err = arch.Build(f); err != nil {
		return nil, err
	}
	m.session.Context, m.session.Batch = o.Context, o.Batch
	if o.Context == 0 {
		m.session.Context = min(m.graph.Context, DefaultContext)
	}
	if m.session, err = device.CheckSession(m.graph, m.session, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	m.session.Batch = o.Batch
	// A vocabulary of 150000 takes a while to read in: as long as the weights of a small model.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused error
	read := make(chan struct{})
	go func() {
		defer close(read)
		if m.tokenizer, refused = token.New(f.Meta); refused != nil {
			cancel()
		}
	}()
	m.model, err = m.device.Load(ctx, m.graph, device.LoadOptions{Precision: o.Precision, Threads: o.Threads, Pin: o.Pin, Progress: o.Progress})
	<-read
	switch {
	case refused != nil && err == nil:
		return nil, errors.Join(refused, m.model.Close())
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	m.load = time.Since(start)
	return m, nil
}

// Close frees the model. No generation may be under way.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if m.idle != nil {
		errs = append(errs, m.idle.session.Close())
		m.idle = nil
	}
	errs = append(errs, m.model.Close())
	if m.ownsFile {
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}

// Graph is what the model computes.
func (m *Model) Graph() *op.Graph { return m.graph }

// Tokenizer is the model's.
func (m *Model) Tokenizer() *token.Tokenizer { return m.tokenizer }

// File is the file that the model came from.
func (m *Model) File() *gguf.File { return m.file }

// DeviceName is the name of the device that runs the model.
func (m *Model) DeviceName() string { return m.device.Name() }

// Context is the number of tokens that prompt and answer together may have.
func (m *Model) Context() int { return m.session.Context }

// KVType is the name of the cache's type.
func (m *Model) KVType() string {
	info, _ := format.Lookup(m.session.KVType)
	return info.Name
}

// Routes lists which kernel each matrix goes to.
func (m *Model) Routes() []device.Route { return m.model.Routes() }

// LoadTime is how long opening took.
func (m *Model) LoadTime() time.Duration { return m.load }

// Warnings are what a user should know about the file, a sentence each.
func (m *Model) Warnings() []string {
	return append(append([]string(nil), m.graph.Notes...), m.tokenizer.Warnings()...)
}

// NewSession is a cache of the model's own, for programs that feed tokens themselves.
func (m *Model) NewSession() (device.Session, error) { return m.model.NewSession(m.session) }

// take gives a cache that holds as many of the first tokens of a prompt as can be, but never all: the logits of the
// last one are needed.
func (m *Model) take(prompt []int32) (*cached, error) {
	m.mu.Lock()
	c := m.idle
	m.idle = nil
	m.mu.Unlock()
	if c == nil {
		s, err := m.NewSession()
		if err != nil {
			return nil, err
		}
		return &cached{session: s}, nil
	}
	n := 0
	for n < len(c.tokens) && n < len(prompt)-1 && c.tokens[n] == prompt[n] {
		n++
	}
	if err := c.session.Truncate(n); err != nil {
		return nil, errors.Join(err, c.session.Close())
	}
	c.tokens = c.tokens[:n]
	return c, nil
}

// give returns a cache. One is kept.
func (m *Model) give(c *cached) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle == nil {
		m.idle = c
		return nil
	}
	return c.session.Close()
}
