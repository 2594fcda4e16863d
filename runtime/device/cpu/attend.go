package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
	"github.com/minfer/minfer/runtime/numeric"
	"github.com/minfer/minfer/runtime/op"
)

// layer is the cache of one layer.
type layer struct {
	heads    int
	key, val heads
}

// heads holds the keys or the values of all heads, a head's positions in one stream of blocks. A block of keys lies as
// [tile of 16 positions][dim][position], so that the scores of 16 positions are sums side by side, a block of values as
// [chunk of 16 dims][position][dim]. Dims are filled up with zeros to whole chunks, positions to whole blocks. Numbers past
// the tokens in the cache are finite: they are multiplied by zero, or computed and not read.
//
// In q8_0 a number is a code times the scale of the 32 dims that it is one of. Codes lie as the numbers would; the scales of a
// block of keys lie as [tile of 16 positions][32 dims][position], those of a block of values as [32 dims][position].
type heads struct {
	dim, blocks int
	keys        bool
	f32         []float32
	f16         []uint16
	codes       []int8
	scales      []uint16
}

const lanes = vec.Lanes

// padded is dim filled up to whole chunks.
func padded(dim int) int { return (dim + lanes - 1) / lanes * lanes }

func newHeads(n, dim int, keys bool, o device.SessionOptions) heads {
	h := heads{dim: dim, blocks: (o.Context + blockPositions - 1) / blockPositions, keys: keys}
	switch elems := n * h.blocks * h.blockElems(); o.KVType {
	case format.F32:
		h.f32 = make([]float32, elems)
	case format.F16:
		h.f16 = make([]uint16, elems)
	case format.Q8_0:
		h.codes, h.scales = make([]int8, elems), make([]uint16, elems/format.Q8_0Elems)
	default:
		panic("BUG: a cache type that CheckSession let pass")
	}
	return h
}

func newLayer(o op.Attend, opts device.SessionOptions) layer {
	return layer{o.KVHeads, newHeads(o.KVHeads, o.KeyDim, true, opts), newHeads(o.KVHeads, o.ValueDim, false, opts)}
}

func (h *heads) blockElems() int { return blockPositions * padded(h.dim) }

// put stores a vector, rounded to the type of the cache, and reports whether that can hold it. If not, the cache stays as it was.
func (h *heads) put(k *vec.Kernels, sc *scratch, head, position int, x []float32) bool {
	at, p := (head*h.blocks+position/blockPositions)*h.blockElems(), position%blockPositions
	switch {
	case h.f32 != nil:
		deal(h.f32[at:][:h.blockElems()], x, p, h.keys)
	case h.f16 != nil:
		half := sc.half[:h.dim]
		if !k.ToF16(half, x) {
			return false
		}
		deal(h.f16[at:][:h.blockElems()], half, p, h.keys)
	default:
		return h.putCodes(sc, at, p, x)
	}
	return true
}

// toQ8 rounds to blocks of q8_0.
var toQ8 = func() func(dst []byte, src []float32) {
	k, _ := kernels.For(format.Q8_0)
	return k.Quantize
}()

// putCodes is put in q8_0, at position p of the block of positions whose codes begin at at.
func (h *heads) putCodes(sc *scratch, at, p int, x []float32) bool {
	const elems, size = format.Q8_0Elems, format.Q8_0Bytes
	n := h.dim / elems
	rounded, codes := sc.rounded[:n*size], sc.codes[:h.dim]
	toQ8(rounded, x)
	scale := func(i int) uint16 { return binary.LittleEndian.Uint16(rounded[i*size+format.Q8_0DAtBytes:]) }
	for i := range n {
		if scale(i)&0x7c00 == 0x7c00 {
			return false
		}
		for l, c := range rounded[i*size+format.Q8_0QsAtBytes:][:elems] {
			codes[i*elems+l] = int8(c)
		}
	}
	deal(h.codes[at:][:h.blockElems()], codes, p, h.keys)
	scales := h.scales[at/elems:][:h.blockElems()/elems]
	for i := range n {
		if h.keys {
			scales[(p/lanes*n+i)*lanes+p%lanes] = scale(i)
		} else {
			scales[i*blockPositions+p] = scale(i)
		}
	}
	return true
}

