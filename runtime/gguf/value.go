package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// ValueType is the type of a metadata value, as numbered in the file.
type ValueType uint32

// The types of metadata values.
const (
	TypeUint8 ValueType = iota
	TypeInt8
	TypeUint16
	TypeInt16
	TypeUint32
	TypeInt32
	TypeFloat32
	TypeBool
	TypeString
	TypeArray
	TypeUint64
	TypeInt64
	TypeFloat64
)

// valueTypes is what is known of each type, by number. sizeBytes is 0 where the size varies.
var valueTypes = [...]struct {
	name      string
	sizeBytes int
}{
	TypeUint8: {"u8", 1}, TypeInt8: {"i8", 1}, TypeUint16: {"u16", 2}, TypeInt16: {"i16", 2},
	TypeUint32: {"u32", 4}, TypeInt32: {"i32", 4}, TypeFloat32: {"f32", 4}, TypeBool: {"bool", 1},
	TypeString: {"string", 0}, TypeArray: {"array", 0},
	TypeUint64: {"u64", 8}, TypeInt64: {"i64", 8}, TypeFloat64: {"f64", 8},
}

// minBytes is the least that a value of the type takes in a file; ok reports whether the type exists.
func (t ValueType) minBytes() (n int, ok bool) {
	switch {
	case int64(t) >= int64(len(valueTypes)):
		return 0, false
	case t == TypeString:
		return lenBytes, true
	case t == TypeArray:
		return arrayHeadBytes, true
	}
	return valueTypes[t].sizeBytes, true
}

// String gives the type's short name: "u32", "string", "array", ...
func (t ValueType) String() string {
	if int64(t) < int64(len(valueTypes)) {
		return valueTypes[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

const (
	lenBytes       = 8            // of the length before a string
	arrayHeadBytes = 4 + lenBytes // element type and count
)

// Value is a metadata value: its type and its bytes as they stand in a file. Values read from a file are views of it.
// The zero Value is the u8 0 and holds no bytes; make values with [Of], [ArrayOf] and [ArrayOfArrays].
type Value struct {
	typ   ValueType
	elem  ValueType // of an array
	count uint64    // of an array
	raw   []byte    // without a string's length or an array's head
}

// Scalar is a Go type that a metadata value can hold.
type Scalar interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool | string
}

func typeOf[T Scalar]() ValueType {
	var zero T
	switch any(zero).(type) {
	case uint8:
		return TypeUint8
	case int8:
		return TypeInt8
	case uint16:
		return TypeUint16
	case int16:
		return TypeInt16
	case uint32:
		return TypeUint32
	case int32:
		return TypeInt32
	case uint64:
		return TypeUint64
	case int64:
		return TypeInt64
	case float32:
		return TypeFloat32
	case float64:
		return TypeFloat64
	case bool:
		return TypeBool
	}
	return TypeString
}

// appendScalar appends v as an array element is written: strings with their length before them.
func appendScalar[T Scalar](b []byte, v T) []byte {
	le := binary.LittleEndian
	switch v := any(v).(type) {
	case uint8:
		return append(b, v)
	case int8:
		return append(b, byte(v))
	case uint16:
		return le.AppendUint16(b, v)
	case int16:
		return le.AppendUint16(b, uint16(v))
	case uint32:
		return le.AppendUint32(b, v)
	case int32:
		return le.AppendUint32(b, uint32(v))
	case uint64:
		return le.AppendUint64(b, v)
	case int64:
		return le.AppendUint64(b, uint64(v))
	case float32:
		return le.AppendUint32(b, math.Float32bits(v))
	case float64:
		return le.AppendUint64(b, math.Float64bits(v))
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case string:
		return append(le.AppendUint64(b, uint64(len(v))), v...)
	}
	panic("BUG: a Scalar of no known type")
}

// Of makes a value of the metadata type that corresponds to T.
func Of[T Scalar](v T) Value {
	t := typeOf[T]()
	raw := appendScalar(nil, v)
	if t == TypeString {
		raw = raw[lenBytes:]
	}
	return Value{typ: t, raw: raw}
}

// ArrayOf makes an array of the metadata type that corresponds to T.
func ArrayOf[T Scalar](vs []T) Value {
	var raw []byte
	for _, v := range vs {
		raw = appendScalar(raw, v)
	}
	return Value{typ: TypeArray, elem: typeOf[T](), count: uint64(len(vs)), raw: raw}
}

// ArrayOfArrays makes an array of arrays, which need not be alike. It panics if an argument is not an array.
func ArrayOfArrays(vs ...Value) Value {
	var raw []byte
	for _, v := range vs {
		if v.typ != TypeArray {
			panic("BUG: gguf.ArrayOfArrays of a " + v.typ.String())
		}
		raw = v.append(raw)
	}
	return Value{typ: TypeArray, elem: TypeArray, count: uint64(len(vs)), raw: raw}
}

// append appends the value as a file holds it, after its type.
func (v Value) append(b []byte) []byte {
	switch v.typ {
	case TypeString:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v.raw)))
	case TypeArray:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.elem))
		b = binary.LittleEndian.AppendUint64(b, v.count)
	default:
		if v.raw == nil { // the zero Value
			return append(b, make([]byte, valueTypes[v.typ].sizeBytes)...)
		}
	}
	return append(b, v.raw...)
}

