package conform

import (
	"fmt"
	"iter"
	"math"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// attention is one shape of attention: tokens at positions, over a cache that ends with the last of them.
type attention struct {
	kvHeads, group, headDim, shares int64
	positions                       []int32
	fill                            string // of queries, keys and values
}

func (a attention) String() string {
	at := fmt.Sprint(a.positions)
	if len(a.positions) > 9 {
		at = fmt.Sprintf("%d..%d", a.positions[0], a.positions[len(a.positions)-1])
	}
	return fmt.Sprintf("%d heads of %d, %d to each key head, %d shares, tokens at %s, %s", a.kvHeads*a.group, a.headDim, a.group, a.shares, at, a.fill)
}

// context is the number of positions up to the last token's.
func (a attention) context() int64 {
	n := int32(0)
	for _, p := range a.positions {
		n = max(n, p+1)
	}
	return int64(n)
}

// Fills of attention beside normal.
const (
	past16 = "scores past f16" // 128 * 24 * 24 = 73728 before they are scaled
	loudQ  = "scores in the hundreds"
	nanQ   = "a NaN in a query"
	peak   = "the first score far above, or below, all others"
)

// peakTimes is how much larger the first key is than the others: scores then differ by hundreds, more than exponents of f32 reach.
const peakTimes = 20

// memory is queries, keys and values of an attention.
type memory struct {
	attention
	q, k, v []float32 // keys and values as the cache's format rounds them
	kb, vb  []byte
	scale   float32
}

// kernelsOf is the portable functions of the subject's format.
func kernelsOf(s *Subject) cpu.Kernels {
	k, ok := cpu.For(s.Info.Type)
	if !ok {
		panic("BUG: cpu knows no " + s.Info.Name)
	}
	return k
}

func (s *Subject) memory(a attention) *memory {
	r := random(a.kvHeads, a.group, a.headDim, a.shares, int64(len(a.positions)), a.context(), int64(len(a.fill)))
	kernels := kernelsOf(s)
	m := &memory{attention: a, scale: float32(1 / math.Sqrt(float64(a.headDim)))}
	m.q = numbers(int64(len(a.positions))*a.kvHeads*a.group*a.headDim, false, r)
	m.k, m.v = numbers(a.context()*a.kvHeads*a.headDim, false, r), numbers(a.context()*a.kvHeads*a.headDim, false, r)
	switch a.fill {
	case past16:
		for i := range m.q {
			m.q[i] = 24
		}
		for i := range m.k {
			m.k[i] = 24
		}
	case loudQ, peak:
		for i := range m.q {
			m.q[i] *= 60
		}
		if a.fill == peak {
			for i := range m.k[:a.kvHeads*a.headDim] {
				m.k[i] *= peakTimes
			}
		}
	case nanQ:
		m.q[r.IntN(len(m.q))] = float32(math.NaN())
	}
	m.kb, m.vb = s.cache(m.k), s.cache(m.v)
	kernels.Dequantize(m.k, m.kb[:s.bytesOf(int64(len(m.k)))])
	kernels.Dequantize(m.v, m.vb[:s.bytesOf(int64(len(m.v)))])
	return m
}

// bytesOf is the size of so many elements in the subject's format.
func (s *Subject) bytesOf(elems int64) int64 {
	return elems / int64(s.Info.BlockElems) * int64(s.Info.BlockBytes)
}

// cache is numbers in the subject's format, filled up to whole words as caches are.
func (s *Subject) cache(x []float32) []byte {
	n := s.bytesOf(int64(len(x)))
	b := make([]byte, (n+3)/4*4)
	kernelsOf(s).Quantize(b[:n], x)
	return b
}

// scores are scale * Q·K of one head of one token over positions lo..hi-1, with the largest sum of magnitudes of their terms.
func (m *memory) scores(t, h, lo, hi int64) (s []float64, size float64) {
	d := m.headDim
	q := m.q[(t*m.kvHeads*m.group+h)*d:][:d]
	for j := lo; j < hi; j++ {
		k := m.k[(j*m.kvHeads+h/m.group)*d:][:d]
		var sum, abs float64
		for e := range d {
			sum += float64(q[e]) * float64(k[e])
			abs += math.Abs(float64(q[e]) * float64(k[e]))
		}
		s = append(s, sum*float64(m.scale))
		size = max(size, abs*float64(m.scale))
	}
	return s, size
}

// weighted is sum over j of exp(s_j - top) * V[j], the same of |V|, and the sum of the weights.
func (m *memory) weighted(h, lo int64, s []float64, top float64, e int64) (sum, size, weight float64) {
	for i, x := range s {
		p, v := math.Exp(x-top), float64(m.v[((lo+int64(i))*m.kvHeads+h/m.group)*m.headDim+e])
		sum, size, weight = sum+p*v, size+p*math.Abs(v), weight+p
	}
	return sum, size, weight
}

// scoreError is how far a score of f32 may be off: a chain of additions of chain terms (see sumTolerance), and the rounding of q * scale.
func scoreError(size float64, chain int64) float64 {
	return 0x1p-24 * (4 + 2*math.Sqrt(float64(chain))) * size
}

// weightError is how far a sum of n weighted values may be off, relative to the sum of their magnitudes: each weight is the exponential, good to
// 2 roundings, of the difference of two scores, and sums are rescaled as the greatest score grows.
func weightError(score float64, n int64) float64 {
	return 2*score + 0x1p-24*(16+4*math.Sqrt(float64(n)))
}

// until judges the coverage of causal attention: of a token, the positions up to its own exactly once, and none beyond.
func (a attention) until(c gpu.Coverage) error {
	var missing int64
	for _, p := range a.positions {
		missing += c.Space.Rows * (c.Space.Units - int64(p) - 1)
	}
	for _, cell := range c.FirstMissing {
		if cell.Unit <= int64(a.positions[cell.Token]) {
			return fmt.Errorf("position %d of the %d of token %d was not attended to by (key) head %d", cell.Unit, a.positions[cell.Token]+1, cell.Token, cell.Row)
		}
	}
	if c.Missing != missing || c.Repeated > 0 || c.Outside > 0 {
		return fmt.Errorf("%d cells lie past their tokens and must not be processed, %d were not; %w", missing, c.Missing, c.Exact())
	}
	return nil
}

// attentions are the shapes that attention is judged on.
func (s *Subject) attentions(shares []int64, tokens []int64, groups []int64) (all []attention) {
	at := func(n int64, context int64) (p []int32) {
		for i := range n {
			p = append(p, int32(max(0, context-n+i)))
		}
		return p
	}
	for _, d := range s.edges("head_dim", 512) {
		all = append(all, attention{2, 2, d, 3, at(2, 37), normal})
	}
	for _, d := range []int64{32, 64, 80, 96, 128, 192, 256} {
		all = append(all, attention{1, 7, d, 2, at(1, 50), normal})
	}
	for _, g := range groups {
		all = append(all, attention{3, g, 48, 2, at(2, 20), normal})
	}
	for _, n := range shares {
		for _, context := range []int64{1, 2, n - 1, n, n + 1, 100} {
			if context > 0 {
				all = append(all, attention{1, 3, 40, n, at(1, context), normal})
			}
		}
	}
	for _, n := range tokens {
		all = append(all, attention{2, 3, 64, 2, at(n, n), normal}, attention{1, 2, 64, 2, at(n, n+70), normal})
	}
	for _, a := range s.Geometry.Over("context") {
		for _, n := range []int64{a.Period - 1, a.Period, a.Period + 1, 2*a.Period + 1, 8*a.Period + 3, 300} {
			all = append(all, attention{2, 1, 33, 1, at(1, n), normal})
		}
	}
	for _, fill := range []string{past16, loudQ, nanQ, peak} {
		all = append(all, attention{2, 2, 128, 2, at(3, 40), fill}, attention{1, 1, 128, 1, at(1, 2), fill})
	}
	return all
}

func upTo(n int64) (list []int64) {
	for i := int64(1); i <= n; i++ {
		list = append(list, i)
	}
	return list
}

// attendJobs is the suite of split attention: the partial result of each share against its own sums in float64, relative to the greatest score
// that the kernel itself reports, which must be right too.
func attendJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		shapes := s.attentions(append(upTo(9), 31, 32), upTo(9), upTo(s.Geometry.Axis("head").Ceiling))
		// Tokens of different sequences stand anywhere.
		shapes = append(shapes, attention{2, 4, 64, 4, []int32{30, 0, 5, 99, 5}, normal})
		if s.cheap {
			shapes = append(shapes, attention{1, 1, 2, 1, make([]int32, 65535), normal}, attention{2, 4, 16, 32, []int32{4095}, normal}, attention{300, 1, 8, 2, []int32{3}, normal})
		}
		for _, a := range shapes {
			a.headDim = s.whole("head_dim", a.headDim)
			q := s.query()
			q.KVHeads, q.Group, q.HeadDim, q.Context, q.Tokens, q.Shares = a.kvHeads, a.group, a.headDim, a.context(), int64(len(a.positions)), a.shares
			q.Heads = a.kvHeads * a.group
			if s.refusal(&q) >= 0 {
				continue
			}
			m := s.memory(a)
			heads, part := a.kvHeads*a.group, a.headDim+2
			args := map[string]any{"q": m.q, "k": m.kb, "v": m.vb, "positions": a.positions, "partial": nans(q.Tokens * heads * a.shares * part),
				"kv_heads": a.kvHeads, "group": a.group, "head_dim": a.headDim, "scale": m.scale}
			check := func(out []byte) (worst float64, err error) {
				for i := range q.Tokens * heads * a.shares {
					t, h, share := i/(heads*a.shares), i/a.shares%heads, i%a.shares
					extent := int64(a.positions[t]) + 1
					lo, hi := extent*share/a.shares, extent*(share+1)/a.shares
					ratio, err := m.partial(out, i*part, t, h, lo, hi)
					if err != nil {
						return worst, fmt.Errorf("token %d, head %d, share %d (positions %d..%d): %w", t, h, share, lo, hi-1, err)
					}
					worst = max(worst, ratio)
				}
				return worst, nil
			}
			if !yield(&job{name: a.String(), query: q, args: args, check: check, cells: a.until}) {
				return
			}
		}
	}
}

