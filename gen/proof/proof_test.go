package proof_test

import (
	"testing"

	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/specs"
)

// TestSpecsHold proves every format of this repository.
func TestSpecsHold(t *testing.T) {
	catalog, pos := shared.Catalog(t, specs.FS)
	if err := proof.Prove(catalog, pos).Err(); err != nil {
		t.Error(err)
	}
}
