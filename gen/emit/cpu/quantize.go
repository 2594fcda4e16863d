package cpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// quantizer writes the function that rounds a row to blocks. A group is a run of elements that share scale and
// offset; its digits are those that the innermost scale or offset depends on.
type quantizer struct {
	*kernel
	enc    *model.Encode
	groups uint64 // digits of the group, as a set
	lo, hi int    // range of the element's number
}

func (w *fileWriter) newQuantizer() (*quantizer, error) {
	f := w.format
	s := f.Segs[0]
	q := &quantizer{kernel: newKernel(f, s, dequantize, w.act, w.tables), enc: f.Encode}
	// As the segment stands: nothing split or unrolled.
	k := q.kernel
	k.nest, k.unroll, k.loops, k.names, k.digitNames = newNest(s), 0, nil, newNames(), nil
	for _, d := range k.shape {
		k.digitNames = append(k.digitNames, k.names.local(d.Name))
	}
	for _, c := range slices.Concat(q.enc.Scale, q.enc.Offset) {
		q.groups |= k.uses(c)
	}
	for i, d := range k.shape {
		if d.Radix == 1 {
			q.groups &^= 1 << i
		}
	}
	var err error
	if q.lo, q.hi, err = consecutive(q.enc.Code); err != nil {
		return nil, fmt.Errorf("%s: encode: %w", f.Name, err)
	}
	for _, c := range slices.Concat(q.enc.Scale, q.enc.Offset) {
		if c.As == model.F16 || c.As == model.BF16 || c.As == model.F32 {
			continue
		}
		if _, _, err := consecutive(c); err != nil {
			return nil, fmt.Errorf("%s: encode: %w", f.Name, err)
		}
	}
	return q, nil
}

// consecutive is the range of a code whose numbers are consecutive integers, one for each word.
func consecutive(c *model.Code) (lo, hi int, err error) {
	if emit.Numbers(c) == nil || c.As == model.Levels || c.Mul != 1 || !emit.Integer(c.Add) {
		return 0, 0, fmt.Errorf("code %s does not count through consecutive integers", c.Name)
	}
	lo, hi = int(c.Add), int(c.Add)+1<<c.Bits-1
	if c.As == model.Signed {
		lo, hi = lo-1<<(c.Bits-1), hi-1<<(c.Bits-1)
	}
	return lo, hi, nil
}

func (w *fileWriter) quantize(fn string) error {
	f := w.format
	if f.Encode == nil {
		return w.quantizePlain(fn)
	}
	q, err := w.newQuantizer()
	if err != nil {
		return err
	}
	w.printf("// %s rounds src to blocks of %s: %s.\n", fn, f.Name, q.scheme())
	w.printf("// dst is len(src)/%d blocks of %d bytes. A number that is not finite makes a scale of its block so.\n", f.Elems, f.Bytes)
	w.printf("func %s(dst []byte, src []float32) {\n", fn)
	w.printf("checkRow(%q, len(src), len(dst), %d, %d)\n", f.Name, f.Elems, f.Bytes)
	w.printf("for ; len(src) > 0; dst, src = dst[%d:], src[%d:] {\n", f.Bytes, f.Elems)
	w.printf("b := (*[%d]byte)(dst)\nx := (*[%d]float32)(src)\n*b = [%d]byte{}\n", f.Bytes, f.Elems, f.Bytes)
	if len(q.enc.Scale) == 2 {
		q.nested()
	} else {
		q.single()
	}
	if err := q.sums(); err != nil {
		return err
	}
	w.printf("%s}\n}\n\n", q.out.String())
	return q.err
}

// toBits rounds x to the float type that a scale is stored as; fromBits reads it back.
func toBits(c *model.Code, x string) string {
	return map[model.Number]string{model.F16: "numeric.ToF16(", model.BF16: "numeric.ToBF16(", model.F32: "math.Float32bits("}[c.As] + x + ")"
}

func fromBits(c *model.Code, x string) string {
	return map[model.Number]string{model.F16: "numeric.F16(", model.BF16: "numeric.BF16(", model.F32: "math.Float32frombits("}[c.As] + x + ")"
}

