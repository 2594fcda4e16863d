// Package token turns text into the token ids of a model and ids back into text.
//
// What a model's tokenizer does is read from its GGUF metadata (keys tokenizer.ggml.*): the vocabulary, the merge
// list or the scores, the name of the pre-tokenizer, and which tokens are special. Two kinds are known:
//
//   - "gpt2": byte-level BPE. Text is cut into words by the pre-tokenizer, a short list of regular expressions named
//     by tokenizer.ggml.pre (see preTokenizers), and the bytes of each word are merged in the order of the merge list.
//   - "llama": SentencePiece BPE. Spaces become U+2581, the whole text is one word, and the pair with the best score is
//     merged first. Characters without a token fall back to byte tokens <0x00>..<0xFF>.
//
// Encoding never fails: text that is not UTF-8 is encoded all the same (see Tokenizer.Encode). Decoding always yields
// UTF-8, and a stream of ids decoded one by one gives the same text as the whole list at once (see Decoder).
//
// # Why does this differ from llama.cpp?
//
// The ids are llama.cpp's, for the vocabularies and the texts that the tests compare, but for what follows:
//
//   - A plain token that merging makes is a word, whatever it is called: Qwen2's vocabulary has such a token </s>, which
//     llama.cpp takes for an end marker and finds in text, and Qwen's own tokenizer never yields.
//   - Merging never makes a control token. Where markers are not to be parsed there are none.
//   - An unknown pre-tokenizer is an error here and there; a missing one is "default" with a warning, as there.
//   - The rules of deepseek-llm and deepseek-coder see white space outside ASCII, as published. llama.cpp hides it.
//   - Overlong forms and surrogates are not UTF-8: each of their bytes is U+FFFD in a byte-level vocabulary.
//   - tokenizer.ggml.add_space_prefix holds for byte-level vocabularies too, where a file says it.
//   - Decoding never tidies spaces before punctuation.
//
// What is a letter, a number or white space is the unicode package's say, which is llama.cpp's as well as long as both
// follow Unicode 15.
//
// A Tokenizer is immutable after New and safe for concurrent use.
package token
