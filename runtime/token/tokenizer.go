package token

import (
	"fmt"
	"strings"
	"sync"

	"github.com/minfer/minfer/runtime/gguf"
)

// The values of tokenizer.ggml.model that are known.
const (
	modelBPE = "gpt2"
	modelSPM = "llama"
)

// Tokenizer encodes and decodes for one vocabulary.
type Tokenizer struct {
	v       *vocabulary
	markers *markers
	pieces  []string // what each token writes; "" for slots that write nothing
	// addSpace: a space goes before text at the start and after a marker, and decoding takes the first one away.
	addSpace bool
	bpe      *bpe // one of the two is set
	spm      *spm
	model    string
	pre      string
	warnings []string

	bpeSessions sync.Pool // *bpeSession
	spmSessions sync.Pool // *spmSession
}

// New builds the tokenizer that a model file describes. It fails, naming the key, where the description is incomplete,
// contradicts itself or asks for a tokenizer that is not known (*UnknownPreTokenizerError); what it can live with but a
// user should know is in Warnings.
//
// A byte-level vocabulary without tokenizer.ggml.pre gets the pre-tokenizer "default" and a warning.
func New(meta *gguf.Meta) (*Tokenizer, error) {
	r := &metaReader{m: meta}
	model, err := meta.String(keyModel)
	if err != nil {
		return nil, err
	}
	if model != modelBPE && model != modelSPM {
		return nil, meta.Fail(keyModel, fmt.Sprintf("the tokenizers known are %q (byte-level BPE) and %q (SentencePiece)", modelBPE, modelSPM))
	}
	v := readTokens(r)
	if r.err != nil {
		return nil, r.err
	}
	t := &Tokenizer{v: v, model: model}
	made := func(int32) bool { return false }
	if model == modelBPE {
		pre := r.text(keyPre)
		if r.err == nil && pre == "" {
			pre = "default"
			t.warn("%s is missing: words are split by the rule %q, which may not be the model's", keyPre, pre)
		}
		rule, err := findPreTokenizer(pre)
		if err != nil {
			r.keep(err)
			return nil, r.err
		}
		t.pre = pre
		v.readSpecial(r, noToken, noToken, noToken, rule.addBOS)
		t.addSpace = r.flag(keyAddSpace, false)
		t.bpe, made = readBPE(r, v, rule)
	} else {
		v.readSpecial(r, 1, 2, 0, true) // SentencePiece's <s>, </s> and <unk>
		t.addSpace = r.flag(keyAddSpace, true)
		t.spm = readSPM(r, v)
	}
	if r.err != nil {
		return nil, r.err
	}
	v.collectEnds(r, made)
	v.stripPhi3(r)
	if r.err != nil {
		return nil, r.err
	}
	if t.bpe != nil {
		t.bpe.spellMarkers(v, made)
		// An unknown token that is also an end or a start would make the model stop or begin anew in the middle of text.
		if v.unknown != noToken && v.unknown != v.bos && !v.ends[v.unknown] {
			t.bpe.absent = v.unknown
		}
		if lack := t.bpe.lacking(); len(lack) > 0 {
			t.warn("%s has no token for the bytes %s: text with them is encoded without them", keyTokens, describeBytes(lack))
		}
	}
	if t.bpe != nil && t.bpe.idle > 0 {
		n, _ := r.m.Value(keyMerges)
		t.warn("%s: %d of %d entries merge parts that are no tokens, the first %s: they have no effect", keyMerges, t.bpe.idle, n.Len(), quote(t.bpe.firstIdle))
	}
	t.markers = newMarkers(v)
	t.pieces = make([]string, len(v.texts))
	for i := range t.pieces {
		t.pieces[i] = t.piece(int32(i))
	}
	return t, nil
}

func (t *Tokenizer) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// piece is what a token writes.
func (t *Tokenizer) piece(id int32) string {
	text := t.v.texts[id]
	switch t.v.types[id] {
	case Unknown, Control, UserDefined:
		return text
	case Byte:
		if b, ok := parseByte(text); ok {
			return string([]byte{b})
		}
		return text
	case Normal:
		if t.bpe != nil {
			return unspell(text)
		}
		return strings.ReplaceAll(text, escapedSpace, " ")
	}
	return ""
}

// EncodeOptions say how text is encoded. The zero value takes all text as text and adds nothing.
type EncodeOptions struct {
	// AddSpecial puts the start token before and the end token after the text, where the model declares that it wants
	// them (AddsBOS, AddsEOS).
	AddSpecial bool
	// ParseSpecial recognizes control tokens by their text. Without it <|im_end|> is ten characters like any others.
	// User-defined tokens are recognized in either case.
	ParseSpecial bool
}

// Encode returns the ids of text. Empty text has no ids but those that AddSpecial adds.
//
// Text need not be UTF-8: a byte-level vocabulary encodes each stray byte as U+FFFD, SentencePiece as its byte token.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.EncodeParts([]Part{{text, o.ParseSpecial}}, o.AddSpecial)
}

