package model

// ModelShape is the geometry of a model, under the names of its config.json at the source.
type ModelShape struct {
	Name   string // "qwen2.5-7b"
	Source string // the repository that the numbers are from
	Spec   string
	Arch   string // general.architecture
	Vocab  string // the vocabulary

	HiddenSize, NumHiddenLayers, NumAttentionHeads, NumKeyValueHeads, HeadDim, IntermediateSize int
	VocabSize, MaxPositionEmbeddings                                                            int

	RopeTheta, RMSNormEps float64
	RopeFactor            float64 // of Llama 3's rope_scaling; 0 without
	TieWordEmbeddings     bool
}

// Matrix is a weight matrix of a model.
type Matrix struct {
	Name       string // "ffn_down"
	Rows, Cols int
}

// Matrices lists the distinct matrices of a layer, and the head.
func (m *ModelShape) Matrices() []Matrix {
	q, kv := m.NumAttentionHeads*m.HeadDim, m.NumKeyValueHeads*m.HeadDim
	return []Matrix{
		{"attn_q", q, m.HiddenSize}, {"attn_k, attn_v", kv, m.HiddenSize}, {"attn_output", m.HiddenSize, q},
		{"ffn_gate, ffn_up", m.IntermediateSize, m.HiddenSize}, {"ffn_down", m.HiddenSize, m.IntermediateSize}, {"output", m.VocabSize, m.HiddenSize},
	}
}
