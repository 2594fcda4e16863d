package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/numeric"
	"github.com/minfer/minfer/runtime/op"
)

// layer is the cache of one layer. Keys lie as [head][position][dim], so that a head's keys are read in one stream;
// values likewise.
type layer struct {
	heads    int
	key, val heads
}

// heads holds the keys or the values of all heads, in f32 or in the little-endian f16 that the kernels read.
type heads struct {
	dim, context int
	f32          []float32
	f16          []byte
}

func newHeads(n, dim int, o device.SessionOptions) heads {
	h := heads{dim: dim, context: o.Context}
	if o.KVType == format.F32 {
		h.f32 = make([]float32, n*dim*o.Context)
	} else {
		h.f16 = make([]byte, 2*n*dim*o.Context)
	}
	return h
}

func newLayer(o op.Attend, opts device.SessionOptions) layer {
	return layer{o.KVHeads, newHeads(o.KVHeads, o.KeyDim, opts), newHeads(o.KVHeads, o.ValueDim, opts)}
}

// put stores a vector and gives the first element that the type cannot hold, or -1.
func (h *heads) put(head, position int, x []float32) int {
	at := (head*h.context + position) * h.dim
	if h.f32 != nil {
		copy(h.f32[at:][:h.dim], x)
		return -1
	}
	bad, dst := -1, h.f16[2*at:][:2*h.dim]
	for i, f := range x {
		bits := numeric.ToF16(f)
		if bits&0x7c00 == 0x7c00 && bad < 0 {
			bad = i
		}
		binary.LittleEndian.PutUint16(dst[2*i:], bits)
	}
	return bad
}

// dequantizeF16 turns stored f16 to f32.
var dequantizeF16 = func() func(dst []float32, src []byte) {
	k, ok := kernels.For(format.F16)
	if !ok || k.Dequantize == nil {
		panic("BUG: no generated kernel for f16")
	}
	return k.Dequantize
}()

// block gives the vectors of n positions of a head as f32: in place, or unpacked into buf.
func (h *heads) block(buf []float32, head, position, n int) []float32 {
	at := (head*h.context + position) * h.dim
	if h.f32 != nil {
		return h.f32[at:][:n*h.dim]
	}
	buf = buf[:n*h.dim]
	dequantizeF16(buf, h.f16[2*at:][:2*n*h.dim])
	return buf
}

// appendStep is op.KVAppend.
type appendStep struct {
	base
	k, v  op.Value
	layer *layer
}

func (st *appendStep) run(_, lo, hi int) {
	for r := lo; r < hi; r++ {
		st.put(r, st.k, &st.layer.key)
		st.put(r, st.v, &st.layer.val)
	}
}

func (st *appendStep) put(r int, v op.Value, h *heads) {
	x := st.s.row(v, r)
	for i := range st.layer.heads {
		if bad := h.put(i, st.s.len+r, x[i*h.dim:][:h.dim]); bad >= 0 {
			f := x[i*h.dim+bad]
			reason := ""
			if f-f == 0 {
				reason = fmt.Sprintf("%g is past what the f16 cache can hold; use a cache in f32", f)
			}
			st.s.fail(v, r, i*h.dim+bad, reason)
			return
		}
	}
}

// Attention reads positions in blocks, and blocks in spans. Both are counted from position 0, so that a token's sums run in
// the same order whichever tokens it is computed with and however the work is shared out.
const (
	// blockPositions is how many positions are read before the sums are rescaled.
	blockPositions = 64
	// spanPositions is how many positions have sums of their own, which are then merged: the share of one worker where
	// there are few tokens and many positions.
	spanPositions = 512
	// attendTokens is how many tokens share the unpacked keys and values of a block.
	attendTokens = 16
	// splitTokens is the most tokens for which spans are shared out. With more, heads and tiles of tokens are.
	splitTokens = 4
)

// scratch is the memory of one worker.
type scratch struct {
	key, val []float32 // a block of unpacked keys, of values
	weights  []float32 // of the positions of a block
	part     partial
	unpacked []float32 // weight rows
}

func (s *scratch) growUnpacked(n int) { s.unpacked = grown(s.unpacked, n) }

func grown(s []float32, n int) []float32 {
	if len(s) < n {
		return make([]float32, n)
	}
	return s
}

// running is the state of one online softmax: the greatest score so far and the sum of exp(score - greatest).
type running struct{ greatest, sum float32 }

