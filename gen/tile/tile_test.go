package tile_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/interp"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/specs"
)

// TestSize: a format whose elements have codes of their own takes as many bytes in tiles as in a file, but for numbers that no narrower
// type holds. One that reads codebooks or trits takes a word for each element; with indices and trits, little more than in the file.
func TestSize(t *testing.T) {
	c, err := gen.Load(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Formats {
		if !f.InFile() || f.Plain() {
			continue
		}
		x := f.TileAs("rows32")
		if x == nil {
			t.Errorf("%s has no tiles", f.Name)
			continue
		}
		read := f.Segs[0].Value.Weight[0].Planes[0].Code != nil
		rowBytes := float64(x.Stored.Bytes) / float64(x.Rows)
		if x := f.TileAs("rows32index"); x != nil {
			if file := x.Rows * f.Bytes; x.Stored.Bytes*100 > file*(100+x.Spare) {
				t.Errorf("%s: %d bytes a block of a tile with indices, %d in a file", f.Name, x.Stored.Bytes, file)
			}
		} else if read {
			t.Errorf("%s reads a codebook or trits and has no tiles that keep them", f.Name)
		}
		if wide := f.Name == "mxfp4"; !read && !wide && rowBytes > float64(f.Bytes) {
			t.Errorf("%s: %g bytes a block in tiles, %d in a file", f.Name, rowBytes, f.Bytes)
		}
		if rowBytes > 2.1*float64(f.Bytes) {
			t.Errorf("%s: %g bytes a block in tiles, %d in a file", f.Name, rowBytes, f.Bytes)
		}
	}
}

// TestWords: the words of a tile are those of its weights: decoding a tile of random bits gives numbers that the format has.
func TestWords(t *testing.T) {
	c, err := gen.Load(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 5))
	for _, f := range c.Formats {
		x := f.TileAs("rows32")
		if x == nil {
			continue
		}
		block := make([]byte, x.Stored.Bytes)
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		unscaled := *x.Stored
		seg := *x.Stored.Segs[0]
		seg.Value = model.Value{Weight: seg.Value.Weight}
		unscaled.Segs = []*model.Segment{&seg}
		y, err := interp.Dequantize(&unscaled, block)
		if err != nil {
			t.Fatal(err)
		}
		known := map[float32]bool{}
		for w := range 1 << x.WordBits {
			v := w - x.Zero
			if x.Levels != nil {
				v = x.Levels[w]
			}
			known[float32(v)] = true
		}
		for e, v := range y {
			if !known[v] || math.Abs(float64(v)) > 128 {
				t.Errorf("%s: element %d is %g", f.Name, e, v)
				break
			}
		}
	}
}

// TestNumbers: the tile's indices yield the file's entries, and no two of them the same; the second byte of an entry does not
// depend on the bits that the first has for itself.
func TestNumbers(t *testing.T) {
	c, err := gen.Load(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range c.Formats {
		tile := f.TileAs("rows32index")
		if tile == nil || tile.Index == nil {
			continue
		}
		found++
		x := tile.Index
		seen := map[int]bool{}
		for i, entry := range x.Code.Then.Table.Entries {
			n := x.Number[i]
			if x.Book.Entries[n] != entry || seen[n] {
				t.Errorf("%s: entry %d is %#x as %d, want %#x (seen %v)", f.Name, i, x.Book.Entries[n], n, entry, seen[n])
			}
			seen[n] = true
		}
		own := 8 - x.Shared
		for n, entry := range x.Book.Entries {
			first, second := x.Book.Entries[n&0xff], x.Book.Entries[n>>own<<own]
			if x.Byte(entry, 0) != x.Byte(first, 0) || x.Byte(entry, 1) != x.Byte(second, 1) || x.Entry([2]byte{x.Byte(entry, 0), x.Byte(entry, 1)}) != entry {
				t.Fatalf("%s: entry %#x of index %d, %#x and %#x of its parts", f.Name, entry, n, first, second)
			}
		}
	}
	if found < 7 {
		t.Errorf("%d formats keep indices", found)
	}
}
