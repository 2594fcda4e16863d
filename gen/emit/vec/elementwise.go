package vec

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// functions lists the members of Kernels, in order.
func functions() []function {
	return []function{
		{field: "Magnitude", signature: "(x *float32, n int) (greatest uint32)", emit: (*writer).magnitude,
			doc: "Magnitude is the greatest magnitude of n numbers."},
		{field: "SumSquares", signature: "(x *float32, n int) (sum float64)", emit: (*writer).sumSquares,
			doc: "SumSquares is the sum of x[i]*x[i] in float64: lane l has those of l mod 16, ascending, and lanes that differ\n" +
				"in 8, 4, 2, 1 are added in turn."},
		{field: "Norm", signature: "(y, x, weight *float32, scale float32, n int) (greatest uint32)", emit: (*writer).norm,
			doc: "Norm is y[i] = (x[i] * scale) * weight[i]."},
		{field: "Scale", signature: "(y, x *float32, scale float32, n int) (greatest uint32)", emit: (*writer).scale,
			doc: "Scale is y[i] = x[i]*scale + 0: no result is -0."},
		{field: "Merge", signature: "(y, x *float32, a, b float32, n int)", emit: (*writer).merge,
			doc: "Merge is y[i] = y[i]*a + x[i]*b."},
		{field: "Add", signature: "(y, a, b *float32, n int) (greatest uint32)", emit: (*writer).add,
			doc: "Add is y[i] = a[i] + b[i]."},
		{field: "SiLUMul", signature: "(y, gate, up *float32, n int) (greatest uint32)", emit: (*writer).siluMul,
			doc: "SiLUMul is y[i] = gate[i] / (1 + exp(-gate[i])) * up[i]."},
		{field: "TurnHalves", signature: "(y0, y1, x0, x1, sin, cos *float32, n int)", emit: (*writer).turnHalves,
			doc: "TurnHalves turns n pairs: y0 = x0*cos - x1*sin, y1 = x0*sin + x1*cos."},
		{field: "TurnAdjacent", signature: "(y, x, sin, cos *float32, n int)", emit: (*writer).turnAdjacent,
			doc: "TurnAdjacent turns n pairs of elements that lie side by side."},
		{field: "ToF16", signature: "(y *uint16, x *float32, n int) (greatest uint32)", emit: (*writer).toF16,
			doc: "ToF16 rounds to f16; greatest is of the f16 bits."},
		{field: "Quantize", signature: "(y *byte, x *float32, blocks int) (greatest uint32)", emit: (*writer).quantize,
			doc: "Quantize rounds blocks of 32 to the activation format; greatest is of the f16 bits of the scales."},
		{field: "QuantizeDealt", signature: "(q *byte, f *float32, x *float32, blocks, unit, stride int) (greatest uint32)", emit: (*writer).quantizeDealt,
			doc: "QuantizeDealt is Quantize with the parts of a block dealt out: codes at q, and at f, stride bytes apart, the scale in\n" +
				"f32, the sums of all codes, of the first 16 and of the last 16 in f32, and these three negated in i32. Both move on by\n" +
				"unit bytes from block to block."},
		{field: "WidenRows", signature: "(y *float32, d *uint16, q *int8, n int)", emit: (*writer).widenRows,
			doc: "WidenRows is y[16*i + l] = d[i] * q[16*i + l] for n rows of 16 codes, each with a scale in f16; n is a multiple of 4."},
		{field: "WidenLanes", signature: "(y *float32, d *uint16, q *int8, n int)", emit: (*writer).widenLanes,
			doc: "WidenLanes is y[512*g + 16*i + l] = d[16*g + l] * q[512*g + 16*i + l] for n groups of 32 rows of 16 codes, each lane of\n" +
				"a group with a scale in f16."},
		{field: "Softmax", signature: "(x *float32, n int, before float32) (greatest, sum float32)", emit: (*writer).softmax,
			doc: "Softmax sets x[i] to exp(x[i] - greatest), where greatest is the greatest of before and all x. sum is that of\n" +
				"the results: lane l has those of l mod 16, ascending, and lanes that differ in 8, 4, 2, 1 are added in turn."},
		{field: "OuterF32", signature: outerSignature, emit: outerEmit("OuterF32", false), rows: true, doc: outerDoc("f32")},
		{field: "OuterF16", signature: outerSignature, emit: outerEmit("OuterF16", true), rows: true, doc: outerDoc("f16")},
	}
}

