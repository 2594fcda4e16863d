// Package decoder builds the graph that most decoder-only architectures share: root-mean-square norms before attention
// and before a gated feed-forward layer, rotary positions, grouped key/value heads. An architecture says by its Traits
// how it differs; all sizes come from the file.
package decoder

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Traits are what an architecture fixes by its name alone. Biases of any product are used where the file has them.
type Traits struct {
	Arch      string // prefix of the metadata keys
	Pairing   op.Pairing
	QKVBias   bool // queries, keys and values must have biases
	QKNorm    bool // queries and keys are normalized by head
	RopeFreqs bool // rope_freqs.weight, if present, divides the rotary frequencies
}

// reader takes what it needs from a file, remembers what it took, and keeps the first error.
type reader struct {
	f      *gguf.File
	prefix string
	keys   map[string]bool // known, with the prefix
	taken  map[string]bool // tensors
	err    error
}

// Build reads a model with the given traits.
func Build(f *gguf.File, t Traits) (*op.Graph, error) {
	r := &reader{f: f, prefix: t.Arch + ".", keys: map[string]bool{}, taken: map[string]bool{}}
	h := r.sizes()
	if r.err == nil {
		r.refuseUnsupported(h.context)
	}
	if r.err != nil {
		return nil, r.err
	}
	rotary := r.rotary(h, t)
	g := &op.Graph{Arch: t.Arch, Vocab: h.vocab, Context: h.context}
	name, err := f.Meta.StringOr("general.name", "")
	r.fail(err)
	g.Name = name

	table := r.matrix("token_embd.weight", h.embd, h.vocab)
	if r.err != nil {
		return nil, r.err
	}
	x := g.Embed("token_embd", table)
	scale := float32(h.scale)
	for l := range h.layers {
		b := fmt.Sprintf("blk.%d.", l)
		product := func(name string, in op.Value, rows, cols int, needBias bool) op.Value {
			return g.MatMul(b+name, in, r.matrix(b+name+".weight", cols, rows), r.bias(b+name+".bias", rows, needBias))
		}
		n := g.RMSNorm(b+"attn_norm", x, r.vector(b+"attn_norm.weight", h.embd), h.eps)
		q := product("attn_q", n, h.heads*h.keyDim, h.embd, t.QKVBias)
		k := product("attn_k", n, h.kvHeads*h.keyDim, h.embd, t.QKVBias)
		v := product("attn_v", n, h.kvHeads*h.valueDim, h.embd, t.QKVBias)
		if t.QKNorm {
			q = g.RMSNorm(b+"attn_q_norm", q, r.vector(b+"attn_q_norm.weight", h.keyDim), h.eps)
			k = g.RMSNorm(b+"attn_k_norm", k, r.vector(b+"attn_k_norm.weight", h.keyDim), h.eps)
		}
		q = g.RoPE(b+"attn_q_rope", q, h.keyDim, rotary)
		k = g.RoPE(b+"attn_k_rope", k, h.keyDim, rotary)
		g.KV = append(g.KV, op.KV{KeyWidth: h.kvHeads * h.keyDim, ValueWidth: h.kvHeads * h.valueDim})
		g.KVAppend(l, k, v)
		a := g.Attend(b+"attn", op.Attend{Layer: l, Q: q, Heads: h.heads, KVHeads: h.kvHeads, KeyDim: h.keyDim, ValueDim: h.valueDim, Scale: scale})
		if l == h.layers-1 { // what follows serves logits alone
			a, x = g.Select(b+"attn_wanted", a), g.Select(b+"in_wanted", x)
		}
		x = g.Add(b+"attn_sum", product("attn_output", a, h.embd, h.heads*h.valueDim, false), x)
		n = g.RMSNorm(b+"ffn_norm", x, r.vector(b+"ffn_norm.weight", h.embd), h.eps)
		gate := product("ffn_gate", n, h.ff, h.embd, false)
		up := product("ffn_up", n, h.ff, h.embd, false)
		x = g.Add(b+"ffn_sum", product("ffn_down", g.SiLUMul(b+"ffn_act", gate, up), h.embd, h.ff, false), x)
		if r.err != nil { // before another layer that the file merely claims
			return nil, r.err
		}
	}
	x = g.RMSNorm("output_norm", x, r.vector("output_norm.weight", h.embd), h.eps)
	head := table
	if _, ok := f.Tensor("output.weight"); ok {
		head = r.matrix("output.weight", h.embd, h.vocab)
	}
	g.Logits = g.MatMul("output", x, head, r.bias("output.bias", h.vocab, false))
	r.leftovers()
	if r.err != nil {
		return nil, r.err
	}
	g.Notes = r.notes(h.vocab)
	return g, nil
}

// sizes are the numbers that shape a model.
type sizes struct {
	layers, context, embd, ff, vocab int
	heads, kvHeads, keyDim, valueDim int
	eps                              float32
	scale                            float64 // of attention scores
}

