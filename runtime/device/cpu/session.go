package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
	"github.com/minfer/minfer/runtime/op"
)

// session implements device.Session.
type session struct {
	model *model
	vec   *vec.Kernels
	opts  device.SessionOptions
	steps []step
	ahead []*ahead // by step: what the first product after it reads
	cache []layer  // by layer
	len   int

	slots     [][]float32 // by slot of the model; wanted ones grow when all logits are first asked for
	quantized []byte      // the input of the next product, in activation blocks
	panels    panels      // the same for products with tiles
	scratch   []scratch   // by worker
	tileWork  []tileWork  // by worker
	spans     partial     // of the attention under way
	tables    map[*op.Rotary]table
	out       []float32 // logits of all tokens
	rows      [][]float32

	// The step being computed: len tokens lie in the cache before it.
	tokens []int32
	wanted []int // rows of the step whose logits are wanted

	failed atomic.Bool
	mu     sync.Mutex
	fault  *device.NonFiniteError
}

// table holds the sines and cosines of a rotary embedding, [context, dims/2].
type table struct{ sin, cos []float32 }

// step is a task whose number of items depends on the tokens at hand.
type step interface {
	task
	// split gives the number of items for rows of the step's Value, and how many a worker should take at a time.
	split(rows int) (items, grain int)
	// rowSet is the row set of what the step writes.
	rowSet() op.Rows
}

// NewSession implements device.Model. It refuses what does not fit in the memory that the system has available.
func (m *model) NewSession(o device.SessionOptions) (device.Session, error) {
	if m.pool == nil {
		return nil, errors.New("model is closed")
	}
	o, err := device.CheckSession(m.graph, o, DefaultBatch)
	if err != nil {
		return nil, err
	}
	if err := m.checkMemory(o); err != nil {
		return nil, err
	}
	s := &session{model: m, vec: m.vec, opts: o, tables: map[*op.Rotary]table{}}
	s.slots = make([][]float32, len(m.slots))
	for i, slot := range m.slots {
		rows := o.Batch
		if slot.Rows == op.PerWanted {
			rows = 1
		}
		s.slots[i] = make([]float32, rows*slot.Width)
	}
	s.cache = make([]layer, len(m.graph.KV))
	s.panels.sizes = m.panelSizes()
	s.tileWork = newTileWork(m.pool.threads())
	s.scratch = make([]scratch, m.pool.threads())
	s.wanted = make([]int, 0, o.Batch)
	s.rows = make([][]float32, 0, 1)
	s.compile()
	s.lookAhead()
	return s, nil
}

// smallSession is the size in bytes below which the memory available is not looked at: the figure changes by the moment
// as other programs come and go, and the system finds this much.
const smallSession = 64 << 20

// checkMemory holds the size of a session against the memory that is available.
func (m *model) checkMemory(o device.SessionOptions) error {
	kv, _ := format.Lookup(o.KVType)
	var row, elems uint64 // for each token of a batch, of the cache
	for _, slot := range m.slots {
		if slot.Rows == op.PerToken {
			row += uint64(slot.Width)
		}
	}
	for _, o := range m.graph.Ops {
		if a, ok := o.(op.Attend); ok {
			row += uint64(a.KVHeads) // of the spans that are shared out
			elems += uint64(a.KVHeads) * uint64(padded(a.KeyDim)+padded(a.ValueDim))
		}
	}
	elems = max(elems, uint64(m.graph.KVElems()))
	cache, ok := product(elems/uint64(kv.BlockElems), uint64(o.Context), uint64(kv.BlockBytes))
	buffers, ok2 := product(row, uint64(o.Batch), 4)
	need := cache + buffers
	if !ok || !ok2 || need < cache || need > math.MaxInt {
		return fmt.Errorf("a cache of %d tokens with %d numbers each is larger than any memory; ask for a smaller context", o.Context, m.graph.KVElems())
	}
	if need <= smallSession {
		return nil
	}
	if have, known := availableBytes(); known && need > have {
		return fmt.Errorf("a context of %d tokens needs %s for the cache and %s for a batch of %d, but %s of memory is available; ask for a smaller context (%s a token) or batch",
			o.Context, size(cache), size(buffers), o.Batch, size(have), size(cache/uint64(o.Context)))
	}
	return nil
}

func product(factors ...uint64) (uint64, bool) {
	p := uint64(1)
	for _, f := range factors {
		hi, lo := bits.Mul64(p, f)
		if hi != 0 {
			return 0, false
		}
		p = lo
	}
	return p, true
}

// size prints a number of bytes for a person.
func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", math.Ceil(float64(n)/(1<<10)))
}

