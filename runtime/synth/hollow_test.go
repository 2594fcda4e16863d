package synth

import (
	"path/filepath"
	"testing"

	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/gguf"
)

// A hollow file has the tensors of the real one, its metadata and its length, and makes a graph.
func TestHollow(t *testing.T) {
	for _, name := range []string{"qwen2.5-0.5b", "llama-3.2-1b", "qwen3-0.6b"} {
		p, err := New(Options{Shape: name, Format: "q4_K_M", Layers: 2})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "hollow.gguf")
		if err := p.WriteHollow(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range p.Tensors {
			have, ok := f.Tensor(want.Name)
			if !ok || have.Type != want.Type || have.SizeBytes != want.SizeBytes {
				t.Errorf("%s: %s is %+v, want %+v", name, want.Name, have, want)
			}
		}
		g, err := arch.Build(f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(g.KV) != 2 {
			t.Errorf("%s: %d layers", name, len(g.KV))
		}
		f.Close()
	}
}
