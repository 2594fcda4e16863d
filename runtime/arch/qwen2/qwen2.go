// Package qwen2 is the Qwen2 and Qwen2.5 architecture: biased queries, keys and values.
package qwen2

import (
	"github.com/minfer/minfer/runtime/arch/decoder"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Build reads a qwen2 model.
func Build(f *gguf.File) (*op.Graph, error) {
	return decoder.Build(f, decoder.Traits{Arch: "qwen2", Pairing: op.Halves, QKVBias: true})
}
