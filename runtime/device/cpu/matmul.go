package cpu

import (
	"unsafe"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/op"
)

// matmulStep is one or more op.MatMul of the same input and class. Items are tiles of rows of the parts, one part after the
// other.
type matmulStep struct {
	s       *session
	in      op.Value
	inWidth int
	rows    op.Rows
	parts   []matPart
	total   int     // items of all parts
	tokens  int     // of the step at hand
	shares  []share // by worker, where all parts are laid out; none: items are dealt as they come
}

// matPart is one of the products.
type matPart struct {
	base
	matrix *matrix
	bias   []float32
	first  int // its first item
	items  int

	tileBias []float32 // for every row of the tiles; nil without a bias
}

func (st *matmulStep) add(p matPart) {
	p.first = st.total
	p.items = p.matrix.items()
	if p.bias != nil && p.matrix.tiles != nil {
		p.tileBias = make([]float32, p.items*itemRows)
		copy(p.tileBias, p.bias)
	}
	st.total += p.items
	st.rows = p.base.rows
	st.parts = append(st.parts, p)
}

func (st *matmulStep) rowSet() op.Rows { return st.rows }

const (
	// itemRows is the rows of an item: a tile.
	itemRows = tile.Rows
	// matGrain is how many products of numbers a worker takes at a time where rows are multiplied one by one: about 0.1 ms, so that
	// waking others pays and a cancelled context is noticed soon.
	matGrain = 1 << 17
	// tileTokens is how many tokens' activations are multiplied by a tile of weight rows before the next are touched.
	tileTokens = 16
	// groupBytes is about how much of a matrix stays in the cache while the panels of a batch pass over it.
	groupBytes = 256 << 10
	// leastPiece and mostPiece bound the products of numbers in a piece of work: a microsecond or two and some milliseconds.
	leastPiece, mostPiece = 1 << 16, 1 << 31
)

func (st *matmulStep) split(tokens int) (items, grain int) {
	st.tokens = tokens
	if tokens == 0 {
		return 0, 1
	}
	work := tokens * st.inWidth * itemRows // of an item
	for i := range st.parts {
		if !st.parts[i].matrix.laidOut {
			st.shares = nil
			return st.total, max(1, matGrain/work)
		}
	}
	if st.shares == nil {
		st.shares = make([]share, len(st.s.tileWork))
	}
	return dealOut(st.shares, st.total, max(1, leastPiece/work), max(1, mostPiece/work)), 1
}

// primeBytes is the most that a worker asks for ahead of a product: what memory gives while one thread computes what lies between
// two products, and a part of the second cache.
const primeBytes = 192 << 10

// prime is what each worker reads first in a product with one token; nil where that is not laid out.
func (st *matmulStep) prime() *ahead {
	workers := len(st.s.tileWork)
	a := &ahead{make([][]byte, workers)}
	for w := range workers {
		item := shareOf(st.total, w, workers)
		for i := range st.parts {
			p := &st.parts[i]
			if !p.matrix.laidOut {
				return nil
			}
			if item >= p.first && item < p.first+p.items {
				first := p.matrix.data[(item-p.first)*p.matrix.itemBytes():]
				a.first[w] = first[:min(len(first), primeBytes)]
			}
		}
	}
	return a
}

func (st *matmulStep) run(worker, lo, hi int) {
	if st.shares != nil { // as many pieces are left as calls
		lo, hi = take(st.shares, worker)
	}
	for i := range st.parts {
		p := &st.parts[i]
		a, b := max(lo, p.first)-p.first, min(hi, p.first+p.items)-p.first
		group := b - a
		if p.matrix.laidOut && st.tokens > 1 {
			group = max(1, groupBytes/p.matrix.itemBytes())
		}
		for ; a < b; a += group {
			st.runItems(p, worker, a, min(a+group, b))
		}
	}
}

// runItems computes items lo to hi-1 of a part.
func (st *matmulStep) runItems(p *matPart, worker, lo, hi int) {
	first, last := lo*itemRows, min(hi*itemRows, p.matrix.Rows)
	switch {
	case p.matrix.tiles != nil:
		st.runTiles(p, worker, lo, hi)
	case p.matrix.dotQ8 != nil:
		st.runQ8(p, first, last)
	default:
		st.runF32(p, worker, first, last)
	}
}

// tileWork is what a worker needs to run tile kernels.
type tileWork struct {
	args    tile.Args
	scratch []byte
	sums    []byte    // of the tokens of a panel and the rows of a tile, where not all rows are of the matrix
	zeros   []float32 // the bias of a tile where there is none

	plain tile.PlainArgs
}

// mostTokens is at least the tokens of any panel.
const mostTokens = 16

