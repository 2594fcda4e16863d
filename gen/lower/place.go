package lower

import (
	"slices"

	"github.com/minfer/minfer/gen/model"
)

// Placement is where the fields of a block lie in device memory.
type Placement struct {
	Layout     model.WeightLayout
	At         map[*model.Field]int // byte offset in the block
	BlockBytes int                  // from one block to the next
	AlignBytes int                  // guaranteed of a block's address: a power of two, at most 16
}

// wide is the width of the widest load.
const wide = 16

// Place puts the fields of a block for a weight layout.
//
// Padded: each block takes a multiple of 16 bytes, and every field of 16 bytes or more begins on one. Where the file's
// order allows that, it stays; otherwise larger fields come first.
func Place(f *model.Format, l model.WeightLayout) Placement {
	p := Placement{Layout: l, At: map[*model.Field]int{}, BlockBytes: f.Bytes}
	for _, x := range f.Fields {
		p.At[x] = x.AtBytes
	}
	if l == model.LayoutPadded {
		p.BlockBytes = (f.Bytes + wide - 1) / wide * wide
		inPlace := true
		for _, x := range f.Fields {
			if x.Bits()/8 >= wide && x.AtBytes%wide != 0 {
				inPlace = false
			}
		}
		if !inPlace {
			fields := slices.Clone(f.Fields)
			slices.SortStableFunc(fields, func(a, b *model.Field) int { return b.Bits() - a.Bits() })
			at := 0
			for _, x := range fields {
				p.At[x] = at
				at += x.Bits() / 8
			}
		}
	}
	p.AlignBytes = gcd(wide, p.BlockBytes)
	return p
}

// Moves is the runs of bytes that take the file's block to the placed one: from, to, bytes. Neighbours that stay together
// are one run.
func (p Placement) Moves(f *model.Format) (moves [][3]int) {
	for _, x := range f.Fields {
		n := x.Bits() / 8
		if k := len(moves) - 1; k >= 0 && moves[k][0]+moves[k][2] == x.AtBytes && moves[k][1]+moves[k][2] == p.At[x] {
			moves[k][2] += n
			continue
		}
		moves = append(moves, [3]int{x.AtBytes, p.At[x], n})
	}
	return moves
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
