package token

import (
	"strings"
	"unicode/utf8"
)

// escapedSpace is U+2581, which SentencePiece vocabularies write for a space.
const escapedSpace = "\u2581"

// spm merges the characters of a whole text by the scores of the tokens they make.
type spm struct {
	v      *vocabulary
	scores []float64
	bytes  [256]int32 // what a byte of text without a token becomes
	// byWord: no token has a space after another character, so nothing merges across the beginning of a word and words
	// are merged each for itself, which is quicker and gives the same ids.
	byWord bool
}

func readSPM(r *metaReader, v *vocabulary) *spm {
	if v.scores == nil {
		r.fail(keyScores, "a vocabulary of the model %q needs the score of each token", modelSPM)
		return nil
	}
	t := &spm{v: v, scores: v.scores, byWord: true}
	for _, text := range v.texts {
		if wordStart(text) > 0 {
			t.byWord = false
			break
		}
	}
	for b := range 256 {
		id, ok := v.byteToken(byte(b))
		if !ok {
			id, ok = v.ids[string([]byte{byte(b)})]
		}
		if !ok {
			if id = v.unknown; id == noToken {
				r.fail(keyTokens, "there is no token for the byte <0x%02X>, and no unknown token to stand for it", b)
				return nil
			}
		}
		t.bytes[b] = id
	}
	return t
}

// find returns the token that text becomes. Markers and byte tokens are not found by their text: a marker is recognized
// before merging or not at all.
func (t *spm) find(text string) (int32, bool) {
	id, ok := t.v.ids[text]
	if !ok {
		return noToken, false
	}
	switch t.v.types[id] {
	case Control, Unknown, Byte:
		return noToken, false
	}
	return id, true
}

// wordStart returns the offset of the first escaped space after another character, 0 if there is none.
func wordStart(s string) int {
	i := 0
	for strings.HasPrefix(s[i:], escapedSpace) {
		i += len(escapedSpace)
	}
	if j := strings.Index(s[i:], escapedSpace); j > 0 {
		return i + j
	}
	return 0
}

// spmPair is a pair of neighbouring symbols whose text is a token. Scores of equal height are taken from the left.
type spmPair struct {
	score       float64
	left, right int32
	sizeBytes   int32 // of both together when the pair was found; another size now makes it stale
}

func (p spmPair) before(q spmPair) bool {
	return p.score > q.score || p.score == q.score && p.left < q.left
}

// spmSymbol is a stretch of the text. Its size is 0 once it is part of the symbol to its left.
type spmSymbol struct {
	at, sizeBytes int32
	prev, next    int32 // -1 at the ends
}

// spmSession is the scratch of one Encode call.
type spmSession struct {
	symbols []spmSymbol
	pairs   queue[spmPair]
	cache   wordCache
}

// charBytes is the length of a character by its first byte. Text that is not UTF-8 is cut by this as well, and its
// bytes come out as byte tokens.
func charBytes(b byte) int32 {
	switch {
	case b < 0xC0:
		return 1
	case b < 0xE0:
		return 2
	case b < 0xF0:
		return 3
	}
	return 4
}

// maxSPMBytes bounds the text that is merged as a whole, so that offsets fit in 31 bits. Longer text is cut.
const maxSPMBytes = 1 << 30

// encode appends the ids of s, whose spaces are escaped here.
func (t *spm) encode(s string, out []int32, w *spmSession) []int32 {
	s = strings.ReplaceAll(s, " ", escapedSpace)
	// In text that is not UTF-8 a stray byte may swallow the space after it; see charBytes.
	byWord := t.byWord && utf8.ValidString(s)
	for len(s) > 0 {
		n := len(s)
		if byWord {
			if i := wordStart(s); i > 0 {
				n = i
			}
		}
		n = min(n, maxSPMBytes)
		word := s[:n]
		s = s[n:]
		if ids, ok := w.cache[word]; ok {
			out = append(out, ids...)
			continue
		}
		from := len(out)
		out = t.encodeEscaped(word, out, w)
		w.cache.keep(word, out[from:])
	}
	return out
}

func (t *spm) encodeEscaped(s string, out []int32, w *spmSession) []int32 {
	symbols := w.symbols[:0]
	for at := int32(0); int(at) < len(s); {
		size := min(charBytes(s[at]), int32(len(s))-at)
		i := int32(len(symbols))
		symbols = append(symbols, spmSymbol{at: at, sizeBytes: size, prev: i - 1, next: i + 1})
		at += size
	}
	if len(symbols) == 0 {
		return out
	}
	symbols[len(symbols)-1].next = -1
	w.symbols = symbols

	pairs := w.pairs[:0]
	look := func(left, right int32) (spmPair, bool) {
		if left < 0 || right < 0 {
			return spmPair{}, false
		}
		l, size := symbols[left], symbols[left].sizeBytes+symbols[right].sizeBytes
		id, ok := t.find(s[l.at : l.at+size])
		if !ok {
			return spmPair{}, false
		}
		return spmPair{score: t.scores[id], left: left, right: right, sizeBytes: size}, true
	}
	for i := int32(1); int(i) < len(symbols); i++ {
		if p, ok := look(i-1, i); ok {
			pairs = append(pairs, p)
		}
	}
	pairs.init()
	for len(pairs) > 0 {
		p := pairs.pop()
		l, r := &symbols[p.left], &symbols[p.right]
		if l.sizeBytes == 0 || r.sizeBytes == 0 || l.sizeBytes+r.sizeBytes != p.sizeBytes {
			continue
		}
		l.sizeBytes, r.sizeBytes = p.sizeBytes, 0
		if l.next = r.next; l.next >= 0 {
			symbols[l.next].prev = p.left
		}
		if q, ok := look(l.prev, p.left); ok {
			pairs.push(q)
		}
		if q, ok := look(p.left, l.next); ok {
			pairs.push(q)
		}
	}
	w.pairs = pairs

	for i := int32(0); i >= 0; i = symbols[i].next {
		text := s[symbols[i].at : symbols[i].at+symbols[i].sizeBytes]
		if id, ok := t.find(text); ok {
			out = append(out, id)
			continue
		}
		for j := range len(text) {
			out = append(out, t.bytes[text[j]])
		}
	}
	return out
}
