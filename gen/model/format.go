// Package model is what the specs say, resolved: names bound, defaults filled in, collections sorted.
// It holds facts and derived names alone: no YAML, no I/O, nothing optional because a file may omit it.
package model

import (
	"math/bits"

	"github.com/minfer/minfer/gen/layout"
)

// Catalog is everything the specs declare, in a fixed order.
type Catalog struct {
	Formats  []*Format     // by name
	Tables   []*Table      // by name
	Devices  []*Device     // by architecture
	Families []*Family     // by name
	CPU      []*Family     // those of the CPU, by name
	Tilings  []*Tiling     // by name
	Models   []*ModelShape // by family and size, smallest first
}

// Scalar is the storage type of a field.
type Scalar struct {
	Name string // "u8", "f16", ...
	Bits int
	As   Number // what a whole field of this type reads as
}

// Number is how a code word becomes a number.
type Number string

// The numbers a word can be read as. Signed is two's complement in the code's bits.
const (
	Unsigned Number = "u"
	Signed   Number = "i"
	F16      Number = "f16"
	BF16     Number = "bf16"
	F32      Number = "f32"
	F64      Number = "f64"
	E8M0     Number = "e8m0"
	UE4M3    Number = "ue4m3"
	Levels   Number = "levels" // Code.Levels[word]
)

// Field is a run of items of one type in a block.
type Field struct {
	Name    string
	AtBytes int
	Type    Scalar
	Count   int
}

// Bits is the width of the whole field.
func (f *Field) Bits() int { return f.Type.Bits * f.Count }

// Table is a codebook: entry i is Width sub-codes of Bits bits, sub-code j at bit Bits*j.
type Table struct {
	Name    string
	Width   int
	Bits    int
	Entries []uint64
}

// Plane is some bits of a code: Bits bits at bit address Layout of the source, which is a field or another code.
// The layout runs over the digits of the segment.
type Plane struct {
	Field  *Field // nil when Code is the source
	Code   *Code
	Bits   int
	Layout layout.Affine
	Shared bool // these bits serve many instances of the code
}

// Then is a transform of a word before other codes read it. Exactly one of its parts is set.
type Then struct {
	Table  *Table
	Parity bool // append a bit that makes the number of ones even
	Radix  int  // read the word as a fraction in this base ...
	Digits int  // ... of this many digits, each ceil(log2 radix) bits
}

// DigitBits is the width of one digit of a Radix transform.
func (t *Then) DigitBits() int { return bits.Len(uint(t.Radix - 1)) }

// Code is a stored number: planes concatenated least significant first, then read as a number,
// number = Mul*as(word) + Add.
type Code struct {
	Name     string
	Planes   []Plane
	Bits     int // of the word: the sum over the planes
	Then     *Then
	ThenBits int // of the word after Then; Bits without one
	As       Number
	Levels   []float64
	Mul, Add float64
}

// Segment is a run of elements that share a shape. Codes are ordered: a code's sources come before it.
// Codes that the value names as bare fields are present as codes too.
type Segment struct {
	FirstElem int
	Shape     layout.Shape
	Codes     []*Code
	Value     Value
}

// Elems is the number of elements in the segment.
func (s *Segment) Elems() int { return s.Shape.Size() }

// Value is y = product(Scale) * (product(Weight) + sum(Bias)) - product(Minus) or + product(Plus), left to right in f32.
type Value struct {
	Scale, Weight, Bias, Minus, Plus []*Code
}

// Sum is a redundant stored sum: Code holds the sum of Of over the digits that Code does not depend on,
// times the product of Times.
type Sum struct {
	Code, Of *Code
	Times    []*Code
}

// Format is one weight or activation format.
type Format struct {
	Name   string // ggml's type name, "q4_K"
	Spec   string // path of the spec, for headers
	Digest string // SHA-256 of the spec, in hex, so that a stale file can be told
	Doc    string // what the spec says of it
	ID     int    // ggml type id; -1 for a format that no file holds
	Elems  int    // of a block
	Bytes  int    // of a block
	Padded bool   // the fields leave gaps on purpose
	Fields []*Field
	Segs   []*Segment
	Sums   []Sum
	Encode *Encode // nil when no rounding scheme is declared

	Tiles   []*Tile   // rows side by side, for kernels of the CPU; by name
	Layouts []*Stored // how device memory may hold it, beside file and padded; by name
}

// InFile reports whether a GGUF file can hold the format.
func (f *Format) InFile() bool { return f.ID >= 0 }

// Plain reports whether the block is a single number, with no scale.
func (f *Format) Plain() bool { return f.Elems == 1 }