// wide is the first tiles of a block of positions in q8_0 as numbers, in their places.
func (h *heads) wide(k *vec.Kernels, sc *scratch, at, tiles int) []float32 {
	const elems = format.Q8_0Elems
	codes, scales, y := h.codes[at:][:h.blockElems()], h.scales[at/elems:][:h.blockElems()/elems], sc.wide[:h.blockElems()]
	if h.keys {
		n := tiles * lanes * h.dim
		k.WidenLanes(y, scales[:n/elems], codes[:n])
		return y
	}
	for c := range h.dim / lanes {
		first := c * lanes * blockPositions
		k.WidenRows(y[first:], scales[c*lanes/elems*blockPositions:][:tiles*lanes], codes[first:][:tiles*lanes*lanes])
	}
	return y
}

// holds reports whether the type of the cache can hold a number, in the name of which it is refused.
func (h *heads) holds(x float32) (ok bool, name string) {
	if h.codes != nil {
		return numeric.ToF16(x/math.MaxInt8)&0x7c00 != 0x7c00, "q8_0" // the scale of a block with no greater number
	}
	return numeric.ToF16(x)&0x7c00 != 0x7c00, "f16"
}

// deal puts x in its place in a block.
func deal[T any](block, x []T, position int, keys bool) {
	if keys {
		tile := block[position/lanes*lanes*padded(len(x)):]
		for i, v := range x {
			tile[i*lanes+position%lanes] = v
		}
		return
	}
	for c := 0; c < len(x); c += lanes {
		copy(block[c*blockPositions+position*lanes:], x[c:min(c+lanes, len(x))])
	}
}

// outer multiplies n rows of a by the first tiles of a block of positions: scores of queries, or sums of values.
func (h *heads) outer(k *vec.Kernels, sc *scratch, y, a vec.Rows, n, head, block, tiles int) {
	at, t := (head*h.blocks+block)*h.blockElems(), vec.Tiles{}
	if h.keys {
		t = vec.Tiles{Groups: tiles, GroupStride: lanes * padded(h.dim), Runs: 1, Run: padded(h.dim)}
	} else {
		t = vec.Tiles{Groups: padded(h.dim) / lanes, GroupStride: lanes * blockPositions, Runs: 1, Run: tiles * lanes}
	}
	switch {
	case h.f32 != nil:
		k.OuterF32(y, a, n, h.f32[at:][:h.blockElems()], t, !h.keys)
	case h.f16 != nil:
		k.OuterF16(y, a, n, h.f16[at:][:h.blockElems()], t, !h.keys)
	default:
		k.OuterF32(y, a, n, h.wide(k, sc, at, tiles), t, !h.keys)
	}
}

// appendStep is op.KVAppend.
type appendStep struct {
	base
	k, v  op.Value
	layer *layer
}

func (st *appendStep) run(worker, lo, hi int) {
	sc := &st.s.scratch[worker]
	for r := lo; r < hi; r++ {
		st.put(r, sc, st.k, &st.layer.key)
		st.put(r, sc, st.v, &st.layer.val)
	}
}

