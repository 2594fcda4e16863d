package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
)

// session implements device.Session.
type session struct {
	model *model
	plan  *plan.Plan
	opts  device.SessionOptions
	len   int

	closed bool

	layout       []op.Slot // of the plan
	slotOf       []int     // by Value
	slots        []Pointer // by slot of the layout
	codes        []Pointer // by slot: 8-bit activations of its Value
	halves       []Pointer // by slot: its Value in bf16
	keys, values []Pointer // by layer
	sines        []Pointer // by Plan.Rotaries
	cosines      []Pointer
	inputs       Pointer // the ids of a step's tokens, their positions, and the rows whose logits are wanted, one after the other
	given        []byte  // the host's inputs: shared memory, where the driver has some
	partial      Pointer
	arrivals     Pointer
	best         [2]Pointer // plan.Best
	bestBytes    int64      // of each
	found        Pointer    // plan.Found
	foundRaw     []byte     // the host's view of it, or a copy
	top          *top       // that was asked for last
	wantedRows   int        // rows that per-wanted slots hold
	owned        []Pointer

	steps  map[shape][]Launch
	names  map[shape][]string // of the launches' Values
	graphs map[shape]Graph    // the same launches recorded, of steps that came more than once
	out    []float32
	outIDs []int32 // of the logits in out, where they are the largest
	raw    []byte  // logits on their way to out: shared memory, where the driver has some
	rawAt  Pointer // of raw, if it is shared
	rows   [][]float32
}

// shape is what the launches of a step depend on.
type shape struct{ tokens, wanted, top int } // top: how many of the largest logits are found; 0: none

// top is the launches that find the k largest logits, and the memory that each of their buffers needs.
type top struct {
	k        int
	launches []plan.Launch
	bytes    int64
}

// topOf is the top for k, or why there is none.
func (s *session) topOf(k int) (*top, error) {
	if s.top != nil && s.top.k == k {
		return s.top, nil
	}
	launches, bytes, err := s.plan.Top(k)
	if err != nil {
		return nil, err
	}
	s.top = &top{k, launches, bytes}
	return s.top, nil
}

// NewSession implements device.Model.
func (m *model) NewSession(o device.SessionOptions) (_ device.Session, err error) {
	o, err = device.CheckSession(m.graph, o, DefaultBatch)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	p, err := m.plan(o.KVType)
	if err != nil {
		return nil, err
	}
	s := &session{model: m, plan: p, opts: o, steps: map[shape][]Launch{}, names: map[shape][]string{}, graphs: map[shape]Graph{}}
	defer func() {
		if err != nil {
			s.free()
		}
	}()
	info, _ := format.Lookup(o.KVType)
	cache := func(width int) Pointer {
		n := int64(o.Context) * int64(width) / int64(info.BlockElems) * int64(info.BlockBytes)
		return s.alloc(&err, (n+3)/4*4) // kernels load whole words
	}
	for _, kv := range m.graph.KV {
		s.keys, s.values = append(s.keys, cache(kv.KeyWidth)), append(s.values, cache(kv.ValueWidth))
	}
	for _, r := range p.Rotaries {
		sines, cosines := r.Table(o.Context)
		s.sines = append(s.sines, s.uploaded(&err, floatBytes(sines)))
		s.cosines = append(s.cosines, s.uploaded(&err, floatBytes(cosines)))
	}
	s.inputs = s.alloc(&err, int64(inputBytes(o.Batch, o.Batch)))
	s.given, _ = s.share(&err, inputBytes(o.Batch, o.Batch))
	s.partial = s.alloc(&err, p.PartialBytes())
	s.arrivals = s.uploaded(&err, make([]byte, p.ArrivalBytes()))
	s.layout, s.slotOf = p.Slots()
	s.slots, s.codes, s.halves = make([]Pointer, len(s.layout)), make([]Pointer, len(s.layout)), make([]Pointer, len(s.layout))
	for i, slot := range s.layout {
		if slot.Rows == op.PerToken {
			s.slot(&err, i, o.Batch)
		}
	}
	s.want(&err, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: a context of %d tokens and a batch of %d: %w", m.device.name, o.Context, o.Batch, err)
	}
	return s, nil
}

