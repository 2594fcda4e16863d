package gguf

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
)

//go:embed testdata/hostile.txt
var hostileText string

// hostileFiles gives the committed files by name.
func hostileFiles(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for line := range strings.Lines(hostileText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		b, err := base64.StdEncoding.DecodeString(f[2])
		if err != nil {
			t.Fatalf("%s: %v", f[0], err)
		}
		out[f[0]] = b
	}
	return out
}

// TestHostileFiles holds each committed file to its outcome.
func TestHostileFiles(t *testing.T) {
	want := map[string]outcome{
		"valid-control":       {},
		"pairs-2e61":          {ErrCount, []string{"metadata count is 2305843009213693952 at byte 16", "hold 0 at most"}},
		"tensors-2e63":        {ErrCount, []string{"tensor count is 9223372036854775808 at byte 8", "hold 0 at most"}},
		"array-u8-2e63":       {ErrCount, []string{`metadata "a": array length is 9223372036854775808 at byte 41`, "0 bytes left"}},
		"array-in-array-2e62": {ErrCount, []string{`metadata "a"[0]: array length is 4611686018427387904 at byte 53`, "0 bytes left"}},
		"key-length-2e62":     {ErrCount, []string{"metadata key 0: length is 4611686018427387904 at byte 24", "40 bytes left"}},
		"key-length-max":      {ErrCount, []string{"metadata key 0: length is 18446744073709551615 at byte 24", "40 bytes left"}},
		"text-length-2e40":    {ErrCount, []string{`metadata "k": length is 1099511627776 at byte 37`, "0 bytes left"}},
		"version-1":           {ErrVersion, []string{"version is 1 at byte 4", "versions 2 and 3 are read"}},
		"dimensions-9":        {ErrDims, []string{`tensor "t": number of dimensions is 9 at byte 33`, "0 to 4"}},
		"dimensions-max":      {ErrDims, []string{`tensor "t": number of dimensions is 4294967295 at byte 33`, "0 to 4"}},
		"dimensions-0":        {}, // a scalar of one element
		"dimension-is-0":      {ErrDims, []string{`tensor "t": dimension 1 is 0 at byte 45`, "at least 1"}},
		"elements-2e64":       {ErrOverflow, []string{`tensor "t": number of elements is the product of [4294967296, 4294967296] at byte 37`, "63 bits"}},
		"bytes-2e64":          {ErrOverflow, []string{`tensor "t": bytes of a row is those of 4611686018427387904 elements of f32 at byte 37`, "63 bits"}},
		"elements-wrap":       {ErrOverflow, []string{`tensor "t": number of elements is the product of [18446744073709551615, 2] at byte 37`, "63 bits"}},
		"alignment-0":         {ErrAlignment, []string{`metadata "general.alignment" is 0 at byte 53`, "u32 and a power of two from 8 to 1048576"}},
		"alignment-3":         {ErrAlignment, []string{`metadata "general.alignment" is 3 at byte 53`, "power of two"}},
		"alignment-2e31":      {ErrAlignment, []string{`metadata "general.alignment" is 2147483648 at byte 53`, "from 8 to 1048576"}},
		"alignment-text":      {ErrAlignment, []string{`metadata "general.alignment" is "32" of type string at byte 53`, "u32"}},
		"offset-2e40":         {ErrTruncated, []string{`tensor "t": offset is 1099511627776 at byte 49`, "the tensor's 16 bytes ([4] of f32)", "file of 80 bytes has 0"}},
		"offset-wraps":        {ErrTruncated, []string{`tensor "t": offset is 18446744073709551584 at byte 49`, "the tensor's 16 bytes", "has 0"}},
		"offset-unaligned":    {ErrOffset, []string{`tensor "t": offset is 4 at byte 49`, "multiple of the alignment 32"}},
		"one-byte-short":      {ErrTruncated, []string{`tensor "t": offset is 0 at byte 90`, "the tensor's 16 bytes", "file of 143 bytes has 15"}},
		"type-255":            {ErrTensorType, []string{`tensor "t": type is 255 at byte 45`, "no tensor type"}},
		"row-not-blocks":      {ErrDims, []string{`tensor "t": shape is [100, 1] at byte 37`, "type q4_K is a multiple of its block of 256"}},
		"big-endian":          {ErrVersion, []string{"version is 3 in big-endian order at byte 4", "little-endian"}},
		"empty":               {ErrTruncated, []string{"the file is empty"}},
		"magic-only":          {ErrTruncated, []string{"version at byte 4: it takes 4 bytes and the file has 0 left"}},
		"head-count-0":        {}, // the container is sound; TestHeadCount0 refuses the value
	}
	files := hostileFiles(t)
	if len(files) != len(want) {
		t.Errorf("%d files, %d outcomes", len(files), len(want))
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			data, ok := files[name]
			if !ok {
				t.Fatal("no such file")
			}
			check(t, data, w)
		})
	}
	f := check(t, files["dimensions-0"], outcome{})
	if s := f.Tensors[0]; s.Elems() != 1 || s.SizeBytes != 4 || s.Rows() != 1 || s.Cols() != 1 || len(s.Data()) != 4 || s.Shape() != "[]" {
		t.Errorf("a tensor of no dimensions is %v, %d bytes", s, s.SizeBytes)
	}
	f = check(t, files["valid-control"], outcome{})
	tensor := f.Tensors[0]
	if tensor.Name != "t" || tensor.Type != format.F32 || tensor.Shape() != "[4]" || tensor.Offset != 128 || f.Parts[0].Alignment != 32 {
		t.Errorf("the control holds %v at %d", tensor, tensor.Offset)
	}
}

