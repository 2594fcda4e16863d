package synth

import (
	"slices"

	"github.com/minfer/minfer/generated/shape"
)

// Shape is the geometry of a model, under the names of its config.json at the source.
type Shape = shape.Shape

var shapes = shape.All

// Shapes lists the shapes.
func Shapes() []Shape { return slices.Clone(shapes) }

// llama3Rope are the other numbers of Llama 3's rope_scaling, the same in all its models.
const (
	ropeLowFreqFactor    = 1
	ropeHighFreqFactor   = 4
	ropeOriginalPosition = 8192
)
