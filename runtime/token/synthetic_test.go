package token

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/minfer/minfer/runtime/gguf"
)

// synthAlphabet has characters of every class that a pre-tokenizer tells apart.
var synthAlphabet = strings.Split("a b e l r s t v m d S T R E V L M D é ß Σ σ ж ǅ ʰ ª 中 龥 の 가 א क ्  1 2 9 ٣ ² Ⅷ ½ 〇 "+
	"' ’ ! . , - _ # $ + < = > ^ ~ | ` \" ( ) / \\ : 。 ！ ～ “ « ° € ∑ 🦙 \u0301 \u200d \ufe0f \ufffd", " ")

func init() {
	synthAlphabet = append(synthAlphabet, " ", "\n", "\r", "\t", "\v", "\f", "\u00a0", "\u0085", "\u2003", "\u2028", "\u3000", "\x00", "\x1c", "\u00ad", "\u0378")
}

// synthVocabulary returns the metadata of a byte-level vocabulary that lays bare where words are cut: nearly every two
// neighbouring characters merge whatever they are, and many pairs of pairs, so that another cut gives other ids. Its last
// token, synthSeparator, is the only special one.
func synthVocabulary(pre string) map[string]gguf.Value {
	rng := rand.New(rand.NewPCG(17, 21))
	var tokens, merges []string
	have := map[string]bool{}
	add := func(s string) bool {
		if have[s] {
			return false
		}
		have[s] = true
		tokens = append(tokens, s)
		return true
	}
	for b := range 256 {
		add(string(byteRunes[b]))
	}
	join := func(a, b string) {
		if add(a + b) {
			merges = append(merges, a+" "+b)
		}
	}
	var chars []string
	for _, c := range synthAlphabet {
		if c == "" {
			continue
		}
		spelled := []rune(spell(c))
		whole := string(spelled[0])
		for _, r := range spelled[1:] {
			join(whole, string(r))
			whole += string(r)
		}
		chars = append(chars, whole)
	}
	var pairs [][2]string
	for _, a := range chars {
		for _, b := range chars {
			if rng.IntN(10) > 0 {
				pairs = append(pairs, [2]string{a, b})
			}
		}
	}
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for _, p := range pairs {
		join(p[0], p[1])
	}
	for range 8000 {
		p, q := pairs[rng.IntN(len(pairs))], pairs[rng.IntN(len(pairs))]
		join(p[0]+p[1], q[0]+q[1])
	}
	// Words that no merge makes: only a tokenizer that ignores merges finds them.
	for range 3000 {
		word := ""
		for range 3 + rng.IntN(2) {
			word += chars[rng.IntN(len(chars))]
		}
		add(word)
	}
	for _, w := range []string{"best", "'ll", " the", "\n\n\n", "    ", "stst"} {
		add(spell(w))
	}
	tokens = append(tokens, synthSeparator)
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = int32(Normal)
	}
	types[len(types)-1] = int32(Control)
	return map[string]gguf.Value{
		"general.architecture": gguf.Of("llama"),
		keyModel:               gguf.Of(modelBPE),
		keyPre:                 gguf.Of(pre),
		keyTokens:              gguf.ArrayOf(tokens),
		keyTypes:               gguf.ArrayOf(types),
		keyMerges:              gguf.ArrayOf(merges),
		keyBOS:                 gguf.Of(uint32(len(tokens) - 1)),
		keyEOS:                 gguf.Of(uint32(len(tokens) - 1)),
		keyAddBOS:              gguf.Of(false),
	}
}

const synthSeparator = "<|endoftext|>"

// randomText makes a text of about n characters that mixes what tokenizers trip over.
func randomText(rng *rand.Rand, n int) string {
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	var b strings.Builder
	for b.Len() < n {
		switch rng.IntN(12) {
		case 0, 1, 2:
			for range 1 + rng.IntN(8) {
				b.WriteString(pick(synthAlphabet))
			}
		case 3:
			b.WriteString(pick(textWords))
		case 4:
			b.WriteString(" " + pick(textWords))
		case 5:
			for range 1 + rng.IntN(6) {
				b.WriteString(pick([]string{" ", " ", "\n", "\r\n", "\t", "\u00a0", "  ", "\u3000"}))
			}
		case 6:
			for range 1 + rng.IntN(7) {
				fmt.Fprintf(&b, "%d", rng.IntN(10))
			}
		case 7:
			b.WriteString(pick([]string{"'s", "'S", "'re", "'RE", "'Ll", "'vE", "'d", "'t", "'m", "'x", "''", "'", "’s", "'ſ"}))
		case 8:
			for range 1 + rng.IntN(4) {
				b.WriteString(pick([]string{"(", ")", "{", "}", "[", "]", ";", "->", "=>", "==", "!=", "::", "//", "/*", "#", "%", "&&", "||", "<", ">", "`", "~", "^", "$", "_", "\\"}))
			}
		case 9: // any assigned or unassigned character but surrogates and those that llama.cpp's table lacks
			r := rune(rng.IntN(0x20000))
			if r < 0xD800 || r > 0xDFFF {
				b.WriteRune(r)
			}
		case 10:
			b.WriteString(pick(textScripts))
		case 11:
			b.WriteByte(byte(rng.IntN(256))) // mostly not UTF-8
		}
	}
	return b.String()
}

var textWords = strings.Fields(`the Hello world return func int main class def import self print value iPhone HTTPServer camelCase
	snake_case don't I'll we've THEY'RE naïve façade Österreich 2024-01-31 3.14159 0xFF user@example.com http://example.com/a?b=c
	Lorem ipsum dolor antidisestablishmentarianism aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`)

var textScripts = []string{
	"Привет, мир", "你好，世界。", "こんにちは世界", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "ไทย ภาษา", "Γειά σου Κόσμε",
	"👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "e\u0301\u0327", "Z͑ͫa̴l͟g̷o", "½ ⅓ ² ①②", "۱۲۳۴", "១២៣", "①", "Ⅻ", "㋿", "𝒳𝓎𝓏", "𐐀𐐨", "ǅ", "ﬁ", "\u200b", "\ufeff", "\u202e",
}
