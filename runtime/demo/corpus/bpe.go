package corpus

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The special tokens, last in the vocabulary.
const (
	EndOfText = "<|endoftext|>"
	ImStart   = "<|im_start|>"
	ImEnd     = "<|im_end|>"
)

// VocabSize is the number of tokens: 256 bytes, the merges, 3 special tokens.
const VocabSize = 1536

// A Tokenizer is a byte-level BPE as Qwen2's, with a vocabulary of its own. It is not safe for concurrent use;
// Clone gives each goroutine its own.
type Tokenizer struct {
	Tokens []string // of each id, in GPT-2's byte alphabet; the special tokens as they stand
	Merges []string // "left right", by rank

	ids   map[string]int32
	rank  map[[2]int32]int // of a merge
	into  []int32          // what the merge of a rank gives
	alpha [256]string
	cache map[string][]int32
}

// byteAlphabet is GPT-2's: a printable character for each byte.
func byteAlphabet() (alpha [256]string) {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae) {
			r = next
			next++
		}
		alpha[b] = string(r)
	}
	return alpha
}

// split cuts a text where Qwen2's pre-tokenizer does:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func split(text string, yield func(piece string)) {
	for text != "" {
		n := piece(text)
		yield(text[:n])
		text = text[n:]
	}
}

func piece(s string) int {
	isLetter := func(r rune) bool { return unicode.IsLetter(r) }
	isMark := func(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.Is(unicode.N, r) }
	while := func(from int, in func(rune) bool) int {
		for i, r := range s[from:] {
			if !in(r) {
				return from + i
			}
		}
		return len(s)
	}
	if s[0] == '\'' {
		for _, suffix := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if len(s) > len(suffix) && strings.EqualFold(s[1:1+len(suffix)], suffix) {
				return 1 + len(suffix)
			}
		}
	}
	r, size := utf8.DecodeRuneInString(s)
	if isLetter(r) {
		return while(0, isLetter)
	}
	if unicode.Is(unicode.N, r) {
		return size
	}
	if r != '\r' && r != '\n' {
		if n := while(size, isLetter); n > size {
			return n
		}
	}
	marks := 0
	if r == ' ' {
		marks = 1
	}
	if n := while(marks, isMark); n > marks {
		return while(n, func(r rune) bool { return r == '\r' || r == '\n' })
	}
	end := while(0, unicode.IsSpace)
	if i := strings.LastIndexAny(s[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	if _, last := utf8.DecodeLastRuneInString(s[:end]); end < len(s) && end > last {
		return end - last
	}
	return end
}

// TrainTokenizer learns the merges from texts: again and again the most frequent pair of neighbours within a
// piece becomes a token, of equals the one whose text sorts first.
func TrainTokenizer(texts func(yield func(string) bool)) *Tokenizer {
	t := &Tokenizer{alpha: byteAlphabet()}
	t.Tokens = append(t.Tokens, t.alpha[:]...)
	counts := map[string]int{}
	for text := range texts {
		split(text, func(p string) { counts[p]++ })
	}
	type word struct {
		ids   []int32
		count int
	}
	var words []word
	pairs := map[[2]int32]int{}           // how often each pair stands in the texts
	within := map[[2]int32]map[int]bool{} // the words that had it
	tally := func(w, sign int) {
		ids := words[w].ids
		for i := range len(ids) - 1 {
			p := [2]int32{ids[i], ids[i+1]}
			if pairs[p] += sign * words[w].count; pairs[p] == 0 {
				delete(pairs, p)
			}
			if within[p] == nil {
				within[p] = map[int]bool{}
			}
			within[p][w] = true
		}
	}
	for p, n := range counts {
		if n == 1 { // made-up names, for the most part
			continue
		}
		ids := make([]int32, len(p))
		for i := range len(p) {
			ids[i] = int32(p[i])
		}
		words = append(words, word{ids, n})
		tally(len(words)-1, 1)
	}
	for len(t.Tokens) < VocabSize-3 {
		var best [2]int32
		for p, n := range pairs {
			better := cmp.Or(cmp.Compare(n, pairs[best]), cmp.Compare(t.Tokens[best[0]], t.Tokens[p[0]]), cmp.Compare(t.Tokens[best[1]], t.Tokens[p[1]]))
			if pairs[best] == 0 || better > 0 {
				best = p
			}
		}
		if pairs[best] < 2 {
			panic("BUG: the text is too short for this vocabulary")
		}
		id := int32(len(t.Tokens))
		t.Merges = append(t.Merges, t.Tokens[best[0]]+" "+t.Tokens[best[1]])
		t.Tokens = append(t.Tokens, t.Tokens[best[0]]+t.Tokens[best[1]])
		for w := range within[best] {
			tally(w, -1)
			words[w].ids = merge(words[w].ids, best, id)
			tally(w, 1)
		}
		delete(within, best)
	}
	t.Tokens = append(t.Tokens, EndOfText, ImStart, ImEnd)
	t.index()
	return t
}

func merge(ids []int32, pair [2]int32, id int32) []int32 {
	out := ids[:0]
	for i := 0; i < len(ids); i++ {
		if i+1 < len(ids) && ids[i] == pair[0] && ids[i+1] == pair[1] {
			out = append(out, id)
			i++
		} else {
			out = append(out, ids[i])
		}
	}
	return out
}

func (t *Tokenizer) index() {
	t.ids = map[string]int32{}
	for i, s := range t.Tokens {
		t.ids[s] = int32(i)
	}
	t.rank, t.into, t.cache = map[[2]int32]int{}, nil, map[string][]int32{}
	for i, m := range t.Merges {
		left, right, _ := strings.Cut(m, " ")
		t.rank[[2]int32{t.ids[left], t.ids[right]}] = i
		t.into = append(t.into, t.ids[left+right])
	}
}

// Clone is the same tokenizer for another goroutine.
func (t *Tokenizer) Clone() *Tokenizer {
	c := *t
	c.cache = map[string][]int32{}
	return &c
}

// ID is the id of a special token.
func (t *Tokenizer) ID(special string) int32 {
	i := slices.Index(t.Tokens[VocabSize-3:], special)
	if i < 0 {
		panic("BUG: no special token " + special)
	}
	return int32(VocabSize - 3 + i)
}

// Encode appends the ids of a text to dst; special tokens in it are text.
func (t *Tokenizer) Encode(dst []int32, text string) []int32 {
	split(text, func(p string) {
		ids, ok := t.cache[p]
		if !ok {
			ids = make([]int32, len(p))
			for i := range len(p) {
				ids[i] = int32(p[i])
			}
			for {
				best, at := len(t.Merges), 0
				for i := range len(ids) - 1 {
					if r, ok := t.rank[[2]int32{ids[i], ids[i+1]}]; ok && r < best {
						best, at = r, i
					}
				}
				if best == len(t.Merges) {
					break
				}
				ids = merge(ids, [2]int32{ids[at], ids[at+1]}, t.into[best])
			}
			if len(t.cache) < 1<<16 {
				t.cache[p] = slices.Clone(ids)
			}
		}
		dst = append(dst, ids...)
	})
	return dst
}

// Decode is the text of ids; special tokens have none.
func (t *Tokenizer) Decode(ids []int32) string {
	back := map[rune]byte{}
	for b, s := range t.alpha {
		r, _ := utf8.DecodeRuneInString(s)
		back[r] = byte(b)
	}
	var out []byte
	for _, id := range ids {
		if id >= VocabSize-3 {
			continue
		}
		for _, r := range t.Tokens[id] {
			out = append(out, back[r])
		}
	}
	return string(out)
}
