// Package tile emits the matrix kernels of the CPU, with avo as Go assembly: products of tiles of rows (see gen/tile) with
// activations of 8 bits, for one token and for tiles of several, at each level of vector instructions. Beside them it emits
// the Go that lays rows of a file's blocks out in tiles.
//
// All of it is lowered from the tile's planes; no format is known by name.
package tile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/printer"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/tile"
)

// Emitter emits package generated/tile.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "tile" }

// rows32 is the tiling of all kernels.
var rows32 = &model.Tiling{Name: "rows32", Rows: 32, LaneElems: 4, UnitElems: 32}

// Emit implements emit.Emitter.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	var files []emit.File
	add := func(path, source string) error {
		f, err := emit.GoFile(path, []byte(source))
		files = append(files, f)
		return err
	}
	var tiles []*tile.Tile
	var plain []*model.Format
	scratch := 0
	for _, f := range c.Formats {
		if _, ok := plainNumber(f); ok {
			plain = append(plain, f)
			for _, l := range plainLevels() {
				text, err := plainKernels(f, l)
				if err != nil {
					return nil, err
				}
				files = append(files, emit.File{Path: fmt.Sprintf("tile/%s_%s_amd64.s", f.Name, l.name), Data: text})
			}
		}
		if !f.InFile() || f.Plain() {
			continue
		}
		t, err := tile.Of(f, rows32)
		if err != nil {
			continue
		}
		tiles = append(tiles, t)
		if err := add("tile/"+emit.FileName(f, ".go"), packSource(t)); err != nil {
			return nil, err
		}
		for _, l := range levels {
			text, n, err := kernels(t, l)
			if err != nil {
				return nil, err
			}
			scratch = max(scratch, n)
			files = append(files, emit.File{Path: fmt.Sprintf("tile/%s_%s_amd64.s", f.Name, l.name), Data: text})
		}
	}
	if err := add("tile/tile.go", commonSource(tiles, scratch)); err != nil {
		return nil, err
	}
	return files, add("tile/kernels_amd64.go", stubsSource(tiles, plain))
}

// kernels writes the file of a format and a level.
func kernels(t *tile.Tile, l *level) (text []byte, scratchBytes int, err error) {
	a := &asm{level: l, file: ir.NewFile(), at: map[string]int{}}
	if a.file.Constraints, err = constraints(); err != nil {
		return nil, 0, err
	}
	a.file.Includes = []string{"textflag.h"}
	for _, n := range l.tokens {
		k := newKernel(a, t, n)
		k.write(emit.GoName(t.Source.Name))
		scratchBytes = max(scratchBytes, k.scratchBytes())
	}
	if len(a.data) > 0 {
		a.file.AddSection(a.global())
	}
	text, err = printer.NewGoAsm(printer.Config{Name: "avo", Pkg: "tile"}).Print(a.file)
	if err != nil {
		return nil, 0, err
	}
	_, text, _ = bytes.Cut(text, []byte("\n")) // avo's own first line
	return append([]byte(emit.Marker(t.Source.Spec)), text...), scratchBytes, nil
}

// constraint is the build constraint of assembly.
const constraint = "amd64 && !noasm"

func constraints() (buildtags.Constraints, error) {
	return buildtags.Constraints{
		buildtags.Any(buildtags.Opt(buildtags.Term("amd64"))), buildtags.Any(buildtags.Opt(buildtags.Not("noasm")))}, nil
}

// stubsSource declares the assembly functions and lists them.
func stubsSource(tiles []*tile.Tile, plain []*model.Format) string {
	var b strings.Builder
	b.WriteString(emit.Marker("specs/formats"))
	fmt.Fprintf(&b, "\n//go:build %s\n\npackage tile\n\n", constraint)
	b.WriteString("import (\n\"github.com/minfer/minfer/generated/format\"\n\"github.com/minfer/minfer/runtime/cpufeature\"\n)\n\n")
	b.WriteString("func init() {\n")
	for _, t := range tiles {
		name := emit.GoName(t.Source.Name)
		fmt.Fprintf(&b, "formats[format.%s].Kernels = []Kernel{\n", name)
		for _, l := range levels {
			for _, n := range l.tokens {
				fmt.Fprintf(&b, "{Level: cpufeature.%s, Tokens: %d, run: %s%sx%d},\n", strings.ToUpper(l.name), n, l.name, name, n)
			}
		}
		b.WriteString("}\n")
	}
	list, stubs := plainStubs(plain)
	b.WriteString(list + "}\n" + stubs)
	for _, t := range tiles {
		for _, l := range levels {
			for _, n := range l.tokens {
				fmt.Fprintf(&b, "\n//go:noescape\nfunc %s%sx%d(a *Args)\n", l.name, emit.GoName(t.Source.Name), n)
			}
		}
	}
	return b.String()
}