func (st *appendStep) put(r int, sc *scratch, v op.Value, h *heads) {
	x := st.s.row(v, r)
	for i := range st.layer.heads {
		head := x[i*h.dim:][:h.dim]
		if h.put(st.s.vec, sc, i, st.s.len+r, head) {
			continue
		}
		for j, f := range head {
			if ok, name := h.holds(f); !ok {
				reason := ""
				if f-f == 0 {
					reason = fmt.Sprintf("%g is past what the %s cache can hold; use a cache in f32", f, name)
				}
				st.s.fail(v, r, i*h.dim+j, reason)
				return
			}
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
	// attendTokens is how many tokens read a block of keys and values while it is in the cache nearest to the core.
	attendTokens = 16
	// splitTokens is the most tokens for which spans are shared out. With more, heads and tiles of tokens are.
	splitTokens = 4
)

// scratch is the memory of one worker.
type scratch struct {
	half     []uint16  // a key or value, rounded to f16
	rounded  []byte    // the same in blocks of q8_0
	codes    []int8    // their codes
	wide     []float32 // a block of positions of a head, out of q8_0
	queries  []float32 // [row, padded key dim], scaled; rows are [token, head of the group]
	weights  []float32 // [row, position of the block]
	part     partial   // of a span
	total    partial   // of all spans
	unpacked []float32 // weight rows
	passing  []float32 // numbers that are only rounded to 8 bits
	blocks   []byte    // numbers rounded, on their way into panels
}

func (s *scratch) growUnpacked(n int) { s.unpacked = grown(s.unpacked, n) }

func grown[T any](s []T, n int) []T {
	if len(s) < n {
		return make([]T, n)
	}
	return s
}

// running is the state of one online softmax: the greatest score so far and the sum of exp(score - greatest).
type running struct{ greatest, sum float32 }

// partial is the state of several with what they weigh: for each the sum of exp(score - greatest) * value, width numbers.
type partial struct {
	sums []running
	accs []float32
}

// grow makes room for n of them.
func (p *partial) grow(n, width int) {
	p.sums = grown(p.sums, n)
	p.accs = grown(p.accs, n*width)
}

// slice is n of them from first on.
func (p partial) slice(first, n, width int) partial {
	return partial{p.sums[first:][:n], p.accs[first*width:][:n*width]}
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
	spans  partial // [span, key/value head, token, head of the group]: of the spans that are shared out
}

func newAttendStep(s *session, o op.Attend) *attendStep {
	st := &attendStep{base: s.base(o.Out), op: o, layer: &s.cache[o.Layer]}
	rows := min(attendTokens, s.opts.Batch) * st.group()
	for i := range s.scratch {
		sc := &s.scratch[i]
		switch dim := max(o.KeyDim, o.ValueDim); s.opts.KVType {
		case format.F16:
			sc.half = grown(sc.half, dim)
		case format.Q8_0:
			sc.rounded, sc.codes = grown(sc.rounded, dim/format.Q8_0Elems*format.Q8_0Bytes), grown(sc.codes, dim)
			sc.wide = grown(sc.wide, blockPositions*dim)
		}
		sc.queries = grown(sc.queries, rows*padded(o.KeyDim))
		sc.weights = grown(sc.weights, rows*blockPositions)
		sc.part.grow(rows, st.accWidth())
		sc.total.grow(rows, st.accWidth())
	}
	s.spans.grow(spans(s.opts.Context)*min(splitTokens, s.opts.Batch)*o.Heads, st.accWidth())
	return st
}

func spans(positions int) int { return (positions + spanPositions - 1) / spanPositions }

func (st *attendStep) tiles() int { return (st.tokens + attendTokens - 1) / attendTokens }

// group is how many query heads share a key/value head.
func (st *attendStep) group() int { return st.op.Heads / st.op.KVHeads }

// accWidth is the width of an accumulator.
func (st *attendStep) accWidth() int { return padded(st.op.ValueDim) }

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
		kv := item % st.op.KVHeads
		if st.shared() {
			st.pack(sc, kv, 0, st.tokens)
			st.span(sc, st.spanPart(item), kv, item/st.op.KVHeads*spanPositions, 0, st.tokens)
			continue
		}
		// the last tiles see the most positions: they go first, so that the workers end together
		tile := st.tiles() - 1 - item/st.op.KVHeads
		st.tile(sc, kv, tile*attendTokens, min((tile+1)*attendTokens, st.tokens))
	}
}

// spanPart is the memory of item span*KVHeads + head.
func (st *attendStep) spanPart(item int) partial {
	n := st.tokens * st.group()
	return st.s.spans.slice(item*n, n, st.accWidth())
}

// pack scales the queries of a key/value head for the tokens from t0 to t1-1.
func (st *attendStep) pack(sc *scratch, kv, t0, t1 int) {
	group, kd := st.group(), st.op.KeyDim
	for t := t0; t < t1; t++ {
		q := st.s.row(st.op.Q, t)[kv*group*kd:][:group*kd]
		for h := range group {
			row := sc.queries[((t-t0)*group+h)*padded(kd):][:padded(kd)]
			st.s.vec.Scale(row, q[h*kd:][:kd], st.op.Scale)
			clear(row[kd:])
		}
	}
}

// tile computes the query heads of a key/value head for the tokens from t0 to t1-1 of the step.
func (st *attendStep) tile(sc *scratch, kv, t0, t1 int) {
	st.pack(sc, kv, t0, t1)
	rows := (t1 - t0) * st.group()
	part, total := sc.part.slice(0, rows, st.accWidth()), sc.total.slice(0, rows, st.accWidth())
	total.reset()
	for p := 0; p < st.s.len+t1; p += spanPositions {
		st.span(sc, part, kv, p, t0, t1)
		st.merge(total, part, p, t0, t1)
	}
	st.end(total, kv, t0, t1)
}

