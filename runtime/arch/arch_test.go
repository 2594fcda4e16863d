package arch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

func build(t *testing.T, m archtest.Model) (*op.Graph, error) {
	t.Helper()
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	return Build(f)
}

func TestBuild(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			m := archtest.Small(name)
			m.Layers = 1
			g, err := build(t, m)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := graphs[name]
			if !ok {
				t.Fatalf("no golden graph of %s", name)
			}
			if d := cmp.Diff(strings.TrimPrefix(want, "\n"), g.String()); d != "" {
				t.Error(d)
			}
			if len(g.Notes) != 0 {
				t.Errorf("notes %q", g.Notes)
			}
		})
	}
}

// graphs are the one-layer models of archtest, as printed.
var graphs = map[string]string{
	"qwen2": `
qwen2 "archtest": 1 layers, vocab 50, trained context 128
token_embd[tokens, 64] = embed token_embd.weight f32 [50, 64]
blk.0.attn_norm[tokens, 64] = rmsnorm token_embd[tokens, 64], blk.0.attn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.attn_q[tokens, 64] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_q.weight f32 [64, 64], blk.0.attn_q.bias f32 [1, 64]
blk.0.attn_k[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_k.weight f32 [32, 64], blk.0.attn_k.bias f32 [1, 32]
blk.0.attn_v[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_v.weight f32 [32, 64], blk.0.attn_v.bias f32 [1, 32]
blk.0.attn_q_rope[tokens, 64] = rope blk.0.attn_q[tokens, 64], head 16, halves 16, base 10000
blk.0.attn_k_rope[tokens, 32] = rope blk.0.attn_k[tokens, 32], head 16, halves 16, base 10000
kvappend blk.0.attn_k_rope[tokens, 32], blk.0.attn_v[tokens, 32], layer 0
blk.0.attn[tokens, 64] = attend blk.0.attn_q_rope[tokens, 64], layer 0, heads 4/2 of 16/16, scale 0.25
blk.0.attn_wanted[wanted, 64] = select blk.0.attn[tokens, 64]
blk.0.in_wanted[wanted, 64] = select token_embd[tokens, 64]
blk.0.attn_output[wanted, 64] = matmul blk.0.attn_wanted[wanted, 64], blk.0.attn_output.weight f32 [64, 64]
blk.0.attn_sum[wanted, 64] = add blk.0.attn_output[wanted, 64], blk.0.in_wanted[wanted, 64]
blk.0.ffn_norm[wanted, 64] = rmsnorm blk.0.attn_sum[wanted, 64], blk.0.ffn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.ffn_gate[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_gate.weight f32 [96, 64]
blk.0.ffn_up[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_up.weight f32 [96, 64]
blk.0.ffn_act[wanted, 96] = silumul blk.0.ffn_gate[wanted, 96], blk.0.ffn_up[wanted, 96]
blk.0.ffn_down[wanted, 64] = matmul blk.0.ffn_act[wanted, 96], blk.0.ffn_down.weight f32 [64, 96]
blk.0.ffn_sum[wanted, 64] = add blk.0.ffn_down[wanted, 64], blk.0.attn_sum[wanted, 64]
output_norm[wanted, 64] = rmsnorm blk.0.ffn_sum[wanted, 64], output_norm.weight f32 [1, 64], group 64, eps 1e-06
output[wanted, 50] = matmul output_norm[wanted, 64], output.weight f32 [50, 64]
logits: output[wanted, 50]
`,
	"llama": `
llama "archtest": 1 layers, vocab 50, trained context 128
token_embd[tokens, 64] = embed token_embd.weight f32 [50, 64]
blk.0.attn_norm[tokens, 64] = rmsnorm token_embd[tokens, 64], blk.0.attn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.attn_q[tokens, 64] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_q.weight f32 [64, 64]
blk.0.attn_k[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_k.weight f32 [32, 64]
blk.0.attn_v[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_v.weight f32 [32, 64]
blk.0.attn_q_rope[tokens, 64] = rope blk.0.attn_q[tokens, 64], head 16, adjacent 16, base 10000
blk.0.attn_k_rope[tokens, 32] = rope blk.0.attn_k[tokens, 32], head 16, adjacent 16, base 10000
kvappend blk.0.attn_k_rope[tokens, 32], blk.0.attn_v[tokens, 32], layer 0
blk.0.attn[tokens, 64] = attend blk.0.attn_q_rope[tokens, 64], layer 0, heads 4/2 of 16/16, scale 0.25
blk.0.attn_wanted[wanted, 64] = select blk.0.attn[tokens, 64]
blk.0.in_wanted[wanted, 64] = select token_embd[tokens, 64]
blk.0.attn_output[wanted, 64] = matmul blk.0.attn_wanted[wanted, 64], blk.0.attn_output.weight f32 [64, 64]
blk.0.attn_sum[wanted, 64] = add blk.0.attn_output[wanted, 64], blk.0.in_wanted[wanted, 64]
blk.0.ffn_norm[wanted, 64] = rmsnorm blk.0.attn_sum[wanted, 64], blk.0.ffn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.ffn_gate[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_gate.weight f32 [96, 64]
blk.0.ffn_up[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_up.weight f32 [96, 64]
blk.0.ffn_act[wanted, 96] = silumul blk.0.ffn_gate[wanted, 96], blk.0.ffn_up[wanted, 96]
blk.0.ffn_down[wanted, 64] = matmul blk.0.ffn_act[wanted, 96], blk.0.ffn_down.weight f32 [64, 96]
blk.0.ffn_sum[wanted, 64] = add blk.0.ffn_down[wanted, 64], blk.0.attn_sum[wanted, 64]
output_norm[wanted, 64] = rmsnorm blk.0.ffn_sum[wanted, 64], output_norm.weight f32 [1, 64], group 64, eps 1e-06
output[wanted, 50] = matmul output_norm[wanted, 64], output.weight f32 [50, 64]
logits: output[wanted, 50]
`,
	"qwen3": `
qwen3 "archtest": 1 layers, vocab 50, trained context 128
token_embd[tokens, 64] = embed token_embd.weight f32 [50, 64]
blk.0.attn_norm[tokens, 64] = rmsnorm token_embd[tokens, 64], blk.0.attn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.attn_q[tokens, 64] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_q.weight f32 [64, 64]
blk.0.attn_k[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_k.weight f32 [32, 64]
blk.0.attn_v[tokens, 32] = matmul blk.0.attn_norm[tokens, 64], blk.0.attn_v.weight f32 [32, 64]
blk.0.attn_q_norm[tokens, 64] = rmsnorm blk.0.attn_q[tokens, 64], blk.0.attn_q_norm.weight f32 [1, 16], group 16, eps 1e-06
blk.0.attn_k_norm[tokens, 32] = rmsnorm blk.0.attn_k[tokens, 32], blk.0.attn_k_norm.weight f32 [1, 16], group 16, eps 1e-06
blk.0.attn_q_rope[tokens, 64] = rope blk.0.attn_q_norm[tokens, 64], head 16, halves 16, base 10000
blk.0.attn_k_rope[tokens, 32] = rope blk.0.attn_k_norm[tokens, 32], head 16, halves 16, base 10000
kvappend blk.0.attn_k_rope[tokens, 32], blk.0.attn_v[tokens, 32], layer 0
blk.0.attn[tokens, 64] = attend blk.0.attn_q_rope[tokens, 64], layer 0, heads 4/2 of 16/16, scale 0.25
blk.0.attn_wanted[wanted, 64] = select blk.0.attn[tokens, 64]
blk.0.in_wanted[wanted, 64] = select token_embd[tokens, 64]
blk.0.attn_output[wanted, 64] = matmul blk.0.attn_wanted[wanted, 64], blk.0.attn_output.weight f32 [64, 64]
blk.0.attn_sum[wanted, 64] = add blk.0.attn_output[wanted, 64], blk.0.in_wanted[wanted, 64]
blk.0.ffn_norm[wanted, 64] = rmsnorm blk.0.attn_sum[wanted, 64], blk.0.ffn_norm.weight f32 [1, 64], group 64, eps 1e-06
blk.0.ffn_gate[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_gate.weight f32 [96, 64]
blk.0.ffn_up[wanted, 96] = matmul blk.0.ffn_norm[wanted, 64], blk.0.ffn_up.weight f32 [96, 64]
blk.0.ffn_act[wanted, 96] = silumul blk.0.ffn_gate[wanted, 96], blk.0.ffn_up[wanted, 96]
blk.0.ffn_down[wanted, 64] = matmul blk.0.ffn_act[wanted, 96], blk.0.ffn_down.weight f32 [64, 96]
blk.0.ffn_sum[wanted, 64] = add blk.0.ffn_down[wanted, 64], blk.0.attn_sum[wanted, 64]
output_norm[wanted, 64] = rmsnorm blk.0.ffn_sum[wanted, 64], output_norm.weight f32 [1, 64], group 64, eps 1e-06
output[wanted, 50] = matmul output_norm[wanted, 64], output.weight f32 [50, 64]
logits: output[wanted, 50]
`,
}

