// Package llama is the LLaMA architecture, versions 1 to 3, and what shares it (Mistral 7B, TinyLlama, SmolLM, ...):
// adjacent rotary pairs, and from version 3.1 on a divisor for each rotary frequency.
package llama

import (
	"github.com/minfer/minfer/runtime/arch/decoder"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Build reads a llama model.
func Build(f *gguf.File) (*op.Graph, error) {
	return decoder.Build(f, decoder.Traits{Arch: "llama", Pairing: op.Adjacent, RopeFreqs: true})
}
