package tile

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/minfer/minfer/gen/model"
)

// level is a set of instructions that kernels are emitted for.
type level struct {
	name string // of the feature
	bits int    // of a vector
	dot  dotOp
}

// dotOp is how products of bytes are summed.
type dotOp int

const (
	pairs dotOp = iota // VPMADDUBSW: pairs into 16 bits, then VPMADDWD into 32
	vex                // VPDPBUSD in its VEX encoding: fours into 32 bits, registers alone
	evex               // VPDPBUSD with an operand broadcast from memory
)

var levels = []*level{
	{name: "avx2", bits: 256, dot: pairs},
	{name: "avx2vnni", bits: 256, dot: vex},
	{name: "avx512", bits: 512, dot: pairs},
	{name: "avx512vnni", bits: 512, dot: evex},
	{name: "avx512vbmi", bits: 512, dot: evex},
}

// levelOf is the level that a variant's body is for.
func levelOf(v *model.Variant) (*level, error) {
	if len(v.Features) == 1 {
		for _, l := range levels {
			if l.name == v.Features[0] {
				return l, nil
			}
		}
	}
	return nil, fmt.Errorf("variant %s needs %v; bodies are known for one of avx2, avx2vnni, avx512, avx512vnni, avx512vbmi", v.Name, v.Features)
}

func (l *level) lanes() int { return l.bits / 32 }
func (l *level) bytes() int { return l.bits / 8 }
func (l *level) registers() int {
	if l.bits == 512 {
		return 32
	}
	return 16
}

// kernel writes the product of tiles of rows with a tile of tokens:
//
//	for each tile of rows, for each pass over some of its vectors of rows
//	    for each block of a row
//	        scales and offsets of the block's units, as vectors, into scratch memory
//	        for each unit, vector of rows and run of elements that share a scale
//	            decode the run's words to bytes, one register a lane position
//	            for each token: integer dot, then sum += d8 * (scale * dot - offset * sum of activations)
//
// A sum belongs to one lane of one register from its first unit to its last, so it has the same bits in every kernel of a
// level, whatever the number of tokens.
type kernel struct {
	*asm
	t      *model.Tile
	name   string
	tokens int
	vecs   int // vectors of rows in a pass

	bias   int   // what makes numbers unsigned: number + bias is the byte that is multiplied
	levels []int // with the bias
	top    int   // the greatest byte
	run    int   // elements that share scale and offset
	free   []vec
	kept   map[uint32]vec // masks that stay in a register
	table  vec            // of levels, where it stays in a register
	shifts map[[2]int]vec // of a book: the patterns that stay in a register
	lineIn map[int]vec    // of trits: the lines that do
}

// The registers of a kernel.
var (
	rArgs   = reg.RDI
	rW      = reg.RSI // the tile's block
	rX      = reg.R9  // activations
	rY      = reg.R10
	rBias   = reg.R11
	rAhead  = reg.R12 // what is asked for ahead
	rBlocks = reg.R13 // to go
	rUnit   = reg.R14 // offset by unit
	rBad    = reg.R15
	rRow    = reg.R8  // first row of the pass
	rWords  = reg.RDX // block, plus the pass's offset in vectors of words
	rBytes  = reg.RCX // block, plus the pass's offset in vectors of bytes
	rScale  = reg.RAX // scratch of the unit
	rTile   = reg.RBX // first block of the tile
)

// args is the offset of each member of the emitted type Args.
var args = struct{ w, x, bias, y, scratch, tiles, blocks, yStride, biasStep, bad int }{0, 8, 16, 24, 32, 40, 48, 56, 64, 72}

// panel describes activations as kernels read them: for a tile of T tokens, unit after unit, the T rows of 32 bytes and
// then T of each of the fields.
var panelFields = []string{"d", "sum", "sum0", "sum1", "neg", "neg0", "neg1"}

func panelBytes(tokens int) int {
	n := tokens * (32 + 4*len(panelFields))
	return (n + 15) / 16 * 16
}

func panelAt(tokens int, field string, token int) int {
	return tokens*32 + 4*(slices.Index(panelFields, field)*tokens+token)
}

