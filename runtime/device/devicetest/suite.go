package devicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
	"github.com/minfer/minfer/runtime/sample"
)

// Promises is what a device keeps beyond the contract that all do.
type Promises struct {
	AnyShape        bool // no product, norm or head is refused for its size
	SameBits        bool // logits are the same bits however Forward is called
	NamesOperations bool // a NonFiniteError names the operation that left the range
}

// CPU is what the CPU device promises.
var CPU = Promises{AnyShape: true, SameBits: true, NamesOperations: true}

// suite is a device under test.
type suite struct {
	device.Device
	Promises
}

// refused skips a test of a shape that the device may refuse, and says why.
func (d suite) refused(t testing.TB, err error) {
	t.Helper()
	var r *kernel.RefusedError
	var w *plan.WidthError
	if !d.AnyShape && (errors.As(err, &r) || errors.As(err, &w)) {
		t.Skip(err)
	}
}

// Run puts a device to the contract of package device, to its own promises and to the reference.
func Run(t *testing.T, under device.Device, p Promises) {
	d := suite{under, p}
	t.Run("models", func(t *testing.T) { models(t, d) })
	t.Run("operations", func(t *testing.T) { operations(t, d) })
	t.Run("rows and columns", func(t *testing.T) { matrices(t, d) })
	t.Run("large scores", func(t *testing.T) { largeScores(t, d) })
	t.Run("large activations", func(t *testing.T) { largeActivations(t, d) })
	t.Run("tiny activations", func(t *testing.T) { tinyActivations(t, d) })
	t.Run("not finite", func(t *testing.T) { notFinite(t, d) })
	if d.SameBits {
		t.Run("same bits", func(t *testing.T) { sameBits(t, d) })
	}
	t.Run("cache types", func(t *testing.T) { cacheTypes(t, d) })
	t.Run("largest logits", func(t *testing.T) { largestLogits(t, d) })
	t.Run("refusals", func(t *testing.T) { refusals(t, d) })
	t.Run("cancel", func(t *testing.T) { cancelled(t, d) })
	t.Run("load", func(t *testing.T) { loading(t, d) })
}

