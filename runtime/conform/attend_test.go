package conform

import (
	"bytes"
	"fmt"
	"math"
	"testing"
)

// One share followed by its combination is the same attention as many; with one position, to the bit: all shares but one are empty.
func TestSharesAgree(t *testing.T) {
	split, combine := subjectOf(t, "attend-split/f16/d128_g8"), subjectOf(t, "attend-combine/head")
	bs, bc := benchOf(t, split), benchOf(t, combine)
	attend := func(m *memory, shares int64) []byte {
		t.Helper()
		heads, part := m.kvHeads*m.group, m.headDim+2
		q := split.query()
		q.KVHeads, q.Group, q.HeadDim, q.Context, q.Heads, q.Shares = m.kvHeads, m.group, m.headDim, m.context(), heads, shares
		partial, ok := bs.launch(split.Variant, &job{name: "split", query: q, cells: m.until, args: map[string]any{"q": m.q, "k": m.kb, "v": m.vb, "positions": m.positions,
			"partial": nans(heads * shares * part), "kv_heads": m.kvHeads, "group": m.group, "head_dim": m.headDim, "scale": m.scale}})
		if !ok {
			t.Fatal(bs.report.Failures)
		}
		q = combine.query()
		q.Heads, q.HeadDim, q.Shares = heads, m.headDim, shares
		out, ok := bc.launch(combine.Variant, &job{name: "combine", query: q, args: map[string]any{"partial": partial, "out": nans(heads * m.headDim),
			"heads": heads, "shares": shares, "head_dim": m.headDim}})
		if !ok {
			t.Fatal(bc.report.Failures)
		}
		return out
	}
	for _, context := range []int32{1, 2, 33, 500} {
		m := split.memory(attention{kvHeads: 2, group: 7, headDim: 128, positions: []int32{context - 1}, fill: normal})
		whole := attend(m, 1)
		for _, shares := range []int64{2, 3, 32} {
			t.Run(fmt.Sprintf("%d positions, %d shares", context, shares), func(t *testing.T) {
				parts := attend(m, shares)
				if context == 1 && !bytes.Equal(whole, parts) {
					t.Error("the bits differ")
				}
				a, b := floatsOf(whole), floatsOf(parts)
				for i := range a {
					if !(math.Abs(float64(a[i]-b[i])) <= 1e-5) {
						t.Fatalf("element %d is %g and %g", i, a[i], b[i])
					}
				}
			})
		}
	}
}

// Scores past the range of f16 leave both weights one half: the sum is over f32.
func TestScoresPastF16(t *testing.T) {
	for _, name := range []string{"attend-prefill/f16/d128", "attend-prefill/f32/d128", "attend-prefill/q8_0/d128"} {
		s := subjectOf(t, name)
		b := benchOf(t, s)
		m := s.memory(attention{kvHeads: 1, group: 1, headDim: 128, positions: []int32{1}, fill: past16})
		for i := range m.v {
			m.v[i] = float32(127 + 254*(i/128)) // rows of 127 and of 381, which every format holds
		}
		m.vb = s.cache(m.v)
		q := s.query()
		q.HeadDim, q.Context, q.Heads, q.KVHeads, q.Group = 128, 2, 1, 1, 1
		out, ok := b.launch(s.Variant, &job{name: name, query: q, cells: m.until, args: map[string]any{"q": m.q, "k": m.kb, "v": m.vb, "positions": m.positions,
			"out": nans(128), "tokens": int64(1), "heads": int64(1), "kv_heads": int64(1), "head_dim": int64(128), "scale": m.scale}})
		if !ok {
			t.Fatal(b.report.Failures)
		}
		for i, y := range floatsOf(out) {
			if y != 254 {
				t.Fatalf("%s: element %d is %g, it must be 254", name, i, y)
			}
		}
	}
}