// fileBytes is what append appends, counted.
func (v Value) fileBytes() int {
	switch v.typ {
	case TypeString:
		return lenBytes + len(v.raw)
	case TypeArray:
		return arrayHeadBytes + len(v.raw)
	}
	return valueTypes[v.typ].sizeBytes
}

// Type is the value's type.
func (v Value) Type() ValueType { return v.typ }

// ElemType is the type of an array's elements. It means nothing for other values.
func (v Value) ElemType() ValueType { return v.elem }

// Len is the number of elements of an array, 1 for any other value.
func (v Value) Len() int {
	if v.typ == TypeArray {
		return int(v.count)
	}
	return 1
}

// TypeString describes the type in full: "u32", "array of 12 i32".
func (v Value) TypeString() string {
	if v.typ == TypeArray {
		return fmt.Sprintf("array of %d %s", v.count, v.elem)
	}
	return v.typ.String()
}

// Elems yields the elements of an array in order, each a view; it yields any other value itself.
func (v Value) Elems() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.typ != TypeArray {
			yield(v)
			return
		}
		// The bytes were walked when the file was read, or written by ArrayOf: a failure here is a bug.
		c := cursor{data: v.raw}
		for range v.count {
			e, err := c.value(v.elem, 0)
			if err != nil {
				panic("BUG: gguf: an array changed after it was checked: " + err.Error())
			}
			if !yield(e) {
				return
			}
		}
	}
}

// integer gives an integer of any width, neg reporting whether it is below 0: the number is then -mag.
func (v Value) integer() (mag uint64, neg, ok bool) {
	signed := func(i int64) (uint64, bool, bool) {
		if i < 0 {
			return uint64(-i), true, true // -MinInt64 wraps to itself, which as a u64 is its magnitude
		}
		return uint64(i), false, true
	}
	if len(v.raw) == 0 {
		return 0, false, v.typ == TypeUint8 && v.raw == nil
	}
	le := binary.LittleEndian
	switch v.typ {
	case TypeUint8:
		return uint64(v.raw[0]), false, true
	case TypeUint16:
		return uint64(le.Uint16(v.raw)), false, true
	case TypeUint32:
		return uint64(le.Uint32(v.raw)), false, true
	case TypeUint64:
		return le.Uint64(v.raw), false, true
	case TypeInt8:
		return signed(int64(int8(v.raw[0])))
	case TypeInt16:
		return signed(int64(int16(le.Uint16(v.raw))))
	case TypeInt32:
		return signed(int64(int32(le.Uint32(v.raw))))
	case TypeInt64:
		return signed(int64(le.Uint64(v.raw)))
	}
	return 0, false, false
}

// Uint gives an integer of any width that is not negative.
func (v Value) Uint() (uint64, bool) {
	mag, neg, ok := v.integer()
	return mag, ok && !neg
}

// Int gives an integer of any width that fits in 64 bits with a sign.
func (v Value) Int() (int64, bool) {
	mag, neg, ok := v.integer()
	if neg {
		return -int64(mag), ok
	}
	return int64(mag), ok && mag <= math.MaxInt64
}