// alloc allocates until the first error; nothing, where a graph has no use for it.
func (s *session) alloc(err *error, bytes int64) Pointer {
	if *err != nil || bytes == 0 {
		return 0
	}
	var p Pointer
	if p, *err = s.model.driver.Alloc(bytes); *err == nil {
		s.owned = append(s.owned, p)
	}
	return p
}

// share is memory of the host, which kernels reach at the pointer; where the driver shares none they do not, and that is 0.
func (s *session) share(err *error, bytes int) ([]byte, Pointer) {
	if s.model.sharer == nil {
		return make([]byte, bytes), 0
	}
	if *err != nil {
		return nil, 0
	}
	var m Shared
	if m, *err = s.model.sharer.Share(bytes); *err != nil {
		return nil, 0
	}
	s.owned = append(s.owned, m.Pointer)
	return m.Bytes, m.Pointer
}

// uploaded is memory that holds data.
func (s *session) uploaded(err *error, data []byte) Pointer {
	p := s.alloc(err, int64(len(data)))
	if *err == nil {
		*err = s.model.driver.Upload(p, data)
	}
	return p
}

// replace allocates memory in place of what p points to.
func (s *session) replace(err *error, p *Pointer, bytes int64) {
	s.drop(err, p)
	*p = s.alloc(err, bytes)
}

// drop frees what p points to.
func (s *session) drop(err *error, p *Pointer) {
	if *p == 0 {
		return
	}
	*err = errors.Join(*err, s.model.driver.Free(*p))
	s.owned = slices.DeleteFunc(s.owned, func(q Pointer) bool { return q == *p })
	*p = 0
}

// slot allocates a slot for rows rows, with room for their 8-bit codes and for bf16.
func (s *session) slot(err *error, i, rows int) {
	width := int64(s.layout[i].Width)
	s.replace(err, &s.slots[i], int64(rows)*width*4)
	blocks := (width + cpu.ActivationBlockElems - 1) / cpu.ActivationBlockElems
	s.replace(err, &s.codes[i], int64(rows)*blocks*cpu.ActivationBlockBytes)
	s.replace(err, &s.halves[i], int64(rows)*width*2)
}

// want makes per-wanted slots hold at least n rows. After an error they hold none.
func (s *session) want(err *error, n int) {
	if n <= s.wantedRows {
		return
	}
	*err = errors.Join(*err, s.forget()) // steps point to the old slots
	for i, slot := range s.layout {
		if slot.Rows == op.PerWanted {
			s.slot(err, i, n)
		}
	}
	s.wantedRows = n
	if *err != nil {
		s.wantedRows = 0
	}
}

