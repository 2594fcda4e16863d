package op

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/minfer/minfer/generated/format"
)

func f32(name string, rows, cols int) *Weight {
	return &Weight{Name: name, Type: format.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)}
}

// tiny is a valid graph of one layer: width 8, 2 heads of 4 over 1 key/value head, vocab 10.
func tiny() *Graph {
	g := &Graph{Arch: "test", Name: "tiny", Vocab: 10, Context: 16, KV: []KV{{4, 4}}}
	rot := &Rotary{Dims: 4, Base: 1e4, AttnFactor: 1}
	table := f32("table", 10, 8)
	x := g.Embed("x", table)
	n := g.RMSNorm("n", x, f32("norm", 1, 8), 1e-6)
	q := g.MatMul("q", n, f32("wq", 8, 8), f32("bq", 1, 8))
	k := g.MatMul("k", n, f32("wk", 4, 8), nil)
	v := g.MatMul("v", n, f32("wv", 4, 8), nil)
	q = g.RoPE("qr", q, 4, rot)
	k = g.RoPE("kr", k, 4, rot)
	g.KVAppend(0, k, v)
	a := g.Attend("a", Attend{Layer: 0, Q: q, Heads: 2, KVHeads: 1, KeyDim: 4, ValueDim: 4, Scale: 0.5})
	a, x = g.Select("as", a), g.Select("xs", x)
	x = g.Add("sum", g.MatMul("o", a, f32("wo", 8, 8), nil), x)
	x = g.SiLUMul("act", g.MatMul("gate", x, f32("wg", 8, 8), nil), g.MatMul("up", x, f32("wu", 8, 8), nil))
	g.Logits = g.MatMul("logits", x, table, nil)
	return g
}

