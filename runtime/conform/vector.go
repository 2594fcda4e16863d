package conform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"

	"github.com/minfer/minfer/runtime/numeric"
)

// specials are numbers that arithmetic treats in their own ways.
var specials = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1e-45, -1e-40, math.SmallestNonzeroFloat32 * 1e7, math.MaxFloat32, -math.MaxFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 65504, 65520, 88.5, -88.5, 104, -104, 3e-39, 1e10, -1e10}

// numbers is n numbers: normal ones, with special ones strewn in where asked.
func numbers(n int64, special bool, r *rand.Rand) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		if special && r.IntN(3) == 0 {
			x[i] = specials[r.IntN(len(specials))]
		}
	}
	return x
}

// sameNumber reports whether two numbers have the same bits, any NaN being like another.
func sameNumber(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// exactly judges an output whose every number is known.
func exactly(out []byte, want func(i int64) float32) error {
	for i := range int64(len(out) / 4) {
		got, err := number(out, i)
		if err != nil {
			return err
		}
		if w := want(i); !sameNumber(got, w) {
			return fmt.Errorf("element %d is %g (%#08x), it must be %g (%#08x)", i, got, math.Float32bits(got), w, math.Float32bits(w))
		}
	}
	return nil
}

// within judges an output against a reference with a tolerance for each number.
func within(out []byte, want func(i int64) (y, tolerance float64)) (worst float64, err error) {
	for i := range int64(len(out) / 4) {
		got, err := number(out, i)
		if err != nil {
			return worst, err
		}
		y, tolerance := want(i)
		ratio, err := near(float64(got), y, tolerance, 1)
		if err != nil {
			return worst, fmt.Errorf("element %d: %w", i, err)
		}
		worst = max(worst, ratio)
	}
	return worst, nil
}

// widths are the edges of cols, and one that is long.
func (s *Subject) widths() []int64 {
	w := s.edges("cols", 3000)
	if s.cheap {
		w = append(w, (1<<20+3*s.grainOf("cols"))/s.grainOf("cols")*s.grainOf("cols"))
	}
	return w
}

// elementJobs is the suite of an operation on two vectors.
func elementJobs(s *Subject, a, b string, check func(x, y []float32) func(out []byte) (float64, error)) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for _, n := range s.widths() {
			for _, special := range []bool{false, true} {
				r := random(n)
				x, y := numbers(n, special, r), numbers(n, special, r)
				q := s.query()
				q.Cols = n
				args := map[string]any{a: x, b: y, "out": nans(n), "cols": n}
				if !yield(&job{name: fmt.Sprintf("%d numbers, special %t", n, special), query: q, args: args, check: check(x, y)}) {
					return
				}
			}
		}
	}
}

// addJobs: the sum of two f32 rounds once, so that its bits are known.
func addJobs(s *Subject) iter.Seq[*job] {
	return elementJobs(s, "a", "b", func(x, y []float32) func([]byte) (float64, error) {
		return func(out []byte) (float64, error) {
			return 0, exactly(out, func(i int64) float32 { return x[i] + y[i] })
		}
	})
}

// inBF16 judges an output in bf16, of numbers that are known: the nearest, and 0x7fff for a NaN.
func inBF16(out []byte, x []float32) error {
	for i, v := range x {
		want := numeric.ToBF16(v)
		if v != v {
			want = 0x7fff
		}
		if have := binary.LittleEndian.Uint16(out[2*i:]); have != want {
			return fmt.Errorf("element %d is %#04x, it must be %#04x: %g in bf16", i, have, want, v)
		}
	}
	return nil
}

// alsoRounded is the jobs that a job stands for whose kernel writes numbers, the same in bf16, or both: first both, which are judged, then each
// alone, which must be the same bytes.
func alsoRounded(j *job) []*job {
	var out, halves []byte // of the launch that writes both
	with := func(name string, plain, rounded bool, check func([]byte) (float64, error)) *job {
		one := *j
		one.name, one.args, one.check = j.name+", "+name, maps.Clone(j.args), check
		one.args["halves"] = bytes.Repeat([]byte{0xa5}, len(j.args["out"].([]byte))/2)
		if !plain {
			one.args["out"] = nil
		}
		if !rounded {
			one.args["halves"] = nil
		}
		return &one
	}
	both := with("and in bf16", true, true, func(rounded []byte) (float64, error) {
		halves = rounded
		worst, err := j.check(out)
		if err == nil {
			err = inBF16(rounded, floatsOf(out))
		}
		return worst, err
	})
	both.also = func(after map[string][]byte) error {
		out = after["out"]
		return nil
	}
	alone := func(want *[]byte) func([]byte) (float64, error) {
		return func(have []byte) (float64, error) {
			if !bytes.Equal(have, *want) {
				return 0, errors.New("other bytes than where the kernel writes both")
			}
			return 0, nil
		}
	}
	return []*job{both, with("alone", true, false, alone(&out)), with("in bf16 alone", false, true, alone(&halves))}
}