// compile turns the operations into steps over the session's buffers. Products that follow each other and read the same
// Value become one step, and their input is rounded to 8 bits once.
func (s *session) compile() {
	g := s.model.graph
	quantized := op.Value(-1) // what s.quantized holds
	for _, o := range g.Ops {
		if mm, ok := o.(op.MatMul); ok {
			quantized = s.compileMatMul(mm, quantized)
			continue
		}
		var st step
		switch o := o.(type) {
		case op.Embed:
			st = &embedStep{base: s.base(o.Out), table: s.model.matrices[o.Table]}
		case op.RMSNorm:
			st = &normStep{quantizing: quantizing{base: s.base(o.Out)}, in: o.In, weight: s.model.vectors[o.Weight], eps: float64(o.Eps)}
		case op.RoPE:
			t, ok := s.tables[o.Rotary]
			if !ok {
				t.sin, t.cos = o.Rotary.Table(s.opts.Context)
				s.tables[o.Rotary] = t
			}
			st = &ropeStep{base: s.base(o.Out), in: o.In, headDim: o.HeadDim, rotary: o.Rotary, table: t}
		case op.KVAppend:
			st = &appendStep{base: s.base(o.K), k: o.K, v: o.V, layer: &s.cache[o.Layer]}
		case op.Attend:
			s.cache[o.Layer] = newLayer(o, s.opts)
			a := newAttendStep(s, o)
			s.steps = append(s.steps, a)
			st = mergeStep{a}
		case op.SiLUMul:
			st = &siluStep{quantizing: quantizing{base: s.base(o.Out)}, gate: o.Gate, up: o.Up}
		case op.Add:
			st = &addStep{base: s.base(o.Out), a: o.A, b: o.B}
		case op.Select:
			st = &selectStep{base: s.base(o.Out), in: o.In}
		default:
			panic("BUG: an operation that Load let pass: " + op.Name(o))
		}
		s.steps = append(s.steps, st)
	}
}

// lookAhead finds the first product after each step; after the last, that of the next token.
func (s *session) lookAhead() {
	s.ahead = make([]*ahead, len(s.steps))
	var next *ahead
	for range 2 { // the second time what follows the last step is known
		for i, st := range slices.Backward(s.steps) {
			s.ahead[i] = next
			if p, ok := st.(*matmulStep); ok {
				next = p.prime()
			}
		}
	}
}

func (s *session) compileMatMul(o op.MatMul, quantized op.Value) op.Value {
	k := s.model.matrices[o.Weight]
	part := matPart{base: s.base(o.Out), matrix: k}
	if o.Bias != nil {
		part.bias = s.model.vectors[o.Bias]
	}
	if last, ok := s.steps[len(s.steps)-1].(*matmulStep); ok && last.in == o.In && (last.parts[0].matrix.dotQ8 != nil) == (k.dotQ8 != nil) {
		last.add(part)
		return quantized
	}
	in := s.model.graph.Values[o.In]
	if k.dotQ8 != nil && quantized != o.In {
		rows := s.opts.Batch
		if in.Rows == op.PerWanted {
			rows = 1 // grows with the wanted slots
		}
		s.growQuantized(rows, in.Width)
		s.quantize(o.In)
		quantized = o.In
	}
	if k.dotQ8 == nil && k.Type != format.F32 {
		for i := range s.scratch {
			s.scratch[i].growUnpacked(unpackedRows * in.Width)
		}
	}
	st := &matmulStep{s: s, in: o.In, inWidth: in.Width}
	st.add(part)
	s.steps = append(s.steps, st)
	return quantized
}

// quantize has a Value rounded to activation blocks: by the last step, if it computes the Value and knows how, or by one
// of its own.
func (s *session) quantize(v op.Value) {
	var q *quantizing
	if last, ok := s.steps[len(s.steps)-1].(interface{ quantizes() *quantizing }); ok && last.quantizes().out == v {
		q = last.quantizes()
		q.passing = v != s.model.graph.Logits
	} else {
		st := &quantizeStep{quantizing{base: s.base(v)}}
		s.steps = append(s.steps, st)
		q = &st.quantizing
	}
	q.quantized, q.panelled = true, true
	for _, o := range s.model.graph.Ops {
		if !slices.Contains(o.Reads(), v) {
			continue
		}
		mm, ok := o.(op.MatMul)
		if k := s.model.matrices[mm.Weight]; !ok || k.dotQ8 == nil {
			q.passing = false
		} else if k.tiles == nil {
			q.panelled = false
		}
	}
	for i := range s.scratch {
		s.scratch[i].passing = grown(s.scratch[i].passing, q.width)
		s.scratch[i].blocks = grown(s.scratch[i].blocks, quantizedBytes(q.width))
	}
}

func (s *session) growQuantized(rows, width int) {
	if n := rows * quantizedBytes(width); len(s.quantized) < n {
		s.quantized = make([]byte, n)
	}
	s.panels.grow(rows, width)
}