// newKernel prepares a kernel.
func newKernel(a *asm, t *model.Tile, name string, tokens, vecs int) *kernel {
	k := &kernel{asm: a, t: t, name: name, tokens: tokens, vecs: vecs, bias: t.Zero}
	if t.Levels != nil {
		k.bias = 0
		if least := slices.Min(t.Levels); least < 0 {
			k.bias = 1 << bits.Len(uint(-least-1))
		}
		for _, l := range t.Levels {
			k.levels = append(k.levels, l+k.bias)
		}
		k.top = slices.Max(k.levels)
	} else {
		k.top = 1<<t.WordBits - 1
	}
	k.run = min(t.Scale.Elems(t.UnitElems), t.Offset.Elems(t.UnitElems))
	return k
}

// looks reports whether words are looked up in tables.
func (k *kernel) looks() bool { return k.t.Index != nil || k.t.Trits != nil }

func (k *kernel) runs() int   { return k.t.UnitElems / k.run }
func (k *kernel) perRun() int { return k.run / k.t.LaneElems }

func (k *kernel) take() vec {
	if len(k.free) == 0 {
		panic("BUG: out of vector registers in " + k.fn.Name)
	}
	v := k.free[0]
	k.free = k.free[1:]
	return v
}

func (k *kernel) give(v ...vec) {
	k.free = append(k.free, v...)
	slices.Sort(k.free)
}

// sum is the register of a token's sums of a vector of rows of the pass.
func (k *kernel) sum(token, v int) vec { return vec(v*k.tokens + token) }

// word is the register of the decoded bytes of a lane position.
func (k *kernel) word(i int) vec { return vec(k.vecs*k.tokens + i) }

// slots is the vectors of scratch memory that a unit takes for each vector of rows: scales, then offsets, then the bit of its words.
func (k *kernel) slots() int {
	n := k.runs()
	if !k.t.Offset.Empty() {
		n *= 2
	}
	if k.t.Index != nil && k.t.Index.Group != nil {
		n++
	}
	return n
}

// scratchAt is the offset in a unit's scratch of a scale or an offset.
func (k *kernel) scratchAt(v, run int, offset bool) int {
	i := run
	if offset {
		i += k.runs()
	}
	return (v*k.slots() + i) * k.bytes()
}

func (k *kernel) unitScratch() int { return k.vecs * k.slots() * k.bytes() }

// scratchBytes is what a kernel needs of scratch memory.
func (k *kernel) scratchBytes() int { return k.t.Units*k.unitScratch() + cacheLine*len(k.lines()) }

