package shared

import (
	"io/fs"
	"testing"

	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// Catalog loads specs that must be without fault.
func Catalog(t testing.TB, fsys fs.FS) (*model.Catalog, *load.Positions) {
	t.Helper()
	set, diags, err := spec.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	catalog, pos, more := load.Load(set)
	diags.Add(more)
	if err := diags.Err(); err != nil {
		t.Fatalf("specs:\n%v", err)
	}
	return catalog, pos
}