// forget drops the steps that are bound to memory.
func (s *session) forget() error {
	var errs []error
	for _, g := range s.graphs {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	clear(s.graphs)
	clear(s.steps)
	return errors.Join(errs...)
}

// launches binds the plan's launches for a step to the session's memory.
func (s *session) launches(key shape) ([]Launch, []string, error) {
	if l, ok := s.steps[key]; ok {
		return l, s.names[key], nil
	}
	planned, err := s.plan.Step(key.tokens, key.wanted)
	if err != nil {
		return nil, nil, err
	}
	if key.top > 0 {
		t, err := s.topOf(key.top)
		if err != nil {
			return nil, nil, err
		}
		planned = append(planned, t.launches...)
	}
	// The model loaded the kernels of common steps; this one's may be others.
	variants := make([]*kernel.Variant, len(planned))
	for i, l := range planned {
		variants[i] = l.Variant
	}
	if err := s.model.load(variants); err != nil {
		return nil, nil, err
	}
	bound, names := make([]Launch, len(planned)), make([]string, len(planned))
	for i, l := range planned {
		b := Launch{Kernel: l.Variant.Symbol, Grid: l.Grid, Block: [3]uint32{l.Variant.Threads, 1, 1}, SharedBytes: l.Shared, Dependent: l.Dependent}
		for k, a := range l.Args {
			b.Args = append(b.Args, s.bind(key, l.Variant.Args[k].Type, a))
		}
		bound[i], names[i] = b, l.Name
	}
	s.steps[key], s.names[key] = bound, names
	return bound, names, nil
}

func (s *session) bind(key shape, kind string, a plan.Arg) Arg {
	switch kind {
	case "i32":
		return I32(int32(a.Int))
	case "u32":
		return U32(uint32(a.Int))
	case "i64":
		return I64(a.Int)
	case "f32":
		return F32(a.Float)
	}
	switch a.Ref {
	case plan.None:
		return PointerArg(0)
	case plan.Weight:
		return PointerArg(s.model.weights[a.Index])
	case plan.Value:
		return PointerArg(s.slots[s.slotOf[a.Index]])
	case plan.Codes:
		return PointerArg(s.codes[s.slotOf[a.Index]])
	case plan.Halves:
		return PointerArg(s.halves[s.slotOf[a.Index]])
	case plan.Keys:
		return PointerArg(s.keys[a.Index])
	case plan.Values:
		return PointerArg(s.values[a.Index])
	case plan.IDs:
		return PointerArg(s.inputs)
	case plan.Positions:
		return PointerArg(s.inputs + Pointer(4*key.tokens))
	case plan.Wanted:
		return PointerArg(s.inputs + Pointer(8*key.tokens))
	case plan.Sines:
		return PointerArg(s.sines[a.Index])
	case plan.Cosines:
		return PointerArg(s.cosines[a.Index])
	case plan.Partial:
		return PointerArg(s.partial)
	case plan.Arrivals:
		return PointerArg(s.arrivals)
	case plan.Best:
		return PointerArg(s.best[a.Index])
	case plan.Found:
		return PointerArg(s.found)
	}
	panic(fmt.Sprintf("BUG: reference of kind %d", a.Ref))
}

// Forward implements device.Session.
func (s *session) Forward(ctx context.Context, tokens []int32, want device.Want) ([][]float32, error) {
	if err := s.forward(ctx, tokens, want, 0); err != nil {
		return nil, err
	}
	width := s.model.graph.Vocab
	s.rows = s.rows[:0]
	for i := 0; i < len(s.out); i += width {
		s.rows = append(s.rows, s.out[i:i+width])
	}
	return s.rows, nil
}

// Tops implements device.Topper.
func (s *session) Tops(k int) bool {
	_, err := s.topOf(k)
	return err == nil
}

// ForwardTop implements device.Topper.
func (s *session) ForwardTop(ctx context.Context, tokens []int32, k int) ([]int32, []float32, error) {
	if _, err := s.topOf(k); err != nil {
		return nil, nil, err
	}
	if err := s.forward(ctx, tokens, device.LogitsLast, k); err != nil {
		return nil, nil, err
	}
	return s.outIDs, s.out, nil
}

// forward computes tokens and leaves their wanted logits in s.out: all of them, or the top largest with their ids in s.outIDs.
func (s *session) forward(ctx context.Context, tokens []int32, want device.Want, top int) error {
	if err := device.CheckForward(s.model.graph, tokens, s.len, s.opts.Context); err != nil {
		return err
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	switch {
	case s.model.closed:
		return errClosed
	case s.closed:
		return errors.New("session is closed")
	}
	start := s.len
	s.out, s.outIDs = s.out[:0], s.outIDs[:0]
	for at := 0; at < len(tokens); at += s.opts.Batch {
		if err := ctx.Err(); err != nil {
			s.len = start
			return err
		}
		chunk := tokens[at:min(at+s.opts.Batch, len(tokens))]
		wanted := 0
		switch {
		case want == device.LogitsAll:
			wanted = len(chunk)
		case want == device.LogitsLast && at+len(chunk) == len(tokens):
			wanted = 1
		}
		if err := s.step(chunk, wanted, top); err != nil {
			s.len = start
			return err
		}
		s.len += len(chunk)
	}
	return nil
}

// step computes a chunk of tokens and appends the logits of the last wanted of them to s.out, or the top largest.
func (s *session) step(chunk []int32, wanted, top int) error {
	if wanted == 0 {
		top = 0
	}
	var err error
	s.want(&err, wanted)
	s.roomForTop(&err, top)
	if top == 0 {
		s.roomForLogits(&err, wanted)
	}
	if err != nil {
		return err
	}
	s.give(chunk, wanted)
	d, key := s.model.driver, shape{len(chunk), wanted, top}
	if err := s.compute(key); err != nil {
		d.Sync() // what was begun reads what the next step is given
		return err
	}
	switch {
	case top > 0:
		return s.takeTop(key)
	case wanted > 0:
		return s.takeLogits(wanted, s.len+len(chunk)-wanted)
	}
	return s.wait(key)
}

// inputBytes is the size of what a step is given.
func inputBytes(tokens, wanted int) int { return 4 * (2*tokens + wanted) }

// give lays out what a step is given, on the host.
func (s *session) give(chunk []int32, wanted int) {
	b := s.given[:0]
	for _, id := range chunk {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	for i := range chunk {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.len+i))
	}
	for i := range wanted {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(chunk)-wanted+i))
	}
}

