// Package tile emits the matrix kernels of the CPU, with avo as Go assembly: products of tiles of rows (see gen/tile) with
// activations of 8 bits, for one token and for tiles of several, at each level of vector instructions. Beside them it emits
// the Go that lays rows of a file's blocks out in tiles.
//
// All of it is lowered from the tile's planes; no format is known by name.
package tile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/printer"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// Emitter emits package generated/tile.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "tile" }

// instance is a variant for a format.
type instance struct {
	family  *model.Family
	variant *model.Variant
	format  *model.Format
	level   *level
	// How the variant's geometry deals: lanes and vectors of rows at once, tokens at once.
	lanes, vectors, tokens int
}

// instances lists the variants of the CPU's families of a template, but portable ones: those are no assembly.
func instances(c *model.Catalog, template string) (all []instance, err error) {
	for _, fam := range c.CPU {
		if fam.Template != template {
			continue
		}
		for _, f := range fam.Formats {
			for _, v := range fam.VariantsFor(f) {
				if len(v.Features) == 0 {
					continue
				}
				in := instance{family: fam, variant: v, format: f, lanes: 1, vectors: 1, tokens: 1}
				if in.level, err = levelOf(v); err != nil {
					return nil, fmt.Errorf("%s: %w", fam.Name, err)
				}
				g := v.Geometry(f)
				for i, d := range g.Digits {
					switch {
					case d.Place == layout.Lane:
						in.lanes *= d.Radix
					case d.Place == layout.Slot && in.axis(g, i) == model.Rows:
						in.vectors *= d.Radix
					case d.Place == layout.Slot && in.axis(g, i) == model.Tokens:
						in.tokens *= d.Radix
					}
				}
				if in.lanes != in.level.lanes() {
					return nil, fmt.Errorf("%s/%s: %d lanes; a vector of %s has %d", fam.Name, v.Name, in.lanes, in.level.name, in.level.lanes())
				}
				all = append(all, in)
			}
		}
	}
	return all, nil
}

// axis is the dim that a digit is dealt to.
func (in instance) axis(g *layout.Geometry, digit int) model.Dim {
	for i := range g.Axes {
		if g.Axes[i].Uses(digit) {
			return in.family.Dims[g.Axes[i].Axis]
		}
	}
	return ""
}

// symbol is what gates call the kernel.
func (in instance) symbol() string { return model.Symbol(in.family, in.format, in.variant) }

// function is the name of the assembly function.
func (in instance) function() string {
	n := bound.Camel(in.family.Name) + emit.GoName(in.format.Name) + bound.Camel(in.variant.Name)
	return strings.ToLower(n[:1]) + n[1:]
}

// file is one file of assembly: the instances of a format and a level.
type file struct {
	format    *model.Format
	level     *level
	instances []instance
}

func filesOf(all []instance) (files []*file) {
	for _, in := range all {
		i := slices.IndexFunc(files, func(f *file) bool { return f.format == in.format && f.level == in.level })
		if i < 0 {
			i = len(files)
			files = append(files, &file{format: in.format, level: in.level})
		}
		files[i].instances = append(files[i].instances, in)
	}
	return files
}

// Emit implements emit.Emitter. Without a family of the CPU there is nothing to emit.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	tiled, err := instances(c, "tile")
	if err != nil {
		return nil, err
	}
	plain, err := instances(c, "plain")
	if err != nil || len(tiled)+len(plain) == 0 {
		return nil, err
	}
	var files []emit.File
	add := func(path, source string) error {
		f, err := emit.GoFile(path, []byte(source))
		files = append(files, f)
		return err
	}
	assembly := func(f *file, text []byte) {
		files = append(files, emit.File{Path: fmt.Sprintf("tile/%s_%s_amd64.s", f.format.Name, f.level.name), Data: text})
	}
	scratch := 0
	var tiles []*model.Tile
	for _, f := range filesOf(tiled) {
		t := f.format.TileAs(f.instances[0].variant.Weights)
		if !slices.Contains(tiles, t) {
			tiles = append(tiles, t)
			path := "tile/" + emit.FileName(f.format, ".go")
			if t.Spare > 0 {
				path = "tile/" + f.format.Name + "_" + t.Name + ".go"
			}
			if err := add(path, packSource(t)); err != nil {
				return nil, err
			}
		}
		text, n, err := kernels(t, f)
		if err != nil {
			return nil, err
		}
		scratch = max(scratch, n)
		assembly(f, text)
	}
	for _, f := range filesOf(plain) {
		text, err := plainKernels(f)
		if err != nil {
			return nil, err
		}
		assembly(f, text)
	}
	if err := add("tile/tile.go", commonSource(tiled, tiles, scratch)); err != nil {
		return nil, err
	}
	return files, add("tile/kernels_amd64.go", stubsSource(tiled, plain))
}

