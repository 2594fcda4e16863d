package token

import (
	"fmt"
	"math"

	"github.com/minfer/minfer/runtime/gguf"
)

// Keys of the metadata that this package reads.
const (
	keyModel        = "tokenizer.ggml.model"
	keyPre          = "tokenizer.ggml.pre"
	keyTokens       = "tokenizer.ggml.tokens"
	keyScores       = "tokenizer.ggml.scores"
	keyTypes        = "tokenizer.ggml.token_type"
	keyMerges       = "tokenizer.ggml.merges"
	keyAddBOS       = "tokenizer.ggml.add_bos_token"
	keyAddEOS       = "tokenizer.ggml.add_eos_token"
	keyAddSpace     = "tokenizer.ggml.add_space_prefix"
	keyBOS          = "tokenizer.ggml.bos_token_id"
	keyEOS          = "tokenizer.ggml.eos_token_id"
	keyEOT          = "tokenizer.ggml.eot_token_id"
	keyEOM          = "tokenizer.ggml.eom_token_id"
	keyUnknown      = "tokenizer.ggml.unknown_token_id"
	keyPadding      = "tokenizer.ggml.padding_token_id"
	keyFIMPad       = "tokenizer.ggml.fim_pad_token_id"
	keyFIMRepo      = "tokenizer.ggml.fim_rep_token_id"
	keyFIMSeparator = "tokenizer.ggml.fim_sep_token_id"
	keyName         = "general.name"
)

// metaReader reads optional values and keeps the first error.
type metaReader struct {
	m   *gguf.Meta
	err error
}

func (r *metaReader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// fail keeps the error that the value of key will not do.
func (r *metaReader) fail(key, format string, args ...any) {
	r.keep(r.m.Fail(key, fmt.Sprintf(format, args...)))
}

// text returns a string, "" where the key is absent.
func (r *metaReader) text(key string) string {
	s, err := r.m.StringOr(key, "")
	r.keep(err)
	return s
}

// flag returns a bool, or otherwise where the key is absent.
func (r *metaReader) flag(key string, otherwise bool) bool {
	b, err := r.m.BoolOr(key, otherwise)
	r.keep(err)
	return b
}

// id returns a token id in [0, n), or otherwise where the key is absent.
func (r *metaReader) id(key string, n int, otherwise int32) int32 {
	i, err := r.m.IntOr(key, int64(otherwise))
	r.keep(err)
	switch {
	case err != nil || !r.m.Has(key):
		return otherwise
	case i == -1 || i == math.MaxUint32: // -1 with and without a sign: what converters write for "there is none"
		return noToken
	case i < 0 || i >= int64(n):
		r.fail(key, "it must be the id of one of the %d tokens", n)
		return otherwise
	}
	return int32(i)
}

// texts returns an array of strings, nil where the key is absent.
func (r *metaReader) texts(key string) []string {
	if !r.m.Has(key) {
		return nil
	}
	s, err := r.m.Strings(key)
	r.keep(err)
	return s
}

// integers returns an array of integers, nil where the key is absent.
func (r *metaReader) integers(key string) []int64 {
	if !r.m.Has(key) {
		return nil
	}
	s, err := r.m.Ints(key)
	r.keep(err)
	return s
}

// floats returns an array of numbers, nil where the key is absent.
func (r *metaReader) floats(key string) []float64 {
	v, ok := r.m.Value(key)
	if !ok {
		return nil
	}
	if t := v.ElemType(); v.Type() == gguf.TypeArray && t == gguf.TypeInt32 { // scores that are ranks
		var out []float64
		for _, i := range r.integers(key) {
			out = append(out, float64(i))
		}
		return out
	}
	s, err := r.m.Floats(key)
	r.keep(err)
	return s
}