// partial is the state of several with what they weigh: for each the sum of exp(score - greatest) * value.
type partial struct {
	sums []running
	accs []float32
}

// grow makes room for n of them.
func (p *partial) grow(n, valueDim int) {
	if len(p.sums) < n {
		p.sums = make([]running, n)
	}
	p.accs = grown(p.accs, n*valueDim)
}

// slice is n of them from first on.
func (p partial) slice(first, n, valueDim int) partial {
	return partial{p.sums[first:][:n], p.accs[first*valueDim:][:n*valueDim]}
}

func (p partial) reset() {
	for i := range p.sums {
		p.sums[i] = running{greatest: float32(math.Inf(-1))}
	}
	clear(p.accs)
}

// attendStep is op.Attend. An item is a key/value head together with a tile of tokens, or with a span of positions where
// there are few tokens: the query heads that share it and the tokens read each block of keys and values once.
type attendStep struct {
	base
	op     op.Attend
	layer  *layer
	tokens int
	sums   []running // [batch, heads]; the accumulators are the rows of the output
	spans  partial   // [span, key/value head, token, head of the group]: of the spans that are shared out
}

func newAttendStep(s *session, o op.Attend) *attendStep {
	for i := range s.scratch {
		sc := &s.scratch[i]
		sc.key = grown(sc.key, blockPositions*o.KeyDim)
		sc.val = grown(sc.val, blockPositions*o.ValueDim)
		sc.weights = grown(sc.weights, blockPositions)
		sc.part.grow(attendTokens*o.Heads/o.KVHeads, o.ValueDim)
	}
	s.spans.grow(spans(s.opts.Context)*min(splitTokens, s.opts.Batch)*o.Heads, o.ValueDim)
	return &attendStep{base: s.base(o.Out), op: o, layer: &s.cache[o.Layer], sums: make([]running, s.opts.Batch*o.Heads)}
}

func spans(positions int) int { return (positions + spanPositions - 1) / spanPositions }

func (st *attendStep) tiles() int { return (st.tokens + attendTokens - 1) / attendTokens }

func (st *attendStep) group() int { return st.op.Heads / st.op.KVHeads }

// shared reports whether spans are shared out, to be merged by the mergeStep.
func (st *attendStep) shared() bool {
	return st.tokens <= splitTokens && spans(st.s.len+st.tokens) > 1
}

func (st *attendStep) split(tokens int) (items, grain int) {
	st.tokens = tokens
	if st.shared() {
		return spans(st.s.len+tokens) * st.op.KVHeads, 1
	}
	return st.tiles() * st.op.KVHeads, 1
}

func (st *attendStep) run(worker, lo, hi int) {
	sc := &st.s.scratch[worker]
	for item := lo; item < hi; item++ {
		if st.shared() {
			st.span(sc, st.spanPart(item), item%st.op.KVHeads, item/st.op.KVHeads*spanPositions, 0, st.tokens)
			continue
		}
		// the last tiles see the most positions: they go first, so that the workers end together
		tile := st.tiles() - 1 - item/st.op.KVHeads
		st.tile(sc, item%st.op.KVHeads, tile*attendTokens, min((tile+1)*attendTokens, st.tokens))
	}
}

// spanPart is the memory of item span*KVHeads + head.
func (st *attendStep) spanPart(item int) partial {
	n := st.tokens * st.group()
	return st.s.spans.slice(item*n, n, st.op.ValueDim)
}

// tile computes the query heads of a key/value head for the tokens from t0 to t1-1 of the step.
func (st *attendStep) tile(sc *scratch, kv, t0, t1 int) {
	st.begin(kv, t0, t1)
	part := sc.part.slice(0, (t1-t0)*st.group(), st.op.ValueDim)
	for p := 0; p < st.s.len+t1; p += spanPositions {
		st.span(sc, part, kv, p, t0, t1)
		st.merge(part, kv, p, t0, t1)
	}
	st.end(kv, t0, t1)
}

