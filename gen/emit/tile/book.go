package tile

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/minfer/minfer/gen/model"
)

// Kernels of tiles that keep indices (model.TileIndex) look the entries of the codebook up, each of their two bytes by itself: a
// permutation of bytes finds 64 of them among 128, and the index's eighth bit chooses between two.
//
// A byte of an entry holds a slice, two bits, of the sub-codes of a lane's four elements. Selecting unaligned bytes spreads it over
// the lane: byte e then begins with the slice of element e, at the place that the slice has in the word. What follows it belongs to
// others; it is replaced by the next slice, and past the word it does not matter, since the levels repeat within the 64 that the last
// permutation knows.

// book is the sizes that follow from an index.
type book struct {
	*model.TileIndex
	half    int // lanes that an entry makes: one, or two
	vectors int // of indices in a unit
	slices  int // bytes of an entry for a lane
	signAt  int // slice of the sign ...
	signBit int // ... and its bit there
}

func (k *kernel) book() book {
	x := k.t.Index
	return book{x, x.Width() / k.t.LaneElems, k.t.UnitElems / x.Width() / k.t.LaneElems, x.Slices(), x.Bits() / model.TileSlice, x.Bits() % model.TileSlice}
}

// entryBytes is the bytes of an entry.
const entryBytes = 2

// wordSlices is the slices of a word, the sign's with them.
func (b book) wordSlices() int { return max(b.slices, b.signAt+1) }

// patterns is how many slices of a word are spread: a bit that a whole unit has needs none.
func (b book) patterns() int {
	if b.Group != nil {
		return b.slices
	}
	return b.wordSlices()
}

// own is the bits of an index that the first byte alone depends on, and as many of the bits beyond take their place for the second.
func (b book) own() int { return lowBits - b.Shared }

// lowBits is the bits of an index that lie in a byte.
const lowBits = 8

// beyond is the fields of bits that lie together for an entry: those of the index, and the word's.
func (b book) beyond() []*model.Field {
	if b.Per == b.Width() {
		return append(slices.Clone(b.High), b.Signs)
	}
	return b.High
}

// signs tells which of the two lanes that share a byte of signs a lane is.
func (b book) signs(vector, half int) int {
	if b.half == 2 {
		return half
	}
	return vector
}

// tableBytes is the size of a table: a byte of the entries as it depends on the index.
func (k *kernel) tableBytes(i int) int {
	b := k.book()
	if i == 0 {
		return 1 << lowBits
	}
	return 1 << (b.Shared + len(b.High))
}

// rBook is the address of what a kernel of a book reads beside weights. Numbers that are not finite are noted in memory instead.
var rBook = rBad

// rHigh is the address of the unit's upper bits of indices.
var rHigh = rBytes

// lines is what lies at rBook: the entries' bytes, the patterns that spread them, the levels. It is copied into scratch memory, for
// constants of a Go program need not begin at a cache line, and two lines are read for each access then.
func (k *kernel) lines() (all [][]byte) {
	if k.t.Index == nil {
		return k.linesOfTrits()
	}
	b := k.book()
	for i := range entryBytes {
		table := make([]byte, k.tableBytes(i))
		for n := range table {
			index := n
			if i > 0 {
				own := 1<<b.own() - 1
				index = n&0xff&^own | (n>>lowBits<<b.own()|n&own)<<lowBits
			}
			table[n] = b.Byte(b.Book.Entries[index], i)
		}
		all = slices.AppendSeq(all, slices.Chunk(table, cacheLine))
	}
	for s := range b.patterns() {
		for i := range k.t.LaneElems {
			line := make([]byte, cacheLine)
			for n := range line {
				line[n] = byte(n%8/4*32+8*i+model.TileSlice*(n%4-s)) & 63
			}
			all = append(all, line)
		}
	}
	levels := make([]byte, cacheLine)
	for n := range levels {
		levels[n] = byte(k.levels[n%len(k.levels)])
	}
	all = append(all, levels)
	for i := range b.own() {
		all = append(all, bytes.Repeat([]byte{1 << i}, cacheLine))
	}
	return all
}