// each writes a loop over groups of 16 elements. pointers go up by a group each time.
func (w *writer) each(n reg.GPVirtual, pointers []reg.GPVirtual, bytes []int, body func()) {
	w.SHRQ(operand.Imm(4), n)
	loop := w.loop()
	body()
	for i, p := range pointers {
		w.ADDQ(operand.I32(bytes[i]), p)
	}
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
}

// groups writes a loop over groups of 16 float32 at the pointers of the parameters named.
func (w *writer) groups(names []string, body func(p int, ptr []reg.GPVirtual)) {
	ptr := make([]reg.GPVirtual, len(names))
	sizes := make([]int, len(names))
	for i, name := range names {
		ptr[i], sizes[i] = w.load(name), 64
	}
	w.each(w.load("n"), ptr, sizes, func() {
		for p := range w.parts() {
			body(p, ptr)
		}
	})
}

func (w *writer) magnitude() {
	w.begin("Magnitude")
	greatest := w.vector()
	w.zero(greatest)
	w.groups([]string{"x"}, func(p int, ptr []reg.GPVirtual) {
		v := w.vector()
		w.VMOVUPS(w.at(ptr[0], 0, p), v)
		w.track(greatest, v)
	})
	w.storeGreatest(greatest)
	w.end()
}

func (w *writer) sumSquares() {
	w.begin("SumSquares")
	acc := make([]reg.VecVirtual, 2*w.parts())
	for i := range acc {
		acc[i] = w.vector()
		w.zero(acc[i])
	}
	w.groups([]string{"x"}, func(p int, ptr []reg.GPVirtual) {
		for h := range 2 {
			v := w.vector()
			w.VCVTPS2PD(operand.Mem{Base: ptr[0], Disp: p*w.width() + h*w.width()/2}, v)
			w.VMULPD(v, v, v) // exact: 48 bits
			w.VADDPD(v, acc[2*p+h], acc[2*p+h])
		}
	})
	for len(acc) > 1 {
		half := len(acc) / 2
		for i := range half {
			w.VADDPD(acc[i+half], acc[i], acc[i])
		}
		acc = acc[:half]
	}
	y := acc[0]
	if w.bits == 512 {
		y = w.YMM()
		w.VEXTRACTF64X4(operand.Imm(1), acc[0], y)
		w.VADDPD(y, acc[0].AsY(), y)
	}
	x := w.XMM()
	w.VEXTRACTF128(operand.Imm(1), y, x)
	w.VADDPD(x, y.AsX(), x)
	t := w.XMM()
	w.VPERMILPD(operand.Imm(1), x, t)
	w.VADDPD(t, x, x)
	sum, err := w.ReturnIndex(0).Resolve()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.VMOVSD(x, sum.Addr)
	w.end()
}

func (w *writer) norm() {
	w.begin("Norm")
	greatest, scale := w.vector(), w.broadcast("scale")
	w.zero(greatest)
	w.groups([]string{"y", "x", "weight"}, func(p int, ptr []reg.GPVirtual) {
		v := w.vector()
		w.VMULPS(w.at(ptr[1], 0, p), scale, v)
		w.VMULPS(w.at(ptr[2], 0, p), v, v)
		w.VMOVUPS(v, w.at(ptr[0], 0, p))
		w.track(greatest, v)
	})
	w.storeGreatest(greatest)
	w.end()
}