// upload brings it to where kernels read it. All of them do, some in each layer: from the host's memory each would take its way over the bus.
func (s *session) upload(key shape) error {
	return s.model.driver.Upload(s.inputs, s.given[:inputBytes(key.tokens, key.wanted)])
}

// wait ends a step that brings nothing back, or has already.
func (s *session) wait(key shape) error {
	if err := s.model.driver.Sync(); err != nil {
		return key.failed(err)
	}
	return nil
}

func (key shape) failed(err error) error {
	return fmt.Errorf("step of %d tokens, %d of them with logits: %w", key.tokens, key.wanted, err)
}

// notFinite is the error of a logit.
func (s *session) notFinite(position, elem int) error {
	return &device.NonFiniteError{Value: s.model.graph.Values[s.model.graph.Logits].Name, Position: position, Elem: elem}
}

// takeTop appends what a step found. Kernels write it to shared memory, where there is some: a copy of so little would cost more than it.
func (s *session) takeTop(key shape) error {
	raw := s.foundRaw[:key.top*plan.KeyBytes]
	if s.model.sharer != nil {
		if err := s.wait(key); err != nil {
			return err
		}
	} else if err := s.model.driver.Download(raw, s.found); err != nil {
		return err
	}
	for i := range key.top {
		id, x := plan.Logit(binary.LittleEndian.Uint64(raw[i*plan.KeyBytes:]))
		if x != x {
			return s.notFinite(s.len+key.tokens-1, int(id))
		}
		s.outIDs, s.out = append(s.outIDs, id), append(s.out, x)
	}
	return nil
}

// takeLogits appends the logits of wanted tokens, the first of which stands at position.
func (s *session) takeLogits(wanted, position int) error {
	width, from := s.model.graph.Vocab, s.slots[s.slotOf[s.model.graph.Logits]]
	first, n := len(s.out), wanted*width
	s.out = slices.Grow(s.out, n)[:first+n]
	for at := 0; at < n; {
		raw := s.raw[:min(len(s.raw), 4*(n-at))]
		if err := s.model.driver.Download(raw, from+Pointer(4*at)); err != nil {
			return err
		}
		if i := decodeFinite(s.out[first+at:][:len(raw)/4], raw); i >= 0 {
			return s.notFinite(position+(at+i)/width, (at+i)%width)
		}
		at += len(raw) / 4
	}
	return nil
}

