// Package arch knows the model architectures: what a GGUF file's metadata and tensors mean, as an op.Graph.
// Each architecture is one folder and one line of the table below.
package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/minfer/minfer/runtime/arch/llama"
	"github.com/minfer/minfer/runtime/arch/qwen2"
	"github.com/minfer/minfer/runtime/arch/qwen3"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// builders by general.architecture.
var builders = map[string]func(*gguf.File) (*op.Graph, error){
	"llama": llama.Build,
	"qwen2": qwen2.Build,
	"qwen3": qwen3.Build,
}

// Names lists the architectures, sorted.
func Names() []string { return slices.Sorted(maps.Keys(builders)) }

// Build reads the model that a file holds. The graph's weights are views of the file and end with it. Errors name the
// file and the key or tensor at fault, with what is there and what is needed; what a file declares and this package
// does not support is refused, never passed over.
func Build(f *gguf.File) (*op.Graph, error) {
	name, err := f.Meta.String("general.architecture")
	if err != nil {
		return nil, err
	}
	build, ok := builders[name]
	if !ok {
		return nil, f.Meta.Fail("general.architecture", "is not supported; known are "+strings.Join(Names(), ", "))
	}
	g, err := build(f)
	if err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	g.Release = f.Release
	return g, nil
}
