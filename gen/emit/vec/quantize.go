package vec

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/minfer/minfer/gen/model"
)

// activation is where the parts of an activation block lie, from the spec.
type activation struct{ bytes, dAt, qAt, sumAt int }

// activationOf finds the format that no file holds. It is nil in a catalog without one.
func activationOf(c *model.Catalog) (*activation, error) {
	for _, f := range c.Formats {
		if f.InFile() {
			continue
		}
		refuse := func(what string) (*activation, error) {
			return nil, fmt.Errorf("%s: %s: the vector quantizer knows blocks of an f16 scale, 32 codes of 8 bits by absmax and even, and their sum in 32 bits", f.Name, what)
		}
		e := f.Encode
		if f.Elems != 32 || len(f.Segs) != 1 {
			return refuse(fmt.Sprintf("%d elements in %d segments", f.Elems, len(f.Segs)))
		}
		if e == nil || e.Fit != model.FitAbsMax || e.Round != model.RoundEven || len(e.Scale) != 1 || len(e.Offset) != 0 || len(f.Sums) != 1 {
			return refuse("rounding scheme")
		}
		d, q, sum := e.Scale[0].Planes[0].Field, e.Code.Planes[0].Field, f.Sums[0].Code.Planes[0].Field
		a := &activation{f.Bytes, d.AtBytes, q.AtBytes, sum.AtBytes}
		// The scale goes out as a word with its padding, so that no byte of a block is left as it was.
		if d.Bits() != 16 || q.Bits() != 8*32 || sum.Bits() != 32 || a.qAt != a.dAt+4 || a.sumAt != a.qAt+32 || a.bytes != a.sumAt+4 {
			return refuse("fields")
		}
		return a, nil
	}
	return nil, nil
}

func (w *writer) quantize() {
	w.begin("Quantize")
	y, x, n := w.load("y"), w.load("x"), w.load("blocks")
	w.blocks(x, n, func(b *block) {
		w.MOVL(b.scaleBits, operand.Mem{Base: y, Disp: w.a8.dAt})
		w.storeCodes(b, operand.Mem{Base: y, Disp: w.a8.qAt})
		w.VMOVD(w.sums(b), operand.Mem{Base: y, Disp: w.a8.sumAt})
		w.ADDQ(operand.I32(w.a8.bytes), y)
	})
}

func (w *writer) quantizeDealt() {
	w.begin("QuantizeDealt")
	q, f, x, n := w.load("q"), w.load("f"), w.load("x"), w.load("blocks")
	unit, stride := w.load("unit"), w.load("stride")
	next := w.GP64()
	w.blocks(x, n, func(b *block) {
		w.storeCodes(b, operand.Mem{Base: q})
		w.ADDQ(unit, q)
		sums, converted, negative := w.sums(b), w.XMM(), w.XMM()
		w.VCVTDQ2PS(sums, converted)
		w.VPXOR(negative, negative, negative)
		w.VPSUBD(sums, negative, negative)
		w.VMOVSS(b.scale, operand.Mem{Base: f})
		w.LEAQ(operand.Mem{Base: f, Index: stride, Scale: 4}, next)
		w.VMOVSS(converted, operand.Mem{Base: f, Index: stride, Scale: 1})
		w.VEXTRACTPS(operand.Imm(2), converted, operand.Mem{Base: f, Index: stride, Scale: 2})
		w.SUBQ(stride, next)
		w.VEXTRACTPS(operand.Imm(3), converted, operand.Mem{Base: next})
		w.VMOVD(negative, operand.Mem{Base: next, Index: stride, Scale: 1})
		w.VPEXTRD(operand.Imm(2), negative, operand.Mem{Base: next, Index: stride, Scale: 2})
		w.ADDQ(stride, next)
		w.VPEXTRD(operand.Imm(3), negative, operand.Mem{Base: next, Index: stride, Scale: 2})
		w.ADDQ(unit, f)
	})
}

// block is a block of 32 under way.
type block struct {
	scale     reg.VecVirtual // f32 in the lowest lane
	scaleBits reg.GPVirtual  // f16
	codes     []reg.VecVirtual
}

