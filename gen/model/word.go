package model

import "math/bits"

// Apply transforms a word of wordBits bits; a nil Then leaves it as it is.
func (t *Then) Apply(word uint64, wordBits int) uint64 {
	switch {
	case t == nil:
		return word
	case t.Table != nil:
		return t.Table.Entries[word]
	case t.Parity:
		return word | uint64(bits.OnesCount64(word)&1)<<wordBits
	}
	// word/2^wordBits is a fraction in base Radix: multiplying by Radix moves the next digit above the point.
	var out uint64
	fraction := word
	for i := range t.Digits {
		fraction *= uint64(t.Radix)
		out |= (fraction >> wordBits) << (i * t.DigitBits())
		fraction &= 1<<wordBits - 1
	}
	return out
}
