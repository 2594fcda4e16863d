package conform

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/numeric"
)

// product is one product of a matrix with activations.
type product struct {
	rows, cols, tokens int64
	pad                int64 // numbers between one token's outputs and the next: y_stride - rows
	shares             int64 // of the rows, where blocks share them out
	weights, x         string
	bias               bool
}

// sentinel lies in the padding of outputs and must stay.
const sentinel = 12345

func (p product) String() string {
	s := fmt.Sprintf("[%d, %d] times %d tokens, %s, %s", p.rows, p.cols, p.tokens, p.weights, p.x)
	if p.pad > 0 {
		s += fmt.Sprintf(", y_stride %d", p.rows+p.pad)
	}
	if p.bias {
		s += ", bias"
	}
	if p.shares > 0 {
		s += fmt.Sprintf(", %d shares", p.shares)
	}
	return s
}

// matmulJobs is the suite of matrix products, of one token or several, with activations of 8 bits or f32.
func matmulJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		seen := map[product]bool{}
		sharing := slices.ContainsFunc(s.Geometry.Axes, func(a kernel.Axis) bool { return a.Share })
		try := func(p product) bool {
			if p.weights == "" {
				p.weights = sane
			}
			if p.x == "" {
				p.x = normal
			}
			if !s.takes("y_stride") {
				p.pad = 0
			}
			if sharing && p.shares == 0 {
				p.shares = 3
			}
			q := s.query()
			q.Rows, q.Cols, q.Tokens = p.rows, p.cols, p.tokens
			if seen[p] || s.refusal(&q) >= 0 {
				return true
			}
			seen[p] = true
			return yield(s.product(p))
		}
		g := s.grainOf("cols")
		widths := s.edges("cols", 40000)
		widths = append(widths, 10944, 8640, 18944/g*g) // whole steps of 64, odd numbers of 128 and 256
		most := s.most("tokens")                        // some kernels take one at a time
		many := min(2, most)
		for i, cols := range widths {
			if !try(product{rows: 3, cols: cols, tokens: many, pad: int64(i%2) * 5, bias: i%2 == 1}) ||
				!try(product{rows: 2, cols: cols, tokens: 1, x: lastUnit}) || !try(product{rows: 2, cols: cols, tokens: 1, x: firstUnit}) {
				return
			}
		}
		for i, rows := range append([]int64{1, 2, 3, 5, 7, 257}, s.edges("rows", 300)...) {
			if !try(product{rows: rows, cols: g * int64(1+i%2), tokens: many, pad: 3, bias: i%2 == 0}) {
				return
			}
		}
		for tokens := int64(1); tokens <= 17; tokens++ {
			if !try(product{rows: 5, cols: 2 * g, tokens: tokens, pad: 64 * (tokens % 2)}) {
				return
			}
		}
		// A tile of rows and tokens that is full, with one more of each, and all but full.
		tall, wide := s.Geometry.Over("rows")[0].Period, s.Geometry.Over("tokens")[0].Period
		for _, p := range []product{
			{rows: tall + 1, cols: g, tokens: min(wide+1, most), pad: 2, bias: true},
			{rows: max(1, tall-1), cols: 5 * g, tokens: min(max(1, wide-1), most)},
			{rows: tall + 4, cols: g, tokens: min(wide+1, most), pad: 2, x: zero, bias: true}, // the bias alone, which larger sums would hide
		} {
			if !try(p) {
				return
			}
		}
		for _, x := range []string{zero, minusZero, oneNaN, oneInf, loud, flip, huge, denormal, tiny, outliers} {
			if !try(product{rows: 5, cols: 3 * g, tokens: min(3, most), x: x}) {
				return
			}
		}
		for _, fill := range []string{ones, tops, lows, blank, wild} {
			for _, x := range []string{normal, loud, zero} {
				if !try(product{rows: 6, cols: 2 * g, tokens: many, weights: fill, x: x}) {
					return
				}
			}
		}
		if sharing {
			// A block that has a whole tile of rows, of the widest too, and one more.
			for _, cols := range widths {
				if !try(product{rows: tall + 1, cols: cols, tokens: 1, shares: 1}) {
					return
				}
			}
			for _, shares := range []int64{1, 2, 6, 7, 8, 32, 132} { // fewer than rows, as many, more
				if !try(product{rows: 7, cols: g, tokens: 1, shares: shares, bias: true}) || !try(product{rows: 260, cols: 2 * g, tokens: 1, shares: shares}) ||
					!try(product{rows: beyondRuns/tall*tall + min(4, shares), cols: g, tokens: 1, shares: min(4, shares), bias: true}) { // the last tile of the queue has 1, 2 and 4 rows
					return
				}
			}
		}
		r := random(g, int64(s.Variant.Threads))
		for range 6 {
			p := product{rows: 1 + r.Int64N(40), cols: g * (1 + r.Int64N(max(1, 4000/g))), tokens: 1 + r.Int64N(min(11, most)), pad: r.Int64N(3), bias: r.IntN(2) == 0}
			if !try(p) {
				return
			}
		}
		// The sizes that take long, each once for the variants of a format.
		if !s.cheap {
			return
		}
		for _, p := range s.turns([]product{
			{rows: 65536, cols: g, tokens: 1},
			{rows: 152064, cols: g, tokens: 1},
			{rows: 1, cols: g, tokens: 65535},
			{rows: 1000, cols: g, tokens: min(3, most), pad: 64},
			{rows: 3, cols: 18944 / g * g, tokens: many, x: loud},
		}) {
			if !try(p) {
				return
			}
		}
	}
}

