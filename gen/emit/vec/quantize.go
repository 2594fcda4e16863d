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

// quantize writes a loop over blocks of 32: two groups of 16. Scale and codes come of the same divisions and roundings
// as in portable code.
func (w *writer) quantize() {
	w.begin("Quantize")
	y, x, n := w.load("y"), w.load("x"), w.load("blocks")
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
	w.MOVL(bits, operand.Mem{Base: y, Disp: w.a8.dAt})
	w.CMPL(bits, greatest)
	w.CMOVLHI(bits, greatest)
	w.VCVTPH2PS(s, s)
	d := w.vector()
	w.VBROADCASTSS(s, d)
	total := w.vector()
	w.zero(total)
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
		w.VPADDD(v[i], total, total)
	}
	if w.bits == 512 {
		for i := range v {
			w.VPMOVDB(v[i], operand.Mem{Base: y, Disp: w.a8.qAt + 16*i})
		}
	} else {
		w.VPACKSSDW(v[1], v[0], v[0]) // halves interleave: 0 1 | 0 1
		w.VPACKSSDW(v[3], v[2], v[2])
		w.VPACKSSWB(v[2], v[0], v[0])
		order := w.vector()
		w.VMOVUPS(w.words("packed", 0, 4, 1, 5, 2, 6, 3, 7), order)
		w.VPERMD(v[0], order, v[0])
		w.VMOVUPS(v[0], operand.Mem{Base: y, Disp: w.a8.qAt})
	}
	t := w.fold(total, func(a, b, dst operand.Op) { w.VPADDD(a, b, dst) })
	w.VMOVD(t, operand.Mem{Base: y, Disp: w.a8.sumAt})
	w.ADDQ(operand.I32(w.a8.bytes), y)
	w.ADDQ(operand.I32(128), x)
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
	w.Store(greatest, w.ReturnIndex(0))
	w.end()
}
