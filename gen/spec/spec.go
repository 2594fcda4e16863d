// Package spec mirrors the YAML of the specs exactly: Go structs with the position of every key and value, decoded
// strictly, every error at once. It knows the grammar and no meaning: names are resolved by gen/load.
//
// The structs are the one description of the grammar. Their tags say what a key is called, whether it must be there
// and what it may hold; the decoder enforces that and Schema turns the same tags into the JSON Schema for editors.
package spec

import "github.com/minfer/minfer/gen/diag"

// Format is specs/formats/NAME.yaml: how one weight or activation format packs numbers into a block.
type Format struct {
	At     diag.Pos `yaml:"-"`
	Digest string   `yaml:"-"` // SHA-256 of the text, in hex
	Faulty bool     `yaml:"-"` // a diagnostic says what is wrong; what could not be decoded is unset

	Doc        Text         `yaml:"doc" jsonschema_description:"What the format stores, as a formula of its codes, and where it comes from."`
	Format     Text         `yaml:"format" jsonschema:"required,pattern=^[a-z][a-zA-Z0-9_]*$" jsonschema_description:"ggml's type name; also the name of the file."`
	ID         Int          `yaml:"ggml_id" jsonschema:"minimum=0,maximum=65535" jsonschema_description:"The type number in GGUF files. Required, except for an activation format, which no file holds."`
	Activation Bool         `yaml:"activation" jsonschema_description:"true: made at run time from activations, in no file; then there is no ggml_id."`
	Block      *Block       `yaml:"block" jsonschema:"required" jsonschema_description:"The size of a block."`
	Shape      []Pair       `yaml:"shape" jsonschema:"minimum=1,maximum=65536" jsonschema_description:"The digits of an element's index, most significant first; the radices multiply to the number of elements. Left out when a block is one element."`
	Fields     Map[Field]   `yaml:"fields" jsonschema:"required" jsonschema_description:"The parts of a block. They tile it: no gap, no overlap (unless padded)."`
	Codes      Map[Code]    `yaml:"codes" jsonschema_description:"Everything stored as bits: weights, scales, mins, indices, signs."`
	Segments   []Segment    `yaml:"segments" jsonschema_description:"Instead of shape: consecutive runs of elements with digits and codes of their own."`
	Value      *ValueLists  `yaml:"value" jsonschema:"required" jsonschema_description:"y = product(scale) * (product(weight) + sum(bias)) - product(minus) or + product(plus), in f32. Lists of codes, or of fields of count 1."`
	Sums       Map[Sum]     `yaml:"sums" jsonschema_description:"Redundant stored sums: the code named by the key is the sum of another code over the digits that it does not depend on."`
	Padded     Bool         `yaml:"padded" jsonschema_description:"true: the fields leave gaps on purpose."`
	Encode     *EncodeLists `yaml:"encode" jsonschema_description:"The rounding scheme that turns numbers into a block."`
}

// Block is the size of a block.
type Block struct {
	At diag.Pos `yaml:"-"`

	Elems Int `yaml:"elems" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Elements of a block."`
	Bytes Int `yaml:"bytes" jsonschema:"required,minimum=1,maximum=1048576" jsonschema_description:"Bytes of a block."`
}

// Field is a run of items of one type.
type Field struct {
	At diag.Pos `yaml:"-"`

	Bytes Int  `yaml:"at" jsonschema:"required,minimum=0,maximum=1048576" jsonschema_description:"Byte offset in the block."`
	Type  Text `yaml:"type" jsonschema:"required,enum=u8,enum=i8,enum=u16,enum=i16,enum=u32,enum=i32,enum=i64,enum=f16,enum=bf16,enum=f32,enum=f64,enum=e8m0,enum=ue4m3" jsonschema_description:"Type of an item, little endian. It is also the load width: a plane never crosses an item."`
	Count Int  `yaml:"count" jsonschema:"minimum=1,maximum=1048576" jsonschema_description:"Number of items; 1 when left out."`
}

// Plane is some bits of a code.
type Plane struct {
	At diag.Pos `yaml:"-"`

	From   Text     `yaml:"from" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"The field or the code that is read."`
	Bits   Int      `yaml:"bits" jsonschema:"minimum=1,maximum=64" jsonschema_description:"How many bits are read."`
	Base   Int      `yaml:"base" jsonschema_description:"Bit address = base + sum of stride times digit; 0 when left out."`
	Stride Map[Int] `yaml:"stride" jsonschema_description:"Bits by digit. A digit not named has stride 0: its elements share the code."`
	Shared Bool     `yaml:"shared" jsonschema_description:"true: these bits serve many instances of the code."`
}

// Code is a stored number. A code of one plane may put the plane's keys in the code itself.
type Code struct {
	Plane  `yaml:",inline"`
	Planes []Plane `yaml:"planes" jsonschema_description:"The parts of the word, least significant first."`
	Then   *Then   `yaml:"then" jsonschema_description:"What becomes of the word before other codes read it."`
	As     Text    `yaml:"as" jsonschema:"enum=u,enum=i,enum=f16,enum=bf16,enum=f32,enum=f64,enum=e8m0,enum=ue4m3" jsonschema_description:"How the word is read as a number; u when left out, i is two's complement in the code's bits."`
	Levels []Real  `yaml:"levels" jsonschema_description:"Instead of as: the number is levels[word]."`
	Mul    Real    `yaml:"mul" jsonschema_description:"number = mul * as(word) + add; 1 when left out."`
	Add    Real    `yaml:"add" jsonschema_description:"number = mul * as(word) + add; 0 when left out."`
}