func (k *kernel) write() {
	k.fn = ir.NewFunction(k.name)
	k.fn.Attributes = attr.NOSPLIT
	k.fn.Doc = []string{fmt.Sprintf("%s: %d rows x %d tokens", k.t.Source.Name, k.t.Rows, k.tokens)}
	sig, err := gotypes.ParseSignature("func(a *byte)")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	k.fn.SetSignature(sig)
	k.file.AddSection(k.fn)
	for v := k.vecs * k.tokens; v < k.registers(); v++ {
		k.free = append(k.free, vec(v))
	}

	k.op("MOVQ", operand.NewParamAddr("a", 0), rArgs)
	if k.looks() {
		k.openBook()
	}
	k.keep()
	k.op("MOVQ", mem(rArgs, args.w), rTile)
	k.op("MOVQ", mem(rArgs, args.y), rY)
	k.op("MOVQ", mem(rArgs, args.bias), rBias)
	if !k.looks() {
		k.op("XORL", reg.R15L, reg.R15L)
	}
	tiles := k.loop("tile")
	k.op("XORL", reg.R8L, reg.R8L)
	pass := k.loop("pass")
	k.op("MOVQ", rTile, rW)
	k.op("MOVQ", mem(rArgs, args.x), rX)
	k.op("MOVQ", mem(rArgs, args.blocks), rBlocks)
	for i := range k.vecs * k.tokens {
		k.zero(vec(i))
	}
	blocks := k.loop("block")
	k.op("LEAQ", indexed(rW, rRow, 4, 0), rWords)
	if k.streams() {
		k.op("LEAQ", mem(rW, k.aheadBytes()), rAhead)
	}
	k.scales()
	k.op("MOVQ", mem(rArgs, args.scratch), rScale)
	k.op("XORL", reg.R14L, reg.R14L)
	switch {
	case k.t.Index != nil:
		k.pointHigh()
	case k.t.Trits != nil:
		k.pointTrits()
	}
	if k.t.Units == 1 {
		k.unit()
	} else {
		units := k.loop("unit")
		_, lines := k.aheadLines()
		k.ahead(lines)
		k.unit()
		k.op("ADDQ", k.unitScratch(), rScale)
		k.op("ADDQ", k.unitStep(), rUnit)
		k.op("CMPQ", rUnit, operand.U32(k.t.Units*k.unitStep()))
		k.op("JLT", units)
	}
	k.op("ADDQ", operand.U32(k.t.Stored.Bytes), rW)
	k.op("DECQ", rBlocks)
	k.op("JNZ", blocks)
	k.finish()
	if k.vecs*k.lanes() < k.t.Rows {
		k.op("ADDQ", k.vecs*k.lanes(), rRow)
		k.op("CMPQ", rRow, operand.U32(k.t.Rows))
		k.op("JLT", pass)
	}
	k.op("ADDQ", 4*k.t.Rows, rY)
	k.op("ADDQ", mem(rArgs, args.biasStep), rBias)
	k.op("MOVQ", rW, rTile)
	k.op("DECQ", mem(rArgs, args.tiles))
	k.op("JNZ", tiles)
	if !k.looks() {
		k.op("MOVQ", rBad, mem(rArgs, args.bad))
	}
	k.op("VZEROUPPER")
	k.op("RET")
}

// keep loads constants into the registers that kernels of few tokens leave over.
func (k *kernel) keep() {
	const others = 8 + 14 // words, and what scales, decode and dots take at a time
	k.kept, k.table = map[uint32]vec{}, none
	room := len(k.free) - others
	switch {
	case k.t.Index != nil:
		k.keepBook()
		return
	case k.t.Trits != nil:
		k.keepTrits()
		return
	}
	if k.levels != nil && room > 0 {
		k.table = k.free[len(k.free)-1]
		k.free = k.free[:len(k.free)-1]
		k.loadTable(k.table)
		room--
	}
	for _, p := range k.t.Word {
		if p.Bits < 8 && room > 0 {
			mask := k.mask(p)
			r := k.free[len(k.free)-1]
			k.free = k.free[:len(k.free)-1]
			k.kept[mask] = r
			k.op("VPBROADCASTD", k.bytes4(mask), r)
			room--
		}
	}
}

// mask selects a plane's bits at their place in the bytes of a lane.
func (k *kernel) mask(p model.TilePlane) uint32 { return uint32(1<<p.Bits-1) << p.Pos * 0x01010101 }

func (k *kernel) loadTable(table vec) {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(k.levels[i%len(k.levels)])
	}
	if k.bits == 512 {
		k.op("VBROADCASTI32X4", k.place(b), table)
	} else {
		k.op("VBROADCASTI128", k.place(b), table)
	}
}

// aheadBytes is how far ahead of its use a block is asked for, where it is read once: further than the memory takes to answer, nearer
// than the first cache holds. The CPU's own look ahead ends at pages and gets lost among the fields of a block. What is the best was
// measured: 9 KiB, but 12.5 KiB at most with the block itself.
func (k *kernel) aheadBytes() int {
	return max(4<<10, min(9<<10, 25<<9-k.t.Stored.Bytes))
}

// streams reports whether the weights are read out of memory rather than a cache: for one token they are read once.
func (k *kernel) streams() bool { return k.tokens == 1 }

// aheadLines is how many cache lines are asked for with the scales of a unit for a vector of rows, and with its products: together a
// block. Memory would be idle if none were asked for with the scales.
func (k *kernel) aheadLines() (scales, products int) {
	lines := (k.t.Stored.Bytes + cacheLine - 1) / cacheLine
	if k.t.Units == 1 {
		return lines, 0
	}
	return 1, (max(0, lines-k.vecs*k.t.Units) + k.t.Units - 1) / k.t.Units
}