// TestHeadCount0 is what an architecture does with a count that it divides by.
func TestHeadCount0(t *testing.T) {
	f := check(t, hostileFiles(t)["head-count-0"], outcome{})
	_, err := f.Meta.UintIn("llama.attention.head_count", 1, 1<<16)
	if err == nil || err.Error() != `model.gguf: metadata "llama.attention.head_count" is 0 at byte 145: it must be from 1 to 65536` {
		t.Errorf("got %v", err)
	}
}

// TestHostileHeaders holds hand-made headers to their outcomes: one fault each, of those that no committed file has.
func TestHostileHeaders(t *testing.T) {
	long := func(n int) string { return strings.Repeat("n", n) }
	nest := func(depth int) *raw {
		r := head(0, 1).key("a", TypeArray)
		for range depth - 1 {
			r.u32(uint32(TypeArray)).u64(1)
		}
		return r.u32(uint32(TypeUint8)).u64(1).u8(7)
	}
	tests := []struct {
		name string
		file *raw
		want outcome
	}{
		{"array of 2^30 bytes in a file of 49", head(0, 1).key("a", TypeArray).u32(uint32(TypeUint8)).u64(1 << 30),
			outcome{ErrCount, []string{`metadata "a": array length is 1073741824 at byte 41`}}},
		{"array of strings, more than fit", head(0, 1).key("a", TypeArray).u32(uint32(TypeString)).u64(3).str("x").str("y"),
			outcome{ErrCount, []string{`metadata "a": array length is 3 at byte 41`, "hold 2 at most"}}},
		{"string in an array too long", head(0, 1).key("a", TypeArray).u32(uint32(TypeString)).u64(2).str("x").u64(1 << 60).u8(0),
			outcome{ErrCount, []string{`metadata "a"[1]: length is 1152921504606846976 at byte 58`, "1 bytes left"}}},
		{"array length as a negative int", head(0, 1).key("a", TypeArray).u32(uint32(TypeUint64)).u64(math.MaxUint64).u64(0),
			outcome{ErrCount, []string{"18446744073709551615"}}},
		{"arrays at the limit of nesting", nest(MaxNesting), outcome{}},
		{"arrays nested too deep", nest(MaxNesting + 1), outcome{ErrValue, []string{`metadata "a"[0][0][0][0][0][0][0] is an array nested more than 8 deep`}}},
		{"arrays nested 100000 deep", nest(100000), outcome{ErrValue, []string{"nested more than 8 deep"}}},
		{"metadata type 13", head(0, 1).key("a", 13).u64(0), outcome{ErrValueType, []string{`metadata "a": type is 13 at byte 33`, "0 (u8) to 12 (f64)"}}},
		{"element type 4294967295", head(0, 1).key("a", TypeArray).u32(math.MaxUint32).u64(0),
			outcome{ErrValueType, []string{`metadata "a": element type is 4294967295 at byte 37`}}},
		{"bool 2", head(0, 1).key("a", TypeBool).u8(2), outcome{ErrValue, []string{`metadata "a" is the bool 2 at byte 37`, "0 or 1"}}},
		{"bool 255 in an array", head(0, 1).key("a", TypeArray).u32(uint32(TypeBool)).u64(3).u8(0, 1, 255),
			outcome{ErrValue, []string{`metadata "a" is the bool 255 at byte 51`}}},
		{"key twice", head(0, 2).key("a.b", TypeUint8).u8(1).key("a.b", TypeUint8).u8(1), outcome{ErrDuplicate, []string{`metadata "a.b" at byte 40`, "once"}}},
		{"empty key", head(0, 1).key("", TypeUint8).u8(1).u64(0), outcome{ErrName, []string{`metadata key 0 is "" at byte 24`, "1 to 65535 bytes"}}},
		{"NUL in a key", head(0, 1).key("a\x00b", TypeUint8).u8(1), outcome{ErrName, []string{`"a\x00b"`, "control characters"}}},
		{"escape in a key", head(0, 1).key("a\x1b[2J", TypeUint8).u8(1), outcome{ErrName, []string{"control characters"}}},
		{"key not UTF-8", head(0, 1).key("a\xff", TypeUint8).u8(1), outcome{ErrName, []string{"UTF-8"}}},
		{"key of 65536 bytes", head(0, 1).key(long(65536), TypeUint8).u8(1), outcome{ErrName, []string{"(65536 bytes)", "1 to 65535"}}},
		{"tensor name of 64 bytes", head(1, 0).tensor(long(64), format.F32, 0, 4).data(16), outcome{}},
		{"tensor name of 65 bytes", head(1, 0).tensor(long(65), format.F32, 0, 4).data(16), outcome{}},
		{"tensor name of 70000 bytes", head(1, 0).tensor(long(70000), format.F32, 0, 4).data(16),
			outcome{ErrName, []string{"name of tensor 0", "(70000 bytes)", "1 to 65535"}}},
		{"empty tensor name", head(1, 0).tensor("", format.F32, 0, 4).data(16), outcome{ErrName, []string{"name of tensor 0"}}},
		{"tensor twice", head(2, 0).tensor("t", format.F32, 0, 4).tensor("t", format.F32, 32, 4).data(64),
			outcome{ErrDuplicate, []string{`tensor "t" at byte 57`}}},
		{"tensors overlap", head(2, 0).tensor("t", format.F32, 0, 12).tensor("u", format.F32, 32, 4).data(64),
			outcome{ErrOffset, []string{`tensor "u": offset is 32`, `tensor "t" fills the bytes to offset 48`}}},
		{"tensors share an offset", head(2, 0).tensor("t", format.F32, 0, 4).tensor("u", format.F32, 0, 4).data(64),
			outcome{ErrOffset, []string{"overlap"}}},
		{"tensors in another order, with a gap", head(2, 0).tensor("t", format.F32, 96, 4).tensor("u", format.F32, 0, 4).data(112), outcome{}},
		{"data section absent", head(1, 0).tensor("t", format.F32, 0, 4), outcome{ErrTruncated, []string{"16 bytes", "has 0"}}},
		{"padding cut, no tensor", head(0, 1).key("a", TypeUint8).u8(1), outcome{}},
		{"removed type 4", head(1, 0).tensor("t", 4, 0, 32).data(64), outcome{ErrTensorType, []string{"type is 4", "that was q4_2"}}},
		{"removed type 5", head(1, 0).tensor("t", 5, 0, 32).data(64), outcome{ErrTensorType, []string{"type is 5", "that was q4_3"}}},
		{"type 4294967295", head(1, 0).tensor("t", math.MaxUint32, 0, 32).data(64), outcome{ErrTensorType, []string{"type is 4294967295"}}},
		{"rows wrap", head(1, 0).tensor("t", format.F32, 0, 1, 1<<33, 1<<33).data(64), outcome{ErrOverflow, []string{"number of rows is the product of [8589934592, 8589934592]"}}},
		{"rows fit, elements wrap", head(1, 0).tensor("t", format.F32, 0, 1<<32, 1<<31).data(64), outcome{ErrOverflow, []string{"number of elements"}}},
		{"5 dimensions", head(1, 0).tensor("t", format.F32, 0, 1, 1, 1, 1, 4).data(64), outcome{ErrDims, []string{"number of dimensions is 5 at byte 33"}}},
		{"elements fit, a row is 2^63 bytes", head(1, 0).tensor("t", format.F32, 0, 1<<61).data(64), outcome{ErrOverflow, []string{"bytes of a row is those of 2305843009213693952 elements of f32"}}},
		{"row fits, bytes wrap", head(1, 0).tensor("t", format.F32, 0, 1<<31, 1<<31).data(64), outcome{ErrOverflow, []string{"size in bytes is that of shape [2147483648, 2147483648] of f32"}}},
		{"bytes fit, padding wraps", head(1, 0).tensor("t", format.I8, 0, math.MaxInt64).data(64), outcome{ErrOverflow, []string{"size in bytes is 9223372036854775807", "padding"}}},
		{"each fits, the sum wraps", head(3, 0).tensor("t", format.I8, 0, 1<<61).tensor("u", format.I8, 1<<61, 1<<62).tensor("v", format.I8, 3<<61, 1<<62).data(64),
			outcome{ErrOverflow, []string{`tensor "v": size in bytes is 4611686018427387904`}}},
		{"more pairs than are read", head(0, MaxPairs+1).data(1 << 20), outcome{ErrCount, []string{"metadata count is 65537", "at most 65536"}}},
		{"more tensors than are read", head(MaxTensors+1, 0).data(32 << 20), outcome{ErrCount, []string{"tensor count is 1048577", "at most 1048576"}}},
		{"alignment as u64", head(0, 1).key(keyAlignment, TypeUint64).u64(32), outcome{ErrAlignment, []string{"is 32 of type u64"}}},
		{"alignment 4", head(0, 1).key(keyAlignment, TypeUint32).u32(4), outcome{ErrAlignment, []string{"is 4"}}},
		{"alignment 2^20", head(0, 1).key(keyAlignment, TypeUint32).u32(1 << 20), outcome{}},
		{"version 4", (&raw{[]byte(magic)}).u32(4).u64(0).u64(0), outcome{ErrVersion, []string{"version is 4 at byte 4"}}},
		{"version 0", (&raw{[]byte(magic)}).u32(0).u64(0).u64(0), outcome{ErrVersion, []string{"version is 0 at byte 4"}}},
		{"text", &raw{[]byte("Dear reader, this is no model.")}, outcome{ErrMagic, []string{`begins with "Dear reader, thi"`}}},
		{"escape codes", &raw{[]byte("\x1b[2J\n\n")}, outcome{ErrMagic, []string{`"\x1b[2J\n\n"`}}},
		{"Git LFS pointer", &raw{[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")}, outcome{ErrMagic, []string{"git lfs pull"}}},
		{"web page", &raw{[]byte("<!DOCTYPE html><html>")}, outcome{ErrMagic, []string{"web page"}}},
		{"zip", &raw{[]byte("PK\x03\x04....")}, outcome{ErrMagic, []string{"PyTorch"}}},
		{"safetensors", (&raw{}).u64(2).u8('{', '}', '\n'), outcome{ErrMagic, []string{"safetensors"}}},
		{"the first byte of the magic", &raw{[]byte("G")}, outcome{ErrTruncated, []string{"magic at byte 0", "has 1 left"}}},
		{"a part of a split model", head(0, 1).key(keySplitCount, TypeUint16).u8(3, 0), outcome{ErrValue, []string{`metadata "split.count" is 3`, "one part of a model"}}},
		{"a split number too high", head(0, 2).key(keySplitCount, TypeUint16).u8(3, 0).key(keySplitNo, TypeUint16).u8(3, 0),
			outcome{ErrValue, []string{`metadata "split.no" is 3`, "there are 3 parts"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { check(t, test.file.b, test.want) })
	}
}

// TestManySmallThings holds large files of the smallest things to the limits: what costs more in memory than in the file.
func TestManySmallThings(t *testing.T) {
	pairs := head(0, MaxPairs)
	for i := range MaxPairs {
		pairs.key(fmt.Sprint(i), TypeUint8).u8(0)
	}
	strs := head(0, 1).key("a", TypeArray).u32(uint32(TypeString)).u64(4 << 20)
	strs.b = append(strs.b, make([]byte, 8*4<<20)...)
	arrays := head(0, 1).key("a", TypeArray).u32(uint32(TypeArray)).u64(2 << 20)
	arrays.b = append(arrays.b, make([]byte, 12*2<<20)...)
	tensors := head(50000, 0)
	for i := range 50000 {
		tensors.tensor(fmt.Sprint(i), format.I8, uint64(i)*32)
	}
	tensors.data(50000 * 32)
	for name, r := range map[string]*raw{"pairs": pairs, "empty strings": strs, "empty arrays": arrays, "scalars": tensors} {
		t.Run(name, func(t *testing.T) { check(t, r.b, outcome{}) })
	}
}

// TestSizes: each product is held to 63 bits by itself. The numbers pass all checks but one.
func TestSizes(t *testing.T) {
	q4, _ := format.ByName("q4_K")
	i8, _ := format.ByName("i8")
	row, size, err := sizes(q4, []uint64{3584, 18944, 2})
	if err != nil || row != 3584/256*144 || size != 2*18944*row {
		t.Errorf("got %d, %d, %v", row, size, err)
	}
	row, size, err = sizes(i8, []uint64{math.MaxInt64})
	if err != nil || row != math.MaxInt64 || size != row {
		t.Errorf("the largest row: got %d, %d, %v", row, size, err)
	}
	if _, _, err = sizes(i8, []uint64{math.MaxInt64 + 1}); err == nil {
		t.Error("a row of 2^63 elements passes")
	}
	for _, n := range []struct{ n, align, want int64 }{{0, 32, 0}, {1, 32, 32}, {32, 32, 32}, {33, 8, 40}, {math.MaxInt64 - 31, 32, math.MaxInt64 - 31}} {
		if got, ok := padded(n.n, n.align); !ok || got != n.want {
			t.Errorf("padded(%d, %d) = %d, %v", n.n, n.align, got, ok)
		}
	}
	if _, ok := padded(math.MaxInt64-30, 32); ok {
		t.Error("padding beyond 63 bits passes")
	}
}
