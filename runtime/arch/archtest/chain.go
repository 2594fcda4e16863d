package archtest

import (
	"fmt"
	"maps"

	"github.com/minfer/minfer/runtime/gguf"
)

// The special tokens of a Chain; ids 0 to 255 are the bytes.
const (
	Start     = 256 + iota // <s>
	End                    // </s>
	TurnBegin              // <|im_start|>
	TurnEnd                // <|im_end|>, an end token too
)

// ChatML is the chat template of a Chain.
const ChatML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// Chain is a model whose answer is known: after token i comes next[i], by a large margin, whatever came before. A token
// that is not in next is followed by End. Its tokens are bytes and the special ones above.
func Chain(next map[int]int) Model {
	const vocab, width = 260, 272
	m := Small("llama")
	m.Layers, m.Embd, m.FF, m.Heads, m.KV, m.HD, m.Vocab, m.Context = 1, width, 8, 4, 2, 68, vocab, 256
	zero := func(int) float32 { return 0 }
	one := func(int) float32 { return 1 }
	// the layer adds nothing, so that the head sees the last token's own row: a one at its id
	for name, each := range map[string]func(int) float32{
		"blk.0.attn_output.weight": zero,
		"blk.0.ffn_down.weight":    zero,
		"output_norm.weight":       one,
		"token_embd.weight":        func(i int) float32 { return oneIf(i/width == i%width) },
		"output.weight": func(i int) float32 {
			follower, ok := next[i%width]
			if !ok {
				follower = End
			}
			return oneIf(i/width == follower)
		},
	} {
		m.Tensor[name] = TensorOptions{Each: each}
	}
	maps.Copy(m.Set, Tokenizer(vocab))
	return m
}

// After is a chain that continues each byte of text with the one after it, and its last with last.
func After(text string, last int) map[int]int {
	next := map[int]int{}
	for i := range len(text) - 1 {
		if _, ok := next[int(text[i])]; ok {
			panic(fmt.Sprintf("BUG: byte %d comes twice in %q", text[i], text))
		}
		next[int(text[i])] = int(text[i+1])
	}
	next[int(text[len(text)-1])] = last
	return next
}

func oneIf(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// Tokenizer is the metadata of a byte-level tokenizer of n tokens: the bytes, the special tokens above, and unused ones.
func Tokenizer(n int) map[string]gguf.Value {
	tokens, types := make([]string, 0, n), make([]int32, 0, n)
	printable := rune(256)
	for b := range 256 { // GPT-2's alphabet: bytes that print stand for themselves
		r := rune(b)
		if !(r >= 33 && r <= 126 || r >= 161 && r <= 172 || r >= 174) {
			r = printable
			printable++
		}
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	for _, s := range []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>"} {
		tokens, types = append(tokens, s), append(types, 3)
	}
	for i := len(tokens); i < n; i++ {
		tokens, types = append(tokens, fmt.Sprintf("[unused%d]", i)), append(types, 5)
	}
	return map[string]gguf.Value{
		"tokenizer.ggml.model":         gguf.Of("gpt2"),
		"tokenizer.ggml.pre":           gguf.Of("qwen2"),
		"tokenizer.ggml.tokens":        gguf.ArrayOf(tokens),
		"tokenizer.ggml.token_type":    gguf.ArrayOf(types),
		"tokenizer.ggml.merges":        gguf.ArrayOf([]string{}),
		"tokenizer.ggml.bos_token_id":  gguf.Of(uint32(Start)),
		"tokenizer.ggml.eos_token_id":  gguf.Of(uint32(End)),
		"tokenizer.ggml.eot_token_id":  gguf.Of(uint32(TurnEnd)),
		"tokenizer.ggml.add_bos_token": gguf.Of(false),
		"tokenizer.chat_template":      gguf.Of(ChatML),
	}
}
