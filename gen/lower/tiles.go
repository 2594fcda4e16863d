package lower

import (
	"fmt"
	"strings"

	"github.com/minfer/minfer/gen/model"
)

// Tiles is the shared memory of a block that multiplies tiles: for each stage its rows, and two barriers.
type Tiles struct {
	Bytes int
	Chain string
}

// TilesOf sizes the tiles of a variant: an axis has a row for each of the indices that its digits give a block.
func TilesOf(v *model.Variant, f *model.Format) Tiles {
	t, geo := v.Shared.Tiles, v.Geometry(f)
	rows, parts := 0, []string(nil)
	for _, name := range t.Axes {
		n, _ := geo.Period(geo.Axis(name))
		rows += n
		parts = append(parts, fmt.Sprintf("%d %ss", n, name))
	}
	chain := fmt.Sprintf("%d stages of %s of %d bytes, each stage with two barriers", t.Stages, strings.Join(parts, " and "), t.RowBytes)
	if t.AlignBytes > 0 {
		chain += fmt.Sprintf(", and room to begin at a multiple of %d", t.AlignBytes)
	}
	return Tiles{Bytes: t.Stages*(rows*t.RowBytes+barrierBytes) + t.AlignBytes, Chain: chain}
}