// ahead asks for some cache lines.
func (k *kernel) ahead(lines int) {
	if !k.streams() || lines == 0 {
		return
	}
	for i := range lines {
		k.op("PREFETCHT0", mem(rAhead, i*cacheLine))
	}
	if k.t.Units > 1 {
		k.op("ADDQ", operand.U32(lines*cacheLine), rAhead)
	}
}

const cacheLine = 64

// unitStep is what rUnit grows by from one unit to the next: the bytes of a vector of every lane of the tile, so that a plane
// of b bits moves by b times as much.
func (k *kernel) unitStep() int { return k.t.Rows * k.t.LaneElems }

// scales computes the scales and offsets of a block's units into scratch memory.
func (k *kernel) scales() {
	t := k.t
	before := slices.Clone(k.free)
	k.op("LEAQ", indexed(rW, rRow, 1, 0), rBytes)
	for v := range k.vecs {
		k.free = slices.Clone(before)
		// State: a register for each item of the narrow pieces, shifted from unit to unit.
		type item struct {
			field *model.Field
			index int
		}
		state := map[item]vec{}
		var order []item
		for _, g := range t.Groups {
			for _, p := range g.Pieces {
				if p.ItemBits == 8 {
					continue
				}
				for _, at := range p.At {
					it := item{p.Field, at / (p.ItemBits * t.Rows)}
					if _, known := state[it]; known {
						continue
					}
					r := k.take()
					state[it] = r
					order = append(order, it)
					disp := p.Field.AtBytes + it.index*p.ItemBits/8*t.Rows + v*k.lanes()*p.ItemBits/8
					if p.ItemBits == 32 {
						k.load(mem(rWords, disp), r)
					} else {
						k.op("VPMOVZXWD", indexed(rW, rRow, 2, disp), r)
					}
				}
			}
		}
		times := 1 / float64(t.Times)
		scale := k.factors(t.Scale, v, times)
		offset := k.factors(t.Offset, v, 1)
		unit := func() {
			if k.t.Index != nil && k.t.Index.Group != nil {
				k.spreadBit(v, func(g *model.TileGroup, p model.TilePiece, inst int) vec {
					return state[item{p.Field, p.At[inst] / (p.ItemBits * t.Rows)}]
				})
			}
			for i := range k.runs() {
				k.product(t.Scale, scale, v, i, func(g *model.TileGroup, p model.TilePiece, inst int) vec {
					return state[item{p.Field, p.At[inst] / (p.ItemBits * t.Rows)}]
				}, k.scratchAt(v, i, false))
				if !t.Offset.Empty() {
					k.product(t.Offset, offset, v, i, func(g *model.TileGroup, p model.TilePiece, inst int) vec {
						return state[item{p.Field, p.At[inst] / (p.ItemBits * t.Rows)}]
					}, k.scratchAt(v, i, true))
				}
			}
		}
		k.op("MOVQ", mem(rArgs, args.scratch), rScale)
		k.op("XORL", reg.R14L, reg.R14L)
		lines, _ := k.aheadLines()
		if t.Units == 1 {
			if v == 0 {
				k.ahead(lines)
			}
			unit()
			continue
		}
		units := k.loop("scale")
		k.ahead(lines)
		unit()
		for _, it := range order {
			k.op("VPSRLD", k.unitBits(it.field), state[it], state[it])
		}
		k.op("ADDQ", k.unitScratch(), rScale)
		k.op("ADDQ", t.Rows, rUnit)
		k.op("CMPQ", rUnit, operand.U32(t.Units*t.Rows))
		k.op("JLT", units)
	}
	k.free = before
}

// unitBits is what the pieces of a field move by from unit to unit.
func (k *kernel) unitBits(f *model.Field) int {
	for _, g := range k.t.Groups {
		for _, p := range g.Pieces {
			if p.Field == f {
				return p.UnitBits
			}
		}
	}
	panic("BUG: a field of no piece")
}

// factor is what a product has before the unit's groups: the numbers' product, and for a first group that reads as
// mul*word + add both of its terms.
type factor struct{ mul, add vec }

const none vec = -1