// newFile begins a file of assembly.
func newFile(l *level) (*asm, error) {
	a := &asm{level: l, file: ir.NewFile(), at: map[string]int{}}
	var err error
	a.file.Constraints, err = constraints()
	a.file.Includes = []string{"textflag.h"}
	return a, err
}

// print is the file's text.
func (a *asm) print(f *file) ([]byte, error) {
	if len(a.data) > 0 {
		a.file.AddSection(a.global())
	}
	text, err := printer.NewGoAsm(printer.Config{Name: "avo", Pkg: "tile"}).Print(a.file)
	if err != nil {
		return nil, err
	}
	_, text, _ = bytes.Cut(text, []byte("\n")) // avo's own first line
	return append([]byte(emit.Marker(f.format.Spec)), text...), nil
}

// kernels writes the kernels of a tile at a level.
func kernels(t *model.Tile, f *file) (text []byte, scratchBytes int, err error) {
	a, err := newFile(f.level)
	if err != nil {
		return nil, 0, err
	}
	for _, in := range f.instances {
		k := newKernel(a, t, in.function(), in.tokens, in.vectors)
		k.write()
		scratchBytes = max(scratchBytes, k.scratchBytes())
	}
	text, err = a.print(f)
	return text, scratchBytes, err
}

// constraint is the build constraint of assembly.
const constraint = "amd64 && !noasm"

func constraints() (buildtags.Constraints, error) {
	return buildtags.Constraints{
		buildtags.Any(buildtags.Opt(buildtags.Term("amd64"))), buildtags.Any(buildtags.Opt(buildtags.Not("noasm")))}, nil
}

// stubsSource declares the assembly functions and lists them.
func stubsSource(tiled, plain []instance) string {
	var b, list, stubs strings.Builder
	b.WriteString(emit.Marker("specs/kernels"))
	fmt.Fprintf(&b, "\n//go:build %s\n\npackage tile\n\n", constraint)
	for _, in := range tiled {
		fmt.Fprintf(&list, "%q: %s,\n", in.symbol(), in.function())
		fmt.Fprintf(&stubs, "\n//go:noescape\nfunc %s(a *Args)\n", in.function())
	}
	fmt.Fprintf(&b, "func init() {\nkernels = map[string]func(*Args){\n%s}\n", list.String())
	list.Reset()
	for _, in := range plain {
		fmt.Fprintf(&list, "%q: %s,\n", in.symbol(), in.function())
		fmt.Fprintf(&stubs, "\n//go:noescape\nfunc %s(a *PlainArgs)\n", in.function())
	}
	fmt.Fprintf(&b, "plain = map[string]func(*PlainArgs){\n%s}\n}\n%s", list.String(), stubs.String())
	return b.String()
}

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, strconv.Quote(s))
	}
	return strings.Join(q, ", ")
}

func commonSource(tiled []instance, tiles []*model.Tile, scratch int) string {
	var b strings.Builder
	rows32 := tiles[0].Tiling
	var layouts []string // those of indices first
	for _, t := range tiles {
		switch {
		case slices.Contains(layouts, t.Name):
		case t.Spare > 0:
			layouts = slices.Insert(layouts, 0, t.Name)
		default:
			layouts = append(layouts, t.Name)
			rows32 = t.Tiling
		}
	}
	b.WriteString(emit.Marker("specs/kernels"))
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
	"github.com/minfer/minfer/runtime/numeric"
)

// Layout is what gates call the layout that most formats have.
const Layout = %[4]q

// Layouts is what gates call the layouts of weights in tiles, those first that take less memory.
var Layouts = []string{%[5]s}

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