// Float gives an f32 or f64.
func (v Value) Float() (float64, bool) {
	switch v.typ {
	case TypeFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), true
	case TypeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), true
	}
	return 0, false
}

// Bool gives a bool.
func (v Value) Bool() (b, ok bool) {
	return v.typ == TypeBool && v.raw[0] != 0, v.typ == TypeBool
}

// Text gives a string, as a copy.
func (v Value) Text() (string, bool) {
	if v.typ != TypeString {
		return "", false
	}
	return string(v.raw), true
}

// Strings gives an array of strings. One copy is made of all of them together.
func (v Value) Strings() ([]string, bool) {
	if v.typ != TypeArray || v.elem != TypeString {
		return nil, false
	}
	all := string(v.raw)
	out := make([]string, v.count) // each takes 8 bytes of raw at least
	at := 0
	for i := range out {
		n := int(binary.LittleEndian.Uint64(v.raw[at:]))
		at += lenBytes
		out[i] = all[at : at+n]
		at += n
	}
	return out, true
}

// Any gives the value as the Go type that corresponds to it: uint32, string, ..., a slice of such for an array ([]uint32),
// []any for an array of arrays.
func (v Value) Any() any {
	switch v.typ {
	case TypeArray:
		switch v.elem {
		case TypeString:
			s, _ := v.Strings()
			return s
		case TypeArray:
			out := make([]any, 0, v.count)
			for e := range v.Elems() {
				out = append(out, e.Any())
			}
			return out
		case TypeUint8:
			return slice[uint8](v)
		case TypeInt8:
			return slice[int8](v)
		case TypeUint16:
			return slice[uint16](v)
		case TypeInt16:
			return slice[int16](v)
		case TypeUint32:
			return slice[uint32](v)
		case TypeInt32:
			return slice[int32](v)
		case TypeUint64:
			return slice[uint64](v)
		case TypeInt64:
			return slice[int64](v)
		case TypeFloat32:
			return slice[float32](v)
		case TypeFloat64:
			return slice[float64](v)
		case TypeBool:
			return slice[bool](v)
		}
	case TypeString:
		return string(v.raw)
	case TypeBool:
		b, _ := v.Bool()
		return b
	case TypeFloat32:
		f, _ := v.Float()
		return float32(f)
	case TypeFloat64:
		f, _ := v.Float()
		return f
	}
	mag, neg, _ := v.integer()
	i := int64(mag)
	if neg {
		i = -i
	}
	switch v.typ {
	case TypeUint8:
		return uint8(mag)
	case TypeInt8:
		return int8(i)
	case TypeUint16:
		return uint16(mag)
	case TypeInt16:
		return int16(i)
	case TypeUint32:
		return uint32(mag)
	case TypeInt32:
		return int32(i)
	case TypeUint64:
		return mag
	case TypeInt64:
		return i
	}
	panic("BUG: gguf: a value of " + v.typ.String())
}

// slice decodes an array of numbers or bools.
func slice[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool](v Value) []T {
	out := make([]T, v.count) // bounded by len(raw)
	if _, err := binary.Decode(v.raw, binary.LittleEndian, out); err != nil {
		panic("BUG: gguf: an array changed after it was checked: " + err.Error())
	}
	return out
}

// String prints the value for a person: a long string or array is cut and says so.
func (v Value) String() string { return v.Format(6, 120) }

// Format prints the value for a person, with at most elems elements of each array and bytes bytes of each string.
func (v Value) Format(elems, bytes int) string {
	switch v.typ {
	case TypeString:
		if len(v.raw) > bytes {
			return fmt.Sprintf("%q... (%d bytes)", v.raw[:bytes], len(v.raw))
		}
		return strconv.Quote(string(v.raw))
	case TypeArray:
		var b strings.Builder
		b.WriteByte('[')
		n := 0
		for e := range v.Elems() {
			if n > 0 {
				b.WriteString(", ")
			}
			if n == elems {
				fmt.Fprintf(&b, "... (%d in all)", v.count)
				break
			}
			b.WriteString(e.Format(elems, bytes))
			n++
		}
		b.WriteByte(']')
		return b.String()
	}
	return fmt.Sprint(v.Any())
}