// factors multiplies the numbers of a block, and the constants of the first group into them.
func (k *kernel) factors(p model.TileProduct, v int, times float64) factor {
	f := factor{none, none}
	if p.Empty() && times == 1 {
		return f
	}
	f.mul = k.take()
	for i, n := range p.Numbers {
		r := f.mul
		if i > 0 {
			r = k.take()
		}
		disp := n.Field.AtBytes + v*k.lanes()*n.Field.Type.Bits/8
		switch n.As {
		case model.F16:
			k.op("VCVTPH2PS", indexed(rW, rRow, 2, disp), r)
		case model.BF16:
			k.op("VPMOVZXWD", indexed(rW, rRow, 2, disp), r)
			k.op("VPSLLD", 16, r, r)
		default:
			k.load(mem(rWords, disp), r)
		}
		if i > 0 {
			k.op("VMULPS", r, f.mul, f.mul)
			k.give(r)
		}
	}
	mul, add := times, 0.0
	if len(p.Groups) > 0 {
		mul, add = times*p.Groups[0].Code.Mul, times*p.Groups[0].Code.Add
	}
	if len(p.Numbers) == 0 {
		k.splat(1, f.mul)
	}
	if add != 0 {
		f.add = k.take()
		k.withConstant("VMULPS", math.Float32bits(float32(add)), f.mul, f.add)
	}
	if mul != 1 {
		k.withConstant("VMULPS", math.Float32bits(float32(mul)), f.mul, f.mul)
	}
	return f
}

func (k *kernel) splat(x float32, r vec) {
	k.op("VBROADCASTSS", k.bytes4(math.Float32bits(x)), r)
}

func (k *kernel) bytes4(w uint32) operand.Mem {
	return k.place([]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)})
}

// product stores a scale or an offset of a run of a unit.
func (k *kernel) product(p model.TileProduct, f factor, v, run int, state func(*model.TileGroup, model.TilePiece, int) vec, at int) {
	out := mem(rScale, at)
	if len(p.Groups) == 0 {
		if f.mul == none {
			f.mul = k.take()
			defer k.give(f.mul)
			k.splat(1, f.mul)
		}
		k.op("VMOVUPS", f.mul, out)
		return
	}
	r := k.take()
	defer k.give(r)
	for i, g := range p.Groups {
		inst := run * g.Instances / k.runs()
		x := r
		if i > 0 {
			x = k.take()
		}
		k.group(g, v, inst, state, x)
		k.op("VCVTDQ2PS", x, x)
		switch {
		case i > 0:
			if c := g.Code; c.Mul != 1 || c.Add != 0 {
				k.withConstant("VMULPS", math.Float32bits(float32(c.Mul)), x, x)
				k.withConstant("VADDPS", math.Float32bits(float32(c.Add)), x, x)
			}
			k.op("VMULPS", x, r, r)
			k.give(x)
		case f.add != none:
			k.op("VFMADD213PS", f.add, f.mul, x) // x*mul + add
		default:
			k.op("VMULPS", f.mul, x, x)
		}
	}
	k.op("VMOVUPS", r, out)
}

// group puts an instance's word into 32-bit lanes.
func (k *kernel) group(g *model.TileGroup, v, inst int, state func(*model.TileGroup, model.TilePiece, int) vec, x vec) {
	for i, p := range g.Pieces {
		to := x
		if i > 0 {
			to = k.take()
		}
		if p.ItemBits == 8 {
			opcode := "VPMOVZXBD"
			if g.Code.As == model.Signed {
				opcode = "VPMOVSXBD"
			}
			k.op(opcode, indexed(rBytes, rUnit, g.Instances, p.Field.AtBytes+inst*k.t.Rows+v*k.lanes()), to)
			if p.Pos > 0 {
				k.op("VPSLLD", p.Pos, to, to)
			}
			if i > 0 {
				k.or(to, x)
			}
		} else {
			mask := uint32(1<<p.Bits-1) << p.Pos
			at := p.At[inst]%(p.ItemBits*k.t.Rows) - p.Pos
			from := state(g, p, inst)
			if at != 0 {
				k.shift(at, from, to)
				from = to
			}
			switch {
			case i == 0:
				k.ands(mask, from, x)
			case from == to:
				k.orMasked(mask, to, x)
			default:
				k.ands(mask, from, to)
				k.or(to, x)
			}
		}
		if i > 0 {
			k.give(to)
		}
	}
}