func (w *writer) scale() {
	w.begin("Scale")
	greatest, scale, zero := w.vector(), w.broadcast("scale"), w.vector()
	w.zero(greatest)
	w.zero(zero)
	w.groups([]string{"y", "x"}, func(p int, ptr []reg.GPVirtual) {
		v := w.vector()
		w.VMULPS(w.at(ptr[1], 0, p), scale, v)
		w.VADDPS(zero, v, v)
		w.VMOVUPS(v, w.at(ptr[0], 0, p))
		w.track(greatest, v)
	})
	w.storeGreatest(greatest)
	w.end()
}

func (w *writer) merge() {
	w.begin("Merge")
	a, b := w.broadcast("a"), w.broadcast("b")
	w.groups([]string{"y", "x"}, func(p int, ptr []reg.GPVirtual) {
		v, u := w.vector(), w.vector()
		w.VMULPS(w.at(ptr[0], 0, p), a, v)
		w.VMULPS(w.at(ptr[1], 0, p), b, u)
		w.VADDPS(u, v, v)
		w.VMOVUPS(v, w.at(ptr[0], 0, p))
	})
	w.end()
}

func (w *writer) add() {
	w.begin("Add")
	greatest := w.vector()
	w.zero(greatest)
	w.groups([]string{"y", "a", "b"}, func(p int, ptr []reg.GPVirtual) {
		v := w.vector()
		w.VMOVUPS(w.at(ptr[1], 0, p), v)
		w.VADDPS(w.at(ptr[2], 0, p), v, v)
		w.VMOVUPS(v, w.at(ptr[0], 0, p))
		w.track(greatest, v)
	})
	w.storeGreatest(greatest)
	w.end()
}

// exp replaces x by its exponential: x = n*ln(2) + r, a polynomial in r, and 2^n in two factors, so that results below
// the normal numbers are rounded once and those past the largest become infinite. The steps are those of the portable
// twin, one by one.
func (w *writer) exp(x reg.VecVirtual) {
	t, n, r, s, p := w.vector(), w.vector(), w.vector(), w.vector(), w.vector()
	w.VMOVUPS(w.number("expLow", -105), t)
	w.VMAXPS(x, t, x) // of a NaN and a number the last operand, x, stays
	w.VMOVUPS(w.number("expHigh", 89), t)
	w.VMINPS(x, t, x)
	w.VMULPS(w.number("log2E", 0x1.715476p0), x, t)
	w.VADDPS(w.number("magic", 0x1.8p23), t, t) // the lowest bits are now the nearest integer
	w.VSUBPS(w.number("magic", 0x1.8p23), t, n)
	w.VMULPS(w.number("ln2High", 0x1.63p-1), n, r) // exact: 9 bits by 8
	w.VSUBPS(r, x, r)
	w.VMULPS(w.number("ln2Low", -0x1.bd0106p-13), n, n)
	w.VSUBPS(n, r, r)
	w.VMULPS(r, r, s)
	w.VMULPS(w.number("exp7", exp7), r, p)
	for _, c := range []struct {
		name string
		x    float32
	}{{"exp6", exp6}, {"exp5", exp5}, {"exp4", exp4}, {"exp3", exp3}} {
		w.VADDPS(w.number(c.name, c.x), p, p)
		w.VMULPS(r, p, p)
	}
	w.VADDPS(w.number("exp2", exp2), p, p)
	w.VMULPS(s, p, p)
	w.VADDPS(r, p, p)
	w.VADDPS(w.number("one", 1), p, p)
	w.VPSUBD(w.number("magic", 0x1.8p23), t, t) // the integer is left
	w.VPSRAD(operand.Imm(1), t, n)
	w.VPSUBD(n, t, t)
	for _, i := range []reg.VecVirtual{n, t} {
		w.VPADDD(w.word("bias", 127), i, i)
		w.VPSLLD(operand.Imm(23), i, i)
	}
	w.VMULPS(n, p, p)
	w.VMULPS(t, p, x)
}

// The polynomial of exp on |r| <= ln(2)/2, Cephes' expf.
const (
	exp7 = 1.9875691500e-4
	exp6 = 1.3981999507e-3
	exp5 = 8.3334519073e-3
	exp4 = 4.1665795894e-2
	exp3 = 1.6666665459e-1
	exp2 = 5.0000001201e-1
)

