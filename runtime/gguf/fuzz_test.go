package gguf

import (
	"encoding/binary"
	"testing"

	"github.com/minfer/minfer/generated/format"
)

// FuzzParse parses any bytes as a file. What is read must be usable, and must survive being written and read again.
func FuzzParse(f *testing.F) {
	for _, b := range hostileFiles(f) {
		f.Add(b)
	}
	f.Add(smallFile(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse("file", b)
		if err != nil {
			return
		}
		exercise(file)
		again, err := rewrite(file)
		if err != nil {
			for _, tensor := range file.Tensors {
				if len(tensor.Name) > MaxWrittenNameBytes {
					return // read, but not written
				}
			}
			t.Fatalf("read but not written: %v", err)
		}
		second, err := Parse("again", again)
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		if second.Meta.Len() != file.Meta.Len() || len(second.Tensors) != len(file.Tensors) || second.TensorBytes() != file.TensorBytes() {
			t.Fatal("written and read again, it is another file")
		}
	})
}

// FuzzMeta parses any bytes as n metadata pairs of a file that is sound around them, with a tensor behind.
func FuzzMeta(f *testing.F) {
	f.Add(uint8(1), (&raw{}).key("a", TypeArray).u32(uint32(TypeString)).u64(2).str("x").str("").b)
	f.Add(uint8(2), (&raw{}).key("a", TypeUint64).u64(1).key("b", TypeBool).u8(1).b)
	f.Add(uint8(1), (&raw{}).key("a", TypeArray).u32(uint32(TypeArray)).u64(1).u32(uint32(TypeInt16)).u64(2).u32(0).b)
	f.Add(uint8(1), (&raw{}).key(keyAlignment, TypeUint32).u32(64).b)
	f.Add(uint8(3), (&raw{}).key(keySplitNo, TypeUint16).u8(0, 0).key(keySplitCount, TypeUint16).u8(1, 0).key(keySplitTensors, TypeInt32).u32(1).b)
	f.Fuzz(func(t *testing.T, n uint8, pairs []byte) {
		b := []byte(magic)
		b = binary.LittleEndian.AppendUint32(b, 3)
		b = binary.LittleEndian.AppendUint64(b, 1)
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
		r := &raw{append(b, pairs...)}
		r.tensor("t", format.F32, 0, 4).data(16)
		r.b = append(r.b, make([]byte, 1024)...) // room for another alignment
		if file, err := Parse("file", r.b); err == nil {
			exercise(file)
		}
	})
}