// Kernel finds a kernel by the symbol that its gate gives; nil where this build has none. Kernels check nothing.
func Kernel(symbol string) func(*Args) { return kernels[symbol] }

var kernels map[string]func(*Args)

// Format is the layout of one format.
type Format struct {
	Name       string
	Layout     string
	BlockElems int // of a row
	FileBytes  int // of a row's block in a file
	BlockBytes int // of the blocks of a tile's rows
	pack       func(dst []byte, row int, src []byte, w []int8, weights func([]int8, []byte))
	weights    func(dst []int8, src []byte)
}

// For is a format in a layout; false where it has none of that name.
func For(t format.Type, layout string) (*Format, bool) {
	f, ok := formats[layout][t]
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

`, rows32.Rows, rows32.UnitElems, scratch, rows32.Name, quoted(layouts))
	b.WriteString("var formats = map[string]map[format.Type]*Format{\n")
	for _, l := range layouts {
		fmt.Fprintf(&b, "%q: {\n", l)
		for _, t := range tiles {
			if t.Name == l {
				fmt.Fprintf(&b, "format.%s: {Name: %q, Layout: %q, BlockElems: %d, FileBytes: %d, BlockBytes: %d, pack: %s},\n",
					emit.GoName(t.Source.Name), t.Source.Name, l, t.Source.Elems, t.Source.Bytes, t.Stored.Bytes, packName(t))
			}
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	b.WriteString(panelSource(tiled))
	b.WriteString(plainSource())
	fmt.Fprintf(&b, `
func init() {
	for _, layout := range formats {
		for t, f := range layout {
			k, _ := cpu.For(t)
			f.weights = k.Weights
		}
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

// putSigns writes the signs of the weights of a row's block: those of lane i of a unit and element e to bit 2e + i%%2 of byte i/2 where
// an entry of the codebook is two lanes, else to bit 2e + i/4 of byte i%%4. dst is the row's place in the first vector.
func putSigns(dst []byte, weights []int8, pairs bool) {
	w := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(weights))), len(weights))
	for u := 0; len(w) >= UnitElems; u, w = u+1, w[UnitElems:] {
		var all uint32
		for k := range 4 {
			x := binary.LittleEndian.Uint64(w[8*k:]) >> 7 & 0x0101010101010101
			x = (x | x>>6 | x>>12 | x>>18) & 0x0000005500000055 // the second lane's in the upper half
			if pairs {
				all |= uint32(x|x>>31) << (8 * k)
			} else {
				all |= uint32(x|x>>24) << (k/2 + k%%2*16)
			}
		}
		binary.LittleEndian.PutUint32(dst[u*%[2]d:], all)
	}
}

// putNibble writes four bits of a row; rows lie side by side.
func putNibble(dst []byte, row int, bits uint32) {
	shift := row %% 2 * 4
	dst[row/2] = dst[row/2]&^(15<<shift) | byte(bits)<<shift
}

// putTrits writes the trits of a row's block, a byte each, several to a number of base 3. low and last are the row's places.
func putTrits(low, high0, high1, last []byte, row int, trits []int8) {
	w := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(trits))), len(trits))
	for u := 0; len(w) >= UnitElems; u, w = u+1, w[UnitElems:] {
		var x [8]uint32 // of each lane, a byte an element
		for i := range x {
			x[i] = binary.LittleEndian.Uint32(w[4*i:])
		}
		first, second, third := x[0]+3*x[1]+9*x[2], x[3]+3*x[4]+9*x[5], x[6]+3*x[7]
		binary.LittleEndian.PutUint32(low[u*%[2]d:], first|second&0x07070707<<5)
		for i, high := range [2][]byte{high0, high1} {
			b := second >> (3 + i) & 0x01010101
			putNibble(high[u*%[2]d/8:], row, (b|b>>7|b>>14|b>>21)&15)
		}
		binary.LittleEndian.PutUint16(last[u*%[2]d/2:], uint16(third&0xf|third>>4&0xf0|third>>8&0xf00|third>>12&0xf000))
	}
}
`, rows32.LaneElems, rows32.Rows*rows32.LaneElems)
	return b.String()
}