// decodeFinite reads numbers out of their bytes and returns the index of the first that is not finite, or -1. It looks for one without a
// branch for each: they are a vocabulary's, for every token.
func decodeFinite(out []float32, raw []byte) int {
	const exponent, one = 0x7f800000_7f800000, 0x00800000_00800000 // an exponent of all ones carries into the sign
	const signs = exponent + one
	var carry uint64
	o := out
	for ; len(o) >= 4 && len(raw) >= 16; o, raw = o[4:], raw[16:] {
		a, b := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])
		carry |= (a&exponent + one) | (b&exponent + one)
		o[0], o[1] = math.Float32frombits(uint32(a)), math.Float32frombits(uint32(a>>32))
		o[2], o[3] = math.Float32frombits(uint32(b)), math.Float32frombits(uint32(b>>32))
	}
	for i := range o {
		bits := binary.LittleEndian.Uint32(raw[4*i:])
		carry |= uint64(bits)&exponent + one
		o[i] = math.Float32frombits(bits)
	}
	if carry&signs == 0 {
		return -1
	}
	return slices.IndexFunc(out, func(x float32) bool { return x-x != 0 })
}

// roomForTop makes room for the keys of the k largest logits.
func (s *session) roomForTop(err *error, k int) {
	if *err != nil || k == 0 {
		return
	}
	t, e := s.topOf(k)
	if *err = e; e != nil || t.bytes <= s.bestBytes && k*plan.KeyBytes <= len(s.foundRaw) {
		return
	}
	*err = s.forget() // steps point to the old ones
	if t.bytes > s.bestBytes {
		for i := range s.best {
			s.replace(err, &s.best[i], t.bytes)
		}
		s.bestBytes = t.bytes
	}
	if n := k * plan.KeyBytes; n > len(s.foundRaw) {
		s.drop(err, &s.found)
		if s.foundRaw, s.found = s.share(err, n); s.model.sharer == nil {
			s.found = s.alloc(err, int64(n))
		}
	}
	if *err != nil {
		s.bestBytes, s.foundRaw = 0, nil
	}
}

// rawBytes is the most that comes back at a time: more of it would not come faster.
const rawBytes = 8 << 20

// roomForLogits makes room for logits on their way.
func (s *session) roomForLogits(err *error, wanted int) {
	n := min(4*wanted*s.model.graph.Vocab, rawBytes)
	if *err != nil || n <= len(s.raw) {
		return
	}
	s.drop(err, &s.rawAt)
	if s.raw, s.rawAt = s.share(err, n); *err != nil {
		s.raw = nil
	}
}

// recordedTokens is the most tokens of a step that is recorded: with more of them the launches cost little beside their work.
const recordedTokens = 8

// compute makes the launches of a step: one by one the first time, then recorded, where the driver can record. What changes from
// one step to the next, tokens and positions, is data in memory, so that a recording serves every step of its shape; from shared memory
// it fetches them itself, and a step is one call.
func (s *session) compute(key shape) error {
	g, again := s.graphs[key]
	if g == nil {
		launches, names, err := s.launches(key)
		if err != nil {
			return err
		}
		launch := func() error {
			for i, l := range launches {
				if err := s.model.driver.Launch(l); err != nil {
					return fmt.Errorf("%s: %w", names[i], err)
				}
			}
			return nil
		}
		whole := func() error {
			if err := s.upload(key); err != nil {
				return err
			}
			return launch()
		}
		if s.model.grapher == nil || key.tokens > recordedTokens {
			return whole()
		}
		if !again {
			s.graphs[key] = nil // the next one is recorded
			return whole()
		}
		record := launch
		if s.model.sharer != nil {
			record = whole
		}
		if g, err = s.model.grapher.Capture(record); err != nil {
			return err
		}
		s.graphs[key] = g
	}
	if s.model.sharer == nil {
		if err := s.upload(key); err != nil {
			return err
		}
	}
	if err := g.Replay(); err != nil {
		return key.failed(err)
	}
	return nil
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
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	if s.model.closed {
		return nil
	}
	return s.free()
}

func (s *session) free() error {
	errs := []error{s.forget()}
	for _, p := range s.owned {
		errs = append(errs, s.model.driver.Free(p))
	}
	s.owned, s.closed = nil, true
	s.given, s.foundRaw, s.raw = nil, nil, nil // shared memory is there no more
	return errors.Join(errs...)
}
