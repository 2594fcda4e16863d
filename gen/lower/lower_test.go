package lower

import (
	"testing"

	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

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

func TestShow(t *testing.T) {
	for _, f := range catalog(t).Formats {
		if f.Plain() {
			continue
		}
		u, err := Analyse(f, Place(f, model.LayoutPadded), 32)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d units, shape %v, irregular %q", f.Name, u.Count, u.Shape, u.Irregular)
		for _, c := range f.Segs[0].Codes {
			if lc := u.Codes[c]; lc != nil {
				for _, p := range lc.Planes {
					t.Logf("   %s group %d kind %d pos %d item %d byte %v shift %v at %v %v", c.Name, lc.Group, p.Kind, p.Pos, p.Item, p.Byte, p.Shift, p.At, p.ShiftAt)
				}
			}
		}
	}
}