// The places of the lines.
func (k *kernel) patternAt(slice, i int) operand.Mem {
	return mem(rBook, k.tableBytes(0)+k.tableBytes(1)+(slice*k.t.LaneElems+i)*cacheLine)
}
func (k *kernel) levelsAt() operand.Mem { return k.patternAt(k.book().patterns(), 0) }
func (k *kernel) bitAt(i int) operand.Mem {
	m := k.levelsAt()
	m.Disp += (1 + i) * cacheLine
	return m
}

// openBook copies the lines.
func (k *kernel) openBook() {
	k.op("MOVQ", mem(rArgs, args.scratch), rBook)
	k.op("ADDQ", operand.U32(k.t.Units*k.unitScratch()), rBook)
	for i, line := range k.lines() {
		k.load(k.place(line), vec(0))
		k.load(vec(0), mem(rBook, i*cacheLine))
	}
	k.op("MOVQ", operand.U32(0), mem(rArgs, args.bad))
}

// keepBook loads what there are registers for beside words, entries and three for their signs.
func (k *kernel) keepBook() {
	b := k.book()
	k.shifts = map[[2]int]vec{}
	masks := []uint32{k.below(1)}
	if b.signAt < b.slices {
		masks = append(masks, signMask)
	}
	room := len(k.free) - k.runs()*k.perRun() - k.vecs*b.vectors*entryBytes - 3
	if room < len(masks)+1+b.patterns()*k.t.LaneElems {
		room -= b.patterns() // patterns that are loaded when they are due
	}
	keep := func() (r vec, ok bool) {
		if ok = room > 0; ok {
			room--
			r = k.free[len(k.free)-1]
			k.free = k.free[:len(k.free)-1]
		}
		return r, ok
	}
	for _, mask := range masks {
		if r, ok := keep(); ok {
			k.kept[mask] = r
			k.op("VPBROADCASTD", k.bytes4(mask), r)
		}
	}
	if r, ok := keep(); ok {
		k.table = r
		k.load(k.levelsAt(), r)
	}
	for s := range b.patterns() {
		for i := range k.t.LaneElems {
			if r, ok := keep(); ok {
				k.shifts[[2]int{s, i}] = r
				k.load(k.patternAt(s, i), r)
			}
		}
	}
}

// below selects the bits of a byte's slices below one.
func (k *kernel) below(slice int) uint32 { return uint32(1<<(slice*model.TileSlice)-1) * 0x01010101 }

// signMask selects the signs of an entry's byte that has bits of sub-codes as well.
const signMask = 0xaaaaaaaa

// pointHigh sets rHigh to the block's first unit.
func (k *kernel) pointHigh() {
	b := k.book()
	if len(b.beyond()) == 0 {
		return
	}
	first := b.beyond()[0].AtBytes
	at := mem(rW, first)
	if k.vecs*k.lanes() < k.t.Rows {
		k.op("MOVQ", rRow, rHigh)
		k.op("SHRQ", operand.U8(1), rHigh) // four bits a row
		at = indexed(rW, rHigh, 1, first)
	}
	k.op("LEAQ", at, rHigh)
}

// highAt is where bits beyond lie for a vector of entries and a vector of rows.
func (k *kernel) highAt(f *model.Field, g, v int) operand.Mem {
	return mem(rHigh, f.AtBytes-k.book().beyond()[0].AtBytes+(g*k.t.Rows+v*k.lanes())*k.t.LaneElems/8)
}

