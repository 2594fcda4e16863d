package lower

import (
	"slices"

	"github.com/minfer/minfer/gen/model"
)

// Placement is where the fields of a block lie in device memory.
type Placement struct {
	Layout model.WeightLayout
	Format *model.Format // the block as it is stored: the file's, or the layout's description of it
	// Planes: a row is, for each field in the order of At, that field of all its blocks; block b's is at
	// row + blocks*At + b*bytes of the field. Otherwise a row is its blocks and At the offset in one.
	Planes     bool
	At         map[*model.Field]int
	BlockBytes int // from one block to the next; in planes what a block takes of the row
	AlignBytes int // guaranteed of a block's address, in planes of a row's: a power of two, at most 16
}

// wide is the width of the widest load.
const wide = 16

// Place puts the fields of a block for a weight layout that the format has.
//
// Padded: each block takes a multiple of 16 bytes, and every field of 16 bytes or more begins on one. Where the file's
// order allows that, it stays; otherwise larger fields come first.
func Place(f *model.Format, l model.WeightLayout) Placement {
	p := Placement{Layout: l, Format: f, At: map[*model.Field]int{}}
	if s := f.StoredAs(l); s != nil {
		p.Format, p.Planes = s.Format, s.Planes
	}
	p.BlockBytes = p.Format.Bytes
	for _, x := range p.Format.Fields {
		p.At[x] = x.AtBytes
	}
	switch {
	case p.Planes:
		p.BlockBytes = p.largeFirst()
		p.AlignBytes = wide
		return p
	case l == model.LayoutPadded:
		p.BlockBytes = (f.Bytes + wide - 1) / wide * wide
		if slices.ContainsFunc(f.Fields, func(x *model.Field) bool { return x.Bits()/8 >= wide && x.AtBytes%wide != 0 }) {
			p.largeFirst()
		}
	}
	p.AlignBytes = gcd(wide, p.BlockBytes)
	return p
}

// largeFirst places larger fields first, without gaps, and returns their end.
func (p *Placement) largeFirst() (end int) {
	fields := slices.Clone(p.Format.Fields)
	slices.SortStableFunc(fields, func(a, b *model.Field) int { return b.Bits() - a.Bits() })
	for _, x := range fields {
		p.At[x] = end
		end += x.Bits() / 8
	}
	return end
}

// FieldAlignBytes is the power of two, at most 16, that divides the address of byte base of the field in every block of every row.
func (p Placement) FieldAlignBytes(x *model.Field, base int) int {
	if p.Planes {
		return gcd(gcd(gcd(p.AlignBytes, p.At[x]), x.Bits()/8), base)
	}
	return gcd(p.AlignBytes, p.At[x]+base)
}

// Fields lists the fields in the order in which they are placed.
func (p Placement) Fields() []*model.Field {
	fields := slices.Clone(p.Format.Fields)
	slices.SortStableFunc(fields, func(a, b *model.Field) int { return p.At[a] - p.At[b] })
	return fields
}

// Moves takes the file's block to the placed one; in planes to its fields one after the other.
func (p Placement) Moves(f *model.Format) []Move {
	stored := make([]int, 8*p.Format.Bytes)
	for i := range stored {
		stored[i] = i
	}
	if p.Format != f {
		var flaw string
		if stored, flaw = Repack(f, p.Format); flaw != "" {
			panic("BUG: an unproved layout of " + f.Name + ": " + flaw)
		}
	}
	placed := filled(8 * p.BlockBytes)
	for x, at := range p.At {
		copy(placed[8*at:], stored[8*x.AtBytes:8*x.AtBytes+x.Bits()])
	}
	return moves(placed)
}

func gcd(a, b int) int {
	if a < 0 {
		a = -a
	}
	if b < 0 {
		b = -b
	}
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
