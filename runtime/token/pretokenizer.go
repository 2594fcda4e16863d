package token

import (
	"fmt"
	"slices"
	"strings"
)

// The regular expressions that several pre-tokenizers share. Each is the one published with the models named, with the
// case-insensitive group of contractions written out in ASCII, so that 'ſ (long s) is not taken for 's.
const (
	// Of GPT-2's encoder. The published form ends in |\s+, which only isolates what is left over; left-overs are
	// pieces of their own in any case.
	reGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`
	// Of tiktoken's cl100k encoding as Llama 3 publishes it: numbers in groups of up to three digits.
	reLlama3 = reContractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + rePunctuation
	// The same as Qwen2 publishes it: each digit alone.
	reQwen2 = reContractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + rePunctuation

	reContractions = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	rePunctuation  = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	reDigit       = `\p{N}`
	reThreeDigits = `[0-9][0-9][0-9]`

	// The scripts that DeepSeek's first tokenizers keep together.
	reDeepSeekCJK = `[一-龥ࠀ-一가-퟿]+`
	// The letters with an upper and a lower case, as DeepSeek-LLM's tokenizer lists them.
	reDeepSeekLLMLetters = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// preTokenizer is a row of the table below.
type preTokenizer struct {
	names  []string // values of tokenizer.ggml.pre
	source string   // where the rule comes from
	// splits are applied one after the other, each to every piece that the one before left. A match is a piece, and so
	// is what lies between two matches. Anchors and lookahead see the piece alone.
	splits []string
	// ignoreMerges: a word that is a token is that token, whatever the merges would make of it.
	ignoreMerges bool
	// addBOS is the default where the file has no tokenizer.ggml.add_bos_token.
	addBOS bool
}

// preTokenizers is the one list of the pre-tokenizers known. To add one, add its row.
var preTokenizers = []preTokenizer{
	{
		names:  []string{"default"},
		source: "llama.cpp's rule for files made before pre-tokenizers had names, and for files that ask for it",
		splits: []string{`[\p{P}\$\+<=>\^~\|]+`, reGPT2, `\p{N}+`, reThreeDigits},
	},
	{
		names:        []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"},
		source:       "tokenizer.json of Meta-Llama-3-8B; Falcon 3 and Pixtral publish the same expression",
		splits:       []string{reLlama3},
		ignoreMerges: true,
		addBOS:       true,
	},
	{
		names:  []string{"smaug-bpe", "dbrx"},
		source: "tokenizer.json of Smaug-Llama-3-70B and the encoding of DBRX: Llama 3's expression, merges always applied",
		splits: []string{reLlama3},
	},
	{
		names:  []string{"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"},
		source: "tokenizer.json of Qwen1.5, Qwen2 and Qwen3; its derivatives and StableLM 2 publish the same expression",
		splits: []string{reQwen2},
	},
	{
		names:  []string{"gpt-2", "phi-2", "mpt", "olmo"},
		source: "GPT-2's encoder; Phi-2, MPT and OLMo use its byte-level pre-tokenizer",
		splits: []string{reGPT2},
	},
	{
		names:  []string{"starcoder", "refact", "command-r", "smollm", "codeshell"},
		source: "tokenizer.json of StarCoder: each digit alone, then GPT-2's; Refact, Command-R, SmolLM and CodeShell alike",
		splits: []string{reDigit, reGPT2},
	},
	{
		names:  []string{"falcon"},
		source: "tokenizer.json of Falcon-7B: runs of punctuation, GPT-2's, then digits by three",
		splits: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", reGPT2, reThreeDigits},
	},
	{
		names:  []string{"deepseek-llm"},
		source: "tokenizer.json of deepseek-llm-7b-base",
		splits: []string{
			`[\r\n]`,
			reDeepSeekLLMLetters,
			`\s?[!-/:-~！-／：-～‘-‟　-。]+`,
			`\s+\z`,
			reDeepSeekCJK,
			`\p{N}+`,
		},
	},
	{
		names:  []string{"deepseek-coder"},
		source: "tokenizer.json of deepseek-coder-6.7b-base",
		splits: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, reDeepSeekCJK, reDigit},
	},
}

// UnknownPreTokenizerError is what New returns for a value of tokenizer.ggml.pre that no rule is known for. To go on
// with another rule would give ids that look right and are not.
type UnknownPreTokenizerError struct {
	Name  string   // as the file has it
	Known []string // every name that is known, sorted
}

func (e *UnknownPreTokenizerError) Error() string {
	return fmt.Sprintf("%s: unknown pre-tokenizer %q; known are %s", keyPre, e.Name, strings.Join(e.Known, ", "))
}

// PreTokenizers returns the names of the pre-tokenizers known, sorted.
func PreTokenizers() []string {
	var names []string
	for _, p := range preTokenizers {
		names = append(names, p.names...)
	}
	slices.Sort(names)
	return names
}

func findPreTokenizer(name string) (*preTokenizer, error) {
	for i := range preTokenizers {
		if slices.Contains(preTokenizers[i].names, name) {
			return &preTokenizers[i], nil
		}
	}
	return nil, &UnknownPreTokenizerError{Name: name, Known: PreTokenizers()}
}
