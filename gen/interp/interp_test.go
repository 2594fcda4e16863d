package interp_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/gen/interp"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/specs"
)

// TestGolden compares every golden block that ggml made, bit for bit, and demands a golden for every format that a
// file can hold.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile(shared.Path(t, "golden", "dequant", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Types []struct {
			Type     string
			ID       int `json:"ggml_id"`
			Elems    int `json:"elems_per_block"`
			Bytes    int `json:"bytes_per_block"`
			Bin, F32 struct{ File string }
		}
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	catalog, _ := shared.Catalog(t, specs.FS)
	formats := map[string]*model.Format{}
	for _, f := range catalog.Formats {
		if f.InFile() {
			formats[f.Name] = f
		}
	}
	for _, g := range manifest.Types {
		f := formats[g.Type]
		if f == nil {
			continue // a golden of a format that no spec describes
		}
		delete(formats, g.Type)
		t.Run(g.Type, func(t *testing.T) {
			if f.ID != g.ID || f.Elems != g.Elems || f.Bytes != g.Bytes {
				t.Errorf("id %d, %d elements, %d bytes; ggml has %d, %d, %d", f.ID, f.Elems, f.Bytes, g.ID, g.Elems, g.Bytes)
			}
			blocks := read(t, g.Bin.File)
			want := read(t, g.F32.File)
			got, err := interp.Dequantize(f, blocks)
			if err != nil {
				t.Fatal(err)
			}
			if 4*len(got) != len(want) {
				t.Fatalf("%d values, want %d", len(got), len(want)/4)
			}
			for i, y := range got {
				if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(y) != w {
					t.Fatalf("block %d element %d: %v (%#08x), want %v (%#08x)", i/f.Elems, i%f.Elems, y, math.Float32bits(y), math.Float32frombits(w), w)
				}
			}
		})
	}
	for name := range formats {
		t.Errorf("there is no golden for %s", name)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(shared.Path(t, "golden", "dequant", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPartialBlock refuses bytes that are no whole number of blocks.
func TestPartialBlock(t *testing.T) {
	catalog, _ := shared.Catalog(t, specs.FS)
	for _, f := range catalog.Formats {
		if f.Bytes == 1 {
			continue
		}
		if _, err := interp.Dequantize(f, make([]byte, f.Bytes+1)); err == nil {
			t.Errorf("%s: a block and a byte were accepted", f.Name)
		}
	}
}
