// Package tune is the part of tuning that needs no device: which kernels a variant's free parameters make, which of them are proved and
// cover a shape, and the file of routes that holds what measurements found. cmd/minfer-tune measures.
package tune

import (
	"fmt"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

// Candidate is a variant with other values of its free parameters.
type Candidate struct {
	Variant  *model.Variant
	Settings []model.Setting
	Dropped  string // why it cannot run the shape; "" where it can
}

// Candidates instantiates each combination of a variant's free values for a format and a shape. One that is not proved, or whose bounds
// refuse the shape, is dropped with the reason; none is bent to fit.
func Candidates(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format, shape bound.Shape) (all []Candidate) {
	for _, set := range v.Settings() {
		x := Candidate{Variant: v.With(set), Settings: set}
		if flaws := proof.Variant(c, fam, x.Variant, f); len(flaws) > 0 {
			x.Dropped = "not proved: " + flaws[0]
		} else if ok, broken := bound.Admits(bound.Derive(fam, x.Variant, f, c.Base()), shape); !ok {
			x.Dropped = fmt.Sprintf("refuses the shape: %s, needed %s", broken.Have(shape), broken)
		}
		all = append(all, x)
	}
	return all
}
