package cpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/op"
)

// besideProducts is a graph of everything but products with weights. Heads that are 24 wide make rows that are no whole groups.
func besideProducts(t testing.TB, pairing op.Pairing, dim int) *op.Graph {
	t.Helper()
	const heads, kvHeads = 6, 2
	vocab := heads * dim
	rng := rand.New(rand.NewPCG(5, 6))
	weight := func(name string, rows, cols int) *op.Weight {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		data, err := archtest.Encode(format.F32, cols, x)
		if err != nil {
			t.Fatal(err)
		}
		return &op.Weight{Name: name, Type: format.F32, Rows: rows, Cols: cols, Data: data}
	}
	g := &op.Graph{Arch: "test", Vocab: vocab, Context: 1200, KV: []op.KV{{KeyWidth: kvHeads * dim, ValueWidth: kvHeads * dim}}}
	rotary := &op.Rotary{Pairing: pairing, Dims: 22, Base: 1e4, AttnFactor: 1}
	q := g.RoPE("q", g.RMSNorm("qn", g.Embed("qe", weight("tq", vocab, heads*dim)), weight("nq", 1, dim), 1e-6), dim, rotary)
	k := g.RoPE("k", g.Embed("ke", weight("tk", vocab, kvHeads*dim)), dim, rotary)
	g.KVAppend(0, k, g.Embed("v", weight("tv", vocab, kvHeads*dim)))
	a := g.Attend("a", op.Attend{Q: q, Heads: heads, KVHeads: kvHeads, KeyDim: dim, ValueDim: dim, Scale: 0.2})
	g.Logits = g.Select("logits", g.SiLUMul("s", g.Add("sum", a, q), q))
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLevelsSameBits: what is computed beside products with weights is the same at every level, for one token at a time
// and for many.
func TestLevelsSameBits(t *testing.T) {
	for _, pairing := range []op.Pairing{op.Halves, op.Adjacent} {
		for _, kv := range device.KVTypes {
			dim := 24
			if kv == format.Q8_0 {
				dim = 96
			}
			g := besideProducts(t, pairing, dim)
			ids := make([]int32, g.Context)
			for i := range ids {
				ids[i] = int32(i * i % g.Vocab)
			}
			var want [][]float32
			for _, l := range cpufeature.Levels() {
				t.Setenv(cpufeature.Switch, l.String())
				m, err := Device{}.Load(context.Background(), g, device.LoadOptions{Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				s, err := m.NewSession(device.SessionOptions{Context: g.Context, KVType: kv})
				if err != nil {
					t.Fatal(err)
				}
				forward := func(ids []int32) [][]float32 {
					rows, err := s.Forward(context.Background(), ids, device.LogitsAll)
					if err != nil {
						t.Fatal(err)
					}
					var kept [][]float32
					for _, r := range rows {
						kept = append(kept, slices.Clone(r))
					}
					return kept
				}
				got := forward(ids[:1190])
				for _, id := range ids[1190:] {
					got = append(got, forward([]int32{id})...)
				}
				if want == nil {
					want = got
				}
				for r := range want {
					for i := range want[r] {
						if math.Float32bits(got[r][i]) != math.Float32bits(want[r][i]) {
							t.Fatalf("%s, %s: token %d, element %d: %x, portable %x", l, fmt.Sprint(pairing), r, i, got[r][i], want[r][i])
						}
					}
				}
				s.Close()
				m.Close()
			}
		}
	}
}

// TestSwitch: a level that is not there is refused, not replaced.
func TestSwitch(t *testing.T) {
	t.Setenv(cpufeature.Switch, "abacus")
	_, err := Device{}.Load(context.Background(), besideProducts(t, op.Halves, 24), device.LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), `MINFER_CPU: "abacus" is none of`) {
		t.Errorf("error %v", err)
	}
}