// turns is the subject's share of products that its gate's variants take in turn.
func (s *Subject) turns(all []product) (mine []product) {
	i := slices.IndexFunc(s.Entry.Steps, func(st kernel.Step) bool { return st.Variant == s.Variant })
	for n, p := range all {
		if n%len(s.Entry.Steps) == i {
			mine = append(mine, p)
		}
	}
	return mine
}

// takes reports whether the kernel has an argument of that name.
func (s *Subject) takes(arg string) bool {
	return slices.ContainsFunc(s.Variant.Args, func(a kernel.Arg) bool { return a.Name == arg })
}

// most is the largest admitted size of a dim.
func (s *Subject) most(dim string) int64 {
	n := int64(math.MaxInt64)
	for _, b := range s.Variant.Bounds {
		if b.Kind == kernel.Max && b.Dim == dim {
			n = min(n, b.Value)
		}
	}
	return n
}

// product makes the job of a product.
func (s *Subject) product(p product) *job {
	r := random(p.rows, p.cols, p.tokens, int64(s.Info.BlockBytes), int64(len(p.x)), int64(len(p.weights)))
	unit := s.Geometry.Axis("unit")
	w := makeWeights(s.Info, p.rows, p.cols, p.weights, r)
	return s.productOf(p, w, activations(p.tokens, p.cols, unit.Elems, p.x, r), r)
}

// Classes are the numeric classes that kernels are judged in: what activations are rounded to before a product.
var Classes = []string{"bf16", "f32", "q8"}

// productOf makes the job of a product of given numbers.
func (s *Subject) productOf(p product, w *weights, x []float32, r *rand.Rand) *job {
	q := s.query()
	q.Rows, q.Cols, q.Tokens, q.Shares = p.rows, p.cols, p.tokens, max(1, p.shares)
	stride := p.rows + p.pad
	args := map[string]any{"w": w.place(s.Variant.Weights), "x": x, "bias": nil, "rows": p.rows, "cols": p.cols, "tokens": p.tokens, "y_stride": stride, "claims": make([]byte, 4)}
	// The reference multiplies what the kernel is given: activations after their rounding.
	seen := x
	switch s.Entry.Class {
	case "bf16":
		seen = make([]float32, len(x))
		codes := make([]byte, 2*len(x))
		for i, v := range x {
			h := numeric.ToBF16(v)
			binary.LittleEndian.PutUint16(codes[2*i:], h)
			seen[i] = numeric.BF16(h)
		}
		args["x"] = codes
	case "q8":
		codes := make([]byte, len(x)/cpu.ActivationBlockElems*cpu.ActivationBlockBytes)
		cpu.QuantizeActivations(codes, x)
		seen = make([]float32, len(x))
		cpu.DequantizeActivations(seen, codes)
		args["x"] = codes
	case "f32":
	default:
		panic("BUG: no product is judged in class " + s.Entry.Class)
	}
	var bias []float32
	if p.bias {
		bias = make([]float32, p.rows)
		for i := range bias {
			bias[i] = float32(r.NormFloat64())
		}
		args["bias"] = bias
	}
	// The last token's row ends with its last number.
	y := nans((p.tokens-1)*stride + p.rows)
	for t := range p.tokens - 1 {
		for i := p.rows; i < stride; i++ {
			put32(y, t*stride+i, math.Float32bits(sentinel))
		}
	}
	args["y"] = y
	tolerance := s.sumTolerance(p.cols)
	check := func(out []byte) (worst float64, err error) {
		for t := range p.tokens {
			xt := seen[t*p.cols : (t+1)*p.cols]
			sizes := blockSums(xt, int64(max(32, s.Info.BlockElems)))
			for m := range p.rows {
				got, err := number(out, t*stride+m)
				if err != nil {
					return worst, fmt.Errorf("row %d of token %d: %w", m, t, err)
				}
				want, size := dot(w.row(m), xt, sizes)
				if bias != nil {
					want += float64(bias[m])
					size += math.Abs(float64(bias[m]))
				}
				ratio, err := near(float64(got), want, tolerance*size, p.cols)
				if err != nil {
					return worst, fmt.Errorf("row %d of token %d: %w", m, t, err)
				}
				worst = max(worst, ratio)
			}
			if t == p.tokens-1 {
				break
			}
			for i := p.rows; i < stride; i++ {
				if v, err := number(out, t*stride+i); err != nil || v != sentinel {
					return worst, fmt.Errorf("number %d past the %d rows of token %d was overwritten", i-p.rows, p.rows, t)
				}
			}
		}
		return worst, nil
	}
	return &job{name: p.String(), query: q, args: args, check: check}
}

