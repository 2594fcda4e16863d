package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// cursor reads a header front to back. Every read is held against the bytes that are left.
type cursor struct {
	file string
	data []byte
	at   int
}

func (c *cursor) left() int { return len(c.data) - c.at }

// fail makes the error of a field that begins at offset.
func (c *cursor) fail(kind error, field, value string, offset int, format string, args ...any) *Error {
	return &Error{File: c.file, Field: field, Value: value, Offset: int64(offset), Reason: fmt.Sprintf(format, args...), Kind: kind}
}

// take gives the next n bytes.
func (c *cursor) take(field string, n int) ([]byte, error) {
	if n > c.left() {
		return nil, c.fail(ErrTruncated, field, "", c.at, "it takes %d bytes and the file has %d left: it is incomplete or damaged", n, c.left())
	}
	b := c.data[c.at : c.at+n : c.at+n]
	c.at += n
	return b, nil
}

func (c *cursor) u32(field string) (uint32, error) {
	b, err := c.take(field, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(field string) (uint64, error) {
	b, err := c.take(field, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads the number of things that take minBytes each at least, and refuses more than the rest of the file can hold.
func (c *cursor) count(field string, minBytes int, most uint64) (uint64, error) {
	at := c.at
	n, err := c.u64(field)
	if err != nil {
		return 0, err
	}
	if room := uint64(c.left() / minBytes); n > room {
		return 0, c.fail(ErrCount, field, fmt.Sprint(n), at, "the %d bytes left in the file hold %d at most: it is incomplete or damaged", c.left(), room)
	}
	if n > most {
		return 0, c.fail(ErrCount, field, fmt.Sprint(n), at, "at most %d are read", most)
	}
	return n, nil
}

// bytes reads a string: a length, and that many bytes.
func (c *cursor) bytes(field string) ([]byte, error) {
	at := c.at
	n, err := c.u64(field)
	if err != nil {
		return nil, err
	}
	if n > uint64(c.left()) {
		return nil, c.fail(ErrCount, field+": length", fmt.Sprint(n), at, "the file has %d bytes left: it is incomplete or damaged", c.left())
	}
	return c.take(field, int(n))
}

// name reads a key or a tensor name.
func (c *cursor) name(field string) (string, error) {
	at := c.at
	b, err := c.bytes(field)
	if err != nil {
		return "", err
	}
	if reason := badName(b, MaxNameBytes); reason != "" {
		return "", c.fail(ErrName, field, clip(string(b)), at, "%s", reason)
	}
	return string(b), nil
}

// badName says what is wrong with a key or tensor name; "" if nothing is.
func badName[T string | []byte](name T, most int) string {
	if len(name) == 0 || len(name) > most {
		return fmt.Sprintf("a name has 1 to %d bytes", most)
	}
	s := string(name)
	if !utf8.ValidString(s) {
		return "a name is valid UTF-8"
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return "a name holds no control characters"
		}
	}
	return ""
}

// value reads a value of type t, as a view. depth is the number of arrays around it. The fields of its errors are relative
// to the value, for the caller to prefix: building a name for each value of a large array would cost more than reading it.
func (c *cursor) value(t ValueType, depth int) (Value, error) {
	v := Value{typ: t}
	var err error
	switch t {
	case TypeString:
		v.raw, err = c.bytes("")
		return v, err
	case TypeArray:
		return c.array(depth)
	}
	n, ok := t.minBytes()
	if !ok {
		panic("BUG: gguf: a value of " + t.String())
	}
	at := c.at
	if v.raw, err = c.take("", n); err != nil {
		return v, err
	}
	if t == TypeBool {
		err = c.bools("", v.raw, at)
	}
	return v, err
}

// valueType reads the number of a value's type.
func (c *cursor) valueType(field string) (ValueType, error) {
	at := c.at
	n, err := c.u32(field)
	if err != nil {
		return 0, err
	}
	if _, ok := ValueType(n).minBytes(); !ok {
		return 0, c.fail(ErrValueType, field, fmt.Sprint(n), at, "metadata types are 0 (u8) to %d (f64)", len(valueTypes)-1)
	}
	return ValueType(n), nil
}

func (c *cursor) bools(field string, raw []byte, at int) error {
	for i, b := range raw {
		if b > 1 {
			return c.fail(ErrValue, field, fmt.Sprintf("the bool %d", b), at+i, "a bool is 0 or 1")
		}
	}
	return nil
}

// array reads an array and walks its elements, so that later reads of them cannot fail.
func (c *cursor) array(depth int) (Value, error) {
	v := Value{typ: TypeArray}
	at := c.at
	var err error
	if v.elem, err = c.valueType(": element type"); err != nil {
		return v, err
	}
	if depth++; v.elem == TypeArray && depth >= MaxNesting {
		return v, c.fail(ErrValue, "", fmt.Sprintf("an array nested more than %d deep", MaxNesting), at, "at most %d are read", MaxNesting)
	}
	minBytes, _ := v.elem.minBytes()
	if v.count, err = c.count(": array length", minBytes, math.MaxInt); err != nil {
		return v, err
	}
	start := c.at
	switch v.elem {
	case TypeString, TypeArray:
		for i := range v.count {
			if v.elem == TypeString {
				_, err = c.bytes("")
			} else {
				_, err = c.array(depth)
			}
			if err != nil {
				return v, within(err, fmt.Sprintf("[%d]", i))
			}
		}
	default:
		raw, err := c.take("", int(v.count)*minBytes) // count held it to the rest of the file: the product cannot wrap
		if err != nil {
			return v, err
		}
		if v.elem == TypeBool {
			if err := c.bools("", raw, start); err != nil {
				return v, err
			}
		}
	}
	v.raw = c.data[start:c.at:c.at]
	return v, nil
}

// within puts the field of an error inside another.
func within(err error, field string) error {
	if e, ok := err.(*Error); ok {
		e.Field = field + e.Field
	}
	return err
}
