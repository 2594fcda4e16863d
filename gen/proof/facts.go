package proof

import (
	"github.com/minfer/minfer/gen/model"
)

// Facts are what follows from a proved format.
type Facts struct {
	BitsPerWeight float64
	// UnusedBits counts the bits of the block that no code reads: gaps of a padded format.
	UnusedBits int
	// AlignBytes is the alignment of every block of a row that is aligned to 16: gcd(16, block bytes).
	AlignBytes int
	// StrideBytes is the distance of blocks padded for 16-byte loads: block bytes rounded up to 16.
	StrideBytes int
	// AlignedFields reports whether, at that distance, every field of at least 16 bytes lies on 16.
	AlignedFields bool
	// GroupBlocks is the least number of blocks whose bytes are a multiple of 16.
	GroupBlocks int
	// ClosedElems is the byte-closed group: the shortest aligned run of elements whose weight bytes belong to it
	// alone, the least work for which no weight byte is loaded twice.
	ClosedElems int
	// WeightLo and WeightHi are the range of product(weight) + sum(bias); WeightKnown is false for plain floats.
	WeightLo, WeightHi float64
	WeightKnown        bool
}

// FactsOf computes the facts of a proved format.
func FactsOf(f *model.Format) Facts {
	x := Facts{
		BitsPerWeight: float64(8*f.Bytes) / float64(f.Elems),
		UnusedBits:    8 * f.Bytes,
		AlignBytes:    gcd(16, f.Bytes),
		StrideBytes:   (f.Bytes + 15) / 16 * 16,
		AlignedFields: true,
		ClosedElems:   closedElems(f),
	}
	x.GroupBlocks = 16 / x.AlignBytes
	used := make([]bool, 8*f.Bytes)
	for _, s := range f.Segs {
		for _, code := range s.Codes {
			readBits(s, code, func(_, bit int) {
				if !used[bit] {
					used[bit] = true
					x.UnusedBits--
				}
			})
		}
	}
	for _, d := range f.Fields {
		if d.Bits() >= 8*16 && d.AtBytes%16 != 0 {
			x.AlignedFields = false
		}
	}
	x.WeightLo, x.WeightHi, x.WeightKnown = WeightRange(f)
	return x
}

// readBits calls yield with every element of the segment and every bit of the block that the code's own planes read
// for it.
func readBits(s *model.Segment, code *model.Code, yield func(elem, bit int)) {
	for _, p := range code.Planes {
		if p.Field == nil {
			continue
		}
		for e := range s.Elems() {
			a := 8*p.Field.AtBytes + p.Layout.At(s.Shape.Digits(e))
			for k := range p.Bits {
				yield(e, a+k)
			}
		}
	}
}

// closedElems finds the byte-closed group.
func closedElems(f *model.Format) int {
	first, last := make([]int, f.Bytes), make([]int, f.Bytes) // elements that read the byte; first is 1-based
	for _, s := range f.Segs {
		for _, code := range weightCodes(s) {
			readBits(s, code, func(e, bit int) {
				b, e := bit/8, s.FirstElem+e
				if first[b] == 0 || e+1 < first[b] {
					first[b] = e + 1
				}
				last[b] = max(last[b], e)
			})
		}
	}
	for g := 1; g < f.Elems; g++ {
		if f.Elems%g != 0 {
			continue
		}
		closed := true
		for b := range first {
			if first[b] != 0 && (first[b]-1)/g != last[b]/g {
				closed = false
				break
			}
		}
		if closed {
			return g
		}
	}
	return f.Elems
}

// weightCodes are the codes of the weight and those that they read, down to the fields.
func weightCodes(s *model.Segment) []*model.Code {
	var out []*model.Code
	var visit func(code *model.Code)
	visit = func(code *model.Code) {
		out = append(out, code)
		for _, p := range code.Planes {
			if p.Code != nil {
				visit(p.Code)
			}
		}
	}
	for _, list := range [][]*model.Code{s.Value.Weight, s.Value.Bias} {
		for _, code := range list {
			visit(code)
		}
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