// unitOfBook multiplies one unit.
func (k *kernel) unitOfBook() {
	b := k.book()
	before := slices.Clone(k.free)
	// The last registers: words begin while entries are still to be read.
	n := b.vectors * entryBytes
	found := make([][]vec, k.vecs) // by vector of rows: vector of indices, then byte
	for v := range found {
		found[v] = slices.Clone(k.free[len(k.free)-n:])
		k.free = k.free[:len(k.free)-n]
	}
	if last := slices.Min(slices.Concat(found...)); last < k.word(k.runs()*k.perRun()) {
		panic(fmt.Sprintf("BUG: %s: no registers for entries", k.fn.Name))
	}
	for g := range b.vectors {
		into := make([][]vec, k.vecs)
		for v := range into {
			into[v] = found[v][g*entryBytes:][:entryBytes]
		}
		k.lookUp(g, into)
	}
	for v := range found {
		k.spell(v, found[v])
		k.give(found[v]...)
		k.dots(v, 0, k.runs())
	}
	if len(b.beyond()) > 0 {
		k.op("ADDQ", b.vectors*k.t.Rows*k.t.LaneElems/8, rHigh)
	}
	k.free = before
}

// lookUp finds the bytes of the entries of a vector of indices, for all vectors of rows of the pass: they share what is loaded.
func (k *kernel) lookUp(g int, into [][]vec) {
	b := k.book()
	upper := []operand.Op{reg.K1, reg.K2}[:k.vecs] // the eighth bit of each index
	further := []operand.Op{reg.K3, reg.K4}[:k.vecs]
	bit := reg.K5
	index := make([]vec, k.vecs)
	for v := range index {
		index[v] = k.take()
		k.load(indexed(rWords, rUnit, b.vectors, b.Low.AtBytes+g*k.unitStep()+v*k.bytes()), index[v])
		k.op("VPMOVB2M", index[v], upper[v])
	}
	choose := func(first int, to []vec) {
		other := make([]vec, k.vecs)
		for v := range other {
			other[v] = k.take()
		}
		k.permute(mem(rBook, first), index, to)
		k.permute(mem(rBook, first+permuted), index, other)
		for v := range to {
			k.op("VMOVDQU8", other[v], upper[v], to[v])
		}
		k.give(other...)
	}
	to, other := make([]vec, k.vecs), make([]vec, k.vecs)
	for v := range into {
		to[v] = into[v][0]
	}
	choose(0, to)
	for v := range into {
		to[v] = into[v][1]
		if b.own() > 0 {
			k.ands(uint32(0xff<<b.own()&0xff)*0x01010101, index[v], index[v])
		}
		for n, f := range b.High {
			if n >= b.own() {
				k.op("KMOVQ", k.highAt(f, g, v), further[v])
				continue
			}
			k.op("KMOVQ", k.highAt(f, g, v), bit)
			k.op("VPADDB", k.bitAt(n), index[v], bit, index[v])
		}
	}
	choose(k.tableBytes(0), to)
	if len(b.High) > b.own() {
		for v := range other {
			other[v] = k.take()
		}
		choose(k.tableBytes(0)+2*permuted, other)
		for v := range to {
			k.op("VMOVDQU8", other[v], further[v], to[v])
		}
		k.give(other...)
	}
	k.give(index...)
}

// permuted is what one permutation chooses from.
const permuted = 128

// permute looks indices up among 128 bytes of a table.
func (k *kernel) permute(table operand.Mem, index, to []vec) {
	second := table
	second.Disp += cacheLine
	last := len(to) - 1
	k.load(table, to[last])
	if last == 0 {
		k.op("VPERMT2B", second, index[0], to[0])
		return
	}
	x := k.take()
	k.load(second, x)
	for v := range last {
		k.op("VMOVDQA64", index[v], to[v])
		k.op("VPERMI2B", x, to[last], to[v])
	}
	k.op("VPERMT2B", x, index[last], to[last])
	k.give(x)
}

// bitSlot is the offset in a unit's scratch of the bit of its words, as often as a vector has it.
func (k *kernel) bitSlot(v int) int { return (v*k.slots() + k.slots() - 1) * k.bytes() }

