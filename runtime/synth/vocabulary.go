package synth

import (
	"container/heap"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/minfer/minfer/runtime/gguf"
)

// Token types, as numbered in GGUF.
const (
	normal      = 1
	control     = 3
	userDefined = 4
	unused      = 5
)

// vocabulary is a byte-level BPE vocabulary: invented tokens up to where the real one's special tokens begin, and those.
type vocabulary struct {
	pre      string // tokenizer.ggml.pre
	specials []special
	from     int // id of the first special token
	bos, eos string
	pad      string
	addBOS   bool
	template string
}

type special struct {
	text string
	typ  int32
}

func specials(typ int32, texts ...string) (out []special) {
	for _, s := range texts {
		out = append(out, special{s, typ})
	}
	return out
}

const chatML = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

const llama3Template = "{{ bos_token }}{% for message in messages %}{{'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] + '<|eot_id|>'}}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"

var qwenSpecials = slices.Concat(
	specials(control, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
		"<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
	specials(userDefined, "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
)

var vocabularies = map[string]vocabulary{
	"qwen2.5": {"qwen2", qwenSpecials, 151643, "<|endoftext|>", "<|im_end|>", "<|endoftext|>", false, chatML},
	"qwen3": {"qwen2", slices.Concat(qwenSpecials, specials(userDefined, "<tool_response>", "</tool_response>", "<think>", "</think>")),
		151643, "<|endoftext|>", "<|im_end|>", "<|endoftext|>", false, chatML},
	"llama-3": {"llama-bpe", specials(control, "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
		"<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
		128000, "<|begin_of_text|>", "<|eot_id|>", "<|finetune_right_pad_id|>", true, llama3Template},
}

// Vocabularies lists the vocabularies that shapes may name, sorted.
func Vocabularies() []string { return slices.Sorted(maps.Keys(vocabularies)) }

// metadata sets the tokenizer's keys for a vocabulary of size tokens.
func (v vocabulary) metadata(w *gguf.Writer, size int) error {
	tokens, merges := invent(v.from)
	types := slices.Repeat([]int32{normal}, len(tokens))
	ids := map[string]uint32{}
	for _, s := range v.specials {
		ids[s.text] = uint32(len(tokens))
		tokens, types = append(tokens, s.text), append(types, s.typ)
	}
	for i := len(tokens); i < size; i++ {
		tokens, types = append(tokens, fmt.Sprintf("[PAD%d]", i)), append(types, unused)
	}
	w.Set("tokenizer.ggml.model", gguf.Of("gpt2"))
	w.Set("tokenizer.ggml.pre", gguf.Of(v.pre))
	w.Set("tokenizer.ggml.tokens", gguf.ArrayOf(tokens))
	w.Set("tokenizer.ggml.token_type", gguf.ArrayOf(types))
	w.Set("tokenizer.ggml.merges", gguf.ArrayOf(merges))
	w.Set("tokenizer.ggml.bos_token_id", gguf.Of(ids[v.bos]))
	w.Set("tokenizer.ggml.eos_token_id", gguf.Of(ids[v.eos]))
	w.Set("tokenizer.ggml.padding_token_id", gguf.Of(ids[v.pad]))
	w.Set("tokenizer.ggml.add_bos_token", gguf.Of(v.addBOS))
	return w.Set("tokenizer.chat_template", gguf.Of(v.template))
}

// space is how the byte-level alphabet writes a space.
const space = 'Ġ'

// alphabet is GPT-2's 256 printable stand-ins for the bytes, in its order: the printable ones as themselves, then the others.
func alphabet() []string {
	var out []string
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	for b := range 256 {
		if printable(b) {
			out = append(out, string(rune(b)))
		}
	}
	for next := rune(256); len(out) < 256; next++ {
		out = append(out, string(next))
	}
	return out
}

// invent makes n tokens: the bytes, and the n-256 likeliest words of a language whose letters are as frequent as those of
// English and independent of each other, with or without a space before them. Each word is the merge of the word without its
// last letter, which is likelier and so comes before it, and that letter.
func invent(n int) (tokens, merges []string) {
	tokens = alphabet()
	letters := []rune("etaoinshrdlcumwfgypbvkjxqz")
	perMille := []float64{127, 91, 82, 75, 70, 67, 63, 61, 60, 43, 40, 28, 28, 24, 24, 22, 20, 20, 19, 15, 10, 8, 1.5, 1.5, 1, 0.7}
	costs := make([]int, len(letters)) // in 1/1024 bit: whole numbers, the same on every machine
	for i, p := range perMille {
		costs[i] = int(math.Round(-1024 * math.Log2(p/1000)))
	}
	const spaceCost = 1024 // every second word begins with one
	q := &words{}
	// A candidate is a word that exists and the letter to add to it. When it is taken, the next letter and the longer word
	// become candidates.
	push := func(stem string, stemCost, letter int) {
		heap.Push(q, word{stem, stemCost, letter, stemCost + costs[letter]})
	}
	push(string(space), spaceCost, 0)
	for i, l := range letters {
		push(string(l), costs[i], 0)
	}
	for len(tokens) < n {
		w := heap.Pop(q).(word)
		l := string(letters[w.letter])
		tokens, merges = append(tokens, w.stem+l), append(merges, w.stem+" "+l)
		push(w.stem+l, w.cost, 0)
		if w.letter+1 < len(letters) {
			push(w.stem, w.stemCost, w.letter+1)
		}
	}
	return tokens, merges
}

type word struct {
	stem     string
	stemCost int
	letter   int
	cost     int
}

// words is a heap of candidates, cheapest first, in a fixed order among equals.
type words []word

func (w words) Len() int { return len(w) }
func (w words) Less(i, j int) bool {
	if w[i].cost != w[j].cost {
		return w[i].cost < w[j].cost
	}
	if w[i].stem != w[j].stem {
		return w[i].stem < w[j].stem
	}
	return w[i].letter < w[j].letter
}
func (w words) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *words) Push(x any)   { *w = append(*w, x.(word)) }
func (w *words) Pop() any {
	old := *w
	x := old[len(old)-1]
	*w = old[:len(old)-1]
	return x
}