// TestHead: the token table serves as head where there is no output.weight, and only there.
func TestHead(t *testing.T) {
	head := func(g *op.Graph) *op.Weight { return g.Ops[len(g.Ops)-1].(op.MatMul).Weight }
	table := func(g *op.Graph) *op.Weight { return g.Ops[0].(op.Embed).Table }

	m := archtest.Small("qwen2")
	g, err := build(t, m)
	if err != nil {
		t.Fatal(err)
	}
	if head(g).Name != "output.weight" || &head(g).Data[0] == &table(g).Data[0] {
		t.Errorf("with both, the head is %s", head(g).Name)
	}
	// a name that contains the wanted one is another tensor
	m.Tied, m.Tensor["blk.0.output.weight"] = true, archtest.TensorOptions{Dims: []int{64, 50}}
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "blk.0.output.weight") {
		t.Errorf("a tensor named blk.0.output.weight: %v", err)
	}
	delete(m.Tensor, "blk.0.output.weight")
	if g, err = build(t, m); err != nil {
		t.Fatal(err)
	}
	if head(g) != table(g) {
		t.Errorf("tied: the head is %s, not the table itself", head(g).Name)
	}
	// a table of blocks of 32 serves both ends
	m.Quantize = format.Q8_0
	if g, err = build(t, m); err != nil || head(g) != table(g) || head(g).Type != format.Q8_0 {
		t.Errorf("tied in q8_0: %v", err)
	}
	m.Drop = []string{"token_embd.weight"}
	_, err = build(t, m)
	if !errors.Is(err, gguf.ErrMissing) || !strings.Contains(err.Error(), "token_embd.weight") {
		t.Errorf("neither: %v", err)
	}
}

