package vec

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const outerSignature = "(y *float32, yStride int, a *float32, aStride int, b *byte, groups, groupStride, runs, runStride, run, keep int)"

func outerDoc(typ string) string {
	return fmt.Sprintf(`Outer%s[r] adds outer products to r rows of groups of 16 numbers. For row q and group g:
y[q*yStride + 16*g + l] (+)= sum over i ascending of a[q*aStride + i] * b_g[i][l], where i counts through runs of run
rows of 16 numbers in %[2]s; the first of a group lies groupStride bytes after that of the one before, of a run
runStride bytes. run is a multiple of 4. keep 0 starts from zero, 1 from what y holds. Strides of y and a are bytes.`,
		map[string]string{"f32": "F32", "f16": "F16"}[typ], typ)
}

func outerEmit(field string, f16 bool) func(*writer) {
	return func(w *writer) {
		for rows := 1; rows <= maxRows(w.bits); rows++ {
			w.outer(fmt.Sprintf("%sx%d", field, rows), field, rows, f16)
		}
	}
}

// rowAddress gives the address of row q at off bytes, from pointers to every third row and the stride between rows.
func rowAddress(base []reg.GPVirtual, stride reg.GPVirtual, q, off int) operand.Mem {
	m := operand.Mem{Base: base[q/3], Disp: off}
	if q%3 > 0 {
		m.Index, m.Scale = stride, uint8(q%3)
	}
	return m
}

// rowPointers makes the pointers that rowAddress needs.
func (w *writer) rowPointers(first, stride reg.GPVirtual, rows int) []reg.GPVirtual {
	base := []reg.GPVirtual{w.GP64()}
	w.MOVQ(first, base[0])
	for q := 3; q < rows; q += 3 {
		p := w.GP64()
		w.LEAQ(operand.Mem{Base: base[len(base)-1], Index: stride, Scale: 2}, p)
		w.ADDQ(stride, p)
		base = append(base, p)
	}
	return base
}

// outer writes the function for a number of rows. Products and sums are rounded one by one, as portable code does:
// on CPUs whose adders stand beside the multipliers that costs nothing.
func (w *writer) outer(name, field string, rows int, f16 bool) {
	const unroll = 4
	const ahead = 4096 // bytes: about what is multiplied while memory answers
	w.text(symbol(name, w.bits), outerSignature, fmt.Sprintf("is Kernels.%s[%d].", field, rows))
	rowBytes := 64
	if f16 {
		rowBytes = 32
	}
	yPtr, yStride := w.load("y"), w.load("yStride")
	aFirst, aStride := w.load("a"), w.load("aStride")
	b := w.load("b")
	yRows := w.rowPointers(yPtr, yStride, rows)
	acc := make([][]reg.VecVirtual, rows)
	for q := range acc {
		for range w.parts() {
			acc[q] = append(acc[q], w.vector())
		}
	}
	group := w.loop()
	{
		keep := w.load("keep")
		w.TESTQ(keep, keep)
		for q := range acc {
			for p := range acc[q] {
				w.zero(acc[q][p])
			}
		}
		start := fmt.Sprintf("start%d", w.labels)
		w.JZ(operand.LabelRef(start))
		for q := range acc {
			for p := range acc[q] {
				w.VMOVUPS(rowAddress(yRows, yStride, q, p*w.width()), acc[q][p])
			}
		}
		w.Label(start)
	}
	aRows := w.rowPointers(aFirst, aStride, rows)
	runs, at := w.load("runs"), w.GP64()
	w.MOVQ(b, at)
	runLoop := w.loop()
	left, ptr := w.load("run"), w.GP64()
	w.MOVQ(at, ptr)
	inner := w.loop()
	for line := 0; line < unroll*rowBytes; line += 64 {
		w.PREFETCHT0(operand.Mem{Base: ptr, Disp: ahead + line})
	}
	for u := range unroll {
		v := make([]reg.VecVirtual, w.parts())
		for p := range v {
			v[p] = w.vector()
			from := operand.Mem{Base: ptr, Disp: u*rowBytes + p*rowBytes/w.parts()}
			if f16 {
				w.VCVTPH2PS(from, v[p])
			} else {
				w.VMOVUPS(from, v[p])
			}
		}
		for q := range acc {
			x := rowAddress(aRows, aStride, q, 4*u)
			t := w.vector()
			if w.bits == 512 {
				w.VMULPS_BCST(x, v[0], t)
				w.VADDPS(t, acc[q][0], acc[q][0])
				continue
			}
			s := w.vector()
			w.VBROADCASTSS(x, s)
			w.VMULPS(v[0], s, t)
			w.VADDPS(t, acc[q][0], acc[q][0])
			w.VMULPS(v[1], s, s)
			w.VADDPS(s, acc[q][1], acc[q][1])
		}
	}
	for _, p := range aRows {
		w.ADDQ(operand.I32(4*unroll), p)
	}
	w.ADDQ(operand.I32(unroll*rowBytes), ptr)
	w.SUBQ(operand.Imm(unroll), left)
	w.JNZ(operand.LabelRef(inner))
	w.addParam("runStride", at)
	w.DECQ(runs)
	w.JNZ(operand.LabelRef(runLoop))
	for q := range acc {
		for p := range acc[q] {
			w.VMOVUPS(acc[q][p], rowAddress(yRows, yStride, q, p*w.width()))
		}
	}
	for _, p := range yRows {
		w.ADDQ(operand.Imm(64), p)
	}
	w.addParam("groupStride", b)
	groups, err := w.Param("groups").Resolve()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.DECQ(groups.Addr) // the caller's copy is this function's own
	w.JNZ(operand.LabelRef(group))
	w.end()
}

// addParam adds a parameter to a register.
func (w *writer) addParam(name string, r reg.GPVirtual) {
	c, err := w.Param(name).Resolve()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.ADDQ(c.Addr, r)
}
