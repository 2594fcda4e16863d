package tile

import (
	"testing"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

var rows32 = &model.Tiling{Name: "rows32", Rows: 32, LaneElems: 4, UnitElems: 32}

func catalog(t *testing.T) *model.Catalog {
	t.Helper()
	set, diags, err := spec.Read(specs.FS)
	if err != nil || len(diags) > 0 {
		t.Fatal(err, diags)
	}
	c, _, diags := load.Load(set)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return c
}

// TestBitsOnce: what a tile stores is a format that passes every proof of formats, its bijection of bits first. Only
// one spare value is a level more than its words need.
func TestBitsOnce(t *testing.T) {
	for _, f := range catalog(t).Formats {
		if f.Plain() {
			continue
		}
		x, err := Of(f, rows32)
		if err != nil {
			t.Errorf("%s has no tile: %v", f.Name, err)
			continue
		}
		var found diag.List = proof.Format(x.Stored, &load.Positions{})
		for _, d := range found {
			t.Errorf("%s: %v", f.Name, d)
		}
		if grown := float64(x.Stored.Bytes) / float64(x.Rows*f.Bytes); grown > 1.01 && f.Segs[0].Value.Weight[0].Planes[0].Code == nil && f.Name != "mxfp4" {
			t.Errorf("%s: a tile takes %.3f times the bytes of the file", f.Name, grown)
		}
	}
}
