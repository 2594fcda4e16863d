package conform

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// decoding is the attention of one decode step: of a token at a position, with the norm and the rotary embedding before it.
type decoding struct {
	kvHeads, group, headDim, dims int64
	adjacent, norm                bool
	position, shares              int64
	fill                          string
}

func (d decoding) String() string {
	s := fmt.Sprintf("%d heads of %d, %d to each key head, position %d, %d shares, %d elements turn", d.kvHeads*d.group, d.headDim, d.group, d.position, d.shares, d.dims)
	if d.adjacent {
		s += " in neighbours"
	}
	if d.norm {
		s += ", norms"
	}
	if d.fill != normal {
		s += ", " + d.fill
	}
	return s
}

// stepJobs is the suite of a decode step's attention.
func stepJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		seen := map[decoding]bool{}
		try := func(d decoding) bool {
			if d.fill == "" {
				d.fill = normal
			}
			q := s.query()
			q.KVHeads, q.Group, q.HeadDim, q.Context, q.Shares = d.kvHeads, d.group, d.headDim, d.position+1, d.shares
			if seen[d] || s.refusal(&q) >= 0 {
				return true
			}
			seen[d] = true
			return yield(s.decoding(d))
		}
		period := s.Geometry.Axis("position").Period
		for _, position := range []int64{0, 1, period/2 - 1, period - 2, period - 1, period, 2*period - 1, 2 * period, 5*period + 3} {
			for _, shares := range []int64{1, 3, 8} {
				if !try(decoding{kvHeads: 2, group: 3, headDim: 64, dims: 64, position: position, shares: shares}) {
					return
				}
			}
		}
		// More shares than are combined at a time.
		if !try(decoding{kvHeads: 1, group: 2, headDim: 128, dims: 128, position: 4303, shares: 32}) {
			return
		}
		for i, headDim := range s.edges("head_dim", 256) {
			if !try(decoding{kvHeads: 1, group: 2, headDim: headDim, dims: headDim, norm: i%2 == 0, adjacent: i%3 == 0, position: 2*period + int64(i), shares: 2}) {
				return
			}
		}
		for group := int64(1); group <= s.most("group"); group++ {
			if !try(decoding{kvHeads: 1 + group%2, group: group, headDim: 128, dims: 128, norm: group%2 == 1, position: 3 * period, shares: 4}) {
				return
			}
		}
		for _, dims := range []int64{2, 6, 64, 126} {
			for _, adjacent := range []bool{false, true} {
				if !try(decoding{kvHeads: 1, group: 1, headDim: 128, dims: dims, adjacent: adjacent, position: 7, shares: 1}) {
					return
				}
			}
		}
		for _, fill := range []string{loudQ, nanQ, peak} {
			if !try(decoding{kvHeads: 2, group: 4, headDim: 128, dims: 128, position: 4*period + 9, shares: 3, fill: fill}) {
				return
			}
		}
	}
}

// halfStep is how far rounding to the cache's format moves element e of a head: half a step of f16 (or less), or with blocks half a code
// and what the largest code makes of the rounding of their scale to f16.
func (s *Subject) halfStep(x []float64, e int64) float64 {
	n := int64(s.Info.BlockElems)
	if n == 1 {
		return 0x1p-11 * math.Abs(x[e])
	}
	var greatest float64
	for _, v := range x[e/n*n:][:n] {
		greatest = max(greatest, math.Abs(v))
	}
	return greatest * (1.0/254 + 0x1p-11)
}

