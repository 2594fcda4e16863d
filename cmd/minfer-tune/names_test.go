package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/conform"
	"github.com/minfer/minfer/runtime/synth"
)

// What specs may name of the runtime is what the runtime has.
func TestSpecsNameWhatThereIs(t *testing.T) {
	for _, c := range []struct {
		kind, key string
		has       []string
	}{
		{"models", "arch", arch.Names()}, {"models", "vocab", synth.Vocabularies()}, {"kernels", "class", conform.Classes},
	} {
		text, err := spec.Schema(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Properties map[string]struct{ Enum []string }
		}
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		if have := schema.Properties[c.key].Enum; !slices.Equal(have, c.has) {
			t.Errorf("%s of specs/%s may be %q; there are %q", c.key, c.kind, have, c.has)
		}
	}
}