// EncodeParts returns the ids of the parts' text taken together; see Part and EncodeOptions.AddSpecial.
func (t *Tokenizer) EncodeParts(parts []Part, addSpecial bool) []int32 {
	text, trusted := trustedSpans(parts)
	var out []int32
	if addSpecial && t.v.addBOS {
		out = append(out, t.v.bos)
	}
	out = t.encode(text, t.markers.cut(text, trusted), out)
	if addSpecial && t.v.addEOS {
		out = append(out, t.v.eos)
	}
	return out
}

func (t *Tokenizer) encode(text string, frags []fragment, out []int32) []int32 {
	var raw func(string, []int32) []int32
	if t.bpe != nil {
		w, _ := t.bpeSessions.Get().(*bpeSession)
		if w == nil {
			w = new(bpeSession)
		}
		defer t.bpeSessions.Put(w)
		raw = func(s string, out []int32) []int32 { return t.bpe.encode(s, out, w) }
	} else {
		w, _ := t.spmSessions.Get().(*spmSession)
		if w == nil {
			w = new(spmSession)
		}
		defer t.spmSessions.Put(w)
		raw = func(s string, out []int32) []int32 { return t.spm.encode(s, out, w) }
	}
	for _, f := range frags {
		if f.id != noToken {
			out = append(out, f.id)
			continue
		}
		s := text[f.from:f.to]
		if t.addSpace { // the fragment is at the start or after a marker, as every one is
			s = " " + s
		}
		out = raw(s, out)
	}
	return out
}

// Len is the number of tokens: ids are 0 to Len-1.
func (t *Tokenizer) Len() int { return len(t.v.texts) }

// Model is the kind of tokenizer, "gpt2" or "llama".
func (t *Tokenizer) Model() string { return t.model }

// PreTokenizer is the name of the rule that cuts words, "" for a vocabulary that needs none.
func (t *Tokenizer) PreTokenizer() string { return t.pre }

// Warnings are what a user should know about this vocabulary, one sentence each.
func (t *Tokenizer) Warnings() []string { return t.warnings }

// ID returns the id of the token whose text in the vocabulary is text, as in the file: a space is written Ġ or U+2581.
func (t *Tokenizer) ID(text string) (id int32, ok bool) {
	id, ok = t.v.ids[text]
	return id, ok
}

// Text returns the text of a token in the vocabulary, "" for an id that is out of range.
func (t *Tokenizer) Text(id int32) string {
	if !t.v.has(id) {
		return ""
	}
	return t.v.texts[id]
}

// Type returns the kind of a token, 0 for an id that is out of range.
func (t *Tokenizer) Type(id int32) Type {
	if !t.v.has(id) {
		return 0
	}
	return t.v.types[id]
}

// Piece returns the bytes that a token writes, special tokens included. They need not be whole characters.
func (t *Tokenizer) Piece(id int32) string {
	if !t.v.has(id) {
		return replacement
	}
	return t.pieces[id]
}

// BOS returns the token that begins a text; ok is false where the model has none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.v.bos, t.v.bos != noToken }

// EOS returns the token that ends a text; ok is false where the model has none.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.v.eos, t.v.eos != noToken }

// Unknown returns the token for text without a token; ok is false where the model has none.
func (t *Tokenizer) Unknown() (id int32, ok bool) { return t.v.unknown, t.v.unknown != noToken }

// Padding returns the token that fills up batches; ok is false where the model has none.
func (t *Tokenizer) Padding() (id int32, ok bool) { return t.v.padding, t.v.padding != noToken }

// AddsBOS reports whether the model declares that texts begin with the start token.
func (t *Tokenizer) AddsBOS() bool { return t.v.addBOS }

// AddsEOS reports whether the model declares that texts end with the end token.
func (t *Tokenizer) AddsEOS() bool { return t.v.addEOS }

// IsEnd reports whether a token ends a generation: the declared end of text, of turn or of message, or a marker known to
// mean one of them (<|im_end|>, <|eot_id|>, ...).
func (t *Tokenizer) IsEnd(id int32) bool { return t.v.ends[id] }

// Ends returns the tokens that end a generation, rising.
func (t *Tokenizer) Ends() []int32 { return sortedIDs(t.v.ends) }

// IsSpecial reports whether a token is hidden in plain output: a control token or the unknown token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.v.has(id) && t.v.special(id) }

// BeginsWithBOS reports whether text begins with the text of the start token, so that with special tokens parsed and
// AddSpecial a model that AddsBOS gets two of them.
func (t *Tokenizer) BeginsWithBOS(text string) bool {
	return t.v.bos != noToken && t.v.texts[t.v.bos] != "" && strings.HasPrefix(text, t.v.texts[t.v.bos])
}

// WithBOS returns ids with the start token before them, if the model wants one and they do not begin with it: what a
// chat prompt needs, whose template may have written the token or not.
func (t *Tokenizer) WithBOS(ids []int32) []int32 {
	if !t.v.addBOS || len(ids) > 0 && ids[0] == t.v.bos {
		return ids
	}
	return append([]int32{t.v.bos}, ids...)
}
