package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/minfer/minfer/generated/format"
)

// Limits of what is read.
const (
	MaxDims          = 4       // of a tensor
	MaxNameBytes     = 65535   // of a key or tensor name
	MaxNesting       = 8       // of arrays in arrays
	MaxPairs         = 1 << 16 // of metadata
	MaxTensors       = 1 << 20
	DefaultAlignment = 32
	MinAlignment     = 8
	MaxAlignment     = 1 << 20

	magic        = "GGUF"
	keyAlignment = "general.alignment"

	minPairBytes   = lenBytes + 1 + 4 + 1         // key of one byte, type, u8
	minTensorBytes = lenBytes + 1 + 4 + 0 + 4 + 8 // name of one byte, no dimensions, type, offset
)

// File is an open model: one file, or the parts of a split one together.
type File struct {
	Name    string    // as given to Open or Parse
	Version uint32    // of the format: 2 or 3
	Meta    *Meta     // of the first part
	Tensors []*Tensor // in the order of their descriptions, part after part
	Parts   []Part    // one, for a file that is not split

	byName map[string]*Tensor
	maps   []mapping
}

// Part is one file of a model.
type Part struct {
	Name       string
	SizeBytes  int64
	Alignment  int64 // of the tensors in the file, in bytes
	DataOffset int64 // where the tensors begin
	data       []byte
}

// Tensor is a tensor of a file.
type Tensor struct {
	Name      string
	Type      format.Type
	Dims      []uint64 // elements in each dimension, the one of adjacent elements first: ggml's ne. A matrix is [cols, rows]
	Part      int      // index of the file that holds it
	Offset    int64    // of its first byte in that file
	SizeBytes int64

	rowBytes int64
	data     []byte
}

// Data is the tensor's bytes: blocks of its type, row after row. It is a view of the file and ends with [File.Close]; it may
// not be written to.
func (t *Tensor) Data() []byte { return t.data }

// Cols is the number of elements in a row: the first dimension.
func (t *Tensor) Cols() int {
	if len(t.Dims) == 0 {
		return 1
	}
	return int(t.Dims[0])
}

// Rows is the number of rows: the product of all dimensions but the first.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Dims[min(1, len(t.Dims)):] {
		n *= int(d)
	}
	return n
}

// Elems is the number of elements.
func (t *Tensor) Elems() int64 { return int64(t.Cols()) * int64(t.Rows()) }

// RowBytes is the size of a row.
func (t *Tensor) RowBytes() int { return int(t.rowBytes) }

// Row is the bytes of row i.
func (t *Tensor) Row(i int) []byte {
	from := i * int(t.rowBytes)
	return t.data[from : from+int(t.rowBytes) : from+int(t.rowBytes)]
}

// Shape prints the dimensions: "[3584, 18944]", "[]" for a scalar.
func (t *Tensor) Shape() string { return shape(t.Dims) }

// String names the tensor with its type and shape, for messages: `blk.0.ffn_up.weight q4_K [3584, 18944]`.
func (t *Tensor) String() string { return fmt.Sprintf("%s %s %s", t.Name, typeName(t.Type), t.Shape()) }

func shape(dims []uint64) string {
	return strings.ReplaceAll(fmt.Sprint(dims), " ", ", ")
}