func (w *writer) siluMul() {
	w.begin("SiLUMul")
	greatest := w.vector()
	w.zero(greatest)
	w.groups([]string{"y", "gate", "up"}, func(p int, ptr []reg.GPVirtual) {
		g, e := w.vector(), w.vector()
		w.VMOVUPS(w.at(ptr[1], 0, p), g)
		w.VXORPS(w.word("sign", 1<<31), g, e)
		w.exp(e)
		w.VADDPS(w.number("one", 1), e, e)
		w.VDIVPS(e, g, g)
		w.VMULPS(w.at(ptr[2], 0, p), g, g)
		w.VMOVUPS(g, w.at(ptr[0], 0, p))
		w.track(greatest, g)
	})
	w.storeGreatest(greatest)
	w.end()
}

func (w *writer) turnHalves() {
	w.begin("TurnHalves")
	w.groups([]string{"y0", "y1", "x0", "x1", "sin", "cos"}, func(p int, ptr []reg.GPVirtual) {
		a, b, sin, cos, t := w.vector(), w.vector(), w.vector(), w.vector(), w.vector()
		w.VMOVUPS(w.at(ptr[2], 0, p), a)
		w.VMOVUPS(w.at(ptr[3], 0, p), b)
		w.VMOVUPS(w.at(ptr[4], 0, p), sin)
		w.VMOVUPS(w.at(ptr[5], 0, p), cos)
		w.VMULPS(sin, b, t)
		w.VMULPS(cos, b, b)
		w.VMULPS(cos, a, cos)
		w.VMULPS(sin, a, a)
		w.VSUBPS(t, cos, cos)
		w.VADDPS(b, a, a)
		w.VMOVUPS(cos, w.at(ptr[0], 0, p))
		w.VMOVUPS(a, w.at(ptr[1], 0, p))
	})
	w.end()
}

func (w *writer) turnAdjacent() {
	w.begin("TurnAdjacent")
	y, x, sin, cos := w.load("y"), w.load("x"), w.load("sin"), w.load("cos")
	sign := w.words("signEven", 1<<31, 0)
	w.each(w.load("n"), []reg.GPVirtual{y, x, sin, cos}, []int{128, 128, 64, 64}, func() {
		for p := range 2 * w.parts() {
			v, s, c := w.vector(), w.vector(), w.vector()
			w.VMOVUPS(w.at(x, 0, p), v)
			for _, f := range []struct {
				from reg.GPVirtual
				to   reg.VecVirtual
			}{{sin, s}, {cos, c}} { // each number twice
				w.VPMOVZXDQ(operand.Mem{Base: f.from, Disp: p * w.width() / 2}, f.to)
				w.VMOVSLDUP(f.to, f.to)
			}
			w.VMULPS(v, c, c)
			w.VPERMILPS(operand.Imm(0b10_11_00_01), v, v) // the other of the pair
			w.VMULPS(v, s, s)
			w.VXORPS(sign, s, s)
			w.VADDPS(s, c, c)
			w.VMOVUPS(c, w.at(y, 0, p))
		}
	})
	w.end()
}

func (w *writer) toF16() {
	w.begin("ToF16")
	y, x := w.load("y"), w.load("x")
	greatest := w.vector()
	w.zero(greatest)
	w.each(w.load("n"), []reg.GPVirtual{y, x}, []int{32, 64}, func() {
		for p := range w.parts() {
			v, u := w.vector(), w.vector()
			w.VMOVUPS(w.at(x, 0, p), v)
			w.VCVTPS2PH(operand.Imm(0), v, w.half(v))
			w.VMOVUPS(w.half(v), operand.Mem{Base: y, Disp: p * w.width() / 2})
			w.VPMOVZXWD(w.half(v), u)
			w.VANDPS(w.word("magnitudeF16", 0x7fff), u, u)
			w.VPMAXUD(u, greatest, greatest)
		}
	})
	w.storeGreatest(greatest)
	w.end()
}

