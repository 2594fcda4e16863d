package conform

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// fused is one product with what surrounds it: a norm and the rounding to 8 bits before it, a bias, a residual or a gate after it.
type fused struct {
	product
	norm, residual bool
	parts          [2]int64 // rows of a second and a third matrix, of all rows
}

func (f fused) String() string {
	s := f.product.String()
	if f.norm {
		s += ", norm"
	}
	if f.residual {
		s += ", residual"
	}
	if f.parts[0] > 0 {
		s += fmt.Sprintf(", of which %d and %d in further matrices", f.parts[0], f.parts[1])
	}
	return s
}

// beyondRuns is more rows than the own runs of four blocks hold, of eight stages of 32 rows: the last of them come out of the queue.
const beyondRuns = 1100

// fusedJobs is the suite of products of one token with their surroundings.
func fusedJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		seen := map[fused]bool{}
		try := func(f fused) bool {
			if f.weights == "" {
				f.weights = sane
			}
			if f.x == "" {
				f.x = normal
			}
			f.tokens, f.shares = 1, max(1, f.shares)
			q := s.query()
			q.Rows, q.Cols, q.Tokens, q.Shares = f.rows, f.cols, 1, f.shares
			if seen[f] || s.refusal(&q) >= 0 {
				return true
			}
			seen[f] = true
			return yield(s.fused(f))
		}
		of := func(rows, cols, shares int64) fused {
			return fused{product: product{rows: rows, cols: cols, shares: shares}}
		}
		g, tile := s.grainOf("cols"), s.Geometry.Over("rows")[0].Period
		for i, cols := range s.edges("cols", 40000) {
			f := of(3, cols, 2)
			f.norm, f.bias, f.residual = i%2 == 0, i%3 == 0, i%3 == 1
			last := of(2, cols, 1)
			last.x = lastUnit
			if !try(f) || !try(last) || !try(of(tile+1, cols, 1)) {
				return
			}
		}
		for i, rows := range append([]int64{1, 2, 3, 5, 7, 257, beyondRuns, beyondRuns/tile*tile + 1}, s.edges("rows", 300)...) {
			f := of(rows, g*int64(1+i%2), int64(1+i%4))
			f.norm, f.bias, f.residual = i%2 == 1, i%2 == 0, i%3 == 0
			if !try(f) {
				return
			}
		}
		for i, x := range []string{zero, minusZero, oneNaN, oneInf, loud, flip, huge, denormal, tiny, outliers} {
			f := of(5, 3*g, 2)
			f.x, f.norm = x, i%2 == 0
			if !try(f) {
				return
			}
		}
		for _, fill := range []string{ones, tops, lows, blank, wild} {
			f := of(6, 2*g, 1)
			f.weights, f.residual = fill, true
			if !try(f) {
				return
			}
		}
		if s.takes("rows2") {
			for i, parts := range [][2]int64{{1, 0}, {1, 1}, {30, 5}, {3, 40}, {64, 0}} {
				f := of(parts[0]+parts[1]+int64(1+7*i), 2*g, int64(1+i))
				f.parts, f.norm, f.bias, f.residual = parts, i%2 == 0, i%3 != 0, i%3 != 1
				if !try(f) {
					return
				}
			}
		}
		r := random(g, int64(s.Variant.Threads))
		for range 4 {
			f := of(1+r.Int64N(90), g*(1+r.Int64N(max(1, 4000/g))), 1+r.Int64N(5))
			f.norm, f.residual = r.IntN(2) == 0, r.IntN(2) == 0
			if !try(f) {
				return
			}
		}
	}
}

// rounded is x times norm in codes of 8 bits for each 32 elements, as streaming kernels round it: the numbers that they multiply, and the
// factor of the norm, which they apply after the product.
func rounded(x, norm []float32, eps float32) (seen []float32, factor float64) {
	seen, factor = make([]float32, len(x)), 1
	for at := 0; at < len(x); at += 32 {
		var top uint32
		v := seen[at : at+32]
		for i := range v {
			if v[i] = x[at+i]; norm != nil {
				v[i] *= norm[at+i]
			}
			top = max(top, math.Float32bits(v[i])&^(1<<31))
		}
		d := math.Float32frombits(top)
		if d < 0x1p-90 {
			d = 0
		}
		d /= 127
		for i := range v {
			q := float32(0)
			if inverse := 1 / d; d != 0 {
				q = float32(math.RoundToEven(float64(v[i] * inverse)))
			}
			if q != q {
				q = 0
			}
			v[i] = max(-127, min(127, q)) * d
		}
	}
	if norm != nil {
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		factor = 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	}
	return seen, factor
}