// scheme says the rounding in words.
func (q *quantizer) scheme() string {
	e := q.enc
	var s string
	switch {
	case len(e.Scale) == 2 && len(e.Offset) == 2:
		s = fmt.Sprintf("scale and offset of least squared error among %d candidates, rounded to %s and %s, then codes to nearest", e.Search+1, product(e.Scale), product(e.Offset))
	case len(e.Scale) == 2:
		s = fmt.Sprintf("the scale of least squared error among %d candidates, rounded to %s, then codes to nearest", 2*e.Search+1, product(e.Scale))
	case e.Fit == model.FitAbsMax:
		s = fmt.Sprintf("%s = max|x| / %d", e.Scale[0].Name, q.hi)
	case e.Fit == model.FitExtreme:
		s = fmt.Sprintf("%s = (x of the greatest magnitude) / %d", e.Scale[0].Name, q.lo)
	default:
		s = fmt.Sprintf("%s = (max - min) / %d, %s = min", e.Scale[0].Name, q.hi-q.lo, e.Offset[0].Name)
	}
	switch {
	case len(e.Scale) == 2:
	case e.Round == model.RoundEven:
		s += ", codes x over the stored scale to nearest, ties to even"
	case e.Round == model.RoundAway:
		s += ", codes x times the reciprocal to nearest, ties away from zero"
	default:
		s += ", codes x times the reciprocal to nearest, ties up"
	}
	return s
}

func product(codes []*model.Code) string {
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = c.Name
	}
	return strings.Join(names, "*")
}

// openLoops begins a loop over each digit of the set.
func (q *quantizer) openLoops(set uint64) {
	for i, d := range q.shape {
		if set&(1<<i) != 0 && d.Radix > 1 {
			q.printf("for %s := range %d {\n", q.digitNames[i], d.Radix)
		}
	}
}

func (q *quantizer) closeLoops(set uint64) {
	for i, d := range q.shape {
		if set&(1<<i) != 0 && d.Radix > 1 {
			q.printf("}\n")
		}
	}
}

func (q *quantizer) rest() uint64 { return ^q.groups & (1<<len(q.shape) - 1) }

// groupSize is the number of elements of a group, groupCount that of groups in the block.
func (q *quantizer) groupSize() int  { return q.statements(q.rest()) }
func (q *quantizer) groupCount() int { return q.statements(q.groups) }

// groupIndex numbers the groups over their digits; inGroup numbers the elements of one.
func (q *quantizer) groupIndex() layout.Affine { return q.rank(q.groups) }
func (q *quantizer) inGroup() layout.Affine    { return q.rank(q.rest()) }

func (q *quantizer) rank(set uint64) layout.Affine {
	a := layout.Affine{Stride: make([]int, len(q.shape))}
	size := 1
	for i := len(q.shape) - 1; i >= 0; i-- {
		if set&(1<<i) != 0 {
			a.Stride[i] = size
			size *= q.shape[i].Radix
		}
	}
	return a
}

// gather names the slice that holds the elements of the group in order, copying them together where they do
// not lie in one run.
func (q *quantizer) gather() string {
	if q.groups == 0 {
		return "x[:]"
	}
	if bits.Len64(q.groups) <= bits.TrailingZeros64(q.rest()) { // the group's digits all stand before the others
		return fmt.Sprintf("x[%s:][:%d]", q.expr(restrict(q.elem, q.rest(), make(point, len(q.shape)))), q.groupSize())
	}
	q.printf("var run [%d]float32\n", q.groupSize())
	q.openLoops(q.rest())
	q.printf("run[%s] = x[%s]\n", q.expr(q.inGroup()), q.expr(q.elem))
	q.closeLoops(q.rest())
	return "run[:]"
}

// single rounds with one scale, and perhaps one offset, per group.
func (q *quantizer) single() {
	e := q.enc
	q.openLoops(q.groups)
	run := q.gather()
	d := q.names.local(e.Scale[0].Name)
	stored := e.Round == model.RoundEven // codes are taken over the scale as it is stored
	value := func(x string) string { return x }
	switch e.Fit {
	case model.FitAbsMax:
		q.printf("%s := numeric.AbsMax(%s) / %d\n", d, run, q.hi)
	case model.FitExtreme:
		q.printf("%s := numeric.Extreme(%s) / %d\n", d, run, q.lo)
	case model.FitMinMax:
		m := q.names.local(e.Offset[0].Name)
		q.printf("%s, most := numeric.MinMax(%s)\n", m, run)
		q.printf("%s := (most - %s) / %d\n", d, m, q.hi-q.lo)
		x := m
		if len(q.value.Minus) > 0 {
			x = "-" + m
		}
		q.store(e.Offset[0], toBits(e.Offset[0], x))
		value = func(x string) string { return "(" + x + "-" + m + ")" }
	}
	scale := d
	if stored {
		q.printf("%sBits := %s\n", d, toBits(e.Scale[0], d))
		q.store(e.Scale[0], d+"Bits")
		q.printf("%s = %s\n", d, fromBits(e.Scale[0], d+"Bits"))
	} else {
		q.store(e.Scale[0], toBits(e.Scale[0], d))
		q.printf("inverse := numeric.Reciprocal(%s)\n", d)
		scale = "inverse"
	}
	q.openLoops(q.rest())
	x := value("x[" + q.expr(q.elem) + "]")
	code := q.names.local(e.Code.Name)
	lo := q.lo
	if e.Fit == model.FitAbsMax {
		lo = -q.hi
	}
	switch e.Round {
	case model.RoundEven:
		q.printf("%s := numeric.RoundEven(numeric.Quotient(%s, %s), %d, %d)\n", code, x, scale, lo, q.hi)
	case model.RoundAway:
		q.printf("%s := numeric.RoundAway(%s * %s, %d, %d)\n", code, x, scale, lo, q.hi)
	case model.RoundHalfUp:
		q.printf("%s := numeric.Floor(float32(%s * %s) + %s, %d)\n", code, x, scale, number(0.5-float64(q.lo)), q.hi-q.lo)
	}
	word := code
	if e.Round != model.RoundHalfUp {
		word = q.wordOf(e.Code, code)
	}
	q.store(e.Code, word)
	q.countSum(code)
	q.closeLoops(q.rest())
	q.closeLoops(q.groups)
}

