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

	// The scripts that DeepSeek's first tokenizers keep together, as published: the middle range takes in all from Samaritan
	// to the ideographs. Escaped, like the list below, so that no editor can change a character for its look-alike.
	reDeepSeekCJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
	// The letters with an upper and a lower case, as DeepSeek-LLM's tokenizer lists them.
	reDeepSeekLLMLetters = "\\s?[" +
		"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af" +
		"\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5" +
		"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba" +
		"\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45" +
		"\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe" +
		"\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102" +
		"\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139" +
		"\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3" +
		"\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06" +
		"\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3" +
		"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df" +
		"\U0001e900-\U0001e943" +
		"]+"
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
			"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
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