// widenAhead is how many bytes of codes ahead are asked for: about what is read while memory answers.
const widenAhead = 4096

// widen writes n rows of codes times their scales, and goes on to the next.
func (w *writer) widen(y, q reg.GPVirtual, n int, scale func(row, p int) reg.VecVirtual) {
	for line := 0; line < 16*n; line += 64 {
		w.PREFETCHT0(operand.Mem{Base: q, Disp: widenAhead + line})
	}
	for i := range n {
		for p := range w.parts() {
			v := w.vector()
			w.VPMOVSXBD(operand.Mem{Base: q, Disp: 16*i + p*w.lanes()}, v)
			w.VCVTDQ2PS(v, v)
			w.VMULPS(scale(i, p), v, v)
			w.VMOVUPS(v, w.at(y, 64*i, p))
		}
	}
	w.ADDQ(operand.I32(64*n), y)
	w.ADDQ(operand.I32(16*n), q)
}

func (w *writer) widenRows() {
	const rows = 4
	w.begin("WidenRows")
	y, d, q, n := w.load("y"), w.load("d"), w.load("q"), w.load("n")
	loop := w.loop()
	scales := make([]reg.VecVirtual, rows)
	for i := range scales {
		scales[i] = w.vector()
		w.VPBROADCASTW(operand.Mem{Base: d, Disp: 2 * i}, w.half(scales[i]))
		w.VCVTPH2PS(w.half(scales[i]), scales[i])
	}
	w.widen(y, q, rows, func(row, _ int) reg.VecVirtual { return scales[row] })
	w.ADDQ(operand.I32(2*rows), d)
	w.SUBQ(operand.Imm(rows), n)
	w.JNZ(operand.LabelRef(loop))
	w.end()
}

func (w *writer) widenLanes() {
	const rows = 32
	w.begin("WidenLanes")
	y, d, q, n := w.load("y"), w.load("d"), w.load("q"), w.load("n")
	loop := w.loop()
	scales := make([]reg.VecVirtual, w.parts())
	for p := range scales {
		scales[p] = w.vector()
		w.VCVTPH2PS(operand.Mem{Base: d, Disp: 2 * p * w.lanes()}, scales[p])
	}
	w.widen(y, q, rows, func(_, p int) reg.VecVirtual { return scales[p] })
	w.ADDQ(operand.I32(2*16), d)
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
	w.end()
}

func (w *writer) softmax() {
	w.begin("Softmax")
	x, n := w.load("x"), w.load("n")
	ptr, left := w.GP64(), w.GP64()
	greatest := w.broadcast("before")
	w.MOVQ(x, ptr)
	w.MOVQ(n, left)
	w.each(left, []reg.GPVirtual{ptr}, []int{64}, func() {
		for p := range w.parts() {
			w.VMAXPS(w.at(ptr, 0, p), greatest, greatest) // a NaN is left out here and stays in its exponential
		}
	})
	m := w.fold(greatest, func(a, b, dst operand.Op) { w.VMAXPS(a, b, dst) })
	w.storeFloat(m, 0)
	w.VBROADCASTSS(m, greatest)
	sums := make([]reg.VecVirtual, w.parts())
	for p := range sums {
		sums[p] = w.vector()
		w.zero(sums[p])
	}
	w.each(n, []reg.GPVirtual{x}, []int{64}, func() {
		for p := range w.parts() {
			v := w.vector()
			w.VMOVUPS(w.at(x, 0, p), v)
			w.VSUBPS(greatest, v, v)
			w.exp(v)
			w.VMOVUPS(v, w.at(x, 0, p))
			w.VADDPS(v, sums[p], sums[p])
		}
	})
	if w.bits == 256 {
		w.VADDPS(sums[0], sums[1], sums[0])
	}
	s := w.fold(sums[0], func(a, b, dst operand.Op) { w.VADDPS(a, b, dst) })
	w.storeFloat(s, 1)
	w.end()
}