// spreadBit stores a unit's bit of a vector of rows.
func (k *kernel) spreadBit(v int, state func(*model.TileGroup, model.TilePiece, int) vec) {
	r := k.take()
	k.group(k.t.Index.Group, v, 0, state, r)
	k.op("VPSLLD", 31, r, r)
	k.op("VPSRAD", 31, r, r)
	k.load(r, mem(rScale, k.bitSlot(v)))
	k.give(r)
}

// spell makes the words of a vector of rows from its entries and signs, and the bytes of these.
func (k *kernel) spell(v int, entries []vec) {
	b := k.book()
	before := slices.Clone(k.free)
	k.free = slices.DeleteFunc(k.free, func(r vec) bool { return r < k.word(k.runs()*k.perRun()) })
	raw, moved := k.take(), none
	switch b.Per {
	case 1:
		moved = k.take()
		k.load(indexed(rWords, rUnit, 1, b.Signs.AtBytes+v*k.bytes()), raw)
		by := 1 - 2*b.signBit // of one of the two lanes that share a byte, the sign is already in place
		k.shift(by, raw, moved)
	case b.Width():
		k.op("KMOVQ", k.highAt(b.Signs, 0, v), reg.K5)
		k.op("VPMOVM2B", reg.K5, raw)
	default:
		k.load(mem(rScale, k.bitSlot(v)), raw)
	}
	sign := func(vector, half int) vec {
		if b.Per > 1 || b.signs(vector, half) == b.signBit {
			return raw
		}
		return moved
	}
	at := func(vector, half, slice int) vec { return entries[(vector*b.half+half)*b.slices+slice] }
	if b.signAt < b.slices {
		for vector := range b.vectors {
			for half := range b.half {
				to := at(vector, half, b.signAt)
				if mask, ok := k.kept[signMask]; ok {
					k.op("VPTERNLOGD", orAnd, mask, sign(vector, half), to)
				} else {
					k.suffixed("VPTERNLOGD", "BCST", orAnd, k.constant(signMask), sign(vector, half), to)
				}
			}
		}
		k.give(raw)
		if moved != none {
			k.give(moved)
		}
	}
	x := k.take()
	loaded := make([]vec, b.patterns())
	for s := range loaded {
		if _, all := k.shifts[[2]int{s, k.t.LaneElems - 1}]; !all {
			loaded[s] = k.take()
		}
	}
	for i := range k.t.LaneElems {
		pattern := make([]vec, len(loaded))
		for s := range pattern {
			r, ok := k.shifts[[2]int{s, i}]
			if !ok {
				r = loaded[s]
				k.load(k.patternAt(s, i), r)
			}
			pattern[s] = r
		}
		for vector := range b.vectors {
			for half := range b.half {
				w := k.word((vector*k.t.LaneElems+i)*b.half + half)
				k.op("VPMULTISHIFTQB", at(vector, half, 0), pattern[0], w)
				for s := 1; s < b.wordSlices(); s++ {
					x := x
					switch {
					case s < b.slices:
						k.op("VPMULTISHIFTQB", at(vector, half, s), pattern[s], x)
					case b.Group != nil:
						x = raw // the same everywhere
					case b.Per == 1 || half == 0: // else an entry's second lane has what its first had
						k.op("VPMULTISHIFTQB", sign(vector, half), pattern[s], x)
					}
					if mask, ok := k.kept[k.below(s)]; ok {
						k.op("VPTERNLOGD", either, mask, x, w)
					} else {
						k.suffixed("VPTERNLOGD", "BCST", either, k.constant(k.below(s)), x, w)
					}
				}
				if k.table != none {
					k.op("VPERMB", k.table, w, w)
				} else {
					k.op("VPERMB", k.levelsAt(), w, w)
				}
			}
		}
	}
	k.free = before
}

// either is the truth table of dst & mask | src &^ mask for VPTERNLOGD.
const either = 0xe4
