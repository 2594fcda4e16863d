package lower

import (
	"fmt"
	"slices"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// Ring is the shared memory of a block that streams rows of a format: two barriers and the numbers of its rows for each stage, then
// Stages of Rows rows, then Sums partial sums for each row of a tile, for one tile more than there are stages: the copying warp fills a
// stage anew before it adds up the tile that lay there.
type Ring struct {
	Stages, Rows, Sums int
	Merged             int // octets of a warp that belong to one row, and whose sums become one partial sum
	Partials           int // of all tiles, in whole 16 bytes
	// The bytes that a block asks for are max(Least, Fixed + Per * blocks of a row). Fixed has room for the most padding of a row.
	Least, Fixed, Per int
	Chain             string
}

// barrierBytes is the two barriers of a stage.
const barrierBytes = 16

// StageBytes is what a stage takes beside its rows: two barriers, and which rows they are; in whole 16 bytes.
func (Ring) StageBytes() int { return 2 * barrierBytes }

// unitElems is what UnitBytes counts, and warpBytes a number from each warp that a block may have.
const (
	unitElems = 32
	warpBytes = warp * 4
)

// Eight lanes of a warp work on a column of a row.
const warp, octet = 32, 8

// RingOf sizes the ring of a variant for a format: as many stages as fit the room at the widest row that the digits cover.
func RingOf(v *model.Variant, f *model.Format) Ring {
	s := v.Shared.Ring
	r := Ring{Rows: s.Matrices, Least: s.LeastBytes}
	radix, stride, lanes := map[string]int{}, map[string]int{}, 1 // stride: threads from one value of a digit to the next
	for _, d := range slices.Backward(v.Digits) {
		radix[d.Name], stride[d.Name] = d.Radix, lanes
		if d.Place == layout.Thread {
			lanes *= d.Radix
		}
	}
	for _, name := range s.Rows {
		r.Rows *= radix[name]
	}
	for r.Merged = 1; stride[s.Sums] == octet && r.Merged < warp/octet && radix[s.Sums]%(2*r.Merged) == 0; {
		r.Merged *= 2
	}
	r.Sums = radix[s.Sums]/r.Merged | 1 // odd, so that rows begin in different banks
	place := Place(f, v.Weights)
	padding := 0
	if place.Planes {
		padding = model.RowAlignBytes - gcd(model.RowAlignBytes, place.BlockBytes)
	}
	geo, widest := v.Geometry(f), 0
	for i := range geo.Axes {
		if d := &geo.Axes[i]; d.Axis == "unit" {
			c, _ := geo.Ceiling(d)
			widest = c * d.Elems / f.Elems
		}
	}
	stage := r.Rows*padding + r.StageBytes() // beside what a block of the row takes
	partials := func(stages int) int { return ((stages+1)*r.Rows*r.Sums + wide/4 - 1) / (wide / 4) * (wide / 4) }
	beside, block := 0, s.UnitBytes*f.Elems/unitElems // beside the stages
	if block > 0 {
		beside = warpBytes
	}
	r.Stages = s.MaxStages
	for r.Stages > 1 && beside+r.Stages*stage+4*partials(r.Stages)+(block+r.Stages*r.Rows*place.BlockBytes)*widest > s.RoomBytes {
		r.Stages--
	}
	r.Per = block + r.Stages*r.Rows*place.BlockBytes
	r.Partials = partials(r.Stages)
	r.Fixed = beside + r.Stages*stage + 4*r.Partials
	r.Chain = fmt.Sprintf("%d stages of %d rows of %d bytes a block, each row with up to %d bytes of padding and %d partial sums (of one stage more), each stage with two barriers and the numbers of its rows", r.Stages, r.Rows, place.BlockBytes, padding, r.Sums)
	if block > 0 {
		r.Chain += fmt.Sprintf("; %d bytes for each %d columns and %d for the warps", s.UnitBytes, unitElems, warpBytes)
	}
	if r.Least > 0 {
		r.Chain += fmt.Sprintf("; at least %d, so that no two blocks share a multiprocessor", r.Least)
	}
	return r
}

// Bytes is what a block asks for when a row has a number of blocks.
func (r Ring) Bytes(blocks int64) int64 {
	return max(int64(r.Least), int64(r.Fixed)+int64(r.Per)*blocks)
}
