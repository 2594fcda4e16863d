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
// A Tokenizer is immutable after New and safe for concurrent use.
package token