// TestEveryTensorMatters leaves out each tensor, gives each a wrong shape and type, and adds one: all are refused by name.
func TestEveryTensorMatters(t *testing.T) {
	for _, arch := range Names() {
		for _, name := range archtest.Small(arch).Tensors() {
			m := archtest.Small(arch)
			m.Drop = []string{name}
			g, err := build(t, m)
			if name == "output.weight" {
				if err != nil {
					t.Errorf("%s without %s: %v", arch, name, err)
				}
			} else if !errors.Is(err, gguf.ErrMissing) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without %s: %v, %v", arch, name, g, err)
			}
			m = archtest.Small(arch)
			m.Tensor[name] = archtest.TensorOptions{Dims: []int{33, 7}}
			if _, err = build(t, m); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "[33, 7]") || strings.Count(err.Error(), "[") < 2 {
				t.Errorf("%s with %s of another shape: %v", arch, name, err)
			}
			m = archtest.Small(arch)
			f, ferr := m.File()
			if ferr != nil {
				t.Fatal(ferr)
			}
			tensor, _ := f.Tensor(name)
			dims := make([]int, len(tensor.Dims))
			for i, d := range tensor.Dims {
				dims[i] = int(d)
			}
			m.Tensor[name] = archtest.TensorOptions{Type: format.I32, Dims: dims, Data: slices.Clone(tensor.Data())}
			if _, err = build(t, m); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "i32") {
				t.Errorf("%s with %s of integers: %v", arch, name, err)
			}
		}
		m := archtest.Small(arch)
		for _, name := range []string{"blk.0.ffn_gate_inp.weight", "blk.0.attn_sinks", "blk.2.attn_norm.weight", "rope_factors_long.weight"} {
			m.Tensor[name] = archtest.TensorOptions{Dims: []int{4}}
			if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with a tensor %s: %v", arch, name, err)
			}
			delete(m.Tensor, name)
		}
	}
	// norms of heads belong to qwen3, divisors of frequencies to llama
	for arch, name := range map[string]string{"llama": "blk.0.attn_q_norm.weight", "qwen2": "rope_freqs.weight"} {
		m := archtest.Small(arch)
		m.Tensor[name] = archtest.TensorOptions{Dims: []int{16}}
		if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with %s: %v", arch, name, err)
		}
	}
	m := archtest.Small("llama")
	for i := range 9 {
		m.Tensor[fmt.Sprintf("extra.%d", i)] = archtest.TensorOptions{Dims: []int{4}}
	}
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "9 of the tensors") || !strings.Contains(err.Error(), "and 6 more") {
		t.Errorf("nine extra tensors: %v", err)
	}
}

