package token

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// benchText is a megabyte of prose, code and other scripts, in equal parts.
func benchText(tb testing.TB) string {
	const unit = "The quick brown fox jumps over the lazy dog, and it's 1234 times as fast as he'd thought.\n\n" +
		"func sum(a []int) (s int) {\n\tfor _, x := range a {\n\t\ts += x * 2 // twice\n\t}\n\treturn s\n}\n" +
		"Привет, мир! 你好，世界。 こんにちは、世界。 안녕하세요 세계. مرحبا بالعالم 🦙\n"
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		b.WriteString(unit)
		b.WriteString(textWords[i%len(textWords)])
	}
	return b.String()
}

// BenchmarkEncodeRareWords is text whose words are all new, so that each is merged: the worst of ordinary text.
func BenchmarkEncodeRareWords(b *testing.B) {
	for _, name := range []string{"qwen2", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := load(b, name)
			rng := rand.New(rand.NewPCG(1, 2))
			var t strings.Builder
			for t.Len() < 1<<20 {
				for range 3 + rng.IntN(9) {
					t.WriteByte("etaoinshrdlucmfwypvbgkjqxz"[min(rng.IntN(26), rng.IntN(26))])
				}
				t.WriteByte(' ')
			}
			b.SetBytes(int64(t.Len()))
			for b.Loop() {
				tok.Encode(t.String(), EncodeOptions{})
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"qwen2", "gpt-2", "starcoder", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := load(b, name)
			text := benchText(b)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, EncodeOptions{ParseSpecial: true})
			}
		})
	}
}

// BenchmarkEncodeShort is a chat message, where the setup of a call tells.
func BenchmarkEncodeShort(b *testing.B) {
	tok := load(b, "qwen2")
	const text = "What is the capital of France?"
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text, EncodeOptions{})
	}
}

func BenchmarkSplit(b *testing.B) {
	text := benchText(b)
	for _, p := range preTokenizers {
		b.Run(p.names[0], func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				pieces(text, p.names[0])
			}
		})
	}
}

// BenchmarkLongWord is text without a place to cut it.
func BenchmarkLongWord(b *testing.B) {
	for _, name := range []string{"qwen2", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := load(b, name)
			text := strings.Repeat("abcdefghij", 10000)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, EncodeOptions{})
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := load(b, "qwen2")
	text := benchText(b)
	ids := tok.Encode(text, EncodeOptions{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Decode(ids, DecodeOptions{})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newSynth(b, "qwen2")
	}
}
