package gguf

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// Meta is the metadata of a file: values by key, in the file's order. A nil Meta is empty.
//
// The getters come in pairs: String fails with [ErrMissing] where the key is absent, StringOr then gives a default. Both
// fail with [ErrValueType], naming key, found type and wanted type, where the key is there but of another type: a wrong type
// is never taken for an absent key.
type Meta struct {
	file  string
	pairs []pair
	index map[string]int
}

type pair struct {
	key    string
	value  Value
	offset int64 // of the value in the file; -1 for a pair that no file holds
}

// NewMeta makes metadata that no file holds, for programs and tests that build a model in memory. name stands for the file in
// errors. Later pairs replace earlier ones of the same key.
func NewMeta(name string, pairs map[string]Value) *Meta {
	m := &Meta{file: name}
	keys := make([]string, 0, len(pairs))
	for k := range pairs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		m.add(k, pairs[k], -1)
	}
	return m
}

// add appends a pair and reports whether the key is free.
func (m *Meta) add(key string, v Value, offset int64) bool {
	if _, taken := m.index[key]; taken {
		return false
	}
	if m.index == nil {
		m.index = map[string]int{}
	}
	m.index[key] = len(m.pairs)
	m.pairs = append(m.pairs, pair{key, v, offset})
	return true
}

func (m *Meta) find(key string) (pair, bool) {
	if m == nil {
		return pair{}, false
	}
	i, ok := m.index[key]
	if !ok {
		return pair{}, false
	}
	return m.pairs[i], true
}

// Len is the number of pairs.
func (m *Meta) Len() int {
	if m == nil {
		return 0
	}
	return len(m.pairs)
}

// Keys gives the keys in the file's order.
func (m *Meta) Keys() []string {
	out := make([]string, 0, m.Len())
	for k := range m.All() {
		out = append(out, k)
	}
	return out
}

// All yields the pairs in the file's order.
func (m *Meta) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i := range m.Len() {
			if !yield(m.pairs[i].key, m.pairs[i].value) {
				return
			}
		}
	}
}

// Has reports whether the key is there.
func (m *Meta) Has(key string) bool {
	_, ok := m.find(key)
	return ok
}

// Value gives the value of a key, of whatever type.
func (m *Meta) Value(key string) (Value, bool) {
	p, ok := m.find(key)
	return p.value, ok
}

// Fail makes the error of a key whose value its reader will not take: reason says what is allowed. It names the value
// and its place in the file.
func (m *Meta) Fail(key, reason string) error {
	e := &Error{Field: fmt.Sprintf("metadata %s", clip(key)), Offset: -1, Reason: reason, Kind: ErrValue}
	if m != nil {
		e.File = m.file
	}
	p, ok := m.find(key)
	if !ok {
		e.Kind, e.Reason = ErrMissing, "is missing: "+reason
		return e
	}
	e.Value, e.Offset = p.value.String(), p.offset
	return e
}

// read finds a key and converts its value with get; want names the types that get takes.
func read[T any](m *Meta, key, want string, get func(Value) (T, bool)) (T, error) {
	p, ok := m.find(key)
	if !ok {
		var zero T
		e := &Error{Field: fmt.Sprintf("metadata %s", clip(key)), Offset: -1, Reason: "is missing: this model needs it, as " + want, Kind: ErrMissing}
		if m != nil {
			e.File = m.file
		}
		return zero, e
	}
	v, ok := get(p.value)
	if !ok {
		kind, found := ErrValueType, "of type "+p.value.TypeString()
		if _, _, integer := p.value.integer(); integer && (want == wantUint || want == wantInt) {
			kind, found = ErrValue, p.value.String() // the type is right, the number is not
		}
		return v, &Error{File: m.file, Field: fmt.Sprintf("metadata %s", clip(key)), Value: found,
			Offset: p.offset, Reason: "wanted is " + want, Kind: kind}
	}
	return v, nil
}

const (
	wantString  = "a string"
	wantUint    = "an integer that is not negative"
	wantInt     = "an integer of at most 63 bits and a sign"
	wantFloat   = "an f32 or f64"
	wantBool    = "a bool"
	wantStrings = "an array of string"
	wantInts    = "an array of integers of at most 63 bits and a sign"
	wantUints   = "an array of integers that are not negative"
	wantFloats  = "an array of f32 or f64"
	wantBools   = "an array of bool"
)