// fused makes the job of a product with its surroundings.
func (s *Subject) fused(f fused) *job {
	const eps = 1e-5
	r := random(f.rows, f.cols, int64(s.Info.BlockBytes), int64(len(f.x)), int64(len(f.weights)))
	vector := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	w := makeWeights(s.Info, f.rows, f.cols, f.weights, r)
	x := activations(1, f.cols, s.Geometry.Axis("unit").Elems, f.x, r)
	args := map[string]any{"x": x, "claims": make([]byte, 4), "norm": nil, "bias0": nil, "bias1": nil, "bias2": nil, "residual": nil, "w": nil, "w1": nil, "w2": nil,
		"y1": nil, "y2": nil, "rows": f.rows, "rows0": f.rows, "rows1": int64(0), "rows2": int64(0), "cols": f.cols, "eps": float32(eps)}
	args["w"], args["y"] = w.place(s.Variant.Weights), nans(f.rows)
	// The rows of the parts, one after the other; the residual belongs to the first.
	first := f.rows - f.parts[0] - f.parts[1]
	blocks, from := args["w"].([]byte), int64(0)
	rowBytes := int64(len(blocks)) / f.rows
	for i, n := range []int64{first, f.parts[0], f.parts[1]} {
		if n > 0 {
			args[fmt.Sprint("w", i)], args[fmt.Sprint("y", i)], args[fmt.Sprint("rows", i)] = blocks[from*rowBytes:(from+n)*rowBytes], nans(n), n
		}
		from += n
	}
	var norm, bias, residual []float32
	if f.norm {
		norm = vector(f.cols)
		args["norm"] = norm
	}
	if f.bias {
		bias = vector(f.rows)
		args["bias0"], args["bias1"], args["bias2"] = bias[:first], bias[first:first+f.parts[0]], bias[first+f.parts[0]:]
	}
	if f.residual {
		residual = vector(f.rows)
		args["residual"] = residual[:first]
		clear(residual[first:])
	}
	var up *weights
	if s.takes("w_up") {
		up = makeWeights(s.Info, f.rows, f.cols, f.weights, r)
		args["w_up"] = up.place(s.Variant.Weights)
	}
	seen, factor := rounded(x, norm, eps)
	tolerance := s.sumTolerance(f.cols)
	var others []byte // outputs of all parts but the last
	also := func(after map[string][]byte) error {
		others = append(append([]byte{}, after["y0"]...), after["y1"]...)
		if n := binary.LittleEndian.Uint32(after["claims"]); n != 0 {
			return fmt.Errorf("the queue's counter is left at %d", n)
		}
		return nil
	}
	check := func(out []byte) (worst float64, err error) {
		out = append(others, out...)
		sizes := blockSums(seen, int64(max(32, s.Info.BlockElems)))
		for m := range f.rows {
			got, err := number(out, m)
			if err != nil {
				return worst, fmt.Errorf("row %d: %w", m, err)
			}
			want, size := dot(w.row(m), seen, sizes)
			want, size = want*factor, math.Abs(size*factor)
			if up != nil {
				u, usize := dot(up.row(m), seen, sizes)
				want, size = gated(want, size, u*factor, math.Abs(usize*factor))
			}
			for _, more := range [][]float32{bias, residual} {
				if more != nil && up == nil {
					want += float64(more[m])
					size += math.Abs(float64(more[m]))
				}
			}
			// The norm's factor takes a few roundings of its own, and is as uncertain as its sum.
			ratio, err := near(float64(got), want, (tolerance+0x1p-21)*size, f.cols)
			if err != nil {
				return worst, fmt.Errorf("row %d: %w", m, err)
			}
			worst = max(worst, ratio)
		}
		return worst, nil
	}
	q := s.query()
	q.Rows, q.Cols, q.Tokens, q.Shares = f.rows, f.cols, 1, f.shares
	return &job{name: f.String(), query: q, args: args, also: also, check: check}
}

// gated is g * sigmoid(g) * u and how much it moves when g and u do by one part of their sizes: the slope of g*sigmoid(g) is at most 1.1.
func gated(g, gsize, u, usize float64) (want, size float64) {
	silu := g / (1 + math.Exp(-g))
	return silu * u, 1.1*gsize*math.Abs(u) + math.Abs(silu)*usize + 1.1*gsize*usize*0x1p-20
}
