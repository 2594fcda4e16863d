package tile

import (
	"encoding/binary"
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// asm writes the instructions of one level into a file. Registers are named by the kernels themselves: their needs are
// known, and the same kernel then has the same text.
type asm struct {
	*level
	file   *ir.File
	fn     *ir.Function
	labels int
	data   []byte         // constants that instructions read
	at     map[string]int // offset of each
}

// vec is a vector register by number; its width is the level's.
type vec int

func (a *asm) reg(v vec) operand.Op {
	spec := reg.S256
	if a.bits == 512 {
		spec = reg.S512
	}
	return reg.Vector.Lookup(reg.Index(v), spec)
}

// half is the register's lower half.
func (a *asm) half(v vec) operand.Op {
	spec := reg.S128
	if a.bits == 512 {
		spec = reg.S256
	}
	return reg.Vector.Lookup(reg.Index(v), spec)
}

// op appends an instruction; sources come first and the destination last, as in Go's assembler. A vec stands for the whole
// register, an int for an immediate.
func (a *asm) op(opcode string, operands ...any) { a.suffixed(opcode, "", operands...) }

func (a *asm) suffixed(opcode, suffix string, operands ...any) {
	i := &ir.Instruction{Opcode: opcode}
	if suffix != "" {
		i.Suffixes = []string{suffix}
	}
	for _, o := range operands {
		switch o := o.(type) {
		case vec:
			i.Operands = append(i.Operands, a.reg(o))
		case int:
			i.Operands = append(i.Operands, operand.Imm(uint64(o)))
		case operand.Op:
			i.Operands = append(i.Operands, o)
		default:
			panic(fmt.Sprintf("BUG: an operand of type %T", o))
		}
	}
	a.fn.Nodes = append(a.fn.Nodes, i)
}

func (a *asm) comment(text string) { a.fn.Nodes = append(a.fn.Nodes, ir.NewComment(text)) }

// loop places a label and returns the jump target.
func (a *asm) loop(name string) operand.LabelRef {
	a.labels++
	l := fmt.Sprintf("%s%d", name, a.labels)
	a.fn.Nodes = append(a.fn.Nodes, ir.Label(l))
	return operand.LabelRef(l)
}

// mem is disp(base).
func mem(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

func indexed(base, index reg.Register, scale, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: uint8(scale), Disp: disp}
}

// constants is the symbol of the file's constants.
var constants = operand.NewStaticSymbol("constants")

// constant is a 32-bit constant in memory, as often as a vector operand needs it: once where the level broadcasts operands.
func (a *asm) constant(word uint32) operand.Mem {
	n := 1
	if a.bits == 256 {
		n = 8
	}
	b := binary.LittleEndian.AppendUint32(nil, word)
	for len(b) < 4*n {
		b = binary.LittleEndian.AppendUint32(b, word)
	}
	return a.place(b)
}

// place keeps constant bytes and yields their address.
func (a *asm) place(b []byte) operand.Mem {
	key := string(b)
	at, known := a.at[key]
	if !known {
		for len(a.data)%len(b) != 0 {
			a.data = append(a.data, 0)
		}
		at = len(a.data)
		a.data = append(a.data, b...)
		a.at[key] = at
	}
	return operand.Mem{Symbol: constants, Base: reg.StaticBase, Disp: at}
}

// global yields the constants as a section.
func (a *asm) global() *ir.Global {
	for len(a.data)%8 != 0 {
		a.data = append(a.data, 0)
	}
	g := ir.NewStaticGlobal("constants")
	g.Attributes = attr.RODATA | attr.NOPTR
	for i := 0; i < len(a.data); i += 8 {
		g.Append(operand.U64(binary.LittleEndian.Uint64(a.data[i:])))
	}
	return g
}

// withConstant is op with a 32-bit constant as its first vector operand.
func (a *asm) withConstant(opcode string, word uint32, operands ...any) {
	suffix := ""
	if a.bits == 512 {
		suffix = "BCST"
	}
	all := []any{a.constant(word)}
	a.suffixed(opcode, suffix, append(all, operands...)...)
}

// ands sets dst to src and a 32-bit mask.
func (a *asm) ands(mask uint32, src, dst vec) {
	if a.bits == 512 {
		a.withConstant("VPANDD", mask, src, dst)
	} else {
		a.withConstant("VPAND", mask, src, dst)
	}
}

// orAnd is the truth table of dst | (src & mask) for VPTERNLOGD.
const orAnd = 0xf8

// orMasked sets dst to dst | src & mask; src is lost.
func (a *asm) orMasked(mask uint32, src, dst vec) {
	if a.bits == 512 {
		a.suffixed("VPTERNLOGD", "BCST", orAnd, a.constant(mask), src, dst)
		return
	}
	a.ands(mask, src, src)
	a.op("VPOR", src, dst, dst)
}

// shift moves the bits of 32-bit lanes right, or left where by is negative.
func (a *asm) shift(by int, src, dst vec) {
	switch {
	case by > 0:
		a.op("VPSRLD", by, src, dst)
	case by < 0:
		a.op("VPSLLD", -by, src, dst)
	case src != dst:
		a.load(a.reg(src), dst)
	}
}

// load copies a whole vector, whatever its alignment.
func (a *asm) load(from any, to any) {
	if a.bits == 512 {
		a.op("VMOVDQU32", from, to)
	} else {
		a.op("VMOVDQU", from, to)
	}
}

func (a *asm) zero(v vec) {
	if a.bits == 512 {
		a.op("VPXORD", v, v, v)
	} else {
		a.op("VPXOR", v, v, v)
	}
}

// vex256 encodes a VEX.256.66.0F38.W0 instruction of three registers, which Go's assembler lacks.
func (a *asm) vex256(opcode byte, src2, src1, dst vec) {
	r, b := byte(1), byte(1) // inverted extension bits
	if dst >= 8 {
		r = 0
	}
	if src2 >= 8 {
		b = 0
	}
	code := []byte{0xc4, r<<7 | 1<<6 | b<<5 | 2, byte(^src1&15)<<3 | 1<<2 | 1, opcode, 3<<6 | byte(dst&7)<<3 | byte(src2&7)}
	for _, c := range code {
		a.fn.Nodes = append(a.fn.Nodes, &ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(c)}})
	}
}
