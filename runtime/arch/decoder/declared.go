package decoder

import (
	"fmt"
	"strings"

	"github.com/minfer/minfer/runtime/gguf"
)

// unsupported are the keys, without their prefix, that change what a model computes in a way that no operation here
// covers. A key is harmless at a neutral value, which says that the model does not do it.
var unsupported = []struct {
	key     string // a trailing * stands for any end
	what    string
	neutral []float64
}{
	{"attention.sliding_window*", "sliding-window attention", []float64{0}},
	{"expert_*", "mixture of experts", []float64{0}},
	{"leading_dense_block_count", "mixture of experts", []float64{0}},
	{"interleave_moe_layer_step", "mixture of experts", []float64{0}},
	{"nextn_predict_layers", "extra prediction layers", []float64{0}},
	{"logit_scale", "scaling of logits", []float64{0, 1}},
	{"residual_scale", "scaling of residuals", []float64{0, 1}},
	{"embedding_scale", "scaling of embeddings", []float64{0, 1}},
	{"attn_logit_softcapping", "soft capping of attention scores", []float64{0}},
	{"final_logit_softcapping", "soft capping of logits", []float64{0}},
	{"attention.max_alibi_bias", "ALiBi positions", []float64{0}},
	{"attention.clamp_kqv", "clamping of queries, keys and values", []float64{0}},
	{"attention.temperature_*", "attention temperature by position", []float64{0}},
	{"attention.q_lora_rank", "latent attention", []float64{0}},
	{"attention.kv_lora_rank", "latent attention", []float64{0}},
	{"attention.*_mla", "latent attention", []float64{0}},
	{"attention.*_swa", "sliding-window attention", []float64{0}},
	{"attention.shared_kv_layers", "key/value caches shared by layers", []float64{0}},
	{"attention.causal", "attention to later tokens", []float64{1}},
	{"use_parallel_residual", "parallel residuals", []float64{0}},
	{"rope.dimension_sections", "rotary positions in sections", nil},
	{"rope.freq_base_swa", "sliding-window attention", nil},
	{"rope.scaling.yarn_log_multiplier", "a logarithmic multiplier of yarn", []float64{0}},
	{"pooling_type", "pooled embeddings", []float64{0}},
}

// refuseUnsupported refuses what the file declares and no operation covers.
func (r *reader) refuseUnsupported(context int) {
	for key, v := range r.f.Meta.All() {
		suffix, ok := strings.CutPrefix(key, r.prefix)
		if !ok || r.keys[key] {
			continue
		}
		for _, u := range unsupported {
			if !matches(u.key, suffix) {
				continue
			}
			r.keys[key] = true
			x, isNumber := asNumber(v)
			harmless := suffix == "attention.sliding_window" && isNumber && x >= float64(context) // never reached
			for _, n := range u.neutral {
				harmless = harmless || isNumber && x == n
			}
			if !harmless {
				r.fail(r.f.Meta.Fail(key, u.what+" is not supported"))
			}
		}
	}
}

func matches(pattern, key string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == key
	}
	return len(key) >= len(before)+len(after) && strings.HasPrefix(key, before) && strings.HasSuffix(key, after)
}

// asNumber reads any scalar but a string.
func asNumber(v gguf.Value) (float64, bool) {
	if b, ok := v.Bool(); ok {
		if b {
			return 1, true
		}
		return 0, true
	}
	if i, ok := v.Int(); ok {
		return float64(i), true
	}
	return v.Float()
}

// notes lists what the file declares under the architecture's name and nothing here reads.
func (r *reader) notes(vocab int) []string {
	var notes []string
	r.known("tensor_data_layout")
	for key, v := range r.f.Meta.All() {
		if !strings.HasPrefix(key, r.prefix) {
			continue
		}
		if key == r.key("vocab_size") {
			if n, ok := v.Uint(); !ok || n != uint64(vocab) {
				notes = append(notes, fmt.Sprintf("%s is %s, but there are %d tokens", key, v.Format(3, 40), vocab))
			}
		} else if !r.keys[key] {
			notes = append(notes, fmt.Sprintf("%s = %s is not known here and has no effect", key, v.Format(3, 40)))
		}
	}
	return notes
}
