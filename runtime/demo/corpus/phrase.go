package corpus

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
)

// A phrasing is one way to ask, with slots in braces: {x} takes the value as it is, {X} with a capital first letter.
type phrasing struct {
	text string
	held bool // never asked in training, whatever fills its slots
}

// A filling gives the slots of a phrasing, and of the answer, their values.
type filling map[string]string

// A kind is one sort of question: its phrasings, what fills their slots, and the answer.
type kind struct {
	name    string
	weight  float64
	phrases []phrasing
	train   []string // phrases that are not held out
	held    []string // phrases that are
	cases   []filling
	draw    func(r *rand.Rand) filling // instead of cases, where they are too many to list
	answer  string                     // with slots; the slot {answer} where the cases bring their own
	follow  []string                   // ways to ask the same of another {x}, once one has been asked
}

// Held out: every phrasing whose hash falls on 0 modulo heldPhrasing, and of the other phrasings every
// (phrasing, case) whose hash falls on 0 modulo heldPair. Both are functions of the text alone.
const (
	heldPhrasing = 11
	heldPair     = 25
)

func hash(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	v := h.Sum32()
	v ^= v >> 15 // FNV's low bits alone are weak
	v *= 0x2c1b3c6d
	v ^= v >> 12
	return v
}

// key is what a phrasing says, whatever its punctuation and whatever its slots are called.
func key(phrase string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(phrase, "{")
		b.WriteString(before)
		if !found {
			return Normalize(b.String())
		}
		_, phrase, _ = strings.Cut(rest, "}")
		b.WriteString("Slot")
	}
}

// heldOut reports whether phrase with c in its slots is kept out of training. Cases that are drawn and not
// listed have no pairs of their own: their content hardly ever comes twice.
func (k *kind) heldOut(phrase string, c filling) bool {
	if slices.Contains(k.held, phrase) {
		return true
	}
	return k.draw == nil && len(k.cases) > 1 && hash(k.name, fill(phrase, c))%heldPair == 0
}

// expand writes out a pattern with alternatives: "[What|Which city] is it[ now|]?" is four phrasings.
func expand(pattern string) []string {
	open := strings.LastIndexByte(pattern, '[') // the innermost of the last group
	if open < 0 {
		return []string{strings.Join(strings.Fields(pattern), " ")}
	}
	end := open + strings.IndexByte(pattern[open:], ']')
	if end < open {
		panic("BUG: no ] in " + pattern)
	}
	var out []string
	for alt := range strings.SplitSeq(pattern[open+1:end], "|") {
		out = append(out, expand(pattern[:open]+alt+pattern[end+1:])...)
	}
	return out
}

// phrasings expands the lines of a block; a line that begins with '!' is held out with all it expands to.
func phrasings(block string) []phrasing {
	var out []phrasing
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line, held := strings.CutPrefix(line, "!")
		for _, text := range expand(line) {
			if slices.ContainsFunc(out, func(p phrasing) bool { return p.text == text }) {
				continue
			}
			out = append(out, phrasing{text, held})
		}
	}
	if len(out) >= 6 { // a kind of few phrasings keeps them all for training
		for i := range out {
			out[i].held = out[i].held || i > 0 && hash(key(out[i].text))%heldPhrasing == 0
		}
	}
	return out
}

func newKind(name string, weight float64, answer, block string) *kind {
	k := &kind{name: name, weight: weight, answer: answer, phrases: phrasings(block)}
	k.split()
	return k
}

// split sorts the phrasings into those for training and those held out.
func (k *kind) split() {
	k.train, k.held = nil, nil
	for _, p := range k.phrases {
		if p.held {
			k.held = append(k.held, p.text)
		} else {
			k.train = append(k.train, p.text)
		}
	}
	if len(k.train) == 0 {
		panic("BUG: no phrasing of " + k.name + " is left for training")
	}
}

// fill puts the values into the slots of text.
func fill(text string, c filling) string {
	if strings.IndexByte(text, '{') < 0 {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		slot, after, _ := strings.Cut(rest, "}")
		value, ok := c[slot]
		if !ok {
			if value, ok = c[strings.ToLower(slot)]; !ok {
				panic(fmt.Sprintf("BUG: no value for {%s} in %q: %v", slot, text, c))
			}
			value = capital(value)
		}
		b.WriteString(value)
		text = after
	}
}

// Normalize reduces a text to what it says: lower case, no punctuation but what numbers and words need,
// single spaces. Two questions that differ in nothing else are the same question, and so are two answers.
func Normalize(s string) string {
	var b strings.Builder
	space := false
	for _, r := range strings.ToLower(s) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("+*=<>", r) {
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		} else if r != '\'' {
			space = true
		}
		if r == '-' { // a minus sign or a hyphen: kept apart from a space
			b.WriteByte('-')
			space = false
		}
	}
	return b.String()
}