func newTileWork(threads int) []tileWork {
	w := make([]tileWork, threads)
	for i := range w {
		w[i] = tileWork{scratch: aligned(tile.ScratchBytes), sums: aligned(mostTokens * itemRows * 4), zeros: make([]float32, itemRows)}
	}
	return w
}

// panelSizes is the numbers of tokens that the level's kernels take at a time, descending; none where no weight has tiles.
func (m *model) panelSizes() (sizes []int) {
	for _, k := range m.matrices {
		if k.tiles != nil {
			for _, x := range k.tiles.kernels {
				sizes = append(sizes, x.tokens)
			}
			return sizes
		}
	}
	return nil
}

// runTiles computes the rows of tiles lo to hi-1 of a part.
func (st *matmulStep) runTiles(p *matPart, worker, lo, hi int) {
	t, work := p.matrix.tiles, &st.s.tileWork[worker]
	whole := min(hi, p.matrix.Rows/itemRows) // tiles before it have all their rows in the matrix
	units := st.inWidth / tile.UnitElems
	a := &work.args
	out := st.s.row(p.out, 0)
	for row := 0; row < st.tokens; {
		offset, tokens, _ := st.s.panels.at(units, st.tokens, row)
		k := 0
		for t.kernels[k].tokens != tokens {
			k++
		}
		*a = tile.Args{X: unsafe.Pointer(&st.s.panels.data[offset]), Scratch: unsafe.Pointer(&work.scratch[0]), Blocks: t.blocks}
		out = st.s.row(p.out, row)
		if whole > lo {
			a.YStride = 4 * len(out)
			st.runKernel(p, t, k, a, work, lo, whole, unsafe.Pointer(&out[lo*itemRows]))
			if a.Bad != 0 {
				st.blame(p, row, tokens, lo*itemRows, whole*itemRows)
			}
		}
		if last := max(lo, whole); last < hi {
			a.YStride = 4 * itemRows
			st.runKernel(p, t, k, a, work, last, last+1, unsafe.Pointer(&work.sums[0]))
			first := last * itemRows
			for i := range tokens {
				sums := unsafe.Slice((*float32)(unsafe.Pointer(&work.sums[4*itemRows*i])), itemRows)
				copy(st.s.row(p.out, row+i)[first:], sums)
			}
			if a.Bad != 0 {
				st.blame(p, row, tokens, first, p.matrix.Rows)
			}
		}
		row += tokens
	}
}

// runKernel runs a kernel on tiles lo to hi-1.
func (st *matmulStep) runKernel(p *matPart, t *tiles, kernel int, a *tile.Args, work *tileWork, lo, hi int, y unsafe.Pointer) {
	a.W = unsafe.Pointer(&p.matrix.data[lo*t.tileBytes])
	a.Y, a.Tiles = y, hi-lo
	a.Bias, a.BiasStep = unsafe.Pointer(&work.zeros[0]), 0
	if p.tileBias != nil {
		a.Bias, a.BiasStep = unsafe.Pointer(&p.tileBias[lo*itemRows]), 4*itemRows
	}
	t.kernels[kernel].run(a)
}

// blame reports the first number of rows lo to hi-1 of some tokens that is not finite.
func (st *matmulStep) blame(p *matPart, token, tokens, lo, hi int) {
	for t := token; t < token+tokens; t++ {
		st.s.check(p.out, t, st.s.row(p.out, t)[lo:hi], lo)
	}
}

// runQ8 computes rows lo to hi-1 of a part from the quantized input.
func (st *matmulStep) runQ8(p *matPart, lo, hi int) {
	rowBytes := quantizedBytes(st.inWidth)
	for t0 := 0; t0 < st.tokens; t0 += tileTokens {
		t1 := min(t0+tileTokens, st.tokens)
		for m := lo; m < hi; m++ {
			w := p.matrix.row(m)
			for t := t0; t < t1; t++ {
				st.put(p, m, t, p.matrix.dotQ8(w, st.s.quantized[t*rowBytes:][:rowBytes]))
			}
		}
	}
}

// unpackedRows is how many weight rows are dequantized before they are multiplied with all tokens, each of which is
// then read once for all of them.
const unpackedRows = 4

