package load_test

import (
	"testing"

	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// TestLoadEmbedded loads every spec of this repository without a diagnostic.
func TestLoadEmbedded(t *testing.T) {
	set, diags, err := spec.Read(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	catalog, _, more := load.Load(set)
	diags.Add(more)
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	if len(catalog.Formats) != len(set.Formats) || len(catalog.Tables) != len(set.Tables) {
		t.Errorf("%d of %d formats and %d of %d tables loaded", len(catalog.Formats), len(set.Formats), len(catalog.Tables), len(set.Tables))
	}
}
