package cpu

import (
	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/op"
)

// matmulStep is one or more op.MatMul of the same input and class. Items are the rows of the parts, one part after the
// other.
type matmulStep struct {
	s       *session
	in      op.Value
	inWidth int
	rows    op.Rows
	parts   []matPart
	total   int // rows of all parts
	tokens  int // of the step at hand
}

// matPart is one of the products.
type matPart struct {
	base
	matrix *matrix
	bias   []float32
	first  int // its first item
}

func (st *matmulStep) add(p matPart) {
	p.first = st.total
	st.total += p.matrix.Rows
	st.rows = p.base.rows
	st.parts = append(st.parts, p)
}

func (st *matmulStep) rowSet() op.Rows { return st.rows }

const (
	// matGrain is how many products of numbers a worker takes at a time: about 0.1 ms, so that waking others pays and
	// a cancelled context is noticed soon.
	matGrain = 1 << 17
	// minTileRows is the fewest weight rows of a grain with many tokens: a tile of tokens is read from the cache once
	// for each of them.
	minTileRows = 8
	// tileTokens is how many tokens' activations are multiplied by a tile of weight rows before the next are touched.
	tileTokens = 16
)

func (st *matmulStep) split(tokens int) (items, grain int) {
	st.tokens = tokens
	if tokens == 0 {
		return 0, 1
	}
	return st.total, max(minTileRows, matGrain/(tokens*st.inWidth))
}

func (st *matmulStep) run(worker, lo, hi int) {
	for i := range st.parts {
		p := &st.parts[i]
		a, b := max(lo, p.first)-p.first, min(hi, p.first+p.matrix.Rows)-p.first
		switch {
		case a >= b:
		case p.matrix.dotQ8 != nil:
			st.runQ8(p, a, b)
		default:
			st.runF32(p, worker, a, b)
		}
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
	if p.matrix.Type == format.F32 {
		for m := lo; m < hi; m++ {
			w := p.matrix.row(m)
			for t := range st.tokens {
				st.put(p, m, t, dotF32(w, st.s.row(st.in, t)))
			}
		}
		return
	}
	unpacked := st.s.scratch[worker].unpacked
	for ; lo < hi; lo += unpackedRows {
		n := min(unpackedRows, hi-lo)
		for i := range n {
			p.matrix.dequantize(unpacked[i*st.inWidth:][:st.inWidth], p.matrix.row(lo+i))
		}
		for t := range st.tokens {
			x := st.s.row(st.in, t)
			for i := range n {
				st.put(p, lo+i, t, dot(unpacked[i*st.inWidth:][:st.inWidth], x))
			}
		}
	}
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