// runF32 computes rows lo to hi-1 of a part from the input as it is.
func (st *matmulStep) runF32(p *matPart, worker, lo, hi int) {
	m := p.matrix
	if len(m.plain) > 0 {
		st.runPlain(p, worker, m.plain, m.rows(lo, hi), m.rowBytes, lo, hi)
		return
	}
	if m.Type == format.F32 {
		for r := lo; r < hi; r++ {
			w := m.row(r)
			for t := range st.tokens {
				st.put(p, r, t, dotF32(w, st.s.row(st.in, t)))
			}
		}
		return
	}
	unpacked, unpackedKernels := st.s.scratch[worker].unpacked, st.s.model.unpacked
	for ; lo < hi; lo += unpackedRows {
		n := min(unpackedRows, hi-lo)
		for i := range n {
			m.dequantize(unpacked[i*st.inWidth:][:st.inWidth], m.row(lo+i))
		}
		if len(unpackedKernels) > 0 {
			bytes := unsafe.Slice((*byte)(unsafe.Pointer(&unpacked[0])), 4*n*st.inWidth)
			st.runPlain(p, worker, unpackedKernels, bytes, 4*st.inWidth, lo, lo+n)
			continue
		}
		for t := range st.tokens {
			x := st.s.row(st.in, t)
			for i := range n {
				st.put(p, lo+i, t, dot(unpacked[i*st.inWidth:][:st.inWidth], x))
			}
		}
	}
}

// runPlain computes rows lo to hi-1 of a part whose numbers lie in w, rowBytes from row to row, as kernels read them.
func (st *matmulStep) runPlain(p *matPart, worker int, kernels []plainKernel, w []byte, rowBytes, lo, hi int) {
	a := &st.s.tileWork[worker].plain
	whole := st.inWidth / tile.PlainStep * tile.PlainStep
	run := func(k *plainKernel, w []byte, t, lo, hi int) {
		*a = tile.PlainArgs{W: unsafe.Pointer(&w[0]), WStride: rowBytes, X: unsafe.Pointer(&st.s.row(st.in, t)[0]), XStride: 4 * st.inWidth,
			Y: unsafe.Pointer(&st.s.row(p.out, t)[lo]), YStride: 4 * p.width, Steps: whole / tile.PlainStep, Groups: (hi - lo) / k.rows}
		k.run(a)
	}
	single := &kernels[len(kernels)-1]
	for t := 0; t < st.tokens; {
		k := 0
		for kernels[k].tokens > st.tokens-t {
			k++
		}
		kernel := &kernels[k]
		last := lo + (hi-lo)/kernel.rows*kernel.rows
		for i := range kernel.tokens {
			if whole == 0 {
				clear(st.s.row(p.out, t+i)[lo:hi])
			}
		}
		if whole > 0 && last > lo {
			run(kernel, w, t, lo, last)
		}
		if whole > 0 && last < hi {
			for i := range kernel.tokens {
				run(single, w[(last-lo)*rowBytes:], t+i, last, hi)
			}
		}
		for range kernel.tokens {
			st.finishPlain(p, t, w, rowBytes, lo, hi, whole)
			t++
		}
	}
}

// finishPlain adds what plain kernels leave over to the sums of a token: the products of the last few elements, and the bias.
func (st *matmulStep) finishPlain(p *matPart, t int, w []byte, rowBytes, lo, hi, whole int) {
	y := st.s.row(p.out, t)[lo:hi]
	if whole < st.inWidth {
		from := whole * rowBytes / st.inWidth
		for i := range y {
			y[i] += st.rest(p, w[i*rowBytes+from:(i+1)*rowBytes], st.s.row(st.in, t)[whole:])
		}
	}
	if p.bias != nil {
		for i, b := range p.bias[lo:hi] {
			y[i] += b
		}
	}
	if !st.s.vec.Finite(y) {
		st.s.blame(p.out, t, y, lo)
	}
}

// plainKernel multiplies so many rows of plain numbers with so many tokens.
type plainKernel struct {
	rows, tokens int
	run          func(*tile.PlainArgs)
}

// rest is the product of the last few elements of a row. w is plain numbers: the part's own, or f32.
func (st *matmulStep) rest(p *matPart, w []byte, x []float32) (sum float32) {
	var row [tile.PlainStep]float32
	if len(p.matrix.plain) > 0 {
		p.matrix.dequantize(row[:len(x)], w)
	} else {
		copy(row[:], unsafe.Slice((*float32)(unsafe.Pointer(&w[0])), len(x)))
	}
	for i, v := range x {
		sum += row[i] * v
	}
	return sum
}

// put stores one element of the result, with its bias.
func (st *matmulStep) put(p *matPart, m, t int, y float32) {
	if p.bias != nil {
		y += p.bias[m]
	}
	if y-y != 0 {
		st.s.fail(p.out, t, m, "")
	}
	st.s.row(p.out, t)[m] = y
}

// quantizedBytes is the size of a row of activation blocks.
func quantizedBytes(width int) int {
	return width / kernels.ActivationBlockElems * kernels.ActivationBlockBytes
}

// dot is the sum of a[i]*b[i], in eight interleaved partial sums.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return (s0 + s4) + (s2 + s6) + ((s1 + s5) + (s3 + s7))
}