// decoding makes the job of one decode step.
func (s *Subject) decoding(d decoding) *job {
	const eps = 1e-6
	r := random(d.kvHeads, d.group, d.headDim, d.dims, d.position, d.shares, int64(len(d.fill)))
	kernels := kernelsOf(s)
	heads, row := d.kvHeads*d.group, d.kvHeads*d.headDim
	q, k, v := numbers(heads*d.headDim, false, r), numbers(row, false, r), numbers(row, false, r)
	qNorm, kNorm := numbers(d.headDim, false, r), numbers(d.headDim, false, r)
	switch d.fill {
	case loudQ, peak:
		for i := range q {
			q[i] *= 60
		}
	case nanQ:
		q[r.IntN(len(q))] = float32(math.NaN())
	}
	// Of the cache, the new position holds what no arithmetic gives.
	context := d.position + 1
	cache := func(first float32) []byte {
		x := numbers(context*row, false, r)
		for i := range x[:row] {
			x[i] *= first
		}
		b := s.cache(x)
		for i := s.bytesOf(d.position * row); i < int64(len(b)); i++ {
			b[i] = 0xff
		}
		return b
	}
	first := float32(1)
	if d.fill == peak {
		first = peakTimes
	}
	keys, values := cache(first), cache(1)
	pairs := d.dims / 2
	sines, cosines := make([]float32, context*pairs), make([]float32, context*pairs)
	for i := range sines {
		angle := float64(int64(i)/pairs) * math.Pow(10000, -float64(int64(i)%pairs)/float64(pairs))
		sines[i], cosines[i] = float32(math.Sin(angle)), float32(math.Cos(angle))
	}
	scale := float32(1 / math.Sqrt(float64(d.headDim)))
	args := map[string]any{"q": q, "k": k, "v": v, "q_norm": nil, "k_norm": nil, "keys": keys, "values": values, "positions": []int32{int32(d.position)},
		"sines": sines, "cosines": cosines, "partial": nans(heads * d.shares * (d.headDim + 2)), "arrivals": make([]byte, 4*d.kvHeads), "out": nans(heads * d.headDim),
		"kv_heads": d.kvHeads, "group": d.group, "head_dim": d.headDim, "dims": d.dims, "adjacent": int64(0), "scale": scale, "eps": float32(eps)}
	if d.adjacent {
		args["adjacent"] = int64(1)
	}
	if d.norm {
		args["q_norm"], args["k_norm"] = qNorm, kNorm
	}

	// turned is a head after norm and turn, in float64.
	turned := func(x, norm []float32) []float64 {
		y := make([]float64, d.headDim)
		factor, square := 1.0, 0.0
		for _, v := range x {
			square += float64(v) * float64(v)
		}
		if d.norm {
			factor = 1 / math.Sqrt(square/float64(d.headDim)+eps)
		}
		for i := range y {
			if y[i] = float64(x[i]) * factor; d.norm {
				y[i] *= float64(norm[i])
			}
		}
		for p := range pairs {
			i, j := p, p+pairs
			if d.adjacent {
				i, j = 2*p, 2*p+1
			}
			sin, cos := float64(sines[d.position*pairs+p]), float64(cosines[d.position*pairs+p])
			y[i], y[j] = y[i]*cos-y[j]*sin, y[i]*sin+y[j]*cos
		}
		return y
	}
	nowK, nowV := make([]float32, context*row), make([]float32, context*row)
	also := func(after map[string][]byte) error {
		at := d.position * row
		for name, before := range map[string][]byte{"keys": keys, "values": values} {
			now := after[name]
			if n := s.bytesOf(at); !bytes.Equal(now[:n], before[:n]) {
				return fmt.Errorf("positions before the new one changed in the %s", name)
			}
			x := map[string][]float32{"keys": nowK, "values": nowV}[name]
			kernels.Dequantize(x, now[:s.bytesOf(int64(len(x)))])
		}
		for h := range d.kvHeads {
			key, val := turned(k[h*d.headDim:(h+1)*d.headDim], kNorm), make([]float64, d.headDim)
			for e := range val {
				val[e] = float64(v[h*d.headDim+int64(e)])
			}
			for e := range d.headDim {
				i := h*d.headDim + e
				if have := float64(nowK[at+i]); !(math.Abs(have-key[e]) <= s.halfStep(key, e)+1e-6) { // beside the roundings of the turn
					return fmt.Errorf("element %d of the key of head %d is %g, the reference is %g", e, h, have, key[e])
				}
				if have := float64(nowV[at+i]); !(math.Abs(have-val[e]) <= s.halfStep(val, e)+1e-7) {
					return fmt.Errorf("element %d of the value of head %d is %g, appended was %g", e, h, have, val[e])
				}
			}
		}
		for i, b := range after["arrivals"] {
			if b != 0 {
				return fmt.Errorf("key head %d still counts %d arrivals", i/4, binary.LittleEndian.Uint32(after["arrivals"][i/4*4:]))
			}
		}
		return nil
	}
	check := func(out []byte) (worst float64, err error) {
		m := &memory{attention: attention{kvHeads: d.kvHeads, group: d.group, headDim: d.headDim}, k: nowK, v: nowV, scale: scale}
		for h := range heads {
			for _, x := range turned(q[h*d.headDim:(h+1)*d.headDim], qNorm) {
				m.q = append(m.q, float32(x))
			}
		}
		for h := range heads {
			scores, size := m.scores(0, h, 0, context)
			top := math.Inf(-1)
			for _, x := range scores {
				top = math.Max(top, x)
			}
			// A query is rounded a few times more than one that is given: by the norm, the turn and the scale.
			off := scoreError(size, d.headDim/8) + 0x1p-21*size
			for e := range d.headDim {
				got, err := number(out, h*d.headDim+e)
				if err != nil {
					return worst, fmt.Errorf("head %d: %w", h, err)
				}
				sum, abs, weight := m.weighted(h, 0, scores, top, e)
				ratio, err := near(float64(got), sum/weight, weightError(off, context)*abs/weight+0x1p-23*abs/weight, d.headDim)
				if err != nil {
					return worst, fmt.Errorf("element %d of head %d: %w", e, h, err)
				}
				worst = max(worst, ratio)
			}
		}
		return worst, nil
	}
	query := s.query()
	query.KVHeads, query.Group, query.HeadDim, query.Context, query.Shares, query.Heads = d.kvHeads, d.group, d.headDim, context, d.shares, heads
	return &job{name: d.String(), query: query, args: args, also: also, check: check}
}