// blocks writes a loop over blocks of 32: two groups of 16. Scale and codes come of the same divisions and roundings
// as in portable code.
func (w *writer) blocks(x, n reg.GPVirtual, put func(*block)) {
	greatest := w.GP32()
	w.XORL(greatest, greatest)
	by := w.XMM()
	w.VMOVSS(w.number("levels", 127), by)
	loop := w.loop()
	regs := 2 * w.parts()
	v := make([]reg.VecVirtual, regs)
	m := w.vector()
	w.zero(m)
	for i := range v {
		v[i] = w.vector()
		w.VMOVUPS(w.at(x, 0, i), v[i])
		w.track(m, v[i])
	}
	s := w.fold(m, func(a, b, dst operand.Op) { w.VPMAXUD(a, b, dst) })
	w.VDIVSS(by, s, s)
	w.VCVTPS2PH(operand.Imm(0), s, s)
	bits := w.GP32()
	w.VMOVD(s, bits)
	w.MOVWLZX(bits.As16(), bits)
	w.CMPL(bits, greatest)
	w.CMOVLHI(bits, greatest)
	w.VCVTPH2PS(s, s)
	d := w.vector()
	w.VBROADCASTSS(s, d)
	// Where the scale is 0 codes are 0; comparing keeps the others.
	keep := w.vector()
	if w.bits == 256 {
		w.zero(keep)
		w.VCMPPS(operand.Imm(4), d, keep, keep) // not equal, or unordered
	} else {
		zero, k := w.vector(), w.K()
		w.zero(zero)
		w.VCMPPS(operand.Imm(4), d, zero, k)
		w.VPMOVM2D(k, keep)
	}
	for i := range v {
		w.VDIVPS(d, v[i], v[i])
		w.VMAXPS(w.number("levelsLow", -127), v[i], v[i]) // NaN gives the constant
		w.VMINPS(w.number("levels", 127), v[i], v[i])
		w.VCVTPS2DQ(v[i], v[i])
		w.VANDPS(keep, v[i], v[i])
	}
	put(&block{s, bits, v})
	w.ADDQ(operand.I32(128), x)
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
	w.Store(greatest, w.ReturnIndex(0))
	w.end()
}

// storeCodes writes the 32 codes as bytes.
func (w *writer) storeCodes(b *block, to operand.Mem) {
	if w.bits == 512 {
		for _, v := range b.codes {
			w.VPMOVDB(v, to)
			to.Disp += 16
		}
		return
	}
	t, u, order := w.vector(), w.vector(), w.vector()
	w.VPACKSSDW(b.codes[1], b.codes[0], t) // halves interleave: 0 1 | 0 1
	w.VPACKSSDW(b.codes[3], b.codes[2], u)
	w.VPACKSSWB(u, t, t)
	w.VMOVUPS(w.words("packed", 0, 4, 1, 5, 2, 6, 3, 7), order)
	w.VPERMD(t, order, t)
	w.VMOVUPS(t, to)
}

// sums is the sum of the codes in lanes 0 and 1, of the first 16 in lane 2, of the last 16 in lane 3.
func (w *writer) sums(b *block) reg.VecVirtual {
	h := [2]reg.VecVirtual{w.YMM(), w.YMM()}
	for i := range h {
		if w.bits == 512 {
			w.VEXTRACTI64X4(operand.Imm(1), b.codes[i], h[i])
			w.VPADDD(b.codes[i].AsY(), h[i], h[i])
		} else {
			w.VPADDD(b.codes[2*i], b.codes[2*i+1], h[i])
		}
	}
	w.VPHADDD(h[1], h[0], h[0])
	w.VPHADDD(h[0], h[0], h[0])
	x, s := w.XMM(), w.XMM()
	w.VEXTRACTI128(operand.Imm(1), h[0], x)
	w.VPADDD(h[0].AsX(), x, x) // first, last, first, last
	w.VPHADDD(x, x, s)
	w.VPUNPCKLQDQ(x, s, s)
	return s
}