// span computes the sums over the span of positions that begins at first, for the query heads of a key/value head and
// the tokens from t0 to t1-1, into part: [token, head of the group].
func (st *attendStep) span(sc *scratch, part partial, kv, first, t0, t1 int) {
	group, kd, vd := st.group(), st.op.KeyDim, st.op.ValueDim
	part.reset()
	last := min(first+spanPositions, st.s.len+t1)
	for p := first; p < last; p += blockPositions {
		n := min(blockPositions, last-p)
		keys, values := st.layer.key.block(sc.key, kv, p, n), st.layer.val.block(sc.val, kv, p, n)
		for t := t0; t < t1; t++ {
			seen := min(n, st.s.len+t+1-p) // causal: a token sees the positions up to its own
			if seen <= 0 {
				continue
			}
			q := st.s.row(st.op.Q, t)[kv*group*kd:][:group*kd]
			for h := range group {
				i := (t-t0)*group + h
				part.sums[i].add(part.accs[i*vd:][:vd], q[h*kd:][:kd], keys, values, sc.weights[:seen], st.op.Scale)
			}
		}
	}
}

// heads is the state of the query heads of a key/value head for a token: the output row is the accumulator.
func (st *attendStep) heads(kv, t int) partial {
	group := st.group()
	return partial{st.sums[t*st.op.Heads+kv*group:][:group], st.s.row(st.out, t)[kv*group*st.op.ValueDim:][:group*st.op.ValueDim]}
}

func (st *attendStep) begin(kv, t0, t1 int) {
	for t := t0; t < t1; t++ {
		st.heads(kv, t).reset()
	}
}

// merge adds the sums of a span.
func (st *attendStep) merge(part partial, kv, first, t0, t1 int) {
	group, vd := st.group(), st.op.ValueDim
	for t := t0; t < t1; t++ {
		if first > st.s.len+t {
			continue // the span is past the token
		}
		to, from := st.heads(kv, t), part.slice((t-t0)*group, group, vd)
		for h := range group {
			to.sums[h].merge(to.accs[h*vd:][:vd], from.sums[h], from.accs[h*vd:][:vd])
		}
	}
}

// end divides by the sums of weights.
func (st *attendStep) end(kv, t0, t1 int) {
	group, vd := st.group(), st.op.ValueDim
	for t := t0; t < t1; t++ {
		to := st.heads(kv, t)
		for h := range group {
			inverse := 1 / to.sums[h].sum
			for i := range vd {
				to.accs[h*vd+i] *= inverse
			}
		}
		st.s.check(st.out, t, to.accs, kv*group*vd)
	}
}

// mergeStep ends an attendStep whose spans were shared out. Items are key/value heads.
type mergeStep struct{ *attendStep }

func (st mergeStep) split(int) (items, grain int) {
	if !st.shared() {
		return 0, 1
	}
	return st.op.KVHeads, st.op.KVHeads
}

func (st mergeStep) run(_, lo, hi int) {
	for kv := lo; kv < hi; kv++ {
		st.begin(kv, 0, st.tokens)
		for i := range spans(st.s.len + st.tokens) {
			st.merge(st.spanPart(i*st.op.KVHeads+kv), kv, i*spanPositions, 0, st.tokens)
		}
		st.end(kv, 0, st.tokens)
	}
}

// add takes len(weights) further positions into the sums. acc holds sum of exp(score - greatest) * value.
func (r *running) add(acc, q, keys, values, weights []float32, scale float32) {
	greatest := r.greatest
	for j := range weights {
		w := dot(q, keys[j*len(q):][:len(q)]) * scale
		weights[j] = w
		greatest = max(greatest, w) // NaN stays
	}
	if greatest != r.greatest {
		shrink := exp(r.greatest - greatest)
		r.sum *= shrink
		for i := range acc {
			acc[i] *= shrink
		}
		r.greatest = greatest
	}
	for j, w := range weights {
		w = exp(w - greatest)
		r.sum += w
		axpy(acc, w, values[j*len(acc):][:len(acc)])
	}
}

// merge adds the sums that other positions have.
func (r *running) merge(acc []float32, other running, otherAcc []float32) {
	greatest := max(r.greatest, other.greatest)
	a, b := exp(r.greatest-greatest), exp(other.greatest-greatest)
	r.greatest, r.sum = greatest, r.sum*a+other.sum*b
	for i := range acc {
		acc[i] = acc[i]*a + otherAcc[i]*b
	}
}

// axpy adds a*x to y.
func axpy(y []float32, a float32, x []float32) {
	x = x[:len(y)]
	for len(y) >= 4 && len(x) >= 4 {
		y[0] += a * x[0]
		y[1] += a * x[1]
		y[2] += a * x[2]
		y[3] += a * x[3]
		y, x = y[4:], x[4:]
	}
	for i := range y {
		y[i] += a * x[i]
	}
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }
