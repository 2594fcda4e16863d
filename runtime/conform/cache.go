package conform

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/minfer/minfer/generated/cpu"
)

// embedJobs: rows of the table, dequantized to the very bits that ggml gives.
func embedJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		try := func(rows, cols, tokens int64, fill string) bool {
			r := random(rows, cols, tokens, int64(len(fill)))
			w, ids := makeWeights(s.Info, rows, cols, fill, r), make([]int32, tokens)
			for i := range ids {
				ids[i] = int32(r.Int64N(rows))
			}
			ids[tokens-1] = int32(rows - 1) // the end of the table
			q := s.query()
			q.Cols, q.Tokens = cols, tokens
			args := map[string]any{"w": w.place(s.Variant.Weights), "ids": ids, "out": nans(tokens * cols), "cols": cols}
			check := func(out []byte) (float64, error) {
				return 0, exactly(out, func(i int64) float32 { return w.row(int64(ids[i/cols]))[i%cols] })
			}
			return yield(&job{name: fmt.Sprintf("%d tokens from [%d, %d], %s", tokens, rows, cols, fill), query: q, args: args, check: check})
		}
		for _, cols := range s.edges("cols", 5000) {
			if !try(3, cols, 2, sane) {
				return
			}
		}
		g := s.grainOf("cols")
		for tokens := int64(1); tokens <= 9; tokens++ {
			if !try(5+tokens, 2*g, tokens, sane) {
				return
			}
		}
		for _, fill := range []string{ones, tops, lows, blank, wild} {
			if !try(20, 4*g, 40, fill) {
				return
			}
		}
		if s.cheap {
			_ = try(7, g, 65535, sane) && try(152064, g, 3, sane)
		}
	}
}

// quantizeJobs: the bytes that the portable quantizer gives, a scale of NaN being like any other NaN.
func quantizeJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		try := func(tokens, cols int64, name string, x []float32) bool {
			q := s.query()
			q.Tokens, q.Cols = tokens, cols
			want := make([]byte, len(x)/cpu.ActivationBlockElems*cpu.ActivationBlockBytes)
			cpu.QuantizeActivations(want, x)
			before := bytes.Repeat([]byte{0xa5}, len(want))
			check := func(out []byte) (float64, error) {
				for i := range out {
					block, at := i/cpu.ActivationBlockBytes, i%cpu.ActivationBlockBytes
					if nan16(want[i-at:]) && at < 2 {
						if !nan16(out[i-at:]) {
							return 0, fmt.Errorf("the scale of block %d is no NaN, though one of its numbers is", block)
						}
						continue
					}
					if out[i] != want[i] {
						return 0, fmt.Errorf("byte %d of block %d is %#02x, it must be %#02x; the block's numbers are %g", at, block, out[i], want[i],
							x[block*cpu.ActivationBlockElems:(block+1)*cpu.ActivationBlockElems])
					}
				}
				return 0, nil
			}
			return yield(&job{name: fmt.Sprintf("%d tokens of %d, %s", tokens, cols, name), query: q, args: map[string]any{"x": x, "out": before, "cols": cols}, check: check})
		}
		for _, cols := range s.widths() {
			if !try(2, cols, normal, activations(2, cols, 1, normal, random(cols))) {
				return
			}
		}
		for tokens := int64(1); tokens <= 9; tokens++ {
			if !try(tokens, 96, normal, activations(tokens, 96, 1, normal, random(tokens))) {
				return
			}
		}
		for _, fill := range []string{zero, minusZero, oneNaN, oneInf, loud, flip, huge, denormal, tiny, outliers, lastUnit, firstUnit} {
			if !try(3, 160, fill, activations(3, 160, 1, fill, random(7))) {
				return
			}
		}
		// Scales of every size, codes that fall on ties, and bits of any kind.
		r := random(8)
		scaled, tied, any := make([]float32, 320*32), make([]float32, 32*32), make([]float32, 256*32)
		for i := range scaled {
			scaled[i] = float32(math.Ldexp(r.NormFloat64(), i/32-160))
		}
		for i := range tied {
			tied[i] = (float32(r.IntN(255)-127) + 0.5*float32(i%2)) * float32(math.Ldexp(1, i/32%20-10))
			if i%32 == 0 {
				tied[i] = 127 * float32(math.Ldexp(1, i/32%20-10))
			}
		}
		// The scale is the least number of f16, rounded down by a third: codes reach past the range and are cut off.
		past := make([]float32, 4*32)
		for i := range past {
			past[i] = float32(math.Ldexp((100+0.3*float64(i))*float64(1-2*(i%2)), -24))
			if i%32 == 0 {
				past[i] = float32(math.Ldexp(189, -24))
			}
		}
		for i := range any {
			any[i] = math.Float32frombits(r.Uint32())
		}
		for _, c := range []struct {
			name string
			x    []float32
		}{{"scales from 2^-160 to 2^160", scaled}, {"ties", tied}, {"codes past the range", past}, {"any bits", any}, {"special numbers", numbers(64*32, true, r)}} {
			if !try(1, int64(len(c.x)), c.name, c.x) {
				return
			}
		}
		if s.cheap {
			try(65535, 32, normal, activations(65535, 32, 1, normal, random(9)))
		}
	}
}

// nan16 reports whether b begins with an f16 that is NaN.
func nan16(b []byte) bool { return b[1]&0x7c == 0x7c && (b[1]&3 != 0 || b[0] != 0) }

// appendJobs: numbers in the cache's format at the rows that positions name; all else stays.
func appendJobs(s *Subject) iter.Seq[*job] {
	k, ok := cpu.For(s.Info.Type)
	if !ok || k.Quantize == nil {
		panic("BUG: nothing rounds to " + s.Info.Name)
	}
	const special, ties = "special numbers", "ties"
	return func(yield func(*job) bool) {
		try := func(tokens, cols, context int64, fill string) bool {
			r := random(tokens, cols)
			x, positions := numbers(tokens*cols, fill == special, r), make([]int32, tokens)
			for i := range x {
				if fill == ties { // codes of blocks whose scale is a power of two
					if x[i] = float32(r.IntN(255)-127) / 2; i%32 == 0 {
						x[i] = 127
					}
				}
			}
			for i, p := range r.Perm(int(context))[:tokens] {
				positions[i] = int32(p)
			}
			row := s.bytesOf(cols)
			before := bytes.Repeat([]byte{0xa5}, int(context*row+3)/4*4)
			want := bytes.Clone(before)
			for i, p := range positions {
				k.Quantize(want[int64(p)*row:(int64(p)+1)*row], x[int64(i)*cols:(int64(i)+1)*cols])
			}
			w, got := make([]float32, context*cols), make([]float32, context*cols)
			k.Dequantize(w, want[:context*row])
			check := func(out []byte) (float64, error) {
				k.Dequantize(got, out[:context*row])
				if tail := context * row; !bytes.Equal(out[tail:], want[tail:]) {
					return 0, errors.New("bytes past the last row changed")
				}
				for i := range w {
					if !sameNumber(got[i], w[i]) {
						return 0, fmt.Errorf("row %d, element %d is %g, it must be %g", int64(i)/cols, int64(i)%cols, got[i], w[i])
					}
				}
				return 0, nil
			}
			q := s.query()
			q.Tokens, q.Cols = tokens, cols
			return yield(&job{name: fmt.Sprintf("%d tokens of %d to a cache of %d, %s", tokens, cols, context, fill), query: q, args: map[string]any{"x": x, "cache": before, "positions": positions, "cols": cols}, check: check})
		}
		for _, cols := range s.edges("cols", 3000) {
			if !try(2, cols, 5, normal) || !try(1, cols, 1, special) {
				return
			}
		}
		for tokens := int64(1); tokens <= 9; tokens++ {
			if !try(tokens, 192, 13, special) || !try(tokens, 192, 13, ties) {
				return
			}
		}
		if s.cheap {
			try(65535, max(2, s.grainOf("cols")), 70000, normal)
		}
	}
}