// wordOf turns a number into the word that a code stores.
func (q *quantizer) wordOf(c *model.Code, x string) string {
	if c.Add != 0 {
		return linear(x, 1, -c.Add)
	}
	return x
}

// nested rounds with a scale per group that is an integer times the block's, and perhaps an offset likewise.
func (q *quantizer) nested() {
	e := q.enc
	n, last := q.groupCount(), q.groupIndex()
	d, sc := e.Scale[0], e.Scale[1]
	scLo, scHi, _ := consecutive(sc)
	withOffset := len(e.Offset) == 2
	q.printf("// Scales as numbers, one for each run of %d elements.\n", q.groupSize())
	if withOffset {
		q.printf("var scales, offsets [%d]float32\n", n)
	} else {
		q.printf("var scales [%d]float32\n", n)
	}
	q.openLoops(q.groups)
	run := q.gather()
	i := q.expr(last)
	if withOffset {
		q.printf("scales[%s], offsets[%s] = numeric.FitScaleOffset(%s, %d, %d)\n", i, i, run, q.hi, e.Search)
	} else {
		q.printf("scales[%s] = numeric.FitScale(%s, %d, %d, %d)\n", i, run, q.lo, q.hi, e.Search)
	}
	q.closeLoops(q.groups)
	q.printf("// The block's own, as stored: the greatest takes the last integer.\n")
	dv := q.names.local(d.Name)
	if scLo < 0 {
		q.printf("%sBits := %s\n", dv, toBits(d, fmt.Sprintf("numeric.Extreme(scales[:]) / %d", scLo)))
	} else {
		q.printf("%sBits := %s\n", dv, toBits(d, fmt.Sprintf("numeric.AbsMax(scales[:]) / %d", scHi)))
	}
	q.store(d, dv+"Bits")
	q.printf("%s := %s\n", dv, fromBits(d, dv+"Bits"))
	var mv, m string
	mHi := 0
	if withOffset {
		_, mHi, _ = consecutive(e.Offset[1])
		mv = q.names.local(e.Offset[0].Name)
		q.printf("%sBits := %s\n", mv, toBits(e.Offset[0], fmt.Sprintf("numeric.AbsMax(offsets[:]) / %d", mHi)))
		q.store(e.Offset[0], mv+"Bits")
		q.printf("%s := %s\n", mv, fromBits(e.Offset[0], mv+"Bits"))
	}
	q.openLoops(q.groups)
	run = q.gather()
	scv := q.names.local(sc.Name)
	x := "x[" + q.expr(q.elem) + "]"
	if withOffset {
		m = q.names.local(e.Offset[1].Name)
		q.printf("%s, %s := numeric.NestScaleOffset(%s, scales[%s], offsets[%s], %s, %s, %d, %d, %d)\n", scv, m, run, i, i, dv, mv, scHi, mHi, q.hi)
		q.store(e.Offset[1], q.wordOf(e.Offset[1], m))
		q.printf("offset := %s * float32(%s)\n", mv, m)
		x = "(" + x + "+offset)"
	} else {
		q.printf("%s := numeric.NestScale(%s, scales[%s], %s, %d, %d, %d, %d)\n", scv, run, i, dv, scLo, scHi, q.lo, q.hi)
	}
	q.store(sc, q.wordOf(sc, scv))
	q.printf("inverse := numeric.Reciprocal(%s * float32(%s))\n", dv, scv)
	q.openLoops(q.rest())
	code := q.names.local(e.Code.Name)
	q.printf("%s := numeric.RoundEven(%s * inverse, %d, %d)\n", code, x, q.lo, q.hi)
	q.store(e.Code, q.wordOf(e.Code, code))
	q.countSum(code)
	q.closeLoops(q.rest())
	q.closeLoops(q.groups)
}