func (k *kernel) or(src, dst vec) {
	if k.bits == 512 {
		k.op("VPORD", src, dst, dst)
	} else {
		k.op("VPOR", src, dst, dst)
	}
}

// unit multiplies one unit. Where there are registers for the words of all runs their scaled sums are added before the activations'
// scale is applied, once for all; else run by run.
func (k *kernel) unit() {
	if k.looks() {
		if k.t.Index != nil {
			k.unitOfBook()
		} else {
			k.unitOfTrits()
		}
		k.op("ADDQ", operand.U32(panelBytes(k.tokens)), rX)
		return
	}
	for v := range k.vecs {
		if k.bits == 512 {
			k.decode(v, 0, k.runs())
			k.dots(v, 0, k.runs())
			continue
		}
		for r := range k.runs() {
			k.decode(v, r, 1)
			k.dots(v, r, 1)
		}
	}
	k.op("ADDQ", operand.U32(panelBytes(k.tokens)), rX)
}

// decode puts the bytes of some runs' lane positions into the word registers.
func (k *kernel) decode(v, run, runs int) {
	before := slices.Clone(k.free)
	n := runs * k.perRun()
	k.free = slices.DeleteFunc(slices.Clone(before), func(r vec) bool { return r >= k.word(0) && r < k.word(n) })
	at := func(p model.TilePlane, lane int) operand.Mem {
		return indexed(rWords, rUnit, p.Bits, p.Field.AtBytes+lane%p.Bits*k.unitStep()+v*k.bytes())
	}
	table := k.table
	if k.levels != nil && table == none {
		table = k.take()
		k.loadTable(table)
	}
	// Planes above the first are loaded once for all lane positions that share a vector of them.
	loaded := map[[2]int]vec{}
	h := k.take()
	for i := range n {
		lane := run*k.perRun() + i
		w := k.word(i)
		for j, p := range k.t.Word {
			s := lane / p.Bits * p.Bits
			mask := k.mask(p)
			kept, inRegister := k.kept[mask]
			switch {
			case j == 0 && p.Bits == 8:
				k.load(at(p, lane), w)
			case j == 0 && s == 0 && inRegister:
				k.op("VPANDD", at(p, lane), kept, w)
			case j == 0 && s == 0:
				k.load(at(p, lane), w)
				k.ands(mask, w, w)
			case j == 0 && k.bits == 512 && inRegister:
				k.op("VPSRLD", s, at(p, lane), w)
				k.op("VPANDD", kept, w, w)
			case j == 0 && k.bits == 512:
				k.op("VPSRLD", s, at(p, lane), w)
				k.ands(mask, w, w)
			case j == 0:
				k.load(at(p, lane), w)
				k.op("VPSRLD", s, w, w)
				k.ands(mask, w, w)
			default:
				key := [2]int{j, lane % p.Bits}
				src, known := loaded[key]
				if !known {
					src = k.take()
					loaded[key] = src
					k.load(at(p, lane), src)
				}
				from := src
				if s != p.Pos {
					k.shift(s-p.Pos, src, h)
					from = h
				}
				switch {
				case inRegister:
					k.op("VPTERNLOGD", orAnd, kept, from, w)
				case from == h || k.bits == 512:
					k.orMasked(mask, from, w)
				default:
					k.ands(mask, src, h)
					k.or(h, w)
				}
			}
		}
		if k.levels != nil {
			k.op("VPSHUFB", w, table, w)
		}
	}
	k.free = before
}

// chunk is how many sums of pairs a 16-bit lane holds, and whether bytes are split into halves to have room for them.
func (k *kernel) chunk() (n int, split bool) {
	const greatest = 127 // of an activation
	n = math.MaxInt16 / (2 * greatest * k.top)
	if n == 0 {
		return math.MaxInt16 / (2 * greatest * 15), true
	}
	return n, false
}