// String gives a string.
func (m *Meta) String(key string) (string, error) { return read(m, key, wantString, Value.Text) }

// StringOr gives a string, or def where the key is absent.
func (m *Meta) StringOr(key, def string) (string, error) { return or(m, key, def, m.String) }

// Uint gives an integer of any width that is not negative.
func (m *Meta) Uint(key string) (uint64, error) { return read(m, key, wantUint, Value.Uint) }

// UintOr gives what Uint gives, or def where the key is absent.
func (m *Meta) UintOr(key string, def uint64) (uint64, error) { return or(m, key, def, m.Uint) }

// UintIn gives what Uint gives if it is from lo to hi, and fails with [ErrValue] naming the value and the range otherwise.
func (m *Meta) UintIn(key string, lo, hi uint64) (uint64, error) {
	n, err := m.Uint(key)
	if err == nil && (n < lo || n > hi) {
		err = m.Fail(key, fmt.Sprintf("it must be from %d to %d", lo, hi))
	}
	return n, err
}

// Int gives an integer of any width that fits in an int64.
func (m *Meta) Int(key string) (int64, error) { return read(m, key, wantInt, Value.Int) }

// IntOr gives what Int gives, or def where the key is absent.
func (m *Meta) IntOr(key string, def int64) (int64, error) { return or(m, key, def, m.Int) }

// Float gives an f32 or f64.
func (m *Meta) Float(key string) (float64, error) { return read(m, key, wantFloat, Value.Float) }

// FloatOr gives what Float gives, or def where the key is absent.
func (m *Meta) FloatOr(key string, def float64) (float64, error) { return or(m, key, def, m.Float) }

// Bool gives a bool.
func (m *Meta) Bool(key string) (bool, error) { return read(m, key, wantBool, Value.Bool) }

// BoolOr gives a bool, or def where the key is absent.
func (m *Meta) BoolOr(key string, def bool) (bool, error) { return or(m, key, def, m.Bool) }

// Strings gives an array of strings.
func (m *Meta) Strings(key string) ([]string, error) {
	return read(m, key, wantStrings, Value.Strings)
}

// Ints gives an array of integers of any width.
func (m *Meta) Ints(key string) ([]int64, error) {
	return read(m, key, wantInts, func(v Value) ([]int64, bool) { return numbers(v, Value.Int) })
}

// Uints gives an array of integers of any width, none of them negative.
func (m *Meta) Uints(key string) ([]uint64, error) {
	return read(m, key, wantUints, func(v Value) ([]uint64, bool) { return numbers(v, Value.Uint) })
}

// Floats gives an array of f32 or f64.
func (m *Meta) Floats(key string) ([]float64, error) {
	return read(m, key, wantFloats, func(v Value) ([]float64, bool) { return numbers(v, Value.Float) })
}

// Bools gives an array of bools.
func (m *Meta) Bools(key string) ([]bool, error) {
	return read(m, key, wantBools, func(v Value) ([]bool, bool) { return numbers(v, Value.Bool) })
}

// numbers decodes an array whose elements are all of the same size.
func numbers[T any](v Value, get func(Value) (T, bool)) ([]T, bool) {
	if v.typ != TypeArray || v.elem == TypeString || v.elem == TypeArray {
		return nil, false
	}
	size := valueTypes[v.elem].sizeBytes
	out := make([]T, v.count) // bounded by len(raw)
	for i := range out {
		e, ok := get(Value{typ: v.elem, raw: v.raw[i*size : (i+1)*size]})
		if !ok {
			return nil, false
		}
		out[i] = e
	}
	// An empty array says its type too.
	if _, ok := get(Value{typ: v.elem, raw: make([]byte, size)}); !ok {
		return nil, false
	}
	return out, true
}

func or[T any](m *Meta, key string, def T, get func(string) (T, error)) (T, error) {
	if !m.Has(key) {
		return def, nil
	}
	return get(key)
}

// unsignedBelow reads an optional integer of a header key whose value must be at most most.
func (m *Meta) unsignedBelow(key string, def, most uint64) (uint64, error) {
	if !m.Has(key) {
		return def, nil
	}
	return m.UintIn(key, 0, min(most, math.MaxInt64))
}
