package synth

import (
	"slices"
	"strings"
)

// Shape is the geometry of a model, under the names of its config.json at the source.
type Shape struct {
	Name   string // as asked for: "qwen2.5-7b"
	Source string // where the numbers are from
	Arch   string // general.architecture
	Vocab  string // of vocabularies

	HiddenSize, NumHiddenLayers, NumAttentionHeads, NumKeyValueHeads, HeadDim, IntermediateSize int
	VocabSize, MaxPositionEmbeddings                                                            int

	RopeTheta, RMSNormEps float32
	RopeFactor            float32 // of Llama 3's rope_scaling; 0 without
	TieWordEmbeddings     bool
}

// family is what the shapes of a model family share.
func family(name, source, arch, vocab string, positions int, theta, eps float32, members ...Shape) []Shape {
	for i := range members {
		m := &members[i]
		m.Source = strings.ReplaceAll(source, "*", m.Name)
		m.Name = name + strings.ToLower(m.Name)
		m.Arch, m.Vocab, m.MaxPositionEmbeddings, m.RopeTheta, m.RMSNormEps = arch, vocab, positions, theta, eps
	}
	return members
}

// size is a member of a family: hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
// intermediate_size, vocab_size, tie_word_embeddings, and the factor of rope_scaling.
func size(name string, hidden, layers, heads, kvHeads, headDim, intermediate, vocab int, tied bool, factor float32) Shape {
	return Shape{Name: name, HiddenSize: hidden, NumHiddenLayers: layers, NumAttentionHeads: heads, NumKeyValueHeads: kvHeads,
		HeadDim: headDim, IntermediateSize: intermediate, VocabSize: vocab, TieWordEmbeddings: tied, RopeFactor: factor}
}

var shapes = slices.Concat(
	family("qwen2.5-", "Qwen/Qwen2.5-*-Instruct", "qwen2", "qwen2.5", 32768, 1e6, 1e-6,
		//    name   hidden layers heads kv head ffn    vocab   tied
		size("0.5B", 896, 24, 14, 2, 64, 4864, 151936, true, 0),
		size("1.5B", 1536, 28, 12, 2, 128, 8960, 151936, true, 0),
		size("3B", 2048, 36, 16, 2, 128, 11008, 151936, true, 0),
		size("7B", 3584, 28, 28, 4, 128, 18944, 152064, false, 0),
		size("14B", 5120, 48, 40, 8, 128, 13824, 152064, false, 0),
		size("32B", 5120, 64, 40, 8, 128, 27648, 152064, false, 0),
		size("72B", 8192, 80, 64, 8, 128, 29568, 152064, false, 0),
	),
	family("qwen3-", "Qwen/Qwen3-*", "qwen3", "qwen3", 40960, 1e6, 1e-6,
		size("0.6B", 1024, 28, 16, 8, 128, 3072, 151936, true, 0),
		size("1.7B", 2048, 28, 16, 8, 128, 6144, 151936, true, 0),
		size("4B", 2560, 36, 32, 8, 128, 9728, 151936, true, 0),
		size("8B", 4096, 36, 32, 8, 128, 12288, 151936, false, 0),
		size("14B", 5120, 40, 40, 8, 128, 17408, 151936, false, 0),
		size("32B", 5120, 64, 64, 8, 128, 25600, 151936, false, 0),
	),
	family("llama-3.2-", "meta-llama/Llama-3.2-*-Instruct", "llama", "llama-3", 131072, 5e5, 1e-5,
		size("1B", 2048, 16, 32, 8, 64, 8192, 128256, true, 32),
		size("3B", 3072, 28, 24, 8, 128, 8192, 128256, true, 32),
	),
	family("llama-3.1-", "meta-llama/Llama-3.1-*-Instruct", "llama", "llama-3", 131072, 5e5, 1e-5,
		size("8B", 4096, 32, 32, 8, 128, 14336, 128256, false, 8),
		size("70B", 8192, 80, 64, 8, 128, 28672, 128256, false, 8),
	),
)

// Shapes lists the shapes.
func Shapes() []Shape { return slices.Clone(shapes) }

// llama3Rope are the other numbers of Llama 3's rope_scaling, the same in all its models.
const (
	ropeLowFreqFactor    = 1
	ropeHighFreqFactor   = 4
	ropeOriginalPosition = 8192
)