// partial judges the partial result that begins at number at of the output.
func (m *memory) partial(out []byte, at, t, h, lo, hi int64) (worst float64, err error) {
	read := func(e int64) float64 {
		x, e2 := number(out, at+e)
		if e2 != nil {
			err = e2
		}
		return float64(x)
	}
	weight, top := read(m.headDim), read(m.headDim+1)
	if lo == hi {
		if weight != 0 || top != math.Inf(-1) {
			return 0, fmt.Errorf("it is empty, its weight is %g and its top %g", weight, top)
		}
		for e := range m.headDim {
			if x := read(e); x != 0 || err != nil {
				return 0, fmt.Errorf("it is empty, its element %d is %g: %v", e, x, err)
			}
		}
		return 0, err
	}
	s, size := m.scores(t, h, lo, hi)
	greatest := math.Inf(-1)
	for _, x := range s {
		greatest = math.Max(greatest, x)
	}
	if !finite(size) {
		for e := range m.headDim + 1 {
			if x := read(e); finite(x) {
				return 0, fmt.Errorf("element %d is %g where scores are NaN", e, x)
			}
		}
		return 0, err
	}
	off := scoreError(size, 16)
	if worst, err = near(top, greatest, off+0x1p-140, 1); err != nil {
		return worst, fmt.Errorf("top: %w", err)
	}
	_, _, total := m.weighted(h, lo, s, top, 0)
	relative := weightError(off, hi-lo)
	ratio, e2 := near(weight, total, relative*total, 1)
	if e2 != nil {
		return worst, fmt.Errorf("weight: %w", e2)
	}
	worst = max(worst, ratio)
	for e := range m.headDim {
		sum, size, _ := m.weighted(h, lo, s, top, e)
		ratio, e2 := near(read(e), sum, relative*size, 1)
		if e2 != nil {
			return worst, fmt.Errorf("element %d: %w", e, e2)
		}
		worst = max(worst, ratio)
	}
	return worst, err
}