// graph builds a model.
func graph(t testing.TB, m archtest.Model) *op.Graph {
	t.Helper()
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// load loads a graph for the length of a test.
func load(t testing.TB, d suite, g *op.Graph, o device.LoadOptions) device.Model {
	t.Helper()
	m, err := d.Load(context.Background(), g, o)
	if err != nil {
		d.refused(t, err)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// open opens a session for the length of a test; context 0 is the graph's.
func open(t testing.TB, m device.Model, g *op.Graph, o device.SessionOptions) device.Session {
	t.Helper()
	if o.Context == 0 {
		o.Context = g.Context
	}
	s, err := m.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// logits computes all logits of tokens from an empty cache, and copies them.
func logits(t testing.TB, s device.Session, tokens []int32) [][]float32 {
	t.Helper()
	if err := s.Truncate(0); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Forward(context.Background(), tokens, device.LogitsAll)
	if err != nil {
		t.Fatal(err)
	}
	return clone(rows)
}

func clone(rows [][]float32) [][]float32 {
	out := make([][]float32, len(rows))
	for i := range rows {
		out[i] = slices.Clone(rows[i])
	}
	return out
}

// tokens are random ids.
func tokens(n, vocab int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(n), 3))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}

// near compares with the reference: |got-want| <= tolerance * (largest |want| + 1).
func near(t testing.TB, got [][]float32, want [][]float64, tolerance float64) {
	t.Helper()
	if err := distance(got, want, tolerance); err != nil {
		t.Fatal(err)
	}
}

func distance(got [][]float32, want [][]float64, tolerance float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d rows of logits, want %d", len(got), len(want))
	}
	largest := 0.0
	for _, row := range want {
		for _, x := range row {
			largest = max(largest, math.Abs(x))
		}
	}
	for r := range want {
		if len(got[r]) != len(want[r]) {
			return fmt.Errorf("row %d: %d logits, want %d", r, len(got[r]), len(want[r]))
		}
		for i := range want[r] {
			if d := math.Abs(float64(got[r][i]) - want[r][i]); !(d <= tolerance*(largest+1)) {
				return fmt.Errorf("row %d, element %d: %v, want %v, off by %.3g of %.3g", r, i, got[r][i], want[r][i], d, tolerance*(largest+1))
			}
		}
	}
	return nil
}

// equal compares bit for bit.
func equal(t testing.TB, what string, got, want [][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows of logits, want %d", what, len(got), len(want))
	}
	for r := range want {
		for i := range want[r] {
			if math.Float32bits(got[r][i]) != math.Float32bits(want[r][i]) {
				t.Fatalf("%s: row %d, element %d: %v, want %v", what, r, i, got[r][i], want[r][i])
			}
		}
	}
}

// models compares whole small models, in every shape that the graph's parameters take, with the reference.
func models(t *testing.T, d suite) {
	type change = func(*archtest.Model)
	set := func(key string, v gguf.Value) change { return func(m *archtest.Model) { m.Set[m.Arch+"."+key] = v } }
	for name, c := range map[string]struct {
		arch    string
		changes []change
	}{
		"qwen2":            {"qwen2", nil},
		"llama":            {"llama", nil},
		"qwen3":            {"qwen3", nil},
		"tied":             {"qwen2", []change{func(m *archtest.Model) { m.Tied = true }}},
		"wide heads":       {"qwen3", []change{func(m *archtest.Model) { m.HD = 48 }}},
		"one kv head":      {"qwen3", []change{func(m *archtest.Model) { m.KV = 1 }}},
		"as many kv heads": {"llama", []change{func(m *archtest.Model) { m.KV = 4 }}},
		"part turns":       {"qwen2", []change{set("rope.dimension_count", gguf.Of(uint32(6)))}},
		"part turns llama": {"llama", []change{set("rope.dimension_count", gguf.Of(uint32(10)))}},
		"linear":           {"llama", []change{set("rope.scaling.type", gguf.Of("linear")), set("rope.scaling.factor", gguf.Of(float32(4)))}},
		"yarn": {"qwen2", []change{set("rope.scaling.type", gguf.Of("yarn")), set("rope.scaling.factor", gguf.Of(float32(4))),
			set("rope.scaling.original_context_length", gguf.Of(uint32(32))), set("rope.scaling.attn_factor", gguf.Of(float32(1.1)))}},
		"divisors": {"llama", []change{func(m *archtest.Model) {
			m.Tensor["rope_freqs.weight"] = archtest.TensorOptions{Dims: []int{8}, Each: func(i int) float32 { return 1 + float32(i) }}
		}}},
		"all biases": {"llama", []change{func(m *archtest.Model) {
			for l := range m.Layers {
				for b, n := range map[string]int{"attn_q": 64, "attn_k": 32, "attn_v": 32, "attn_output": 64, "ffn_gate": 96, "ffn_up": 96, "ffn_down": 64} {
					m.Tensor[fmt.Sprintf("blk.%d.%s.bias", l, b)] = archtest.TensorOptions{Dims: []int{n}}
				}
			}
			m.Tensor["output.bias"] = archtest.TensorOptions{Dims: []int{m.Vocab}}
		}}},
		"long":          {"qwen3", []change{func(m *archtest.Model) { m.Layers, m.Context = 1, 1200 }}},
		"scores scaled": {"llama", []change{set("attention.scale", gguf.Of(float32(0.6)))}},
	} {
		t.Run(name, func(t *testing.T) {
			m := archtest.Small(c.arch)
			for _, f := range c.changes {
				f(&m)
			}
			g := graph(t, m)
			ids := tokens(g.Context-28, g.Vocab)
			want := Reference(g, ids, device.F32, format.F32)
			model := load(t, d, g, device.LoadOptions{Precision: device.F32})
			near(t, logits(t, open(t, model, g, device.SessionOptions{KVType: format.F32}), ids), want, 1e-5)
			near(t, logits(t, open(t, model, g, device.SessionOptions{KVType: format.F16}), ids), want, 1e-2)
		})
	}
}

// normal is n random numbers.
func normal(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), seed))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// weight is a matrix of random numbers, as a type holds them.
func weight(t testing.TB, name string, typ format.Type, rows, cols int) *op.Weight {
	t.Helper()
	return encoded(t, name, typ, rows, cols, normal(rows*cols, 3))
}