// sumTolerance is the error of a row's sum, relative to the sum of the magnitudes of its terms. A term takes a few roundings of 2^-24 each
// (scales, weight, product). A thread adds its terms in turn, then a tree adds the threads; the roundings of a chain of n
// additions are as good as random, so that they grow like sqrt(n).
// 8-bit products are exact up to a group's scale, so a chain has a term for each group (4 elements at least); f32 products have one
// for each element.
func (s *Subject) sumTolerance(cols int64) float64 {
	unit := s.Geometry.Axis("unit")
	units := cols / unit.Elems
	lanes := min(unit.Period, int64(s.Variant.Threads))
	terms := unit.Elems
	if s.Entry.Class == "q8" {
		terms = max(1, unit.Elems/4)
	}
	chain := float64((units + lanes - 1) / lanes * terms)
	tolerance := 0x1p-24 * (4 + 2*math.Sqrt(chain))
	if s.Entry.Class == "bf16" {
		tolerance += 0x1p-8
	}
	return tolerance
}

// blockSums is the sum of |x| of each run of block elements.
func blockSums(x []float32, block int64) []float64 {
	sums := make([]float64, (int64(len(x))+block-1)/block)
	for i, v := range x {
		sums[int64(i)/block] += math.Abs(float64(v))
	}
	return sums
}

// dot is the sum of w*x, and the size of its terms: by block, the greatest |w| times the sum of |x|. Terms of formats with an offset cancel
// within a weight, so the weights' own magnitudes would be too small a measure.
func dot(w, x []float32, sums []float64) (sum, size float64) {
	block := (len(w) + len(sums) - 1) / len(sums)
	for b := range sums {
		var top float32
		part := w[b*block : min(len(w), (b+1)*block)]
		xs := x[b*block:]
		for i, v := range part {
			sum += float64(v) * float64(xs[i])
			if v > top {
				top = v
			} else if -v > top {
				top = -v
			}
		}
		size += float64(top) * sums[b]
	}
	return sum, size
}

// near holds a number against its reference. What is not finite must stay so, and a sum of nothing but zeros is exactly zero.
// n bounds how many terms may have lost bits below the least normal number.
func near(got, want, tolerance float64, n int64) (ratio float64, err error) {
	switch {
	case !finite(want):
		if finite(got) {
			return 0, fmt.Errorf("it is %g where the reference is not finite (%g)", got, want)
		}
		return 0, nil
	case !finite(got):
		if math.Abs(want)+tolerance*0x1p20 > 1e37 { // terms overflow f32 though their sum need not
			return 0, nil
		}
		return 0, fmt.Errorf("it is %g, the reference is %g", got, want)
	case tolerance == 0 && got != want:
		return 0, fmt.Errorf("it is %g, where all terms are zero and it must be exactly %g", got, want)
	case tolerance == 0:
		return 0, nil
	}
	tolerance += float64(n) * 0x1p-140
	off := math.Abs(got - want)
	if off > tolerance {
		return off / tolerance, fmt.Errorf("it is %.9g, the reference is %.9g: off by %.3g, allowed %.3g", got, want, off, tolerance)
	}
	return off / tolerance, nil
}
