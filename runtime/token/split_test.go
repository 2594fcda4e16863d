package token

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// sameSplit holds each splitter written by hand to its expression.
func sameSplit(t *testing.T, s string) {
	t.Helper()
	if s == "" {
		return
	}
	for expr, hand := range handSplits {
		got, want := hand(s, nil), regexSplit(expr)(s, nil)
		if !slices.Equal(got, want) {
			t.Errorf("%q by %s:\n got ends %v\nwant ends %v", s, expr, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, s := range readTexts(t) {
		sameSplit(t, validUTF8(s))
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 3000 {
		sameSplit(t, validUTF8(randomText(rng, 1+rng.IntN(40))))
	}
	// Every rune, alone and among letters, digits, spaces and line breaks.
	var b strings.Builder
	for r := rune(0); r <= 0x323AF; r += 1 {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		for _, s := range []string{"a", " ", "1", "\n", "  ", "!", "'"} {
			b.WriteString(s)
			b.WriteRune(r)
		}
		if b.Len() > 1<<12 {
			sameSplit(t, b.String())
			b.Reset()
		}
	}
	sameSplit(t, b.String())
}

// TestSplitCovers: the pieces of every pre-tokenizer are the text.
func TestSplitCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, pre := range PreTokenizers() {
		for range 200 {
			s := validUTF8(randomText(rng, 1+rng.IntN(60)))
			ps := pieces(s, pre)
			if strings.Join(ps, "") != s || slices.Contains(ps, "") {
				t.Fatalf("%s: %q became %q", pre, s, ps)
			}
		}
	}
}

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		pre, text string
		want      []string
	}{
		{"gpt-2", "I'll  go,12\n", []string{"I", "'ll", " ", " go", ",", "12", "\n"}},
		{"gpt-2", "I'LL", []string{"I", "'", "LL"}},
		{"qwen2", "I'LL  go,\n\n12", []string{"I", "'LL", " ", " go", ",\n\n", "1", "2"}},
		{"qwen2", "(x):\n", []string{"(x", "):\n"}},
		{"llama-bpe", "1234567", []string{"123", "456", "7"}},
		{"starcoder", " 12a", []string{" ", "1", "2", "a"}},
		{"refact", "v10", []string{"v", "1", "0"}},
		{"mpt", "a1 2", []string{"a", "1", " 2"}},
		{"falcon", "a==1234`", []string{"a", "==", "123", "4", "`"}},
		{"default", "a`` 1234", []string{"a", "``", " ", "123", "4"}},
		{"deepseek-llm", "ab 中文12\n\n", []string{"ab", " ", "中文", "12", "\n", "\n"}},
		{"deepseek-coder", "ab, 中12\r\n", []string{"ab", ",", " ", "中", "1", "2", "\r", "\n"}},
	} {
		if got := pieces(c.text, c.pre); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q became %q, want %q", c.pre, c.text, got, c.want)
		}
	}
}

// TestSplitLongRuns: runs that make an expression back up are split in time. A quadratic split would not come to an end.
func TestSplitLongRuns(t *testing.T) {
	for _, unit := range []string{" ", "\n", " \n", "a", "1", "!", "'", "\u3000", "中", "a ", "' "} {
		text := strings.Repeat(unit, 1<<17)
		for _, p := range preTokenizers {
			if got := strings.Join(pieces(text, p.names[0]), ""); got != text {
				t.Errorf("%s: the pieces of %d times %q are not the text", p.names[0], 1<<17, unit)
			}
		}
	}
}

// FuzzSplit: the splitters written by hand are their expressions.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{" ", "a", "it's 12\n\n", "  \r\n x", "\u00a0\u3000a", "'S'ſ", "1²½Ⅷ", "e\u0301", "!\n\n!", "\t\ta"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) {
			sameSplit(t, s)
		}
	})
}
