package load

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// table parses a codebook; nil after a diagnostic.
func (l *loader) table(s *spec.Table) *model.Table {
	if s.Faulty {
		return nil // said by spec
	}
	before := len(l.diags)
	t := &model.Table{Name: s.Table.Value, Width: s.Width.Value, Bits: s.Bits.Value}
	l.pos.set(t, "", s.At)
	l.pos.set(t, "entries", s.Entries.At)
	entryBits := t.Width * t.Bits
	switch {
	case entryBits > 64:
		l.diags.Addf(s.Width.At, "width times bits is %d; an entry has at most 64 bits", entryBits)
		return nil
	case s.HexDigits.Value != (entryBits+3)/4:
		l.diags.Addf(s.HexDigits.At, "hex_digits is %d, but an entry of width %d times bits %d is written with %d", s.HexDigits.Value, t.Width, t.Bits, (entryBits+3)/4)
	}
	if bits.OnesCount(uint(s.Entries.Value)) != 1 {
		l.diags.Addf(s.Entries.At, "entries is %d; a power of two is due, since a code of whole bits is the index", s.Entries.Value)
	}
	words := strings.Fields(s.Words.Value)
	if len(words) != s.Entries.Value {
		l.diags.Addf(s.Words.At, "there are %d words, but entries is %d", len(words), s.Entries.Value)
	}
	for i, w := range words {
		x, err := strconv.ParseUint(w, 16, 64)
		switch {
		case err != nil || len(w) != s.HexDigits.Value || w != strings.ToLower(w):
			l.diags.Addf(s.Words.At, "word %d of %d is %.40q; %d lower-case hexadecimal digits are due", i, len(words), w, s.HexDigits.Value)
		case entryBits < 64 && x>>entryBits != 0:
			l.diags.Addf(s.Words.At, "word %d is %s, which has more than the %d bits of an entry", i, w, entryBits)
		}
		t.Entries = append(t.Entries, x)
	}
	if len(l.diags) > before {
		return nil
	}
	return t
}
