package tile

import (
	"bytes"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of trits (model.TileTrits) find each trit of a number by a permutation of bytes that knows 64 of them: what lies in a byte
// above the number does not matter where the table repeats.

// tritLines is the tables of the five bits' three trits, those of the four bits' two, the pattern that spreads four bits of a row's element
// to its byte, and the second number's upper bits.
const (
	lastTrits = 3
	spread    = 5
	upperBits = 6
	tritLines = 8
)

func (k *kernel) linesOfTrits() (all [][]byte) {
	if k.t.Trits == nil {
		return nil
	}
	for _, n := range []struct{ bits, trits int }{{5, 3}, {4, 2}} {
		power := 1
		for range n.trits {
			line := make([]byte, cacheLine)
			for i := range line {
				line[i] = byte(i & (1<<n.bits - 1) / power % 3)
			}
			all = append(all, line)
			power *= 3
		}
	}
	line := make([]byte, cacheLine)
	for i := range line {
		line[i] = byte(i%8/4*32 + 4*(i%4))
	}
	return append(all, line, bytes.Repeat([]byte{1 << 3}, cacheLine), bytes.Repeat([]byte{1 << 4}, cacheLine))
}

// tritLine is where a line lies.
func (k *kernel) tritLine(i int) operand.Mem { return mem(rBook, i*cacheLine) }

// keepTrits loads the lines that there are registers for.
func (k *kernel) keepTrits() {
	k.lineIn = map[int]vec{}
	const others = 8 + 8 // words, and what decode and dots take at a time
	for i := 0; i < tritLines && len(k.free) > others; i++ {
		r := k.free[len(k.free)-1]
		k.free = k.free[:len(k.free)-1]
		k.lineIn[i] = r
		k.load(k.tritLine(i), r)
	}
}

// line is a line as an operand.
func (k *kernel) line(i int) any {
	if r, ok := k.lineIn[i]; ok {
		return r
	}
	return k.tritLine(i)
}

// pointTrits sets rHigh to the offset of the first unit's upper bits, four a row; the third numbers have four times as many.
func (k *kernel) pointTrits() {
	k.op("MOVQ", rRow, rHigh)
	k.op("SHRQ", operand.U8(1), rHigh)
}

// unitOfTrits multiplies one unit.
func (k *kernel) unitOfTrits() {
	for v := range k.vecs {
		k.spellTrits(v)
		k.dots(v, 0, k.runs())
	}
	k.op("ADDQ", k.t.Rows*k.t.LaneElems/8, rHigh)
}

// spellTrits makes the bytes of a vector of rows.
func (k *kernel) spellTrits(v int) {
	x := k.t.Trits
	before := slices.Clone(k.free)
	n := k.runs() * k.perRun()
	k.free = slices.DeleteFunc(k.free, func(r vec) bool { return r < k.word(n) })
	first, second, third := k.take(), k.take(), k.take()
	elems := k.lanes() * k.t.LaneElems // of the vector
	k.load(indexed(rWords, rUnit, 1, x.Low.AtBytes+v*elems), first)
	k.op("VPSRLD", 5, first, second)
	k.ands(0x07070707, second, second)
	for i, f := range x.High {
		bit := []operand.Op{reg.K1, reg.K2}[i]
		k.op("KMOVQ", indexed(rW, rHigh, 1, f.AtBytes+v*elems/8), bit)
		k.op("VPADDB", k.line(upperBits+i), second, bit, second)
	}
	k.op("VPMOVZXWD", indexed(rW, rHigh, 4, x.Last.AtBytes+v*elems/2), third)
	pattern, ok := k.lineIn[spread]
	if !ok {
		pattern = k.take()
		k.load(k.tritLine(spread), pattern)
	}
	k.op("VPMULTISHIFTQB", third, pattern, third)
	for i := range n {
		from, table := []vec{first, second, third}[i/3], i%3
		if i/3 == 2 {
			table += lastTrits
		}
		k.op("VPERMB", k.line(table), from, k.word(i))
	}
	k.free = before
}