// eachRounded is the jobs that each of the jobs stands for.
func eachRounded(jobs iter.Seq[*job]) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for j := range jobs {
			for _, one := range alsoRounded(j) {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// roundJobs: the nearest bf16, whose bits are known.
func roundJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for _, n := range s.widths() {
			for _, special := range []bool{false, true} {
				x := numbers(n, special, random(n))
				for i := range x[:n/2] { // bits of any kind, and halfway between two numbers
					if b := math.Float32bits(x[i]); i%3 == 0 {
						x[i] = math.Float32frombits(b&^0xffff | 0x8000)
					}
				}
				q := s.query()
				q.Cols = n
				check := func(out []byte) (float64, error) { return 0, inBF16(out, x) }
				args := map[string]any{"x": x, "out": bytes.Repeat([]byte{0xa5}, int(2*n)), "cols": n}
				if !yield(&job{name: fmt.Sprintf("%d numbers, special %t", n, special), query: q, args: args, check: check}) {
					return
				}
			}
		}
	}
}

// siluJobs: gate/(1+exp(-gate))*up within 8 roundings: the exponential, good to about 2 of them, counts less than fully in the quotient.
// exp(-gate) overflows f32 where gate is below -88.7, and the result is then 0 for what is less than 3e-37*up.
func siluJobs(s *Subject) iter.Seq[*job] {
	return eachRounded(elementJobs(s, "gate", "up", func(x, y []float32) func([]byte) (float64, error) {
		return func(out []byte) (float64, error) {
			return within(out, func(i int64) (float64, float64) {
				g, u := float64(x[i]), float64(y[i])
				want := g / (1 + math.Exp(-g)) * u
				if math.Abs(want) > math.MaxFloat32 {
					want = math.Inf(int(math.Copysign(1, want)))
				}
				return want, 8*0x1p-24*math.Abs(want) + 3e-37*math.Abs(u) + 0x1p-126
			})
		}
	}))
}

// rmsnormJobs: x/sqrt(mean(x^2)+eps)*w. The sum of squares has no cancellation: its error is that of a chain of additions (see sumTolerance);
// root, quotients and products round 6 times.
func rmsnormJobs(s *Subject) iter.Seq[*job] {
	return eachRounded(func(yield func(*job) bool) {
		try := func(rows, cols int64, fill string, eps float32) bool {
			r := random(rows, cols, int64(len(fill)))
			x, w := activations(rows, cols, 1, fill, r), numbers(cols, false, r)
			q := s.query()
			q.Rows, q.Cols = rows, cols
			args := map[string]any{"x": x, "w": w, "out": nans(rows * cols), "cols": cols, "eps": eps}
			tolerance := 0x1p-24 * (6 + 2*math.Sqrt(float64(cols/int64(s.Variant.Threads))))
			check := func(out []byte) (float64, error) {
				row, factor := int64(-1), 0.0
				return within(out, func(i int64) (float64, float64) {
					if i/cols != row {
						row = i / cols
						var sum float64
						for _, v := range x[row*cols : (row+1)*cols] {
							sum += float64(v) * float64(v)
						}
						factor = 1 / math.Sqrt(sum/float64(cols)+float64(eps))
					}
					y := float64(x[i]) * factor * float64(w[i%cols])
					return y, tolerance * math.Abs(y)
				})
			}
			return yield(&job{name: fmt.Sprintf("[%d, %d], %s, eps %g", rows, cols, fill, eps), query: q, args: args, check: check})
		}
		for _, cols := range s.widths() {
			if !try(2, cols, normal, 1e-6) || !try(1, cols, lastUnit, 1e-5) {
				return
			}
		}
		for _, rows := range []int64{1, 3, 7, 257} {
			if !try(rows, 128, normal, 1e-5) {
				return
			}
		}
		for _, fill := range []string{zero, oneNaN, oneInf, loud, huge, denormal, tiny, outliers, minusZero} {
			if !try(5, 320, fill, 1e-6) {
				return
			}
		}
		if s.cheap {
			try(65536, 3, normal, 1e-6)
		}
	})
}