// prefillJobs is the suite of attention by tiles of tokens: softmax in float64.
func prefillJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		shapes := s.attentions(nil, append(upTo(17), 31, 33, 63, 64, 65), upTo(8))
		shapes = append(shapes, attention{2, 4, 64, 1, []int32{0, 5, 5, 30, 99}, normal})
		for _, a := range shapes {
			a.shares, a.headDim = 1, s.whole("head_dim", a.headDim)
			q := s.query()
			heads := a.kvHeads * a.group
			q.Heads, q.KVHeads, q.Group, q.HeadDim, q.Context, q.Tokens = heads, a.kvHeads, a.group, a.headDim, a.context(), int64(len(a.positions))
			if s.refusal(&q) >= 0 {
				continue
			}
			m := s.memory(a)
			args := map[string]any{"q": m.q, "k": m.kb, "v": m.vb, "positions": a.positions, "out": nans(q.Tokens * heads * a.headDim),
				"tokens": q.Tokens, "heads": heads, "kv_heads": a.kvHeads, "head_dim": a.headDim, "scale": m.scale}
			check := func(out []byte) (worst float64, err error) {
				for i := range q.Tokens * heads {
					t, h, n := i/heads, i%heads, int64(a.positions[i/heads])+1
					scores, size := m.scores(t, h, 0, n)
					top := math.Inf(-1)
					for _, x := range scores {
						top = math.Max(top, x)
					}
					relative := 2 * weightError(scoreError(size, a.headDim), n)
					for e := range a.headDim {
						got, err := number(out, i*a.headDim+e)
						if err != nil {
							return worst, err
						}
						sum, abs, weight := m.weighted(h, 0, scores, top, e)
						ratio, err := near(float64(got), sum/weight, relative*abs/weight, 1)
						if err != nil {
							return worst, fmt.Errorf("token %d, head %d, element %d: %w", t, h, e, err)
						}
						worst = max(worst, ratio)
					}
				}
				return worst, nil
			}
			if !yield(&job{name: a.String(), query: q, args: args, check: check, cells: a.until}) {
				return
			}
		}
	}
}

