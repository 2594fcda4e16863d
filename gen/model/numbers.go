package model

// MaxWordBits bounds the words that are enumerated.
const MaxWordBits = 16

// Words lists the words that a code can hold, ascending: all of its bits, or those that the table or the radix
// transform it reads can yield. nil for codes that are too wide to enumerate.
func (s *Segment) Words(code *Code) []uint64 {
	if code.Bits > MaxWordBits {
		return nil
	}
	if len(code.Planes) != 1 || code.Planes[0].Code == nil {
		words := make([]uint64, 1<<code.Bits)
		for w := range words {
			words[w] = uint64(w)
		}
		return words
	}
	p := code.Planes[0]
	sources := s.Words(p.Code)
	if sources == nil {
		return nil
	}
	addresses := map[int]bool{}
	for e := range s.Elems() {
		addresses[p.Layout.At(s.Shape.Digits(e))] = true
	}
	seen := make([]bool, 1<<code.Bits)
	for _, w := range sources {
		w = p.Code.Then.Apply(w, p.Code.Bits)
		for a := range addresses {
			seen[w>>a&(1<<code.Bits-1)] = true
		}
	}
	var words []uint64
	for w, ok := range seen {
		if ok {
			words = append(words, uint64(w))
		}
	}
	return words
}

// Numbers lists the numbers that a code can take, by Words. nil for codes that are read as floating point or are too
// wide to enumerate.
func (s *Segment) Numbers(code *Code) []float64 {
	switch code.As {
	case Unsigned, Signed, Levels:
	default:
		return nil
	}
	words := s.Words(code)
	if words == nil {
		return nil
	}
	out := make([]float64, len(words))
	for i, w := range words {
		if code.As == Levels && w >= uint64(len(code.Levels)) {
			return nil // a fault of the spec, which the proof names
		}
		out[i] = code.Mul*code.Plain(w) + code.Add
	}
	return out
}

// Plain is the word as a number, before mul and add.
func (code *Code) Plain(w uint64) float64 {
	switch {
	case code.As == Levels:
		return code.Levels[w]
	case code.As == Signed && w>>(code.Bits-1) != 0:
		return float64(int64(w) - 1<<code.Bits)
	}
	return float64(w)
}