func encoded(t testing.TB, name string, typ format.Type, rows, cols int, x []float32) *op.Weight {
	t.Helper()
	w, err := encode(name, typ, rows, cols, x)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func encode(name string, typ format.Type, rows, cols int, x []float32) (*op.Weight, error) {
	data, err := archtest.Encode(typ, cols, x)
	if err != nil {
		return nil, err
	}
	return &op.Weight{Name: name, Type: typ, Rows: rows, Cols: cols, Data: data}, nil
}

// single is a graph that puts one operation on the rows of a table of numbers, token i being row i. body gets the row
// as a Value and gives the result, which must be as wide as there are rows.
func single(t testing.TB, table *op.Weight, layers []op.KV, body func(g *op.Graph, x op.Value) op.Value) *op.Graph {
	t.Helper()
	g := &op.Graph{Arch: "test", Vocab: table.Rows, Context: 256, KV: layers}
	g.Logits = g.Select("logits", body(g, g.Embed("x", table)))
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	return g
}

func all(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	return ids
}

// operations compares single operations with the reference.
func operations(t *testing.T, d suite) {
	const n = 48
	norm := func(width int) *op.Weight { return weight(t, "norm", format.F32, 1, width) }
	for name, body := range map[string]func(*op.Graph, op.Value) op.Value{
		"embed":         func(g *op.Graph, x op.Value) op.Value { return x },
		"rmsnorm":       func(g *op.Graph, x op.Value) op.Value { return g.RMSNorm("y", x, norm(n), 1e-6) },
		"rmsnorm eps":   func(g *op.Graph, x op.Value) op.Value { return g.RMSNorm("y", x, norm(n), 0.5) },
		"rmsnorm heads": func(g *op.Graph, x op.Value) op.Value { return g.RMSNorm("y", x, norm(16), 1e-6) },
		"add":           func(g *op.Graph, x op.Value) op.Value { return g.Add("y", x, g.RMSNorm("n", x, norm(n), 0)) },
		"silumul":       func(g *op.Graph, x op.Value) op.Value { return g.SiLUMul("y", g.Add("2x", x, x), x) },
		"rope halves": func(g *op.Graph, x op.Value) op.Value {
			return g.RoPE("y", x, 16, &op.Rotary{Pairing: op.Halves, Dims: 16, Base: 1e4, AttnFactor: 1})
		},
		"rope adjacent": func(g *op.Graph, x op.Value) op.Value {
			return g.RoPE("y", x, 24, &op.Rotary{Pairing: op.Adjacent, Dims: 24, Base: 1e4, AttnFactor: 1.5})
		},
		"rope part": func(g *op.Graph, x op.Value) op.Value {
			return g.RoPE("y", x, 24, &op.Rotary{Pairing: op.Halves, Dims: 10, Base: 1e2, AttnFactor: 1})
		},
		"matmul": func(g *op.Graph, x op.Value) op.Value {
			return g.MatMul("y", x, weight(t, "w", format.F32, n, n), weight(t, "b", format.F32, 1, n))
		},
		"attend": func(g *op.Graph, x op.Value) op.Value {
			g.KVAppend(0, x, x)
			return g.Attend("y", op.Attend{Q: x, Heads: 3, KVHeads: 3, KeyDim: 16, ValueDim: 16, Scale: 0.3})
		},
		"attend unlike widths": func(g *op.Graph, x op.Value) op.Value {
			g.KV[0] = op.KV{KeyWidth: 10, ValueWidth: 24}
			g.KVAppend(0, g.MatMul("k", x, weight(t, "wk", format.F32, 10, n), nil), g.MatMul("v", x, weight(t, "wv", format.F32, 24, n), nil))
			q := g.MatMul("q", x, weight(t, "wq", format.F32, 20, n), nil)
			return g.Attend("y", op.Attend{Q: q, Heads: 4, KVHeads: 2, KeyDim: 5, ValueDim: 12, Scale: 0.1})
		},
		"attend odd widths": func(g *op.Graph, x op.Value) op.Value {
			g.KV[0] = op.KV{KeyWidth: 20, ValueWidth: 12}
			g.KVAppend(0, g.MatMul("k", x, weight(t, "wk", format.F32, 20, n), nil), g.MatMul("v", x, weight(t, "wv", format.F32, 12, n), nil))
			q := g.MatMul("q", x, weight(t, "wq", format.F32, 80, n), nil)
			return g.Attend("y", op.Attend{Q: q, Heads: 16, KVHeads: 4, KeyDim: 5, ValueDim: 3, Scale: 0.1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var layers []op.KV
			if strings.HasPrefix(name, "attend") {
				layers = []op.KV{{KeyWidth: n, ValueWidth: n}}
			}
			g := single(t, weight(t, "table", format.F32, n, n), layers, body)
			ids := tokens(200, n)
			s := open(t, load(t, d, g, device.LoadOptions{Precision: device.F32}), g, device.SessionOptions{KVType: format.F32})
			near(t, logits(t, s, ids), Reference(g, ids, device.F32, format.F32), 3e-6)
		})
	}
}

// matrices multiplies by matrices of awkward heights and lengths in many formats.
func matrices(t *testing.T, d suite) {
	for _, c := range []struct {
		typ  format.Type
		cols int
	}{
		{format.F32, 1}, {format.F32, 31}, {format.F32, 192}, {format.F32, 4867},
		{format.Q8_0, 32}, {format.Q8_0, 8640}, {format.Q8_0, 10944}, {format.Q4_0, 10944}, {format.Q4_1, 96}, {format.Q5_0, 160}, {format.Q5_1, 224},
		{format.Q4K, 256}, {format.Q4K, 18944}, {format.Q5K, 768}, {format.Q6K, 256}, {format.Q6K, 18944},
	} {
		info, _ := format.Lookup(c.typ)
		for _, rows := range []int{1, 5, 257} {
			for _, p := range []device.Precision{device.F32, device.Q8} {
				t.Run(fmt.Sprintf("%s %dx%d %s", info.Name, rows, c.cols, p), func(t *testing.T) {
					if err := CheckProduct(d, c.typ, rows, c.cols, p); err != nil {
						d.refused(t, err)
						t.Error(err)
					}
				})
			}
		}
	}
}

// CheckProduct holds a product with a random matrix of the given shape to the reference. The inputs are one that is
// dense, one that is 0 but for its last unit of 32, one that is 0 but for its last element, and one of zeros: nothing
// hides an end that is left out. At least 4 rows are taken.
func CheckProduct(d device.Device, typ format.Type, rows, cols int, p device.Precision) error {
	rows = max(4, rows)
	x, w := normal(rows*cols, 1), normal(rows*cols, 2)
	unit := min(cols, 32)
	tail := slices.Clone(x[cols-unit : cols])
	clear(x[cols : 4*cols])
	copy(x[2*cols-unit:], tail)
	x[3*cols-1] = 3
	table, err := encode("table", format.F32, rows, cols, x)
	if err != nil {
		return err
	}
	matrix, err := encode("w", typ, rows, cols, w)
	if err != nil {
		return err
	}
	g := &op.Graph{Arch: "test", Vocab: rows, Context: 4}
	g.Logits = g.Select("logits", g.MatMul("y", g.Embed("x", table), matrix, nil))
	m, err := d.Load(context.Background(), g, device.LoadOptions{Precision: p})
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: 4, KVType: format.F32})
	if err != nil {
		return err
	}
	defer s.Close()
	got, err := s.Forward(context.Background(), all(4), device.LogitsAll)
	if err != nil {
		return err
	}
	want := Reference(g, all(4), p, format.F32)
	for r := range 4 { // each by its own size: what is wrong in a small one does not hide behind a large one
		if err := distance(got[r:r+1], want[r:r+1], 2e-6); err != nil {
			return fmt.Errorf("input %d: %w", r, err)
		}
	}
	for _, y := range got[3] {
		if y != 0 {
			return fmt.Errorf("an input of zeros gives %v", y)
		}
	}
	return nil
}