// span computes the sums over the span of positions that begins at first, for the packed queries of a key/value head and
// the tokens from t0 to t1-1, into part: [token, head of the group].
func (st *attendStep) span(sc *scratch, part partial, kv, first, t0, t1 int) {
	group, width, k := st.group(), st.accWidth(), st.s.vec
	queries := vec.Rows{Data: sc.queries, Stride: padded(st.op.KeyDim)}
	weights := vec.Rows{Data: sc.weights, Stride: blockPositions}
	accs := vec.Rows{Data: part.accs, Stride: width}
	part.reset()
	last := min(first+spanPositions, st.s.len+t1)
	for p := first; p < last; p += blockPositions {
		tiles := padded(min(blockPositions, last-p)) / lanes
		from := max(t0, p-st.s.len) // the first token that sees a position of the block: causal
		row, rows := (from-t0)*group, (t1-from)*group
		st.layer.key.outer(k, sc, weights.From(row), queries.From(row), rows, kv, p/blockPositions, tiles)
		for t := from; t < t1; t++ {
			seen := min(tiles*lanes, st.s.len+t+1-p)
			for i := (t - t0) * group; i < (t-t0+1)*group; i++ {
				part.sums[i].add(k, part.accs[i*width:][:width], sc.weights[i*blockPositions:][:tiles*lanes], seen)
			}
		}
		st.layer.val.outer(k, sc, accs.From(row), weights.From(row), rows, kv, p/blockPositions, tiles)
	}
}

// merge adds the sums of a span to those of the spans before it.
func (st *attendStep) merge(total, part partial, first, t0, t1 int) {
	group, width := st.group(), st.accWidth()
	for t := max(t0, first-st.s.len); t < t1; t++ { // tokens that see the span
		for i := (t - t0) * group; i < (t-t0+1)*group; i++ {
			total.sums[i].merge(st.s.vec, total.accs[i*width:][:width], part.sums[i], part.accs[i*width:][:width])
		}
	}
}

// end divides by the sums of weights.
func (st *attendStep) end(total partial, kv, t0, t1 int) {
	group, width, vd := st.group(), st.accWidth(), st.op.ValueDim
	for t := t0; t < t1; t++ {
		out := st.s.row(st.out, t)[kv*group*vd:][:group*vd]
		for h := range group {
			i := (t-t0)*group + h
			if !st.s.vec.Scale(out[h*vd:][:vd], total.accs[i*width:][:vd], 1/total.sums[i].sum) {
				st.s.blame(st.out, t, out[h*vd:][:vd], (kv*group+h)*vd)
				break
			}
		}
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

func (st mergeStep) run(worker, lo, hi int) {
	total := st.s.scratch[worker].total.slice(0, st.tokens*st.group(), st.accWidth())
	for kv := lo; kv < hi; kv++ {
		total.reset()
		for i := range spans(st.s.len + st.tokens) {
			st.merge(total, st.spanPart(i*st.op.KVHeads+kv), i*spanPositions, 0, st.tokens)
		}
		st.end(total, kv, 0, st.tokens)
	}
}

// add takes the scores of further positions into the sums, and makes weights of them; those from seen on become zero.
// acc holds sum of exp(score - greatest) * value, from which the greatest score so far is taken.
func (r *running) add(k *vec.Kernels, acc, scores []float32, seen int) {
	greatest, sum := k.Softmax(scores, seen, r.greatest)
	if greatest != r.greatest && r.sum != 0 { // NaN differs
		shrink := vec.Exp(r.greatest - greatest)
		r.sum *= shrink
		k.Scale(acc, acc, shrink)
	}
	r.greatest = greatest
	r.sum += sum
}

// merge adds the sums that other positions have.
func (r *running) merge(k *vec.Kernels, acc []float32, other running, otherAcc []float32) {
	greatest := max(r.greatest, other.greatest)
	a, b := vec.Exp(r.greatest-greatest), vec.Exp(other.greatest-greatest)
	r.greatest, r.sum = greatest, float32(r.sum*a)+float32(other.sum*b)
	k.Merge(acc, otherAcc, a, b)
}