func typeName(t format.Type) string {
	if info, ok := format.Lookup(t); ok {
		return info.Name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.byName[name]
	return t, ok
}

// Need finds a tensor by name and checks its dimensions, where any are given. The error names the tensor and what is wanted.
func (f *File) Need(name string, dims ...uint64) (*Tensor, error) {
	t, ok := f.byName[name]
	if !ok {
		return nil, &Error{File: f.Name, Field: fmt.Sprintf("tensor %s", clip(name)), Offset: -1,
			Reason: "is missing: this model needs it", Kind: ErrMissing}
	}
	if len(dims) > 0 && !slices.Equal(t.Dims, dims) {
		return nil, &Error{File: f.Name, Field: fmt.Sprintf("tensor %s: shape", clip(name)), Value: t.Shape(), Offset: -1,
			Reason: "this model needs " + shape(dims), Kind: ErrDims}
	}
	return t, nil
}

// SizeBytes is the size of all parts together.
func (f *File) SizeBytes() int64 {
	var n int64
	for _, p := range f.Parts {
		n += p.SizeBytes
	}
	return n
}

// TensorBytes is the size of all tensors together.
func (f *File) TensorBytes() int64 {
	var n int64
	for _, t := range f.Tensors {
		n += t.SizeBytes
	}
	return n
}

// Parse reads a file that is in memory, which stays the caller's and must not change. name stands for it in errors.
// A part of a split model is refused: [Open] finds the others.
func Parse(name string, data []byte) (*File, error) {
	p, err := parsePart(name, data)
	if err != nil {
		return nil, err
	}
	if p.splitCount > 1 {
		return nil, p.meta.Fail(keySplitCount, "the file is one part of a model, and only a model that is whole can be read from memory")
	}
	return join(name, []*part{p})
}

// part is a parsed file before it is joined with the others.
type part struct {
	Part
	version              uint32
	meta                 *Meta
	tensors              []*Tensor
	splitNo, splitCount  uint64
	splitTensors         uint64
	splitTensorsDeclared bool
}

// join makes a model of its parts, in order.
func join(name string, parts []*part) (*File, error) {
	f := &File{Name: name, Version: parts[0].version, Meta: parts[0].meta, byName: map[string]*Tensor{}}
	for i, p := range parts {
		f.Parts = append(f.Parts, p.Part)
		for _, t := range p.tensors {
			t.Part = i
			if _, taken := f.byName[t.Name]; taken {
				return nil, &Error{File: p.Name, Field: fmt.Sprintf("tensor %s", clip(t.Name)), Offset: -1,
					Reason: fmt.Sprintf("is in %s too: a name occurs once in a model", f.Parts[f.byName[t.Name].Part].Name), Kind: ErrDuplicate}
			}
			f.byName[t.Name] = t
		}
		f.Tensors = append(f.Tensors, p.tensors...)
	}
	return f, nil
}

// parsePart reads one file. It holds all checks of a file by itself.
func parsePart(name string, data []byte) (*part, error) {
	c := &cursor{file: name, data: data}
	p := &part{Part: Part{Name: name, SizeBytes: int64(len(data)), data: data}}
	var err error
	if p.version, err = c.version(); err != nil {
		return nil, err
	}
	nTensors, err := c.count("tensor count", minTensorBytes, MaxTensors)
	if err != nil {
		return nil, err
	}
	nPairs, err := c.count("metadata count", minPairBytes, MaxPairs)
	if err != nil {
		return nil, err
	}
	if p.meta, err = c.meta(nPairs); err != nil {
		return nil, err
	}
	align, err := alignment(p.meta)
	if err != nil {
		return nil, err
	}
	p.Alignment = int64(align)
	if err := p.readSplit(); err != nil {
		return nil, err
	}
	places, err := c.tensors(nTensors)
	if err != nil {
		return nil, err
	}
	if err := p.place(c, places); err != nil {
		return nil, err
	}
	return p, nil
}

// version reads the magic and the version.
func (c *cursor) version() (uint32, error) {
	if len(c.data) == 0 {
		return 0, &Error{File: c.file, Field: "the file", Offset: -1, Reason: "is empty: it should begin with \"GGUF\"", Kind: ErrTruncated}
	}
	if head := c.data[:min(len(magic), len(c.data))]; string(head) != magic[:len(head)] {
		return 0, &Error{File: c.file, Field: "the file", Offset: -1, Reason: "is not a GGUF file: " + foreign(c.data), Kind: ErrMagic}
	}
	if _, err := c.take("magic", len(magic)); err != nil {
		return 0, err
	}
	at := c.at
	v, err := c.u32("version")
	if err != nil {
		return 0, err
	}
	switch {
	case v == 2 || v == 3:
		return v, nil
	case v == 1:
		return 0, c.fail(ErrVersion, "version", "1", at, "versions 2 and 3 are read; convert the model again with a current converter")
	case bits.ReverseBytes32(v) >= 1 && bits.ReverseBytes32(v) <= 3:
		return 0, c.fail(ErrVersion, "version", fmt.Sprintf("%d in big-endian order", bits.ReverseBytes32(v)), at, "little-endian files of versions 2 and 3 are read")
	}
	return 0, c.fail(ErrVersion, "version", fmt.Sprint(v), at, "versions 2 and 3 are read")
}

// foreigners are files that people meet in place of a model, by how they begin.
var foreigners = []struct{ prefix, advice string }{
	{"version https://git-lfs", "it is the pointer that Git LFS leaves in place of a large file; fetch the file itself with \"git lfs pull\""},
	{"<!DOCTYPE", "it is a web page, not the download behind it"},
	{"<!doctype", "it is a web page, not the download behind it"},
	{"<html", "it is a web page, not the download behind it"},
	{"PK\x03\x04", "it is a zip archive or a PyTorch checkpoint; convert it to GGUF first"},
	{"ggml", "it is a model of the older formats ggml or ggla; convert it to GGUF first"},
	{"lmgg", "it is a model of the older format ggml; convert it to GGUF first"},
	{"fmgg", "it is a model of the older format ggmf; convert it to GGUF first"},
	{"tjgg", "it is a model of the older format ggjt; convert it to GGUF first"},
}

// foreign says what a file without the magic is.
func foreign(data []byte) string {
	for _, f := range foreigners {
		if bytes.HasPrefix(data, []byte(f.prefix)) {
			return f.advice
		}
	}
	if len(data) > 9 && data[8] == '{' && binary.LittleEndian.Uint64(data) < uint64(len(data)) {
		return "it looks like safetensors; convert it to GGUF first"
	}
	return fmt.Sprintf("it begins with %q where \"GGUF\" should be", data[:min(16, len(data))])
}

// meta reads n pairs.
func (c *cursor) meta(n uint64) (*Meta, error) {
	m := &Meta{file: c.file}
	for i := range n {
		at := c.at
		key, err := c.name(fmt.Sprintf("metadata key %d", i))
		if err != nil {
			return nil, err
		}
		field := "metadata " + clip(key)
		t, err := c.valueType(field + ": type")
		if err != nil {
			return nil, err
		}
		valueAt := c.at
		v, err := c.value(t, 0)
		if err != nil {
			return nil, within(err, field)
		}
		if !m.add(key, v, int64(valueAt)) {
			return nil, c.fail(ErrDuplicate, field, "", at, "is there for the second time: a key occurs once")
		}
	}
	return m, nil
}

// alignment reads general.alignment.
func alignment(m *Meta) (uint64, error) {
	v, ok := m.Value(keyAlignment)
	if !ok {
		return DefaultAlignment, nil
	}
	allowed := fmt.Sprintf("it must be a u32 and a power of two from %d to %d", MinAlignment, MaxAlignment)
	n, ok := v.Uint()
	if !ok || v.Type() != TypeUint32 || n < MinAlignment || n > MaxAlignment || n&(n-1) != 0 {
		e := m.Fail(keyAlignment, allowed).(*Error)
		e.Kind = ErrAlignment
		if v.Type() != TypeUint32 {
			e.Value += " of type " + v.TypeString()
		}
		return 0, e
	}
	return n, nil
}

// place is where a tensor's description lies and where it says that the tensor lies, before either is believed.
type place struct {
	tensor   *Tensor
	offset   uint64 // from the start of the data
	offsetAt int
}

// tensors reads n descriptions and computes the sizes; the offsets are checked by part.place.
func (c *cursor) tensors(n uint64) ([]place, error) {
	var places []place
	seen := map[string]bool{}
	for i := range n {
		at := c.at
		name, err := c.name(fmt.Sprintf("name of tensor %d", i))
		if err != nil {
			return nil, err
		}
		field := "tensor " + clip(name)
		if seen[name] {
			return nil, c.fail(ErrDuplicate, field, "", at, "is there for the second time: a name occurs once")
		}
		seen[name] = true
		p, err := c.tensor(name)
		if err != nil {
			return nil, within(err, field)
		}
		places = append(places, p)
	}
	return places, nil
}

// tensor reads a description after its name.
func (c *cursor) tensor(name string) (place, error) {
	t := &Tensor{Name: name}
	at := c.at
	nDims, err := c.u32(": number of dimensions")
	if err != nil {
		return place{}, err
	}
	if nDims > MaxDims {
		return place{}, c.fail(ErrDims, ": number of dimensions", fmt.Sprint(nDims), at, "a tensor has 0 to %d", MaxDims)
	}
	dimsAt := c.at
	for i := range nDims {
		at := c.at
		d, err := c.u64(fmt.Sprintf(": dimension %d", i))
		if err != nil {
			return place{}, err
		}
		if d == 0 {
			return place{}, c.fail(ErrDims, fmt.Sprintf(": dimension %d", i), "0", at, "every dimension is at least 1")
		}
		t.Dims = append(t.Dims, d)
	}
	at = c.at
	typ, err := c.u32(": type")
	if err != nil {
		return place{}, err
	}
	t.Type = format.Type(typ)
	info, ok := format.Lookup(t.Type)
	if !ok {
		reason := "no tensor type has this number"
		if was, removed := removedTypes[typ]; removed {
			reason = fmt.Sprintf("that was %s, which no longer exists; quantize the model again", was)
		}
		return place{}, c.fail(ErrTensorType, ": type", fmt.Sprint(typ), at, "%s", reason)
	}
	if t.rowBytes, t.SizeBytes, err = sizes(info, t.Dims); err != nil {
		e := err.(*Error)
		e.File, e.Offset = c.file, int64(dimsAt)
		return place{}, e
	}
	offsetAt := c.at
	offset, err := c.u64(": offset")
	return place{t, offset, offsetAt}, err
}

// removedTypes are numbers that ggml once gave to tensor types and keeps free since.
var removedTypes = map[uint32]string{
	4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8", 36: "iq4_nl_4_4", 37: "iq4_nl_4_8", 38: "iq4_nl_8_8",
}

// sizes computes the bytes of a row and of a whole tensor. Each number is checked by itself: that one fits says nothing of
// the next. Its errors want a file and an offset.
func sizes(info format.Info, dims []uint64) (rowBytes, sizeBytes int64, err error) {
	refuse := func(kind error, field, value, reason string) error {
		return &Error{Field: field, Value: value, Offset: -1, Reason: reason, Kind: kind}
	}
	cols, rows := uint64(1), uint64(1)
	for i, d := range dims {
		if i == 0 {
			cols = d
			continue
		}
		hi, lo := bits.Mul64(rows, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, 0, refuse(ErrOverflow, ": number of rows", "the product of "+shape(dims[1:]), "it must fit in 63 bits")
		}
		rows = lo
	}
	if hi, elems := bits.Mul64(cols, rows); hi != 0 || elems > math.MaxInt64 {
		return 0, 0, refuse(ErrOverflow, ": number of elements", "the product of "+shape(dims), "it must fit in 63 bits")
	}
	if cols%uint64(info.BlockElems) != 0 {
		return 0, 0, refuse(ErrDims, ": shape", shape(dims),
			fmt.Sprintf("a row of type %s is a multiple of its block of %d elements", info.Name, info.BlockElems))
	}
	hi, row := bits.Mul64(cols/uint64(info.BlockElems), uint64(info.BlockBytes))
	if hi != 0 || row > math.MaxInt64 {
		return 0, 0, refuse(ErrOverflow, ": bytes of a row", fmt.Sprintf("those of %d elements of %s", cols, info.Name), "they must fit in 63 bits")
	}
	hi, size := bits.Mul64(row, rows)
	if hi != 0 || size > math.MaxInt64 {
		return 0, 0, refuse(ErrOverflow, ": size in bytes", fmt.Sprintf("that of shape %s of %s", shape(dims), info.Name), "it must fit in 63 bits")
	}
	return int64(row), int64(size), nil
}

// padded rounds n up to a multiple of align, a power of two; ok is false where the result does not fit in 63 bits.
func padded(n, align int64) (padded int64, ok bool) {
	if n > math.MaxInt64-(align-1) {
		return 0, false
	}
	return (n + align - 1) &^ (align - 1), true
}

// place holds each tensor's offset against the file, and against the other tensors.
func (p *part) place(c *cursor, places []place) error {
	start, ok := padded(int64(c.at), p.Alignment)
	if !ok {
		panic("BUG: gguf: a header that ends beyond 63 bits")
	}
	p.DataOffset = start
	// The sum of all sizes by itself, whatever the offsets say: whoever loads the tensors one behind the other must be able
	// to add them up.
	var total int64
	for _, at := range places {
		size, ok := padded(at.tensor.SizeBytes, p.Alignment)
		if !ok || total > math.MaxInt64-size {
			return c.fail(ErrOverflow, "tensor "+clip(at.tensor.Name)+": size in bytes", fmt.Sprint(at.tensor.SizeBytes), -1,
				"with its padding and the tensors before it, it must fit in 63 bits")
		}
		total += size
	}
	there := max(0, p.SizeBytes-start)
	for _, at := range places {
		t := at.tensor
		field := "tensor " + clip(t.Name) + ": offset"
		if at.offset%uint64(p.Alignment) != 0 {
			return c.fail(ErrOffset, field, fmt.Sprint(at.offset), at.offsetAt, "it must be a multiple of the alignment %d", p.Alignment)
		}
		// Both comparisons are of numbers that cannot wrap; the sum offset + size could.
		if at.offset > uint64(there) || t.SizeBytes > there-int64(at.offset) {
			left := int64(0)
			if at.offset < uint64(there) {
				left = there - int64(at.offset)
			}
			return c.fail(ErrTruncated, field, fmt.Sprint(at.offset), at.offsetAt,
				"the tensor's %d bytes (%s of %s) begin there and the file of %d bytes has %d: it is incomplete or damaged",
				t.SizeBytes, shape(t.Dims), typeName(t.Type), p.SizeBytes, left)
		}
		t.Offset = start + int64(at.offset)
		t.data = p.data[t.Offset : t.Offset+t.SizeBytes : t.Offset+t.SizeBytes]
		p.tensors = append(p.tensors, t)
	}
	return p.disjoint(c, places)
}

// disjoint refuses tensors that share bytes.
func (p *part) disjoint(c *cursor, places []place) error {
	byOffset := slices.SortedFunc(slices.Values(places), func(a, b place) int {
		if a.tensor.Offset != b.tensor.Offset {
			if a.tensor.Offset < b.tensor.Offset {
				return -1
			}
			return 1
		}
		return a.offsetAt - b.offsetAt
	})
	for i, at := range byOffset[min(1, len(byOffset)):] {
		before := byOffset[i].tensor
		if end := before.Offset + before.SizeBytes; at.tensor.Offset < end {
			return c.fail(ErrOffset, "tensor "+clip(at.tensor.Name)+": offset", fmt.Sprint(at.offset), at.offsetAt,
				"tensor %s fills the bytes to offset %d: tensors may not overlap", clip(before.Name), end-p.DataOffset)
		}
	}
	return nil
}
