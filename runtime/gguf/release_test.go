package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/minfer/minfer/generated/format"
)

// TestRelease: data that is let go reads the same afterwards, of a mapped file and of one in memory, where nothing happens.
func TestRelease(t *testing.T) {
	data := make([]byte, 5*pageBytes+7*32)
	for i := range data {
		data[i] = byte(i * 31)
	}
	w := NewWriter()
	if err := w.Set("general.architecture", Of("test")); err != nil {
		t.Fatal(err)
	}
	if err := w.Add("t", format.I8, []uint64{uint64(len(data))}, Bytes(data)); err != nil {
		t.Fatal(err)
	}
	file, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.gguf")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	parsed, err := Parse("t", slices.Clone(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*File{mapped, parsed} {
		got := f.Tensors[0].Data()
		for _, part := range [][]byte{got, got[:0], got[1:], got[: len(got)-1 : len(got)-1], got[pageBytes : pageBytes+10], nil, {1, 2}} {
			f.Release(part)
			if !bytes.Equal(got, data) {
				t.Fatalf("%d bytes let go: the tensor reads otherwise", len(part))
			}
		}
	}
}