func TestMetadata(t *testing.T) {
	u32, f32, text, yes := func(v uint32) gguf.Value { return gguf.Of(v) }, func(v float32) gguf.Value { return gguf.Of(v) }, func(v string) gguf.Value { return gguf.Of(v) }, gguf.Of(true)
	unset := gguf.Value{}
	for name, c := range map[string]struct {
		key  string // without the architecture
		v    gguf.Value
		want []string // nil: accepted
	}{
		"no layers":               {"block_count", u32(0), []string{"0", "block_count"}},
		"too many layers":         {"block_count", u32(1 << 30), []string{"blk.2.attn_norm.weight"}},
		"layers as text":          {"block_count", text("2"), []string{"block_count", "string"}},
		"layers absent":           {"block_count", unset, []string{"block_count"}},
		"context absent":          {"context_length", unset, []string{"context_length"}},
		"context zero":            {"context_length", u32(0), []string{"context_length"}},
		"width absent":            {"embedding_length", unset, []string{"embedding_length"}},
		"feed-forward by layer":   {"feed_forward_length", gguf.ArrayOf([]uint32{96, 96}), []string{"feed_forward_length", "differ by layer"}},
		"feed-forward wrong":      {"feed_forward_length", u32(95), []string{"blk.0.ffn_gate.weight", "[64, 96]", "[64, 95]"}},
		"no heads":                {"attention.head_count", u32(0), []string{"attention.head_count"}},
		"heads absent":            {"attention.head_count", unset, []string{"attention.head_count"}},
		"heads by layer":          {"attention.head_count", gguf.ArrayOf([]uint32{4, 4}), []string{"attention.head_count", "differ by layer"}},
		"heads do not divide":     {"attention.head_count", u32(5), []string{"attention.head_count", "5"}},
		"kv heads by layer":       {"attention.head_count_kv", gguf.ArrayOf([]int32{2, 0}), []string{"attention.head_count_kv", "differ by layer"}},
		"no kv heads":             {"attention.head_count_kv", u32(0), []string{"attention.head_count_kv"}},
		"kv heads do not divide":  {"attention.head_count_kv", u32(3), []string{"attention.head_count_kv", "divide the 4 query heads"}},
		"kv heads absent":         {"attention.head_count_kv", unset, []string{"blk.0.attn_k.weight", "[64, 32]", "[64, 64]"}},
		"key width":               {"attention.key_length", u32(32), []string{"blk.0.attn_q.weight", "[64, 64]", "[64, 128]"}},
		"key width negative":      {"attention.key_length", gguf.Of(int32(-16)), []string{"attention.key_length", "-16"}},
		"key width overflows":     {"attention.key_length", u32(1<<31 - 1), []string{"attention.key_length", "4 heads"}},
		"value width":             {"attention.value_length", u32(8), []string{"blk.0.attn_v.weight"}},
		"epsilon absent":          {"attention.layer_norm_rms_epsilon", unset, []string{"rms_epsilon"}},
		"epsilon negative":        {"attention.layer_norm_rms_epsilon", f32(-1), []string{"rms_epsilon"}},
		"epsilon nan":             {"attention.layer_norm_rms_epsilon", f32(nan()), []string{"rms_epsilon"}},
		"scale negative":          {"attention.scale", f32(-1), []string{"attention.scale"}},
		"base zero":               {"rope.freq_base", f32(0), []string{"rope", "base 0"}},
		"base absent":             {"rope.freq_base", unset, nil},
		"odd rotary":              {"rope.dimension_count", u32(7), []string{"rope", "dimensions 7"}},
		"wide rotary":             {"rope.dimension_count", u32(32), []string{"rope", "dimensions 32", "head width 16"}},
		"scaling none":            {"rope.scaling.type", text("none"), nil},
		"scaling longrope":        {"rope.scaling.type", text("longrope"), []string{"rope.scaling.type", "longrope", "none, linear, yarn"}},
		"scaling factor negative": {"rope.scaling.factor", f32(-2), []string{"scaling factor -2"}},
		"older factor":            {"rope.scale_linear", f32(2), nil},
		"sliding window":          {"attention.sliding_window", u32(32), []string{"attention.sliding_window", "sliding-window"}},
		"sliding window off":      {"attention.sliding_window", u32(0), nil},
		"sliding window too wide": {"attention.sliding_window", u32(128), nil},
		"window pattern":          {"attention.sliding_window_pattern", gguf.ArrayOf([]bool{true}), []string{"sliding-window"}},
		"experts":                 {"expert_count", u32(8), []string{"expert_count", "mixture of experts"}},
		"no experts":              {"expert_count", u32(0), nil},
		"experts used":            {"expert_used_count", u32(2), []string{"mixture of experts"}},
		"logit scale":             {"logit_scale", f32(0.5), []string{"logit_scale"}},
		"logit scale of one":      {"logit_scale", f32(1), nil},
		"residual scale":          {"residual_scale", f32(0.2), []string{"residual_scale"}},
		"embedding scale":         {"embedding_scale", f32(12), []string{"embedding_scale"}},
		"soft capping":            {"attn_logit_softcapping", f32(50), []string{"soft capping"}},
		"alibi":                   {"attention.max_alibi_bias", f32(8), []string{"ALiBi"}},
		"clamp":                   {"attention.clamp_kqv", f32(8), []string{"clamping"}},
		"parallel residual":       {"use_parallel_residual", yes, []string{"parallel residuals"}},
		"no parallel residual":    {"use_parallel_residual", gguf.Of(false), nil},
		"causal":                  {"attention.causal", yes, nil},
		"not causal":              {"attention.causal", gguf.Of(false), []string{"attention.causal"}},
		"latent attention":        {"attention.kv_lora_rank", u32(512), []string{"latent attention"}},
		"rotary sections":         {"rope.dimension_sections", gguf.ArrayOf([]int32{16, 24, 24, 0}), []string{"in sections"}},
		"logarithmic yarn":        {"rope.scaling.yarn_log_multiplier", f32(0.1), []string{"yarn"}},
		"data layout":             {"tensor_data_layout", text("Meta AI original pth"), nil},
	} {
		for _, arch := range Names() {
			t.Run(arch+"/"+name, func(t *testing.T) {
				m := archtest.Small(arch)
				key := arch + "." + c.key
				if c.v.Len() == 1 && c.v.Type() == unset.Type() && c.v.String() == unset.String() {
					m.Unset = []string{key}
				} else {
					m.Set[key] = c.v
				}
				g, err := build(t, m)
				if c.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					if len(g.Notes) != 0 {
						t.Errorf("notes %q", g.Notes)
					}
					return
				}
				for _, want := range append(c.want, "archtest.gguf") {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want one with %q", err, want)
					}
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("the error is more than a line: %q", err)
				}
			})
		}
	}
}

