package token

import (
	"strings"
	"unicode/utf8"
)

// replacement is U+FFFD, written for bytes that are not UTF-8 and for ids that are not in the vocabulary.
const replacement = "\uFFFD"

// DecodeOptions say how ids are written as text.
type DecodeOptions struct {
	// ShowSpecial writes control and unknown tokens by their text. Without it they are left out.
	ShowSpecial bool
	// Continuation says that the ids follow text that is already there, as generated ids follow their prompt: a space
	// at their beginning belongs to the text. Without it the space that encoding puts before a text, where the
	// vocabulary does so, is taken away again.
	Continuation bool
}

// Decode returns the text of ids. It is valid UTF-8: bytes that are not become U+FFFD, one for each maximal part of a
// character that ends too early and one for each byte that begins none, as the Unicode Standard recommends. An id that is
// not in the vocabulary is U+FFFD too.
//
// For a byte-level vocabulary with all bytes, decoding what Encode made of valid UTF-8 gives it back.
func (t *Tokenizer) Decode(ids []int32, o DecodeOptions) string {
	d := t.NewDecoder(o)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(d.Next(id))
	}
	b.WriteString(d.Flush())
	return b.String()
}

// Decoder writes ids one at a time. The pieces it returns hold whole characters only, and joined they are what Decode
// returns for all the ids: bytes are held back while they may still become a character, which is three bytes at most, and
// bytes that cannot are written at once.
type Decoder struct {
	t    *Tokenizer
	o    DecodeOptions
	held []byte // the beginning of a character
	trim bool   // the next piece loses one leading space
}

// NewDecoder returns a Decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder(o DecodeOptions) *Decoder {
	return &Decoder{t: t, o: o, trim: t.addSpace && !o.Continuation}
}

// Next returns the text that id completes; it may be empty.
func (d *Decoder) Next(id int32) string {
	if d.t.IsSpecial(id) && !d.o.ShowSpecial {
		return ""
	}
	piece := d.t.Piece(id)
	if piece == "" {
		return ""
	}
	if d.trim {
		d.trim = false
		piece = strings.TrimPrefix(piece, " ")
	}
	if len(d.held) == 0 && utf8.ValidString(piece) {
		return piece
	}
	d.held = append(d.held, piece...)
	return d.drain(false)
}

// Flush ends the text: what was held back is written as one U+FFFD.
func (d *Decoder) Flush() string { return d.drain(true) }

// drain takes whole characters and hopeless bytes off d.held; at the end of the text an unfinished character is hopeless
// as well.
func (d *Decoder) drain(end bool) string {
	var out []byte
	b := d.held
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		n, unfinished := subpart(b)
		if unfinished && !end {
			break
		}
		out = append(out, replacement...)
		b = b[n:]
	}
	d.held = append(d.held[:0], b...)
	return string(out)
}

// subpart returns the length of the maximal subpart at the start of b, which begins with no whole character: the longest
// beginning of a well-formed character, or else one byte. unfinished reports whether b ends within it, so that more
// bytes might complete the character.
func subpart(b []byte) (n int, unfinished bool) {
	lo, hi, size := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case 0xC2 <= c && c <= 0xDF:
		size = 2
	case 0xE0 <= c && c <= 0xEF:
		size = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case 0xF0 <= c && c <= 0xF4:
		size = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 1, false
	}
	for n = 1; n < size; n++ {
		if n == len(b) {
			return n, true
		}
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
	}
	panic("BUG: token: a whole character is no subpart")
}