// Then is a transform of a word; exactly one of table, parity and radix (with digits) is given.
type Then struct {
	At diag.Pos `yaml:"-"`

	Table  Text `yaml:"table" jsonschema:"pattern=^[a-z][a-zA-Z0-9_]*$" jsonschema_description:"The word is replaced by this codebook's entry."`
	Parity Text `yaml:"parity" jsonschema:"enum=even" jsonschema_description:"even: a top bit is added that makes the number of ones even."`
	Radix  Int  `yaml:"radix" jsonschema:"minimum=2,maximum=256" jsonschema_description:"The word is read as a fraction in this base."`
	Digits Int  `yaml:"digits" jsonschema:"minimum=1,maximum=64" jsonschema_description:"How many digits of that fraction."`
}

// Segment is a run of elements with digits and codes of its own.
type Segment struct {
	At diag.Pos `yaml:"-"`

	Elems Int       `yaml:"elems" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Elements of the segment."`
	Shape []Pair    `yaml:"shape" jsonschema:"minimum=1,maximum=65536" jsonschema_description:"The digits of an element's index in the segment, most significant first."`
	Codes Map[Code] `yaml:"codes" jsonschema_description:"Codes of this segment, beside the common ones."`
}

// ValueLists names the codes of the value.
type ValueLists struct {
	At diag.Pos `yaml:"-"`

	Scale  []Text `yaml:"scale" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Factors of the scale."`
	Weight []Text `yaml:"weight" jsonschema:"required,pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Factors of the weight."`
	Bias   []Text `yaml:"bias" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Added to the weight before scaling."`
	Minus  []Text `yaml:"minus" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Factors of what is subtracted."`
	Plus   []Text `yaml:"plus" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Factors of what is added."`
}

// Sum says what a redundant stored sum holds.
type Sum struct {
	At diag.Pos `yaml:"-"`

	Of    Text   `yaml:"of" jsonschema:"required,pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"The code that is summed."`
	Times []Text `yaml:"times" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"Codes that the sum is multiplied by."`
}

// EncodeLists is a rounding scheme.
type EncodeLists struct {
	At diag.Pos `yaml:"-"`

	Fit    Text   `yaml:"fit" jsonschema:"required,enum=absmax,enum=extreme,enum=minmax" jsonschema_description:"How the scale follows from the numbers: absmax divides the greatest magnitude by the code's greatest number; extreme divides the number of greatest magnitude, with its sign, by the code's least number; minmax spans from the least to the greatest number."`
	Round  Text   `yaml:"round" jsonschema:"required,enum=even,enum=away,enum=half_up" jsonschema_description:"How x/scale becomes a code: to nearest with ties to even, ties away from zero, or floor(x + 1/2)."`
	Code   Text   `yaml:"code" jsonschema:"required,pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"The code chosen for each element."`
	Scale  []Text `yaml:"scale" jsonschema:"required,pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"The scale: one code, or the block's and then the sub-block's."`
	Offset []Text `yaml:"offset" jsonschema:"pattern=^[a-zA-Z_][a-zA-Z0-9_]*$" jsonschema_description:"The offset (minmax only): one code, or the block's and then the sub-block's."`
	Search Int    `yaml:"search" jsonschema:"minimum=0,maximum=64" jsonschema_description:"Neighbouring scales tried for the least squared error; 0 when left out."`
}

// Table is specs/formats/tables/NAME.yaml: a codebook.
type Table struct {
	At     diag.Pos `yaml:"-"`
	Faulty bool     `yaml:"-"` // a diagnostic says what is wrong; what could not be decoded is unset

	Doc       Text `yaml:"doc" jsonschema_description:"What the table holds and where it comes from."`
	Table     Text `yaml:"table" jsonschema:"required,pattern=^[a-z][a-zA-Z0-9_]*$" jsonschema_description:"Name of the table; also the name of the file."`
	Entries   Int  `yaml:"entries" jsonschema:"required,minimum=2,maximum=65536" jsonschema_description:"Number of entries, a power of two."`
	Width     Int  `yaml:"width" jsonschema:"required,minimum=1,maximum=64" jsonschema_description:"Sub-codes of an entry."`
	Bits      Int  `yaml:"bits" jsonschema:"required,minimum=1,maximum=16" jsonschema_description:"Bits of a sub-code; sub-code j is at bit bits*j of the entry."`
	HexDigits Int  `yaml:"hex_digits" jsonschema:"required,minimum=1,maximum=16" jsonschema_description:"Hexadecimal digits that each word is written with."`
	Words     Text `yaml:"words" jsonschema:"required" jsonschema_description:"The entries in order, in hexadecimal, separated by blanks."`
}
