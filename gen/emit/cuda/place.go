package cuda

import (
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// BlockBytes is the distance from one block to the next under a layout.
func BlockBytes(f *model.Format, l model.WeightLayout) int { return lower.Place(f, l).BlockBytes }