func nan() float32 { z := float32(0); return z / z }

func TestArchitectureName(t *testing.T) {
	m := archtest.Small("mamba")
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "mamba") || !strings.Contains(err.Error(), "llama, qwen2, qwen3") {
		t.Errorf("mamba: %v", err)
	}
	m = archtest.Small("llama")
	m.Unset = []string{"general.architecture"}
	if _, err := build(t, m); !errors.Is(err, gguf.ErrMissing) {
		t.Errorf("no architecture: %v", err)
	}
	m.Unset, m.Set["general.architecture"] = nil, gguf.Of(uint32(3))
	if _, err := build(t, m); !errors.Is(err, gguf.ErrValueType) {
		t.Errorf("a number as architecture: %v", err)
	}
}

// TestNotes: what is not known is listed, what is wrong about the vocabulary too.
func TestNotes(t *testing.T) {
	m := archtest.Small("qwen2")
	m.Set["qwen2.vocab_size"] = gguf.Of(uint32(51))
	m.Set["qwen2.mood"] = gguf.Of("fine")
	m.Set["general.mood"] = gguf.Of("fine")
	g, err := build(t, m)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`qwen2.mood = "fine" is not known here and has no effect`, "qwen2.vocab_size is 51, but there are 50 tokens"}
	if d := cmp.Diff(want, g.Notes); d != "" {
		t.Error(d)
	}
	m.Set["tokenizer.ggml.tokens"] = gguf.ArrayOf([]string{"a", "b"})
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "[64, 50]") || !strings.Contains(err.Error(), "[64, 2]") {
		t.Errorf("a table for other tokens: %v", err)
	}
}