func TestValidate(t *testing.T) {
	if err := tiny().Validate(); err != nil {
		t.Fatal(err)
	}
	find := func(g *Graph, name string) int { // index of the op that writes a value
		for i, o := range g.Ops {
			if v, ok := o.Writes(); ok && g.Values[v].Name == name {
				return i
			}
		}
		panic("BUG: no value " + name)
	}
	change := func(name string, f func(Op) Op) func(*Graph) {
		return func(g *Graph) { i := find(g, name); g.Ops[i] = f(g.Ops[i]) }
	}
	for name, c := range map[string]struct {
		damage func(*Graph)
		want   []string
	}{
		"vocab":             {func(g *Graph) { g.Vocab = 11 }, []string{"embed x", "[10, 8]", "11"}},
		"no layers":         {func(g *Graph) { g.KV = nil }, []string{"kvappend", "layer 0 of 0"}},
		"no context":        {func(g *Graph) { g.Context = 0 }, []string{"context 0"}},
		"two names alike":   {func(g *Graph) { g.Values[1].Name = "x" }, []string{`"x"`}},
		"width of a value":  {func(g *Graph) { g.Values[1].Width = 0 }, []string{"n has width 0"}},
		"matmul columns":    {change("q", func(o Op) Op { m := o.(MatMul); m.Weight = f32("wq", 8, 6); return m }), []string{"matmul q", "wq f32 [8, 6]", "n[tokens, 8]"}},
		"matmul rows":       {change("q", func(o Op) Op { m := o.(MatMul); m.Weight, m.Bias = f32("wq", 6, 8), nil; return m }), []string{"q[tokens, 8] should be [tokens, 6]"}},
		"bias":              {change("q", func(o Op) Op { m := o.(MatMul); m.Bias = f32("bq", 1, 7); return m }), []string{"bq f32 [1, 7] should be [1, 8]"}},
		"bias as a column":  {change("q", func(o Op) Op { m := o.(MatMul); m.Bias = f32("bq", 8, 1); return m }), []string{"bq f32 [8, 1]"}},
		"no weight":         {change("q", func(o Op) Op { m := o.(MatMul); m.Weight = nil; return m }), []string{"a weight is missing"}},
		"short data":        {change("q", func(o Op) Op { m := o.(MatMul); m.Weight.Data = m.Weight.Data[1:]; return m }), []string{"wq", "255 bytes"}},
		"long data":         {change("q", func(o Op) Op { m := o.(MatMul); m.Weight.Data = append(m.Weight.Data, 0); return m }), []string{"wq", "257 bytes"}},
		"unknown type":      {change("q", func(o Op) Op { m := o.(MatMul); m.Weight.Type = 4; return m }), []string{"unknown type 4"}},
		"part of a block":   {change("q", func(o Op) Op { m := o.(MatMul); m.Weight.Type = format.Q8_0; return m }), []string{"wq"}},
		"norm weight":       {change("n", func(o Op) Op { m := o.(RMSNorm); m.Weight = f32("norm", 1, 4); return m }), []string{"norm f32 [1, 4] should be [1, 8]"}},
		"norm group":        {change("n", func(o Op) Op { m := o.(RMSNorm); m.Group = 3; return m }), []string{"groups of 3", "x[tokens, 8]"}},
		"norm epsilon":      {change("n", func(o Op) Op { m := o.(RMSNorm); m.Eps = -1; return m }), []string{"epsilon -1"}},
		"rope heads":        {change("qr", func(o Op) Op { m := o.(RoPE); m.HeadDim = 3; return m }), []string{"heads of 3"}},
		"rope dims":         {change("qr", func(o Op) Op { m := o.(RoPE); m.Rotary = &Rotary{Dims: 6, Base: 1, AttnFactor: 1}; return m }), []string{"rope qr", "dimensions 6"}},
		"attend heads":      {change("a", func(o Op) Op { m := o.(Attend); m.Heads, m.KVHeads = 3, 2; return m }), []string{"3 query heads cannot share 2"}},
		"attend zero heads": {change("a", func(o Op) Op { m := o.(Attend); m.KVHeads = 0; return m }), []string{"2 query heads cannot share 0"}},
		"attend width":      {change("a", func(o Op) Op { m := o.(Attend); m.Heads = 4; return m }), []string{"qr[tokens, 8] should be [tokens, 16]"}},
		"attend cache":      {change("a", func(o Op) Op { m := o.(Attend); m.KeyDim = 2; return m }), []string{"cache widths 4 and 4", "1 heads of 2"}},
		"attend layer":      {change("a", func(o Op) Op { m := o.(Attend); m.Layer = 1; return m }), []string{"layer 1 of 1"}},
		"attend scale":      {change("a", func(o Op) Op { m := o.(Attend); m.Scale = 0; return m }), []string{"scale 0"}},
		"add shapes":        {change("sum", func(o Op) Op { m := o.(Add); m.B = 0; return m }), []string{"o[wanted, 8] and x[tokens, 8] differ"}},
		"select twice":      {change("xs", func(o Op) Op { m := o.(Select); m.In = 8; return m }), []string{"as[wanted, 8] is already restricted"}},
		"read too early":    {func(g *Graph) { i := find(g, "q"); g.Ops[i], g.Ops[1] = g.Ops[1], g.Ops[i] }, []string{"reads n before it is written"}},
		"written twice":     {func(g *Graph) { g.Ops = append(g.Ops, g.Ops[1]) }, []string{"writes n a second time"}},
		"never written":     {func(g *Graph) { g.NewValue("ghost", 3, PerToken) }, []string{"ghost is never written"}},
		"unknown value":     {change("n", func(o Op) Op { m := o.(RMSNorm); m.In = 99; return m }), []string{"unknown value 99"}},
		"unknown output":    {change("n", func(o Op) Op { m := o.(RMSNorm); m.Out = -1; return m }), []string{"unknown value -1"}},
		"cache not filled":  {func(g *Graph) { g.Ops = append(g.Ops[:7:7], g.Ops[8:]...) }, []string{"layer 0 before it is filled"}},
		"cache twice":       {func(g *Graph) { g.Ops = append(g.Ops, g.Ops[7]) }, []string{"layer 0 is filled a second time"}},
		"cache not read":    {func(g *Graph) { g.KV = append(g.KV, KV{1, 1}) }, []string{"layer 1"}},
		"logits":            {func(g *Graph) { g.Logits = 0 }, []string{"x[tokens, 8] must be [wanted, 10]"}},
		"logits unknown":    {func(g *Graph) { g.Logits = 77 }, []string{"unknown value 77"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := tiny()
			c.damage(g)
			err := g.Validate()
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
		})
	}
}