// combineJobs is the suite of the end of split attention. Shares that are empty hold NaN, which must not be read into the sum.
func combineJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		type shape struct {
			tokens, heads, shares, headDim int64
			spread                         float64 // of the tops
		}
		var shapes []shape
		for _, d := range s.edges("head_dim", 600) {
			shapes = append(shapes, shape{2, 3, 4, d, 3})
		}
		for n := int64(1); n <= 33; n++ {
			shapes = append(shapes, shape{1, 2, n, 40, 5})
		}
		for n := int64(1); n <= 9; n++ {
			shapes = append(shapes, shape{n, 5, 3, 64, 1})
		}
		shapes = append(shapes, shape{2, 2, 8, 32, 200}, shape{2, 2, 8, 32, 1e4})
		if s.cheap {
			shapes = append(shapes, shape{65535, 1, 2, 2, 3}, shape{1, 65536, 1, 2, 3})
		}
		for _, c := range shapes {
			r := random(c.tokens, c.heads, c.shares, c.headDim, int64(c.spread))
			part := c.headDim + 2
			partial := numbers(c.tokens*c.heads*c.shares*part, false, r)
			for i := range c.tokens * c.heads * c.shares {
				p := partial[i*part : (i+1)*part]
				p[c.headDim] = float32(1 + 10*r.Float64())
				p[c.headDim+1] = float32(r.NormFloat64() * c.spread)
				if i%c.shares > 0 && r.IntN(3) == 0 {
					for e := range p {
						p[e] = float32(math.NaN())
					}
					p[c.headDim], p[c.headDim+1] = 0, float32(math.Inf(-1))
				}
			}
			q := s.query()
			q.Tokens, q.Heads, q.Shares, q.HeadDim = c.tokens, c.heads, c.shares, c.headDim
			args := map[string]any{"partial": partial, "out": nans(c.tokens * c.heads * c.headDim), "heads": c.heads, "shares": c.shares, "head_dim": c.headDim}
			check := func(out []byte) (float64, error) {
				return within(out, func(i int64) (float64, float64) {
					from, e := partial[i/c.headDim*c.shares*part:], i%c.headDim
					top := math.Inf(-1)
					for n := range c.shares {
						top = math.Max(top, float64(from[n*part+c.headDim+1]))
					}
					var sum, size, total, far float64
					for n := range c.shares {
						p := from[n*part : (n+1)*part]
						if p[c.headDim] == 0 {
							continue
						}
						x := float64(p[c.headDim+1]) - top
						scale := math.Exp(x)
						// A rounding of the difference of two tops weighs as much as the tops are large.
						far = max(far, scale*(math.Abs(float64(p[c.headDim+1]))+math.Abs(top)))
						sum += scale * float64(p[e])
						size += scale * math.Abs(float64(p[e]))
						total += scale * float64(p[c.headDim])
					}
					return sum / total, 0x1p-24 * (16 + 4*math.Sqrt(float64(c.shares)) + 2*far) * (size/total + math.Abs(sum/total))
				})
			}
			name := fmt.Sprintf("%d tokens, %d heads of %d, %d shares, tops spread over %g", c.tokens, c.heads, c.headDim, c.shares, c.spread)
			if !yield(&job{name: name, query: q, args: args, check: check}) {
				return
			}
		}
	}
}
