package cpu

import (
	"fmt"
	"math"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/op"
)

// base is what the steps of one Value share. Items are rows unless a step says otherwise.
type base struct {
	s     *session
	out   op.Value
	width int
	rows  op.Rows
}

func (s *session) base(out op.Value) base {
	info := s.model.graph.Values[out]
	return base{s, out, info.Width, info.Rows}
}

func (b *base) rowSet() op.Rows { return b.rows }

// rowGrain is how many numbers of light work a worker takes at a time: some tens of microseconds.
const rowGrain = 1 << 14

func (b *base) split(rows int) (items, grain int) { return rows, max(1, rowGrain/b.width) }

// embedStep gathers rows of the token table.
type embedStep struct {
	base
	table *matrix
}

func (st *embedStep) run(_, lo, hi int) {
	for r := lo; r < hi; r++ {
		out := st.s.row(st.out, r)
		st.table.dequantize(out, st.table.row(int(st.s.tokens[r])))
		st.s.check(st.out, r, out, 0)
	}
}

// normStep is op.RMSNorm. The sum of squares is float64: it neither overflows nor loses small elements.
type normStep struct {
	quantizing
	in     op.Value
	weight []float32 // as long as a group
	eps    float64
}

func (st *normStep) run(worker, lo, hi int) {
	for r := lo; r < hi; r++ {
		in, out, finite := st.s.row(st.in, r), st.result(worker, r, 0, st.width), true
		for i := 0; i < len(in); i += len(st.weight) {
			finite = st.s.vec.RMSNorm(out[i:][:len(st.weight)], in[i:][:len(st.weight)], st.weight, st.eps) && finite
		}
		if !finite {
			st.s.blame(st.out, r, out, 0)
		} else if st.quantized {
			st.quantize(worker, r, 0, out)
		}
	}
}

// quantizing is the end of a step that also rounds what it computes to activation blocks, while the numbers are near: the
// step whose Value the next product reads.
type quantizing struct {
	base
	quantized bool
	// What nobody reads is not written to memory: the f32 where all readers are products of quantized inputs, the blocks
	// where these take panels.
	passing, panelled bool
}

func (st *quantizing) quantizes() *quantizing { return st }

// result is where the elements from lo to hi-1 of a row are to be computed.
func (st *quantizing) result(worker, r, lo, hi int) []float32 {
	if st.passing {
		return st.s.scratch[worker].passing[:hi-lo]
	}
	return st.s.row(st.out, r)[lo:hi]
}

// quantize rounds elements of a row from lo on, whole blocks.
func (st *quantizing) quantize(worker, r, lo int, in []float32) {
	const elems, size = kernels.ActivationBlockElems, kernels.ActivationBlockBytes
	blocks, first, p := st.s.scratch[worker].blocks[:len(in)/elems*size], lo/elems, &st.s.panels
	ok := true
	if !st.panelled {
		blocks = st.s.quantized[r*quantizedBytes(st.width):][first*size:][:len(blocks)]
		ok = st.s.vec.Quantize(blocks, in)
	}
	if len(p.sizes) > 0 {
		ok = p.quantize(st.s.vec, st.width/elems, st.s.rowCount(st.rows), r, first, in, st.s.scratch[worker].blocks) && ok
	}
	if ok {
		return
	}
	for ; len(in) > 0; first, in = first+1, in[elems:] {
		if !st.s.vec.Quantize(blocks[:size], in[:elems]) {
			st.report(r, first, in[:elems])
			return
		}
	}
}

// quantizeStep rounds a Value to activation blocks that no step before it could.
type quantizeStep struct{ quantizing }

func (st *quantizeStep) run(worker, lo, hi int) {
	for r := lo; r < hi; r++ {
		st.quantize(worker, r, 0, st.s.row(st.out, r))
	}
}

// report names the element that made the scale of its block leave f16.
func (st *quantizing) report(row, block int, in []float32) {
	for i, x := range in {
		if x-x != 0 {
			st.s.fail(st.out, row, block*len(in)+i, "")
			return
		}
	}
	largest := 0
	for i, x := range in {
		if math.Abs(float64(x)) > math.Abs(float64(in[largest])) {
			largest = i
		}
	}
	st.s.fail(st.out, row, block*len(in)+largest,
		fmt.Sprintf("%g is past what activations of 8 bits can hold; use %s precision", in[largest], device.F32))
}

// ropeStep is op.RoPE.
type ropeStep struct {
	base
	in      op.Value
	headDim int
	rotary  *op.Rotary
	table   table
}

func (st *ropeStep) run(_, lo, hi int) {
	pairs := st.rotary.Dims / 2
	turn := st.s.vec.TurnHalves
	if st.rotary.Pairing == op.Adjacent {
		turn = st.s.vec.TurnAdjacent
	}
	for r := lo; r < hi; r++ {
		p := (st.s.len + r) * pairs
		sin, cos := st.table.sin[p:][:pairs], st.table.cos[p:][:pairs]
		in, out := st.s.row(st.in, r), st.s.row(st.out, r)
		for h := 0; h < len(in); h += st.headDim {
			x, y := in[h:][:st.headDim], out[h:][:st.headDim]
			turn(y, x, sin, cos)
			copy(y[2*pairs:], x[2*pairs:])
		}
	}
}

// elementwise is the split of steps over single elements. An item is a stretch of up to stretchElems of a row.
type elementwise struct{ base }

const stretchElems = 1024

func (e *elementwise) split(rows int) (items, grain int) {
	return rows * e.stretches(), 1 + (rowGrain/8)/min(e.width, stretchElems)
}

func (e *elementwise) stretches() int { return (e.width + stretchElems - 1) / stretchElems }

// stretch gives the row of an item and the range of its elements.
func (e *elementwise) stretch(item int) (row, lo, hi int) {
	n := e.stretches()
	lo = item % n * stretchElems
	return item / n, lo, min(lo+stretchElems, e.width)
}

// siluStep is op.SiLUMul.
type siluStep struct {
	quantizing
	gate, up op.Value
}

func (st *siluStep) split(rows int) (items, grain int) { return (&elementwise{st.base}).split(rows) }

func (st *siluStep) run(worker, lo, hi int) {
	e := elementwise{st.base}
	for item := lo; item < hi; item++ {
		r, a, b := e.stretch(item)
		gate, up, out := st.s.row(st.gate, r)[a:b], st.s.row(st.up, r)[a:b], st.result(worker, r, a, b)
		if !st.s.vec.SiLUMul(out, gate, up) {
			st.s.blame(st.out, r, out, a)
		} else if st.quantized {
			st.quantize(worker, r, a, out)
		}
	}
}

// addStep is op.Add.
type addStep struct {
	base
	a, b op.Value
}

func (st *addStep) split(rows int) (items, grain int) { return (&elementwise{st.base}).split(rows) }

func (st *addStep) run(_, lo, hi int) {
	e := elementwise{st.base}
	for item := lo; item < hi; item++ {
		r, from, to := e.stretch(item)
		a, b, out := st.s.row(st.a, r)[from:to], st.s.row(st.b, r)[from:to], st.s.row(st.out, r)[from:to]
		if !st.s.vec.Add(out, a, b) {
			st.s.blame(st.out, r, out, from)
		}
	}
}

// selectStep is op.Select.
type selectStep struct {
	base
	in op.Value
}

func (st *selectStep) run(_, lo, hi int) {
	for r := lo; r < hi; r++ {
		copy(st.s.row(st.out, r), st.s.row(st.in, st.s.wanted[r]))
	}
}