func (r *reader) sizes() (h sizes) {
	h.layers = r.size("block_count", nil)
	h.context = r.size("context_length", nil)
	h.embd = r.size("embedding_length", nil)
	h.ff = r.size("feed_forward_length", nil)
	h.heads = r.size("attention.head_count", nil)
	if r.err != nil {
		return h
	}
	h.kvHeads = r.size("attention.head_count_kv", &h.heads)
	if r.err == nil && h.heads%h.kvHeads != 0 {
		r.fail(r.f.Meta.Fail(r.key("attention.head_count_kv"), fmt.Sprintf("must divide the %d query heads of %s", h.heads, r.key("attention.head_count"))))
	}
	even := h.embd / h.heads
	var def *int
	if h.embd%h.heads == 0 {
		def = &even
	} else if !r.f.Meta.Has(r.key("attention.key_length")) {
		r.fail(r.f.Meta.Fail(r.key("attention.head_count"), fmt.Sprintf("must divide the width %d of %s, as %s is absent", h.embd, r.key("embedding_length"), r.key("attention.key_length"))))
	}
	h.keyDim = r.size("attention.key_length", def)
	h.valueDim = r.size("attention.value_length", def)
	for _, p := range []struct {
		key        string
		heads, dim int
	}{{"attention.key_length", h.heads, h.keyDim}, {"attention.value_length", h.heads, h.valueDim}} {
		if r.err == nil && p.heads*p.dim > maxSize {
			r.fail(r.f.Meta.Fail(r.key(p.key), fmt.Sprintf("times %d heads is more than %d", p.heads, maxSize)))
		}
	}
	h.eps = float32(r.number("attention.layer_norm_rms_epsilon", nil))
	if r.err == nil && !(h.eps >= 0 && h.eps < 1) {
		r.fail(r.f.Meta.Fail(r.key("attention.layer_norm_rms_epsilon"), "must be from 0 to 1"))
	}
	zero := 0.0
	h.scale = r.number("attention.scale", &zero)
	if h.scale == 0 && h.keyDim > 0 {
		h.scale = 1 / math.Sqrt(float64(h.keyDim))
	}
	if r.err == nil && !(h.scale > 0 && !math.IsInf(float64(float32(h.scale)), 0)) {
		r.fail(r.f.Meta.Fail(r.key("attention.scale"), "must be a positive number"))
	}
	h.vocab = r.vocab()
	return h
}

// vocab is the number of tokens: of the tokenizer, or of the token table where there is no tokenizer.
func (r *reader) vocab() int {
	r.known("vocab_size")
	if tokens, ok := r.f.Meta.Value("tokenizer.ggml.tokens"); ok {
		return tokens.Len()
	}
	t, err := r.f.Need("token_embd.weight")
	if err != nil {
		r.fail(err)
		return 0
	}
	return t.Rows()
}

func (r *reader) rotary(h sizes, t Traits) *op.Rotary {
	one, zero := 1.0, 0.0
	base, fast, slow := 10000.0, 32.0, 1.0
	rot := &op.Rotary{
		Pairing:    t.Pairing,
		Dims:       r.size("rope.dimension_count", &h.keyDim),
		Base:       r.number("rope.freq_base", &base),
		ExtFactor:  r.number("rope.scaling.yarn_ext_factor", &one),
		BetaFast:   r.number("rope.scaling.yarn_beta_fast", &fast),
		BetaSlow:   r.number("rope.scaling.yarn_beta_slow", &slow),
		AttnFactor: r.number("rope.scaling.attn_factor", &one) * r.number("rope.scaling.yarn_attn_factor", &one),
	}
	if rot.ExtFactor < 0 { // llama.cpp's "by the type"
		rot.ExtFactor = 1
	}
	rot.OriginalContext = r.size("rope.scaling.original_context_length", &h.context)
	factorKey := "rope.scaling.factor"
	if !r.f.Meta.Has(r.key(factorKey)) && r.f.Meta.Has(r.key("rope.scale_linear")) {
		factorKey = "rope.scale_linear" // the older name
	}
	rot.Factor = r.number(factorKey, &zero)
	if rot.Factor == 0 {
		rot.Factor = 1
	}
	r.known("rope.scaling.factor", "rope.scale_linear", "rope.scaling.finetuned", "rope.scaling.type")
	kind, err := r.f.Meta.StringOr(r.key("rope.scaling.type"), "linear") // llama.cpp's default: a factor alone is linear
	r.fail(err)
	switch kind {
	case "none":
	case "linear":
		if rot.Factor != 1 {
			rot.Scaling = op.ScaleLinear
		}
	case "yarn":
		rot.Scaling = op.ScaleYaRN
	default:
		r.fail(r.f.Meta.Fail(r.key("rope.scaling.type"), "is not supported; known are none, linear, yarn"))
	}
	if t.RopeFreqs {
		if _, ok := r.f.Tensor("rope_freqs.weight"); ok {
			rot.Divisors = r.divisors(rot.Dims)
		}
	}
	if r.err == nil {
		if err := rot.Validate(h.keyDim); err != nil {
			r.fail(fmt.Errorf("%s: %s*: %w", r.f.Name, r.key("rope."), err))
		}
	}
	return rot
}

