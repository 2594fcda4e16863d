// Package qwen3 is the dense Qwen3 architecture: queries and keys are normalized by head, a head may be wider than its
// share of the embedding.
package qwen3

import (
	"github.com/minfer/minfer/runtime/arch/decoder"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Build reads a qwen3 model.
func Build(f *gguf.File) (*op.Graph, error) {
	return decoder.Build(f, decoder.Traits{Arch: "qwen3", Pairing: op.Halves, QKNorm: true})
}