// TestRotary reads every rotary key.
func TestRotary(t *testing.T) {
	rotary := func(arch string, set map[string]gguf.Value, tensors map[string]archtest.TensorOptions) op.Rotary {
		t.Helper()
		m := archtest.Small(arch)
		for k, v := range set {
			m.Set[arch+"."+k] = v
		}
		for k, v := range tensors {
			m.Tensor[k] = v
		}
		g, err := build(t, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range g.Ops {
			if o, ok := o.(op.RoPE); ok {
				return *o.Rotary
			}
		}
		t.Fatal("no rotary")
		return op.Rotary{}
	}
	plain := op.Rotary{Dims: 16, Base: 1e4, Factor: 1, OriginalContext: 128, ExtFactor: 1, BetaFast: 32, BetaSlow: 1, AttnFactor: 1}
	check := func(name string, got op.Rotary, change func(*op.Rotary)) {
		t.Helper()
		want := plain
		change(&want)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	check("plain", rotary("qwen2", nil, nil), func(*op.Rotary) {})
	check("llama", rotary("llama", map[string]gguf.Value{"rope.freq_base": gguf.Of(float32(5e5)), "rope.dimension_count": gguf.Of(uint32(16))}, nil),
		func(r *op.Rotary) { r.Pairing, r.Base = op.Adjacent, 5e5 })
	check("factor alone", rotary("qwen2", map[string]gguf.Value{"rope.scaling.factor": gguf.Of(float32(8))}, nil),
		func(r *op.Rotary) { r.Scaling, r.Factor = op.ScaleLinear, 8 })
	check("factor of zero", rotary("qwen2", map[string]gguf.Value{"rope.scaling.factor": gguf.Of(float32(0))}, nil), func(*op.Rotary) {})
	check("older factor", rotary("llama", map[string]gguf.Value{"rope.scale_linear": gguf.Of(float32(2))}, nil),
		func(r *op.Rotary) { r.Pairing, r.Scaling, r.Factor = op.Adjacent, op.ScaleLinear, 2 })
	check("none", rotary("qwen2", map[string]gguf.Value{"rope.scaling.type": gguf.Of("none"), "rope.scaling.factor": gguf.Of(float32(8))}, nil),
		func(r *op.Rotary) { r.Factor = 8 })
	check("yarn", rotary("qwen3", map[string]gguf.Value{
		"rope.scaling.type": gguf.Of("yarn"), "rope.scaling.factor": gguf.Of(float32(4)), "rope.scaling.original_context_length": gguf.Of(uint32(32)),
		"rope.scaling.attn_factor": gguf.Of(float32(2)), "rope.scaling.yarn_attn_factor": gguf.Of(float32(3)), "rope.scaling.yarn_ext_factor": gguf.Of(float32(0.5)),
		"rope.scaling.yarn_beta_fast": gguf.Of(float32(64)), "rope.scaling.yarn_beta_slow": gguf.Of(float32(2)), "rope.scaling.finetuned": gguf.Of(true),
	}, nil), func(r *op.Rotary) {
		r.Scaling, r.Factor, r.OriginalContext, r.AttnFactor, r.ExtFactor, r.BetaFast, r.BetaSlow = op.ScaleYaRN, 4, 32, 6, 0.5, 64, 2
	})
	check("yarn by default", rotary("qwen2", map[string]gguf.Value{"rope.scaling.type": gguf.Of("yarn"), "rope.scaling.factor": gguf.Of(float32(4)),
		"rope.scaling.yarn_ext_factor": gguf.Of(float32(-1))}, nil), func(r *op.Rotary) { r.Scaling, r.Factor = op.ScaleYaRN, 4 })
	check("divisors", rotary("llama", nil, map[string]archtest.TensorOptions{"rope_freqs.weight": {Dims: []int{8}, Each: func(i int) float32 { return float32(i + 1) }}}),
		func(r *op.Rotary) { r.Pairing, r.Divisors = op.Adjacent, []float32{1, 2, 3, 4, 5, 6, 7, 8} })

	m := archtest.Small("llama")
	m.Tensor["rope_freqs.weight"] = archtest.TensorOptions{Dims: []int{7}}
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "rope_freqs.weight") {
		t.Errorf("seven divisors: %v", err)
	}
	m.Tensor["rope_freqs.weight"] = archtest.TensorOptions{Dims: []int{8}, Each: func(i int) float32 { return float32(i) }}
	if _, err := build(t, m); err == nil || !strings.Contains(err.Error(), "divisor 0 is 0") {
		t.Errorf("a divisor of zero: %v", err)
	}
}
