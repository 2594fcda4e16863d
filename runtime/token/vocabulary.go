package token

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is the kind of a token, numbered as in tokenizer.ggml.token_type.
type Type uint8

const (
	Normal      Type = 1 // a piece of text
	Unknown     Type = 2 // stands for text that has no token
	Control     Type = 3 // a marker, matched only where special tokens are parsed, hidden in plain output
	UserDefined Type = 4 // text that is always kept whole
	Unused      Type = 5 // a free slot
	Byte        Type = 6 // one byte, named <0x00>..<0xFF>
)

// noToken is the id of no token.
const noToken int32 = -1

// maxTokens bounds the vocabulary, so that an id always fits in 31 bits.
const maxTokens = math.MaxInt32

// vocabulary is the list of tokens with what the metadata says about them.
type vocabulary struct {
	texts  []string
	types  []Type
	scores []float64 // nil where the file has none
	ids    map[string]int32

	stripRight []bool // white space after the token is dropped while encoding; nil where no token does so

	bos, eos, eot, eom, unknown, padding int32
	addBOS, addEOS                       bool
	ends                                 map[int32]bool
}

// special reports whether a token is written only on request: a control token or the unknown token.
func (v *vocabulary) special(id int32) bool {
	return v.types[id] == Control || v.types[id] == Unknown
}

func (v *vocabulary) has(id int32) bool { return id >= 0 && int(id) < len(v.texts) }

// readTokens reads the tokens, their types and their scores. It returns nil where r has an error.
func readTokens(r *metaReader) *vocabulary {
	texts := r.texts(keyTokens)
	if r.err != nil {
		return nil
	}
	if len(texts) == 0 || len(texts) > maxTokens {
		r.fail(keyTokens, "the vocabulary must have from 1 to %d tokens", maxTokens)
		return nil
	}
	v := &vocabulary{texts: texts, ids: make(map[string]int32, len(texts))}
	for i, s := range texts {
		if s == "" { // a slot without text: no text becomes it, and it becomes no text
			continue
		}
		if first, there := v.ids[s]; there {
			r.fail(keyTokens, "token %s is there twice, with ids %d and %d", quote(s), first, i)
			return nil
		}
		v.ids[s] = int32(i)
	}
	v.types = make([]Type, len(texts))
	for i := range v.types {
		v.types[i] = Normal
	}
	if r.m.Has(keyTypes) {
		types := r.integers(keyTypes)
		if r.err == nil && len(types) != len(texts) {
			r.fail(keyTypes, "%d entries for the %d tokens of %s", len(types), len(texts), keyTokens)
			return nil
		}
		for i, t := range types {
			if t < 0 || t > int64(Byte) {
				r.fail(keyTypes, "entry %d is %d; token types are 0 to %d", i, t, Byte)
				return nil
			}
			v.types[i] = Type(t)
		}
	}
	if r.m.Has(keyScores) {
		v.scores = r.floats(keyScores)
		if r.err == nil && len(v.scores) != len(texts) {
			r.fail(keyScores, "%d entries for the %d tokens of %s", len(v.scores), len(texts), keyTokens)
			return nil
		}
		for i, s := range v.scores {
			if s != s {
				r.fail(keyScores, "entry %d is not a number", i)
				return nil
			}
		}
	}
	if r.err != nil {
		return nil
	}
	return v
}

// readSpecial reads which tokens begin and end a text. bos, eos and unknown are the ids where the file names none.
func (v *vocabulary) readSpecial(r *metaReader, bos, eos, unknown int32, addBOS bool) {
	n := len(v.texts)
	within := func(id int32) int32 {
		if !v.has(id) {
			return noToken
		}
		return id
	}
	v.bos = r.id(keyBOS, n, within(bos))
	v.eos = r.id(keyEOS, n, within(eos))
	v.unknown = r.id(keyUnknown, n, within(unknown))
	v.padding = r.id(keyPadding, n, noToken)
	v.eot = r.id(keyEOT, n, noToken)
	v.eom = r.id(keyEOM, n, noToken)
	v.addBOS = r.flag(keyAddBOS, addBOS)
	v.addEOS = r.flag(keyAddEOS, false)
	if v.addBOS && v.bos == noToken {
		r.fail(keyAddBOS, "the model wants a start token, but %s names none", keyBOS)
	}
	if v.addEOS && v.eos == noToken {
		r.fail(keyAddEOS, "the model wants an end token, but %s names none", keyEOS)
	}
}

// endTexts are the tokens that end a generation wherever a vocabulary has them as markers: the list that llama.cpp
// collects, since files seldom declare more than one of them.
var endTexts = []string{
	"<|im_end|>", "<|endoftext|>", // Qwen, ChatML, GPT-2
	"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", // Llama 3
	"</s>",    // Llama 2
	"<|end|>", // Phi-3
	"<end_of_turn>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
	"<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>", "[e~[",
	// What fills and separates files in code completion: after these the model has left the file it was to write.
	"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>",
	"<|file_sep|>",
}

// markerTexts are the other markers that vocabularies are known to have and files declare as user-defined tokens or as
// plain ones: what surrounds the gap in code completion. Taken for control tokens they cannot be forged by a user's text.
var markerTexts = []string{
	"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
	"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
	"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
}

// collectEnds fills v.ends and makes every known marker a control token. made reports whether a token comes about by merging, which tells a marker that a converter
// forgot to mark from text that merely looks like one (Qwen2's vocabulary has a token </s> made by merges).
func (v *vocabulary) collectEnds(r *metaReader, made func(id int32) bool) {
	n := len(v.texts)
	v.ends = map[int32]bool{}
	for _, id := range []int32{
		v.eos, v.eot, v.eom,
		r.id(keyFIMPad, n, noToken), r.id(keyFIMRepo, n, noToken), r.id(keyFIMSeparator, n, noToken),
	} {
		if id != noToken {
			v.ends[id] = true
		}
	}
	marker := func(text string) (int32, bool) {
		id, ok := v.ids[text]
		if !ok || v.types[id] == Normal && made(id) {
			return noToken, false
		}
		v.types[id] = Control
		return id, true
	}
	for _, s := range endTexts {
		if id, ok := marker(s); ok {
			v.ends[id] = true
		}
	}
	for _, s := range markerTexts {
		marker(s)
	}
}

// stripPhi3 marks the tokens of Phi-3 that swallow the white space after them. GGUF has no key for it; its converter
// leaves the name of the model, and llama.cpp goes by that as well.
func (v *vocabulary) stripPhi3(r *metaReader) {
	name := strings.ToLower(r.text(keyName))
	if !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return
	}
	v.stripRight = make([]bool, len(v.texts))
	for i, t := range v.types {
		v.stripRight[i] = t == Control || t == UserDefined || t == Unknown
	}
	for _, s := range []string{"<unk>", "<s>", "<|endoftext|>"} {
		if id, ok := v.ids[s]; ok {
			v.stripRight[id] = false
		}
	}
}

// byteToken returns the token of one byte named the SentencePiece way, <0x0A>.
func (v *vocabulary) byteToken(b byte) (int32, bool) {
	id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]
	return id, ok
}

// parseByte is the inverse of the name that byteToken looks for.
func parseByte(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

// quote shows a token in an error, cut to a length that fits a line.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// sortedIDs returns the ids in m, rising.
func sortedIDs(m map[int32]bool) []int32 {
	ids := make([]int32, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