func TestString(t *testing.T) {
	want := `test "tiny": 1 layers, vocab 10, trained context 16
x[tokens, 8] = embed table f32 [10, 8]
n[tokens, 8] = rmsnorm x[tokens, 8], norm f32 [1, 8], group 8, eps 1e-06
q[tokens, 8] = matmul n[tokens, 8], wq f32 [8, 8], bq f32 [1, 8]
k[tokens, 4] = matmul n[tokens, 8], wk f32 [4, 8]
v[tokens, 4] = matmul n[tokens, 8], wv f32 [4, 8]
qr[tokens, 8] = rope q[tokens, 8], head 4, halves 4, base 10000
kr[tokens, 4] = rope k[tokens, 4], head 4, halves 4, base 10000
kvappend kr[tokens, 4], v[tokens, 4], layer 0
a[tokens, 8] = attend qr[tokens, 8], layer 0, heads 2/1 of 4/4, scale 0.5
as[wanted, 8] = select a[tokens, 8]
xs[wanted, 8] = select x[tokens, 8]
o[wanted, 8] = matmul as[wanted, 8], wo f32 [8, 8]
sum[wanted, 8] = add o[wanted, 8], xs[wanted, 8]
gate[wanted, 8] = matmul sum[wanted, 8], wg f32 [8, 8]
up[wanted, 8] = matmul sum[wanted, 8], wu f32 [8, 8]
act[wanted, 8] = silumul gate[wanted, 8], up[wanted, 8]
logits[wanted, 10] = matmul act[wanted, 8], table f32 [10, 8]
logits: logits[wanted, 10]
`
	if d := cmp.Diff(want, tiny().String()); d != "" {
		t.Error(d)
	}
}

func TestWeightsListTiedTableOnce(t *testing.T) {
	g := tiny()
	var names []string
	for _, w := range g.Weights() {
		names = append(names, w.Name)
	}
	want := "table norm wq bq wk wv wo wg wu"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("weights %q, want %q", got, want)
	}
	if got, want := g.WeightBytes(), int64(4*(80+8+64+8+32+32+64*3)); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// TestSlots holds Slots to its promise on random straight-line graphs: no operation writes a slot whose Value is still
// to be read, and every Value fits in its slot.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Graph{}
		g.Ops = append(g.Ops, Embed{Out: g.NewValue("v", 4, PerToken)})
		for range rapid.IntRange(1, 40).Draw(t, "ops") {
			pick := func() Value { return Value(rapid.IntRange(max(0, len(g.Values)-6), len(g.Values)-1).Draw(t, "value")) }
			a, b := pick(), pick()
			out := g.NewValue("v", rapid.IntRange(1, 9).Draw(t, "width"), Rows(rapid.IntRange(0, 1).Draw(t, "rows")))
			g.Ops = append(g.Ops, Add{a, b, out})
		}
		g.Logits = Value(rapid.IntRange(0, len(g.Values)-1).Draw(t, "logits"))
		slots, of := g.Slots()
		holds := make([]Value, len(slots))
		for i, o := range g.Ops {
			for _, v := range o.Reads() {
				if holds[of[v]] != v {
					t.Fatalf("op %d reads value %d, but its slot holds %d", i, v, holds[of[v]])
				}
			}
			out, _ := o.Writes()
			for _, v := range o.Reads() {
				if of[v] == of[out] {
					t.Fatalf("op %d reads and writes slot %d", i, of[out])
				}
			}
			holds[of[out]] = out
			if s := slots[of[out]]; s.Width < g.Values[out].Width || s.Rows != g.Values[out].Rows {
				t.Fatalf("value %d %v does not fit slot %v", out, g.Values[out], s)
			}
		}
		if holds[of[g.Logits]] != g.Logits {
			t.Fatalf("the slot of the logits holds %d", holds[of[g.Logits]])
		}
	})
}

// TestSlotsShare checks that slots are shared at all: a chain needs two.
func TestSlotsShare(t *testing.T) {
	g := &Graph{}
	v := g.NewValue("v", 4, PerToken)
	g.Ops = append(g.Ops, Embed{Out: v})
	for range 20 {
		v = g.Add("v", v, v)
	}
	g.Logits = v
	if slots, _ := g.Slots(); len(slots) != 2 {
		t.Errorf("a chain takes %d slots, want 2", len(slots))
	}
}