func commonSource(tiles []*tile.Tile, scratch int) string {
	var b strings.Builder
	b.WriteString(emit.Marker("specs/formats"))
	fmt.Fprintf(&b, `
// Package tile holds the matrix kernels of the CPU and the layout of weights that they read: tiles of %[1]d rows side by side.
// Both are generated from the formats' specs.
package tile

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/numeric"
)

// Rows is the number of rows of a tile. A matrix whose rows are no multiple of it ends in a tile with rows of zeros.
const Rows = %[1]d

// UnitElems is the number of elements that kernels take at a time: an activation block.
const UnitElems = %[2]d

// ScratchBytes is the most scratch memory that a kernel uses.
const ScratchBytes = %[3]d

// Args are the arguments of a kernel: y[t,r] = bias[r] + sum over k of w[r,k] * x[t,k] for the rows of some adjacent
// tiles and the tokens of one panel.
type Args struct {
	W        unsafe.Pointer // tiles, each the blocks of a row: Blocks times BlockBytes
	X        unsafe.Pointer // a panel of the kernel's number of tokens
	Bias     unsafe.Pointer // f32 for each row
	Y        unsafe.Pointer // f32: the first row's sum of the first token
	Scratch  unsafe.Pointer // ScratchBytes
	Tiles    int            // used up
	Blocks   int            // of a row
	YStride  int            // bytes from one token's sums to the next
	BiasStep int            // bytes from one tile's biases to the next: 4*Rows, or 0 where one tile's serve all
	Bad      int            // set: not 0 where a sum is no finite number
}

// Kernel is a kernel of a level for a number of tokens.
type Kernel struct {
	Level  cpufeature.Level
	Tokens int
	run    func(*Args)
}

// Run computes. It checks nothing.
func (k *Kernel) Run(a *Args) { k.run(a) }

// Format is the layout of one format and its kernels.
type Format struct {
	Name       string
	BlockElems int // of a row
	FileBytes  int // of a row's block in a file
	BlockBytes int // of the blocks of a tile's rows
	Kernels    []Kernel
	pack       func(dst []byte, row int, src []byte, w []int8, weights func([]int8, []byte))
	weights    func(dst []int8, src []byte)
}

// For is the layout of a format; false where it has none.
func For(t format.Type) (*Format, bool) {
	f, ok := formats[t]
	return f, ok
}

// Pack lays a row of a file's blocks out as row r of a tile: dst is the tile. It calls nothing that writes to other rows. w is
// memory for BlockElems weights.
func (f *Format) Pack(dst []byte, r int, src []byte, w []int8) {
	if r < 0 || r >= Rows || len(src)%%f.FileBytes != 0 || len(dst) != len(src)/f.FileBytes*f.BlockBytes {
		panic("BUG: a row and a tile of unlike sizes")
	}
	f.pack(dst, r, src, w[:f.BlockElems], f.weights)
}

`, rows32.Rows, rows32.UnitElems, scratch)
	b.WriteString("var formats = map[format.Type]*Format{\n")
	for _, t := range tiles {
		n := emit.GoName(t.Source.Name)
		fmt.Fprintf(&b, "format.%s: {Name: %q, BlockElems: %d, FileBytes: %d, BlockBytes: %d, pack: pack%s},\n", n, t.Source.Name, t.Source.Elems, t.Source.Bytes, t.Stored.Bytes, n)
	}
	b.WriteString("}\n")
	b.WriteString(panelSource())
	b.WriteString(plainSource())
	fmt.Fprintf(&b, `
func init() {
	for t, f := range formats {
		k, _ := cpu.For(t)
		f.weights = k.Weights
	}
}

// putPlane writes bits of the words of a row's block, a byte each: lane i of a unit, its bits shifted by i/bits*bits, into
// vector i%%bits. dst is the row's place in the first vector. A uint64 holds two lanes.
func putPlane(dst []byte, words []int8, bits, pos int) {
	w := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
	mask := uint64(1<<bits-1) * 0x0101010101010101
	const vector = %[2]d // bytes
	last := (bits - 1) * vector
	for len(w) >= UnitElems {
		x0 := binary.LittleEndian.Uint64(w) >> pos & mask
		x1 := binary.LittleEndian.Uint64(w[8:]) >> pos & mask
		x2 := binary.LittleEndian.Uint64(w[16:]) >> pos & mask
		x3 := binary.LittleEndian.Uint64(w[24:]) >> pos & mask
		w = w[UnitElems:]
		_ = dst[last+3]
		switch bits {
		case 8:
			putLanes(dst, x0)
			putLanes(dst[2*vector:], x1)
			putLanes(dst[4*vector:], x2)
			putLanes(dst[6*vector:], x3)
		case 4:
			putLanes(dst, x0|x2<<4)
			putLanes(dst[2*vector:], x1|x3<<4)
		case 2:
			putLanes(dst, x0|x1<<2|x2<<4|x3<<6)
		case 1:
			x0 |= x1<<2 | x2<<4 | x3<<6
			binary.LittleEndian.PutUint32(dst, uint32(x0)|uint32(x0>>32)<<1)
		}
		if len(w) > 0 {
			dst = dst[bits*vector:]
		}
	}
}

// putLanes writes two lanes into neighbouring vectors.
func putLanes(dst []byte, x uint64) {
	_ = dst[%[2]d+3]
	binary.LittleEndian.PutUint32(dst, uint32(x))
	binary.LittleEndian.PutUint32(dst[%[2]d:], uint32(x>>32))
}
`, rows32.LaneElems, rows32.Rows*rows32.LaneElems)
	return b.String()
}