func (r *reader) divisors(dims int) []float32 {
	t := r.tensor("rope_freqs.weight", dims/2)
	if t == nil {
		return nil
	}
	if t.Type != format.F32 {
		r.fail(fmt.Errorf("%s: tensor %s must be f32", r.f.Name, t))
		return nil
	}
	d, data := make([]float32, dims/2), t.Data()
	for i := range d {
		d[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return d
}

// leftovers refuses tensors that the graph does not use: to drop one would change the model in silence.
func (r *reader) leftovers() {
	if r.err != nil {
		return
	}
	var names []string
	for _, t := range r.f.Tensors {
		if !r.taken[t.Name] {
			names = append(names, t.String())
		}
	}
	const shown = 3
	switch {
	case len(names) > shown:
		r.fail(fmt.Errorf("%s: architecture %s has no use for %d of the tensors: %s, and %d more",
			r.f.Name, strings.TrimSuffix(r.prefix, "."), len(names), strings.Join(names[:shown], ", "), len(names)-shown))
	case len(names) > 0:
		r.fail(fmt.Errorf("%s: architecture %s has no use for the tensors %s", r.f.Name, strings.TrimSuffix(r.prefix, "."), strings.Join(names, ", ")))
	}
}

// maxSize bounds every size that a file declares, so that products of two of them fit in 63 bits.
const maxSize = math.MaxInt32

func (r *reader) key(suffix string) string { return r.prefix + suffix }

func (r *reader) known(suffixes ...string) {
	for _, s := range suffixes {
		r.keys[r.key(s)] = true
	}
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// size reads a positive integer; def, if not nil, is taken where the key is absent.
func (r *reader) size(suffix string, def *int) int {
	r.known(suffix)
	key := r.key(suffix)
	if v, ok := r.f.Meta.Value(key); ok && v.Type() == gguf.TypeArray {
		r.fail(r.f.Meta.Fail(key, "sizes that differ by layer are not supported"))
		return 0
	}
	if def != nil && !r.f.Meta.Has(key) {
		return *def
	}
	n, err := r.f.Meta.UintIn(key, 1, maxSize)
	r.fail(err)
	return int(n)
}

// number reads a finite float; def, if not nil, is taken where the key is absent.
func (r *reader) number(suffix string, def *float64) float64 {
	r.known(suffix)
	key := r.key(suffix)
	if def != nil && !r.f.Meta.Has(key) {
		return *def
	}
	x, err := r.f.Meta.Float(key)
	r.fail(err)
	if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
		r.fail(r.f.Meta.Fail(key, "must be a finite number"))
	}
	return x
}

// tensor takes a tensor of the given dimensions, the one of adjacent elements first.
func (r *reader) tensor(name string, dims ...int) *gguf.Tensor {
	ne := make([]uint64, len(dims))
	for i, d := range dims {
		ne[i] = uint64(d)
	}
	t, err := r.f.Need(name, ne...)
	if err != nil {
		r.fail(err)
		return nil
	}
	r.taken[name] = true
	return t
}

// The weights below are never nil, so that the graph can be built on after an error; Build returns before it is used.

func (r *reader) matrix(name string, cols, rows int) *op.Weight {
	return r.weight(r.tensor(name, cols, rows), name, rows, cols)
}

// vector takes a tensor of plain numbers.
func (r *reader) vector(name string, elems int) *op.Weight {
	t := r.tensor(name, elems)
	if t != nil {
		if info, ok := format.Lookup(t.Type); !ok || info.BlockElems != 1 {
			r.fail(fmt.Errorf("%s: tensor %s must be f32, f16 or bf16", r.f.Name, t))
		}
	}
	return r.weight(t, name, 1, elems)
}

// bias takes a vector where the file has it; nil where it has not and need is false.
func (r *reader) bias(name string, elems int, need bool) *op.Weight {
	if _, ok := r.f.Tensor(name); !ok && !need {
		return nil
	}
	return r.vector(name, elems)
}

var integers = []format.Type{format.I8, format.I16, format.I32, format.I64}

func (r *reader) weight(t *gguf.Tensor, name string, rows, cols int) *op.Weight {
	w := &op.Weight{Name: name, Rows: rows, Cols: cols}
	if t != nil {
		w.Type, w.Data = t.Type, t.Data()
		if slices.Contains(integers, t.Type) {
			r.fail(fmt.Errorf("%s: tensor %s holds integers, which are no weights", r.f.Name, t))
		}
	}
	return w
}