// store writes a code's word to its planes. The block is zero before, so bits are or-ed in.
func (q *quantizer) store(c *model.Code, word string) {
	pos := 0
	for _, p := range c.Planes {
		a := q.access(p)
		width := p.Field.Type.Bits / 8
		whole := a.ok && a.bits == p.Bits && p.Bits == c.Bits && p.Bits == p.Field.Type.Bits
		at := scale(a.at, width)
		at.Base += p.Field.AtBytes
		part := word
		if pos > 0 {
			part = parenthesize(word) + fmt.Sprintf(">>%d", pos)
		}
		switch {
		case whole && p.Bits == 8:
			q.printf("b[%s] = byte(%s)\n", q.expr(at), part)
		case whole:
			q.printf("binary.LittleEndian.PutUint%d(b[%s:], %s)\n", p.Bits, q.expr(at), asUnsigned(p.Bits, part))
		case a.ok && a.bits == 8:
			if len(c.Planes) > 1 || c.Add != 0 || c.As == model.Signed {
				part = parenthesize(part) + "&" + mask(p.Bits)
			}
			sh := q.expr(a.shift)
			if sh == "0" {
				q.printf("b[%s] |= byte(%s)\n", q.expr(at), part)
			} else {
				q.printf("b[%s] |= byte(%s) << (%s)\n", q.expr(at), part, sh)
			}
		default:
			bit := p.Layout
			bit.Base += 8 * p.Field.AtBytes
			q.printf("putBits(b[:], %s, %d, uint64(%s))\n", q.expr(bit), p.Bits, part)
		}
		pos += p.Bits
	}
}

// asUnsigned converts a word to the type that PutUint takes; bits of a scale have it already.
func asUnsigned(width int, word string) string {
	if strings.HasSuffix(word, "Bits") || strings.HasPrefix(word, "numeric.To") || strings.HasPrefix(word, "math.Float32bits") {
		return word
	}
	return fmt.Sprintf("uint%d(%s)", width, word)
}

// countSum adds an element's number to the block's stored sum.
func (q *quantizer) countSum(code string) {
	for range q.format.Sums {
		q.printf("total += int32(%s)\n", code)
	}
}

// sums stores the redundant sum of a block's codes.
func (q *quantizer) sums() error {
	if len(q.format.Sums) == 0 {
		return nil
	}
	s := q.format.Sums[0]
	var code *model.Code // the copy in this nest
	for _, c := range q.codes {
		if c.Name == s.Code.Name {
			code = c
		}
	}
	if len(q.format.Sums) > 1 || s.Of.Name != q.enc.Code.Name || len(s.Times) > 0 || code == nil || q.uses(code) != 0 || code.As != model.Signed {
		return fmt.Errorf("%s: encode: a stored sum must be one signed integer per block, the sum of %s", q.format.Name, q.enc.Code.Name)
	}
	body := q.out.String()
	q.out.Reset()
	q.printf("var total int32\n%s", body)
	q.store(code, "total")
	return nil
}

// quantizePlain is the rounding of a plain float format: the number of its type nearest to x.
func (w *fileWriter) quantizePlain(fn string) error {
	f := w.format
	c := f.Segs[0].Value.Weight[0]
	expr := map[model.Number]string{
		model.F32: "binary.LittleEndian.PutUint32(b, math.Float32bits(x))", model.F16: "binary.LittleEndian.PutUint16(b, numeric.ToF16(x))",
		model.BF16: "binary.LittleEndian.PutUint16(b, numeric.ToBF16(x))",
	}[c.As]
	w.printf("// %s rounds src to %s, to nearest with ties to even.\n", fn, f.Name)
	w.printf("func %s(dst []byte, src []float32) {\n", fn)
	w.printf("checkRow(%q, len(src), len(dst), %d, %d)\n", f.Name, f.Elems, f.Bytes)
	w.printf("for i, x := range src {\nb := dst[%d*i:][:%d:%d]\n%s\n}\n}\n\n", f.Bytes, f.Bytes, f.Bytes, expr)
	return nil
}

// roundsPlain reports whether a format is a float type that numbers are rounded to as they are.
func roundsPlain(f *model.Format) bool {
	if !f.Plain() {
		return false
	}
	c := f.Segs[0].Value.Weight[0]
	return (c.As == model.F32 || c.As == model.F16 || c.As == model.BF16) && c.Mul == 1 && c.Add == 0
}
