// Package shape emits the shapes of model families as a Go table.
package shape

import (
	"bytes"
	"fmt"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// Emitter emits package shape.
type Emitter struct{}

// Name implements emit.Emitter.
func (Emitter) Name() string { return "shape" }

const head = `
// Package shape holds the shapes of real models, under the names of their config.json.
package shape

// Shape is the geometry of a model.
type Shape struct {
	Name   string // "qwen2.5-7b"
	Source string // the repository that the numbers are from
	Arch   string // general.architecture
	Vocab  string // the vocabulary

	HiddenSize, NumHiddenLayers, NumAttentionHeads, NumKeyValueHeads, HeadDim, IntermediateSize int
	VocabSize, MaxPositionEmbeddings                                                            int

	RopeTheta, RMSNormEps float32
	RopeFactor            float32 // of Llama 3's rope_scaling; 0 without
	TieWordEmbeddings     bool
}

// All lists the shapes by family, then by size.
var All = []Shape{
`

// Emit implements emit.Emitter.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	if len(c.Models) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString(emit.Marker("specs/models") + head)
	for _, m := range c.Models {
		fmt.Fprintf(&b, "{Name: %q, Source: %q, Arch: %q, Vocab: %q, HiddenSize: %d, NumHiddenLayers: %d, NumAttentionHeads: %d, NumKeyValueHeads: %d, HeadDim: %d, IntermediateSize: %d, VocabSize: %d, MaxPositionEmbeddings: %d, RopeTheta: %g, RMSNormEps: %g, RopeFactor: %g, TieWordEmbeddings: %v},\n",
			m.Name, m.Source, m.Arch, m.Vocab, m.HiddenSize, m.NumHiddenLayers, m.NumAttentionHeads, m.NumKeyValueHeads, m.HeadDim, m.IntermediateSize,
			m.VocabSize, m.MaxPositionEmbeddings, m.RopeTheta, m.RMSNormEps, m.RopeFactor, m.TieWordEmbeddings)
	}
	b.WriteString("}\n")
	file, err := emit.GoFile("shape/shape.go", b.Bytes())
	if err != nil {
		return nil, err
	}
	return []emit.File{file}, nil
}