// largeScores has query times key pass the largest f16, for two equal keys: the values are averaged.
func largeScores(t *testing.T, d suite) {
	const dim, cols = 128, 4
	column := func(name string, of int) *op.Weight { // every row picks element of the input
		x := make([]float32, dim*cols)
		for i := range dim {
			x[i*cols+of] = 1
		}
		return encoded(t, name, format.F32, dim, cols, x)
	}
	rows := make([]float32, dim*cols)
	copy(rows, []float32{24, 24, 127, 0, 24, 24, 381, 0}) // every type of cache holds them
	table := encoded(t, "table", format.F32, dim, cols, rows)
	g := single(t, table, []op.KV{{KeyWidth: dim, ValueWidth: dim}}, func(g *op.Graph, x op.Value) op.Value {
		g.KVAppend(0, g.MatMul("k", x, column("wk", 1), nil), g.MatMul("v", x, column("wv", 2), nil))
		return g.Attend("y", op.Attend{Q: g.MatMul("q", x, column("wq", 0), nil), Heads: 1, KVHeads: 1, KeyDim: dim, ValueDim: dim, Scale: 1 / float32(math.Sqrt(dim))})
	})
	for _, kv := range device.KVTypes {
		s := open(t, load(t, d, g, device.LoadOptions{}), g, device.SessionOptions{KVType: kv})
		for i, y := range logits(t, s, []int32{0, 1})[1] {
			if math.Abs(float64(y)-254) > 1e-3 {
				t.Fatalf("element %d is %v, want 254", i, y)
			}
		}
	}
}

// offset formats store sums of activations, which overflow before the activations do.
var blockFormats = []format.Type{format.Q4_0, format.Q4_1, format.Q5_1, format.Q8_0, format.Q4K, format.Q5K, format.Q6K}

// product is a graph that multiplies inputs of cols elements by a matrix.
func product(t testing.TB, typ format.Type, inputs [][]float32) *op.Graph {
	t.Helper()
	cols := len(inputs[0])
	return single(t, encoded(t, "table", format.F32, len(inputs), cols, slices.Concat(inputs...)), nil, func(g *op.Graph, x op.Value) op.Value {
		return g.MatMul("y", x, weight(t, "w", typ, len(inputs), cols), nil)
	})
}

func fill(cols int, f func(i int) float32) []float32 {
	x := make([]float32, cols)
	for i := range x {
		x[i] = f(i)
	}
	return x
}

