package load

import (
	"fmt"

	"github.com/minfer/minfer/gen/diag"
)

// Positions says where in the specs the objects of a model come from, so that the model itself need not.
type Positions struct {
	at map[place]diag.Pos
}

// place is a part of an object of the model; the part "" is the whole.
type place struct {
	object any // a pointer to a model object
	part   string
}

func newPositions() *Positions { return &Positions{map[place]diag.Pos{}} }

// At is the position of a part of a model object, or of the whole object when the spec does not spell the part out.
// The parts are named as in the specs: "bits", "planes[1].base", "block.bytes", "value.weight[0]", "then", "shape".
func (p *Positions) At(object any, part string) diag.Pos {
	if at, ok := p.at[place{object, part}]; ok {
		return at
	}
	return p.at[place{object, ""}]
}

// Plane is the position of a part of plane i of a code, of the plane or of the code.
func (p *Positions) Plane(code any, i int, part string) diag.Pos {
	if at, ok := p.at[place{code, planePart(i, part)}]; ok {
		return at
	}
	return p.At(code, planePart(i, ""))
}

func planePart(i int, part string) string {
	if part == "" {
		return fmt.Sprintf("planes[%d]", i)
	}
	return fmt.Sprintf("planes[%d].%s", i, part)
}

func (p *Positions) set(object any, part string, at diag.Pos) {
	if at.IsValid() {
		p.at[place{object, part}] = at
	}
}