// dots multiplies the decoded runs with every token.
func (k *kernel) dots(v, run, runs int) {
	before := slices.Clone(k.free)
	n := runs * k.perRun()
	k.free = slices.DeleteFunc(slices.Clone(before), func(r vec) bool { return r >= k.word(0) && r < k.word(n) })
	scale, offset := make([]operand.Op, runs), make([]operand.Op, runs)
	for r := range runs {
		scale[r], offset[r] = mem(rScale, k.scratchAt(v, run+r, false)), mem(rScale, k.scratchAt(v, run+r, true))
		if k.bits == 512 {
			scale[r] = k.loaded(scale[r])
			if !k.t.Offset.Empty() {
				offset[r] = k.loaded(offset[r])
			}
		}
	}
	together := k.together(runs)
	for t0 := 0; t0 < k.tokens; t0 += together {
		inner := slices.Clone(k.free)
		tokens := min(together, k.tokens-t0)
		var sum []vec // of the runs, scaled
		for r := range runs {
			sums, negs := "sum", "neg"
			if k.runs() == 2 {
				sums, negs = fmt.Sprintf("sum%d", run+r), fmt.Sprintf("neg%d", run+r)
			}
			var acc []vec
			for i := range tokens {
				acc = append(acc, k.take())
				if k.dot != pairs {
					k.unbiased(mem(rX, panelAt(k.tokens, negs, t0+i)), acc[i])
				}
			}
			k.products(run+r, r*k.perRun(), t0, negs, acc)
			for i, a := range acc {
				k.op("VCVTDQ2PS", a, a)
				if r == 0 {
					k.op("VMULPS", scale[r], a, a)
					sum = append(sum, a)
				} else {
					k.op("VFMADD231PS", scale[r], a, sum[i])
				}
				if !k.t.Offset.Empty() {
					opcode := "VFMADD231PS"
					if k.t.Subtracted {
						opcode = "VFNMADD231PS"
					}
					k.timesBroadcast(opcode, mem(rX, panelAt(k.tokens, sums, t0+i)), offset[r], sum[i])
				}
			}
			if r > 0 {
				k.give(acc...)
			}
		}
		for i, s := range sum {
			k.timesBroadcast("VFMADD231PS", mem(rX, panelAt(k.tokens, "d", t0+i)), k.reg(s), k.sum(t0+i, v))
		}
		k.free = inner
	}
	k.free = before
}

// together is how many tokens' sums are taken at a time: independent sums hide the time that one addition takes.
func (k *kernel) together(runs int) int {
	switch {
	case k.bits == 256 && k.dot == vex:
		return 2
	case k.bits == 256:
		return 1
	}
	perToken, others := min(runs, 2), 0
	if k.dot == pairs {
		others = 4
	}
	const most = 4
	return max(1, min(most, (len(k.free)-others)/perToken))
}

// loaded is a register that holds a vector of memory.
func (k *kernel) loaded(from operand.Op) operand.Op {
	r := k.take()
	k.op("VMOVUPS", from, r)
	return k.reg(r)
}

// timesBroadcast is an instruction that adds the product of a broadcast number and a vector to another.
func (k *kernel) timesBroadcast(opcode string, number operand.Mem, by operand.Op, to vec) {
	if k.bits == 512 {
		k.suffixed(opcode, "BCST", number, by, to)
		return
	}
	r := k.take()
	k.op("VBROADCASTSS", number, r)
	k.op(opcode, by, r, to)
	k.give(r)
}

// unbiased is minus bias times the sum of the activations, which takes the bias of the bytes back.
func (k *kernel) unbiased(neg operand.Mem, to vec) {
	s := bits.TrailingZeros(uint(k.bias))
	switch {
	case k.bias == 0:
		k.zero(to)
	case 1<<s == k.bias && k.bits == 512:
		k.suffixed("VPSLLD", "BCST", s, neg, to)
	default:
		k.op("VPBROADCASTD", neg, to)
		if 1<<s != k.bias {
			k.withConstant("VPMULLD", uint32(k.bias), to, to)
		} else if s > 0 {
			k.op("VPSLLD", s, to, to)
		}
	}
}