// growWanted makes room for the logits of rows tokens at a time.
func (s *session) growWanted(rows int) {
	for i, slot := range s.model.slots {
		if slot.Rows == op.PerWanted && len(s.slots[i]) < rows*slot.Width {
			s.slots[i] = make([]float32, rows*slot.Width)
		}
	}
	for _, st := range s.steps {
		if q, ok := st.(interface{ quantizes() *quantizing }); ok && q.quantizes().quantized {
			s.growQuantized(rows, q.quantizes().width)
		}
	}
}

// rowCount is the number of rows of a row set in the step at hand.
func (s *session) rowCount(r op.Rows) int {
	if r == op.PerWanted {
		return len(s.wanted)
	}
	return len(s.tokens)
}

// row is row r of a Value.
func (s *session) row(v op.Value, r int) []float32 {
	w := s.model.graph.Values[v].Width
	return s.slots[s.model.slotOf[v]][r*w:][:w:w]
}

// Forward implements device.Session.
func (s *session) Forward(ctx context.Context, tokens []int32, want device.Want) ([][]float32, error) {
	if s.cache == nil {
		return nil, errors.New("session is closed")
	}
	if err := device.CheckForward(s.model.graph, tokens, s.len, s.opts.Context); err != nil {
		return nil, err
	}
	s.model.pool.enter()
	defer s.model.pool.leave()
	before, vocab := s.len, s.model.graph.Vocab
	s.rows = s.rows[:0]
	if want == device.LogitsAll {
		s.growWanted(min(len(tokens), s.opts.Batch))
		if len(s.out) < len(tokens)*vocab {
			s.out = make([]float32, len(tokens)*vocab)
		}
	}
	for lo := 0; lo < len(tokens); lo += s.opts.Batch {
		hi := min(lo+s.opts.Batch, len(tokens))
		s.tokens, s.wanted = tokens[lo:hi], s.wanted[:0]
		for i := range s.tokens {
			if want == device.LogitsAll || want == device.LogitsLast && lo+i == len(tokens)-1 {
				s.wanted = append(s.wanted, i)
			}
		}
		if err := s.compute(ctx); err != nil {
			s.len = before
			return nil, err
		}
		s.len += len(s.tokens)
		for i := range s.wanted {
			logits := s.row(s.model.graph.Logits, i)
			if want == device.LogitsAll {
				kept := s.out[(lo+i)*vocab:][:vocab:vocab]
				copy(kept, logits)
				logits = kept
			}
			s.rows = append(s.rows, logits)
		}
	}
	s.tokens = nil
	return s.rows, nil
}

// compute runs the steps for s.tokens, which lie at the positions from s.len on.
func (s *session) compute(ctx context.Context) error {
	s.model.pool.ahead.Store(nil)
	for i, st := range s.steps {
		if len(s.tokens) == 1 { // of more, products are no matter of memory
			s.model.pool.ahead.Store(s.ahead[i])
		}
		rows := s.rowCount(st.rowSet())
		items, grain := st.split(rows)
		if err := s.model.pool.run(ctx, st, items, grain); err != nil {
			return err
		}
		if s.failed.Load() {
			s.failed.Store(false)
			err := s.fault
			s.fault = nil
			return err
		}
	}
	return nil
}

// fail reports a number that is not finite in a row of a Value. Of several reports of one step the one of the first
// element stays, so that the message is the same on every run.
func (s *session) fail(v op.Value, row, elem int, reason string) {
	info := s.model.graph.Values[v]
	if info.Rows == op.PerWanted {
		row = s.wanted[row]
	}
	e := &device.NonFiniteError{Value: info.Name, Position: s.len + row, Elem: elem, Reason: reason}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.fault; f == nil || e.Position < f.Position || e.Position == f.Position && (e.Value < f.Value || e.Value == f.Value && e.Elem < f.Elem) {
		s.fault = e
	}
	s.failed.Store(true)
}

// check reports the first number of a row that is not finite.
func (s *session) check(v op.Value, row int, x []float32, first int) {
	if !s.vec.Finite(x) {
		s.blame(v, row, x, first)
	}
}

// blame reports the first of the numbers x that is not finite, in a row that holds one. first is the element that x
// begins with.
func (s *session) blame(v op.Value, row int, x []float32, first int) {
	for i, f := range x {
		if f-f != 0 {
			s.fail(v, row, first+i, "")
			return
		}
	}
}

// Len implements device.Session.
func (s *session) Len() int { return s.len }

// Context implements device.Session.
func (s *session) Context() int { return s.opts.Context }

// Truncate implements device.Session.
func (s *session) Truncate(n int) error {
	if n < 0 || n > s.len {
		return fmt.Errorf("cannot keep %d tokens of %d", n, s.len)
	}
	s.len = n
	return nil
}

// Close implements device.Session.
func (s *session) Close() error {
	if s.cache == nil {
		return errors.New("session closed twice")
	}
	*s = session{model: s.model}
	return nil
}
