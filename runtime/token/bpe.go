package token

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// byteRunes is the alphabet that byte-level vocabularies spell bytes in: printable Latin-1 stands for itself, the other
// 68 bytes are U+0100 and up, in order. So a space is Ġ and a line break Ċ.
var byteRunes = func() (t [256]rune) {
	next := rune(256)
	for b := range rune(256) {
		if '!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b && b <= 'ÿ' {
			t[b] = b
		} else {
			t[b] = next
			next++
		}
	}
	return t
}()

// runeBytes is the inverse of byteRunes.
var runeBytes = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	for b, r := range byteRunes {
		m[r] = byte(b)
	}
	return m
}()

// spell writes s in the alphabet of byteRunes.
func spell(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// unspell is the inverse of spell. Runes outside the alphabet, as in tokens that were added by hand, stay as they are.
func unspell(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if b, ok := runeBytes[r]; ok {
			out = append(out, b)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// merge is what a pair of neighbouring tokens becomes, and how early: the lowest rank is merged first.
type merge struct {
	rank int32
	id   int32
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// bpe merges the bytes of words.
type bpe struct {
	bytes  [256]int32 // the token of each byte, noToken where the vocabulary lacks it
	merges map[uint64]merge
	words  map[string]int32 // words that are not merged but looked up, by their bytes; nil unless merges are ignored
	// spelled are the markers that merges make, with the tokens of their bytes, which text becomes instead: a marker is
	// recognized before merging or not at all.
	spelled map[int32][]int32
	// absent is written for a byte that has no token; noToken drops the byte.
	absent    int32
	splitters []splitFunc

	idle      int    // merges of parts that are no tokens
	firstIdle string // the first of them
}

// readBPE builds the tokenizer of a byte-level vocabulary. made reports the tokens that a merge yields.
func readBPE(r *metaReader, v *vocabulary, pre *preTokenizer) (t *bpe, made func(int32) bool) {
	if !r.m.Has(keyMerges) {
		r.fail(keyMerges, "a vocabulary of the model %q needs its merge list", modelBPE)
		return nil, nil
	}
	list := r.texts(keyMerges)
	if r.err != nil {
		return nil, nil
	}
	t = &bpe{merges: make(map[uint64]merge, len(list)), absent: noToken}
	for _, expr := range pre.splits {
		t.splitters = append(t.splitters, splitter(expr))
	}
	for b := range 256 {
		id, ok := v.ids[string(byteRunes[b])]
		if !ok {
			id, ok = v.byteToken(byte(b))
		}
		if !ok {
			id = noToken
		}
		t.bytes[b] = id
	}
	results := make([]bool, len(v.texts))
	var joined []byte
	for i, m := range list {
		// The parts are apart by the first space that is not the first character.
		at := -1
		if len(m) > 0 {
			at = strings.IndexByte(m[1:], ' ')
		}
		if at < 0 || at+2 == len(m) {
			r.fail(keyMerges, "entry %d, %s, is not two parts with a space between", i, quote(m))
			return nil, nil
		}
		left, right := m[:at+1], m[at+2:]
		joined = append(append(joined[:0], left...), right...)
		a, okA := v.ids[left]
		b, okB := v.ids[right]
		c, okC := v.ids[string(joined)]
		if !okA || !okB {
			// No text comes to hold a part that no merge makes: the entry has no effect, in llama.cpp too.
			if t.idle++; t.idle == 1 {
				t.firstIdle = m
			}
			continue
		}
		if !okC {
			r.fail(keyMerges, "entry %d, %s: %s is not a token of %s", i, quote(m), quote(string(joined)), keyTokens)
			return nil, nil
		}
		results[c] = true
		if _, there := t.merges[pairKey(a, b)]; !there { // the first, lowest rank holds
			t.merges[pairKey(a, b)] = merge{rank: int32(i), id: c}
		}
	}
	if pre.ignoreMerges {
		t.words = make(map[string]int32, len(v.texts))
		for id, text := range v.texts {
			if text != "" && v.types[id] == Normal {
				t.words[unspell(text)] = int32(id)
			}
		}
	}
	return t, func(id int32) bool { return results[id] }
}

// spellMarkers fills t.spelled, once the types of v are settled.
func (t *bpe) spellMarkers(v *vocabulary, made func(int32) bool) {
	for i := range v.texts {
		id := int32(i)
		if !v.special(id) || !made(id) {
			continue
		}
		if t.spelled == nil {
			t.spelled = map[int32][]int32{}
		}
		for _, b := range []byte(unspell(v.texts[id])) {
			t.spelled[id] = append(t.spelled[id], t.bytes[b])
		}
	}
}

// lacking returns the bytes of UTF-8 text that have no token. Bytes that only code points unassigned so far begin with
// do not count: vocabularies trained on real text may well lack them.
func (t *bpe) lacking() []byte {
	var lack []byte
	for b := range 256 {
		inText := b < 0xC0 || 0xC2 <= b && b < 0xF1 || b == 0xF3 || b == 0xF4
		if inText && t.bytes[b] == noToken {
			lack = append(lack, byte(b))
		}
	}
	return lack
}

// wordCache remembers the ids of words. It forgets all of them when it is full.
type wordCache map[string][]int32

const (
	cachedWords     = 1 << 14
	cachedWordBytes = 48
)

func (c *wordCache) keep(word string, ids []int32) {
	if len(word) > cachedWordBytes {
		return
	}
	if *c == nil || len(*c) >= cachedWords {
		*c = make(wordCache)
	}
	(*c)[strings.Clone(word)] = slices.Clone(ids)
}

// scanSymbols is the length of the longest word that is merged by looking for the least rank again and again. Longer
// ones are merged with a heap.
const scanSymbols = 32

// bpeSession is the scratch of one Encode call, reused by later ones.
type bpeSession struct {
	ends  [2][]int
	cache wordCache
	ids   []int32
	heap  queue[candidate]
	next  []int32
	prev  []int32
}

// encode appends the ids of s. Bytes that are not UTF-8 become U+FFFD, each byte for itself.
func (t *bpe) encode(s string, out []int32, w *bpeSession) []int32 {
	s = validUTF8(s)
	start := 0
	for _, end := range split(s, t.splitters, &w.ends) {
		out = t.word(s[start:end], out, w)
		start = end
	}
	return out
}

// validUTF8 replaces each byte that is not part of UTF-8 by U+FFFD.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func (t *bpe) word(s string, out []int32, w *bpeSession) []int32 {
	if t.words != nil {
		if id, ok := t.words[s]; ok {
			return append(out, id)
		}
	}
	if len(s) == 1 {
		return t.appendSymbol(out, t.bytes[s[0]])
	}
	if ids, ok := w.cache[s]; ok {
		return append(out, ids...)
	}
	from := len(out)
	w.ids = w.ids[:0]
	for i := range len(s) {
		w.ids = append(w.ids, t.bytes[s[i]])
	}
	ids := w.ids
	if len(ids) <= scanSymbols {
		ids = t.mergeByScan(ids)
	} else {
		ids = t.mergeByHeap(ids, w)
	}
	for _, id := range ids {
		if bytes, ok := t.spelled[id]; ok {
			for _, id := range bytes {
				out = t.appendSymbol(out, id)
			}
			continue
		}
		out = t.appendSymbol(out, id)
	}
	w.cache.keep(s, out[from:])
	return out
}

func (t *bpe) appendSymbol(out []int32, id int32) []int32 {
	if id == noToken {
		if t.absent == noToken {
			return out
		}
		id = t.absent
	}
	return append(out, id)
}

// mergeByScan merges ids in place: the pair of least rank first, the leftmost of equals. Quadratic, and the quicker of
// the two on words.
func (t *bpe) mergeByScan(ids []int32) []int32 {
	const none = math.MaxInt32
	var found [scanSymbols]merge
	look := func(i int) merge {
		if i+1 < len(ids) && ids[i] != noToken && ids[i+1] != noToken {
			if m, ok := t.merges[pairKey(ids[i], ids[i+1])]; ok {
				return m
			}
		}
		return merge{rank: none}
	}
	for i := range ids {
		found[i] = look(i)
	}
	for {
		best := 0
		for i := 1; i < len(ids); i++ {
			if found[i].rank < found[best].rank {
				best = i
			}
		}
		if len(ids) == 0 || found[best].rank == none {
			return ids
		}
		ids[best] = found[best].id
		copy(ids[best+1:], ids[best+2:])
		copy(found[best+1:], found[best+2:len(ids)])
		ids = ids[:len(ids)-1]
		found[best] = look(best)
		if best > 0 {
			found[best-1] = look(best - 1)
		}
	}
}

// candidate is a pair that can be merged, as it was when it was found.
type candidate struct {
	rank        int32
	at          int32 // index of the left symbol
	left, right int32 // the ids of the pair; other ids there now make it stale
	id          int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// merged marks a symbol that has become part of the one to its left.
const merged int32 = -2

// mergeByHeap does what mergeByScan does in O(n log n).
func (t *bpe) mergeByHeap(ids []int32, w *bpeSession) []int32 {
	n := len(ids)
	next, prev := w.next[:0], w.prev[:0]
	for i := range n {
		next, prev = append(next, int32(i+1)), append(prev, int32(i-1))
	}
	w.next, w.prev = next, prev
	h := w.heap[:0]
	look := func(i int32) (candidate, bool) {
		if i < 0 || int(next[i]) >= n {
			return candidate{}, false
		}
		a, b := ids[i], ids[next[i]]
		if a == noToken || b == noToken {
			return candidate{}, false
		}
		m, ok := t.merges[pairKey(a, b)]
		return candidate{rank: m.rank, at: i, left: a, right: b, id: m.id}, ok
	}
	for i := range int32(n) {
		if c, ok := look(i); ok {
			h = append(h, c)
		}
	}
	h.init()
	for len(h) > 0 {
		c := h.pop()
		if ids[c.at] != c.left || int(next[c.at]) >= n || ids[next[c.at]] != c.right {
			continue
		}
		gone := next[c.at]
		ids[c.at], ids[gone] = c.id, merged
		next[c.at] = next[gone]
		if int(next[gone]) < n {
			prev[next[gone]] = c.at
		}
		for _, i := range [2]int32{prev[c.at], c.at} {
			if c, ok := look(i); ok {
				h.push(c)
			}
		}
	}
	w.heap = h
	kept := ids[:0]
	for _, id := range ids {
		if id != merged {
			kept = append(kept, id)
		}
	}
	return kept
}

// describeBytes names bytes in a warning.
func describeBytes(bs []byte) string {
	const most = 8
	names := make([]string, 0, most+1)
	for i, b := range bs {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(bs)-most))
			break
		}
		names = append(names, fmt.Sprintf("0x%02X", b))
	}
	return strings.Join(names, " ")
}