// products adds the dot products of a run, whose words begin at register first, with some tokens to their accumulators.
func (k *kernel) products(run, first, t0 int, negs string, acc []vec) {
	n := k.perRun()
	at := func(token, i int) operand.Mem {
		return mem(rX, (t0+token)*k.t.UnitElems+(run*n+i)*k.t.LaneElems)
	}
	switch k.dot {
	case evex:
		for i := range n {
			for t, a := range acc {
				k.suffixed("VPDPBUSD", "BCST", at(t, i), k.word(first+i), a)
			}
		}
		return
	case vex:
		x := k.take()
		for i := range n {
			for t, a := range acc {
				k.op("VPBROADCASTD", at(t, i), x)
				k.vex256(0x50, x, k.word(first+i), a)
			}
		}
		k.give(x)
		return
	}
	chunk, split := k.chunk()
	x, y := k.take(), k.take()
	for t, a := range acc {
		// Sums of pairs: in the accumulator itself where one flush is enough.
		low, high := a, none
		if n > chunk {
			low = k.take()
		}
		if split {
			high = k.take()
		}
		add := func(begins bool, w, sum vec) {
			if begins {
				k.op("VPMADDUBSW", x, w, sum)
				return
			}
			k.op("VPMADDUBSW", x, w, y)
			k.op("VPADDW", y, sum, sum)
		}
		for i := range n {
			k.op("VPBROADCASTD", at(t, i), x)
			begins := i%chunk == 0
			if !split {
				add(begins, k.word(first+i), low)
			} else {
				k.ands(0x0f0f0f0f, k.word(first+i), y)
				add(begins, y, low)
				k.op("VPSRLD", 4, k.word(first+i), y)
				k.ands(0x0f0f0f0f, y, y)
				add(begins, y, high)
			}
			if i%chunk == chunk-1 || i == n-1 {
				to := low
				if i < chunk {
					to = a
				}
				k.op("VPMADDWD", k.vectorOf(1<<16|1), low, to)
				if to != a {
					k.op("VPADDD", low, a, a)
				}
				if split {
					k.op("VPMADDWD", k.vectorOf(16<<16|16), high, high)
					k.op("VPADDD", high, a, a)
				}
			}
		}
		if low != a {
			k.give(low)
		}
		if split {
			k.give(high)
		}
		if k.bias > 0 {
			k.unbiased(mem(rX, panelAt(k.tokens, negs, t0+t)), x)
			k.op("VPADDD", x, a, a)
		}
	}
	k.give(x, y)
}

// vectorOf is a constant that fills a vector in memory.
func (k *kernel) vectorOf(word uint32) operand.Mem {
	var b []byte
	for range k.lanes() {
		b = append(b, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return k.place(b)
}

// finish adds the bias, stores the sums of a pass and notes whether one of them is not a finite number.
func (k *kernel) finish() {
	before := slices.Clone(k.free)
	k.op("LEAQ", indexed(rY, rRow, 4, 0), reg.RAX)
	k.op("MOVQ", mem(rArgs, args.yStride), reg.RCX)
	bad, x := k.take(), k.take()
	k.zero(bad)
	for t := range k.tokens {
		for v := range k.vecs {
			s := k.sum(t, v)
			k.op("VADDPS", indexed(rBias, rRow, 4, v*k.bytes()), s, s)
			k.op("VMOVUPS", s, mem(reg.RAX, v*k.bytes()))
			k.op("VSUBPS", s, s, x) // 0, or no number
			k.or(x, bad)
		}
		if t < k.tokens-1 {
			k.op("ADDQ", reg.RCX, reg.RAX)
		}
	}
	if k.bits == 512 {
		k.op("VPTESTMD", bad, bad, reg.K1)
		k.op("KMOVW", reg.K1, reg.EAX)
	} else {
		k.op("VPTEST", bad, bad)
		k.op("SETNE", reg.AL)
		k.op("MOVBLZX", reg.AL, reg.EAX)
	}
	if k.looks() {
		k.op("ORQ", reg.RAX, mem(rArgs, args.bad))
	} else {
		k.op("ORQ", reg.RAX, rBad)
	}
	k.free = before
}