func largeActivations(t *testing.T, d suite) {
	for _, cols := range []int{256, 18944} {
		for _, typ := range blockFormats {
			info, _ := format.Lookup(typ)
			t.Run(fmt.Sprintf("%s %d", info.Name, cols), func(t *testing.T) {
				same := func(x float32) []float32 { return fill(cols, func(int) float32 { return x }) }
				turns := fill(cols, func(i int) float32 { return 3000 * float32(1-i%2*2) })
				g := product(t, typ, [][]float32{same(3000), turns, same(8e6), same(1e7)})
				s := open(t, load(t, d, g, device.LoadOptions{Precision: device.Q8}), g, device.SessionOptions{KVType: format.F32})
				want := Reference(g, all(4), device.F32, format.F32)
				sum := 0.0 // the greatest of a row's magnitudes
				for _, row := range matrix(g.Weights()[1]) {
					of := 0.0
					for _, w := range row {
						of += math.Abs(w)
					}
					sum = max(sum, of)
				}
				check := func(i int, row []float32) {
					// the scale of a block has 11 bits: up to 2^-11 of each product is off
					allowed := sum * []float64{3000, 3000, 8e6, 1e7}[i] / 1024
					for j, y := range row {
						if off := math.Abs(float64(y) - want[i][j]); !(off <= allowed) {
							t.Errorf("input %d, element %d: %v, want %v", i, j, y, want[i][j])
						}
					}
				}
				for i := range 3 {
					check(i, logits(t, s, []int32{int32(i)})[0])
				}
				// beyond the greatest scale in f16: right all the same, or refused
				rows, err := s.Forward(context.Background(), []int32{3}, device.LogitsLast)
				var bad *device.NonFiniteError
				switch {
				case err == nil:
					check(3, rows[0])
				case !errors.As(err, &bad):
					t.Errorf("activations of 1e7: error %v, want a NonFiniteError", err)
				}
				s = open(t, load(t, d, g, device.LoadOptions{Precision: device.F32}), g, device.SessionOptions{KVType: format.F32})
				near(t, logits(t, s, all(4)), want, 1e-5)
			})
		}
	}
}

func tinyActivations(t *testing.T, d suite) {
	const cols = 256
	ramp := func(i int) float32 { return float32(i%19) - 9 }
	spoil := func(block func(i int) float32) []float32 { // a block of 32 in the middle of an ordinary row
		return fill(cols, func(i int) float32 {
			if i/32 == 3 {
				return block(i % 32)
			}
			return ramp(i)
		})
	}
	first := func(x float32) func(int) float32 {
		return func(i int) float32 {
			if i == 0 {
				return x
			}
			return 0
		}
	}
	negative := float32(math.Copysign(0, -1))
	inputs := [][]float32{
		spoil(func(int) float32 { return 0 }),
		spoil(func(int) float32 { return negative }),
		spoil(first(1e-38)),
		spoil(first(math.SmallestNonzeroFloat32)),
		spoil(func(i int) float32 { return 1e-6 / float32(i+1) }),
		spoil(func(i int) float32 { return -3e-6 }),
		fill(cols, func(int) float32 { return 0 }),
		fill(cols, func(int) float32 { return negative }),
	}
	for _, typ := range blockFormats {
		info, _ := format.Lookup(typ)
		t.Run(info.Name, func(t *testing.T) {
			g := product(t, typ, inputs)
			s := open(t, load(t, d, g, device.LoadOptions{Precision: device.Q8}), g, device.SessionOptions{KVType: format.F32})
			got := logits(t, s, all(len(inputs)))
			// what stands in place of the tiny numbers may be 0: the rest is rounded as the reference rounds it
			near(t, got, Reference(g, all(len(inputs)), device.Q8, format.F32), 2e-6)
			for i, y := range slices.Concat(got[6], got[7]) {
				if y != 0 {
					t.Errorf("zeros give %v at %d", y, i)
				}
			}
		})
	}
}

// notFinite puts numbers that are not finite in weights and expects an error that names what they spoil, twice, since
// the first must leave the session as it was.
func notFinite(t *testing.T, d suite) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		tensor string
		at     int
		x      float32
		want   string
	}{
		"embedding":  {"token_embd.weight", 5*64 + 3, nan, "token_embd"},
		"norm":       {"blk.0.ffn_norm.weight", 7, inf, "blk.0.ffn_norm"},
		"projection": {"blk.1.attn_v.weight", 3*64 + 1, inf, "blk.1.attn_v"},
		"down":       {"blk.0.ffn_down.weight", 9*96 + 95, nan, "blk.0.ffn_down"},
		"head":       {"output.weight", 49*64 + 63, nan, "output"},
		"key in f16": {"blk.0.attn_k.weight", 0, 1e9, "blk.0.attn_k_rope"},
	} {
		t.Run(name, func(t *testing.T) {
			m := archtest.Small("llama")
			m.Tensor[c.tensor] = archtest.TensorOptions{Each: func(i int) float32 {
				if i == c.at {
					return c.x
				}
				return 0.01 * float32(i%17-8)
			}}
			g := graph(t, m)
			s := open(t, load(t, d, g, device.LoadOptions{}), g, device.SessionOptions{KVType: format.F16})
			for range 2 {
				_, err := s.Forward(context.Background(), []int32{5, 6}, device.LogitsLast)
				var bad *device.NonFiniteError
				if !errors.As(err, &bad) || d.NamesOperations && !strings.HasPrefix(bad.Value, c.want) {
					t.Fatalf("error %v, want a NonFiniteError of %s", err, c.want)
				}
				if s.Len() != 0 {
					t.Fatalf("length %d after an error", s.Len())
				}
			}
		})
	}
}