// selectJobs: rows are copied, bit for bit.
func selectJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for _, cols := range s.widths() {
			for _, rows := range []int64{1, 2, 3, 9} {
				r := random(cols, rows)
				const from = 11
				x, index := numbers(from*cols, true, r), make([]int32, rows)
				for i := range index {
					index[i] = int32(r.IntN(from))
				}
				index[rows-1] = from - 1 // the end of x
				q := s.query()
				q.Rows, q.Cols = rows, cols
				args := map[string]any{"x": x, "index": index, "out": nans(rows * cols), "cols": cols}
				check := func(out []byte) (float64, error) {
					for i, at := range index {
						row := out[int64(i)*4*cols : (int64(i)+1)*4*cols]
						if !bytes.Equal(row, floatBytes(x[int64(at)*cols:(int64(at)+1)*cols])) {
							return 0, fmt.Errorf("row %d is not row %d of x", i, at)
						}
					}
					return 0, nil
				}
				if !yield(&job{name: fmt.Sprintf("%d rows of %d", rows, cols), query: q, args: args, check: check}) {
					return
				}
				if cols > 1<<16 {
					break
				}
			}
		}
		if s.cheap {
			selectMany(s, yield)
		}
	}
}

// selectMany takes as many rows as a grid axis holds.
func selectMany(s *Subject, yield func(*job) bool) {
	q := s.query()
	q.Rows, q.Cols = 65535, 3
	x, index := numbers(3*4, false, random(1)), make([]int32, q.Rows)
	for i := range index {
		index[i] = int32(i % 4)
	}
	yield(&job{name: "65535 rows", query: q, args: map[string]any{"x": x, "index": index, "out": nans(3 * q.Rows), "cols": q.Cols}, check: func(out []byte) (float64, error) {
		return 0, exactly(out, func(i int64) float32 { return x[3*int64(index[i/3])+i%3] })
	}})
}

// ropeJobs: two products and a sum for each number of a pair: 3 roundings of 2^-24 of their magnitudes. Elements past dims are copied.
func ropeJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		type shape struct {
			tokens, heads, headDim, dims int64
			adjacent                     bool
			special                      bool
		}
		var shapes []shape
		for _, d := range s.edges("head_dim", 1000) {
			shapes = append(shapes, shape{2, 3, d, d, false, false}, shape{2, 3, d, d, true, false})
		}
		for _, dims := range []int64{0, 2, 64, 94, 96} {
			shapes = append(shapes, shape{3, 2, 96, dims, false, false}, shape{3, 2, 96, dims, true, false})
		}
		for tokens := int64(1); tokens <= 9; tokens++ {
			shapes = append(shapes, shape{tokens, tokens % 4, 64, 64, tokens%2 == 0, false})
		}
		shapes = append(shapes, shape{2, 5, 64, 32, false, true}, shape{2, 5, 64, 32, true, true})
		if s.cheap {
			shapes = append(shapes, shape{65535, 1, 4, 4, false, false}, shape{1, 65536, 2, 2, true, false})
		}
		for _, c := range shapes {
			c.heads = max(1, c.heads)
			q := s.query()
			q.Tokens, q.Heads, q.HeadDim = c.tokens, c.heads, c.headDim
			r := random(c.tokens, c.heads, c.headDim, c.dims)
			const context = 50
			x := numbers(c.tokens*c.heads*c.headDim, c.special, r)
			sines, cosines, positions := make([]float32, context*c.dims/2), make([]float32, context*c.dims/2), make([]int32, c.tokens)
			for i := range sines {
				a := r.Float64() * 7
				sines[i], cosines[i] = float32(math.Sin(a)), float32(math.Cos(a))
			}
			if c.dims == 0 {
				sines, cosines = []float32{0}, []float32{0}
			}
			for i := range positions {
				positions[i] = int32(r.IntN(context))
			}
			positions[c.tokens-1] = context - 1
			adjacent := int64(0)
			if c.adjacent {
				adjacent = 1
			}
			args := map[string]any{"x": x, "out": nans(int64(len(x))), "positions": positions, "sines": sines, "cosines": cosines,
				"heads": c.heads, "head_dim": c.headDim, "dims": c.dims, "adjacent": adjacent}
			check := func(out []byte) (float64, error) {
				return within(out, func(i int64) (float64, float64) {
					e, head := i%c.headDim, i/c.headDim*c.headDim
					if e >= c.dims {
						return float64(x[i]), 0
					}
					pair, other, first := e/2, head+e^1, e%2 == 0
					if c.adjacent {
						other = head + (e ^ 1)
					} else {
						half := c.dims / 2
						pair, first = e%half, e < half
						other = head + (e+half)%c.dims
					}
					at := int64(positions[head/(c.heads*c.headDim)])*(c.dims/2) + pair
					sin, cos := float64(sines[at]), float64(cosines[at])
					if first {
						sin = -sin
					}
					a, b := float64(x[i])*cos, float64(x[other])*sin
					return a + b, 3 * 0x1p-24 * (math.Abs(a) + math.Abs(b))
				})
			}
			if !yield(&job{name: fmt.Sprintf("%d tokens, %d heads of %d, %d of them turn, adjacent %t, special %t", c.tokens, c.heads, c.headDim, c.dims, c.adjacent, c.special), query: q, args: args, check: check}) {
				return
			}
		}
	}
}