// sameBits holds a device to its promise that logits depend on the tokens before them alone.
func sameBits(t *testing.T, d suite) {
	for _, c := range []struct {
		arch      string
		quantize  format.Type
		precision device.Precision
		layers    int
		context   int
	}{{"qwen2", format.F32, device.Q8, 2, 128}, {"llama", format.Q8_0, device.Q8, 2, 128}, {"qwen3", format.Q4_0, device.Q8, 1, 1100}, {"qwen3", format.Q4_0, device.F32, 2, 128}} {
		info, _ := format.Lookup(c.quantize)
		t.Run(fmt.Sprintf("%s %s %s", c.arch, info.Name, c.precision), func(t *testing.T) {
			m := archtest.Small(c.arch)
			m.Quantize, m.Layers, m.Context = c.quantize, c.layers, c.context
			g := graph(t, m)
			ids := tokens(g.Context, g.Vocab)
			o := device.SessionOptions{KVType: format.F16}
			model := load(t, d, g, device.LoadOptions{Precision: c.precision, Threads: 1})
			want := logits(t, open(t, model, g, o), ids)
			for _, threads := range []int{2, 3, 16} {
				other := load(t, d, g, device.LoadOptions{Precision: c.precision, Threads: threads})
				equal(t, fmt.Sprintf("%d threads", threads), logits(t, open(t, other, g, o), ids), want)
			}
			for _, batch := range []int{1, 2, 7, 64, 127} {
				s := open(t, model, g, device.SessionOptions{KVType: format.F16, Batch: batch})
				equal(t, fmt.Sprintf("batch %d", batch), logits(t, s, ids), want)
			}
			s := open(t, model, g, o)
			step := func(lo, hi int) {
				t.Helper()
				rows, err := s.Forward(context.Background(), ids[lo:hi], device.LogitsLast)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, fmt.Sprintf("tokens %d to %d", lo, hi), rows, want[hi-1:hi])
			}
			for lo, n := 0, 1; lo < len(ids); lo, n = lo+n, n+1 {
				step(lo, min(lo+n, len(ids)))
			}
			for _, n := range []int{1099, 1025, 1024, 1023, 513, 512, 511, 100, 65, 64, 1, 0} {
				if n >= len(ids) {
					continue
				}
				if err := s.Truncate(n); err != nil {
					t.Fatal(err)
				}
				step(n, n+1)
			}
			if err := s.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if rows, err := s.Forward(context.Background(), ids[:50], device.LogitsNone); err != nil || len(rows) != 0 {
				t.Fatalf("%d rows and error %v where none are wanted", len(rows), err)
			}
			step(50, 51)

			var wg sync.WaitGroup
			for range 3 {
				s := open(t, model, g, o)
				wg.Go(func() {
					for range 3 {
						if err := s.Truncate(0); err != nil {
							t.Error(err)
							return
						}
						rows, err := s.Forward(context.Background(), ids, device.LogitsLast)
						if err != nil {
							t.Error(err)
							return
						}
						if !slices.Equal(rows[0], want[len(ids)-1]) {
							t.Error("a session beside others gives other logits")
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// cacheTypes holds a cache of each type to the reference whose keys and values are rounded to it, in a prompt, in tokens one by one after
// it and after tokens were taken back. Rounding itself moves logits; a key that a device computes with another last bit may round to
// the next code, which moves them by a small part of that.
func cacheTypes(t *testing.T, d suite) {
	for _, c := range []struct {
		arch          string
		heads, kv, hd int
	}{{"llama", 4, 2, 32}, {"qwen2", 3, 1, 96}, {"qwen3", 4, 2, 64}, {"llama", 2, 2, 128}, {"qwen2", 1, 1, 160}} {
		m := archtest.Small(c.arch)
		m.Heads, m.KV, m.HD, m.Quantize = c.heads, c.kv, c.hd, format.Q8_0
		if c.arch != "qwen3" {
			m.Embd = c.heads * c.hd
		}
		g := graph(t, m)
		model := load(t, d, g, device.LoadOptions{Precision: device.F32})
		ids := tokens(75, g.Vocab)
		exact := Reference(g, ids, device.F32, format.F32)
		for _, kv := range device.KVTypes {
			info, _ := format.Lookup(kv)
			t.Run(fmt.Sprintf("%s/%d heads of %d/%s", c.arch, c.heads, c.hd, info.Name), func(t *testing.T) {
				want := Reference(g, ids, device.F32, kv)
				var moved, largest float64
				for r := range want {
					for i, x := range want[r] {
						moved, largest = max(moved, math.Abs(x-exact[r][i])), max(largest, math.Abs(x))
					}
				}
				tolerance := 1e-5 + moved/4/(largest+1)
				s := open(t, model, g, device.SessionOptions{KVType: kv})
				near(t, logits(t, s, ids), want, tolerance)
				if err := s.Truncate(30); err != nil {
					t.Fatal(err)
				}
				for r := 30; r < len(ids); r++ {
					near(t, must(s.Forward(t.Context(), ids[r:r+1], device.LogitsLast)), want[r:r+1], tolerance*(largest+1))
				}
			})
		}
	}
}

// largestLogits holds the largest logits that a device finds to those that it gives when asked for all, and texts that samplers draw from them
// to those drawn from all.
func largestLogits(t *testing.T, d suite) {
	m := archtest.Small("qwen2")
	m.Vocab = 5000 // more than one block of a kernel goes over
	g := graph(t, m)
	model := load(t, d, g, device.LoadOptions{})
	o := device.SessionOptions{KVType: format.F16, Batch: 16}
	whole, few := open(t, model, g, o), open(t, model, g, o)
	top, ok := few.(device.Topper)
	if !ok {
		t.Skip("this device gives all logits")
	}
	for _, k := range []int{-1, 0, g.Vocab + 1} {
		if _, _, err := top.ForwardTop(t.Context(), []int32{1}, k); err == nil || top.Tops(k) || top.Len() != 0 {
			t.Errorf("the %d largest: error %v, length %d", k, err, top.Len())
		}
	}
	ids := tokens(40, g.Vocab)
	for at, step := range []struct{ n, k int }{{20, 1}, {1, 40}, {1, 40}, {1, 40}, {2, 700}, {9, 3}, {1, 1}, {1, 1024}} { // a prompt of two batches, steps that are recorded
		next := ids[at : at+step.n]
		logitsOf := must(whole.Forward(t.Context(), next, device.LogitsLast))[0]
		got, logits, err := top.ForwardTop(t.Context(), next, step.k)
		if err != nil {
			t.Fatal(err)
		}
		want := all(len(logitsOf))
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(logitsOf[b], logitsOf[a]) })
		for i := range want[:step.k] {
			if len(got) != step.k || got[i] != want[i] || logits[i] != logitsOf[want[i]] {
				t.Fatalf("step %d: of the %d largest number %d is %d with %g; it must be %d with %g", at, step.k, i, got[i], logits[i], want[i], logitsOf[want[i]])
			}
		}
	}
	for name, change := range map[string]func(p *sample.Params){
		"defaults":  func(p *sample.Params) {},
		"greedy":    func(p *sample.Params) { p.Temp = 0 },
		"penalties": func(p *sample.Params) { p.RepeatPenalty, p.PresencePenalty, p.Temp = 1.3, 0.4, 1.2 },
		"forbidden": func(p *sample.Params) { p.Forbidden, p.Typical, p.Temp = []int32{7, 4999}, 0.9, 2 },
	} {
		p := sample.Defaults()
		p.Seed = 5
		change(&p)
		a, err := sample.New(p)
		b, err2 := sample.New(p)
		if err := errors.Join(err, err2, whole.Truncate(0), top.Truncate(0)); err != nil {
			t.Fatal(err)
		}
		k, why := b.Top()
		if k == 0 {
			t.Fatalf("%s: %s", name, why)
		}
		next := ids[:3]
		for i := range 12 {
			want, err := a.Sample(must(whole.Forward(t.Context(), next, device.LogitsLast))[0])
			got, logits, err2 := top.ForwardTop(t.Context(), next, k)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			id, err := b.SampleTop(got, logits, g.Vocab)
			if err != nil || id != want {
				t.Fatalf("%s: token %d is %d (%v) from the largest logits, %d from all", name, i, id, err, want)
			}
			a.Accept(id)
			b.Accept(id)
			next = []int32{id}
		}
	}

	// A logit that is no number is told as it is where all are asked for.
	table := make([]float32, 8*48)
	for i, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		table[(i+1)*48+30], table[(i+1)*48+40] = float32(x), float32(math.Inf(1))
	}
	bad := single(t, encoded(t, "table", format.F32, 48, 48, append(table, make([]float32, 40*48)...)), nil, func(g *op.Graph, x op.Value) op.Value { return x })
	s := open(t, load(t, d, bad, device.LoadOptions{}), bad, o)
	for id := range int32(5) {
		_, want := s.Forward(t.Context(), []int32{id}, device.LogitsLast)
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.(device.Topper).ForwardTop(t.Context(), []int32{id}, 2)
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() || s.Len() != map[bool]int{true: 1}[err == nil] {
			t.Errorf("row %d: error %v at length %d, of all logits %v", id, err, s.Len(), want)
		}
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
}

func must(rows [][]float32, err error) [][]float32 {
	if err != nil {
		panic(err)
	}
	return rows
}

func refusals(t *testing.T, d suite) {
	g := graph(t, archtest.Small("qwen2")) // heads of 16
	model := load(t, d, g, device.LoadOptions{})
	for name, o := range map[string]device.SessionOptions{
		"no context":       {KVType: format.F16},
		"negative context": {Context: -5, KVType: format.F16},
		"long context":     {Context: g.Context + 1, KVType: format.F16},
		"cache type":       {Context: 64, KVType: format.Q4_0},
		"half a block":     {Context: 64, KVType: format.Q8_0},
		"negative batch":   {Context: 64, KVType: format.F16, Batch: -1},
	} {
		if s, err := model.NewSession(o); err == nil {
			s.Close()
			t.Errorf("%s: session opened", name)
		}
	}
	s := open(t, model, g, device.SessionOptions{Context: 64, KVType: format.F16})
	ids := tokens(65, g.Vocab)
	want := clone(logits(t, s, ids[:63]))
	for _, n := range []int{2, 3, 65} {
		_, err := s.Forward(context.Background(), ids[:n], device.LogitsLast)
		var full *device.ContextError
		if !errors.As(err, &full) || full.Tokens != n || full.Len != 63 || full.Context != 64 {
			t.Errorf("%d tokens after 63 of 64: error %v", n, err)
		}
	}
	for name, bad := range map[string][]int32{"none": {}, "negative": {1, -1}, "past the vocabulary": {int32(g.Vocab)}} {
		if _, err := s.Forward(context.Background(), bad, device.LogitsLast); err == nil {
			t.Errorf("tokens %s: computed", name)
		}
	}
	for _, n := range []int{-1, 64} {
		if err := s.Truncate(n); err == nil {
			t.Errorf("%d tokens kept of 63", n)
		}
	}
	if s.Len() != 63 || s.Context() != 64 {
		t.Errorf("length %d of %d after refusals, want 63 of 64", s.Len(), s.Context())
	}
	if _, err := s.Forward(context.Background(), ids[63:64], device.LogitsLast); err != nil {
		t.Errorf("the last token that fits: %v", err)
	}
	equal(t, "after refusals", logits(t, s, ids[:63]), want)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Forward(context.Background(), ids[:1], device.LogitsLast); err == nil {
		t.Error("a closed session computes")
	}
}

// cancelled ends contexts before and during a step and expects the session as it was.
func cancelled(t *testing.T, d suite) {
	g := graph(t, archtest.Small("llama"))
	s := open(t, load(t, d, g, device.LoadOptions{}), g, device.SessionOptions{KVType: format.F16, Batch: 16})
	ids := tokens(g.Context, g.Vocab)
	want := logits(t, s, ids)
	if err := s.Truncate(10); err != nil {
		t.Fatal(err)
	}
	for after := range 40 {
		ctx := &countdown{Context: context.Background(), left: after * 3}
		_, err := s.Forward(ctx, ids[10:], device.LogitsLast)
		if err == nil {
			break // the step asked fewer times
		}
		if !errors.Is(err, context.Canceled) || s.Len() != 10 {
			t.Fatalf("error %v, length %d, want cancellation and 10", err, s.Len())
		}
		if after == 39 {
			rows, err := s.Forward(context.Background(), ids[10:], device.LogitsAll)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "after cancellations", rows, want[10:])
		}
	}
}

// countdown is a context that ends after it was asked a number of times.
type countdown struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func loading(t *testing.T, d suite) {
	m := archtest.Small("qwen2")
	m.Quantize = format.Q8_0
	g := graph(t, m)
	var done, total int64
	model := load(t, d, g, device.LoadOptions{Progress: func(a, b int64) {
		if a < done || a > b || total != 0 && b != total {
			t.Errorf("progress went from %d of %d to %d of %d", done, total, a, b)
		}
		done, total = a, b
	}})
	if done != total || total == 0 {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	routes := model.Routes()
	for _, o := range g.Ops {
		if mm, ok := o.(op.MatMul); ok && !slices.ContainsFunc(routes, func(r device.Route) bool {
			return r.Weight == mm.Weight.Name && r.Format == mm.Weight.TypeName() && r.Rows == mm.Weight.Rows && r.Cols == mm.Weight.Cols && r.Kernel != "" && r.Class != "" && r.Why != ""
		}) {
			t.Errorf("no route for %s", mm.Weight.Name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m, err := d.Load(ctx, g, device.LoadOptions{}); err == nil {
		m.Close()
		t.Error("a cancelled load loads")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load: error %v", err)
	}
	for name, o := range map[string]device.LoadOptions{"precision": {Precision: "q7"}, "threads": {Threads: -1}} {
		if m, err := d.Load(context.Background(), g, o); err == nil {
			m.Close()
			t.Errorf("%s: loaded", name)
		}
	}
	broken := *g
	broken.Vocab++
	if m, err := d.Load(context.Background(), &broken, device.LoadOptions{}); err == nil {
		m.Close()
		t.Error("an invalid graph is loaded")
	}
}
