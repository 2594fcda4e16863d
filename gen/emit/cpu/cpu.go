// Package cpu emits portable Go kernels for every format: dequantize a row, its dot product with f32 and with
// 8-bit activations, and quantize a row where the spec declares a rounding scheme. All of them are lowered from
// the layout of the format's planes; no format is known by name.
package cpu

import (
	"fmt"
	"strings"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

// Emitter emits package generated/cpu.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "cpu" }

// Emit yields one file per format, the tables they share, and the lookup.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	act, err := activationOf(c)
	if err != nil {
		return nil, err
	}
	t := newTables()
	var files []emit.File
	add := func(path, source string) error {
		f, err := emit.GoFile(path, []byte(source))
		files = append(files, f)
		return err
	}
	var entries []entry
	for _, f := range c.Formats {
		w := &fileWriter{format: f, act: act, tables: t}
		e, err := w.kernels()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
		if err := add("cpu/"+emit.FileName(f, ".go"), w.source()); err != nil {
			return nil, err
		}
	}
	if err := add("cpu/tables.go", tablesSource(t)); err != nil {
		return nil, err
	}
	if err := add("cpu/cpu.go", lookupSource(entries, act)); err != nil {
		return nil, err
	}
	return files, nil
}

// entry is what the lookup says of a format.
type entry struct {
	format *model.Format
	funcs  map[string]string // field of Kernels to function
}

// fileWriter writes the file of one format.
type fileWriter struct {
	format *model.Format
	act    *activation
	tables *tables
	body   strings.Builder
}

func (w *fileWriter) printf(format string, args ...any) { fmt.Fprintf(&w.body, format, args...) }

func (w *fileWriter) kernels() (entry, error) {
	e := entry{format: w.format, funcs: map[string]string{}}
	name := emit.GoName(w.format.Name)
	steps := []struct {
		field, prefix string
		write         func(fn string) error
	}{
		{"Dequantize", "dequantize", w.dequantize},
		{"DotF32", "dotF32", w.dotF32},
		{"DotQ8", "dotQ8", w.dotQ8},
		{"Quantize", "quantize", w.quantize},
		{"Weights", "weights", w.weights},
	}
	for _, s := range steps {
		if (strings.HasPrefix(s.field, "Dot") || s.field == "Weights") && !w.format.InFile() {
			continue // activations are no weights
		}
		if (s.field == "DotQ8" || s.field == "Weights") && !w.hasDotQ8() || s.field == "Quantize" && w.format.Encode == nil && !roundsPlain(w.format) {
			continue
		}
		fn := s.prefix + name
		if err := s.write(fn); err != nil {
			return e, err
		}
		e.funcs[s.field] = fn
	}
	return e, nil
}

// hasDotQ8 reports whether a block is a whole number of activation blocks and the weight an integer, small enough that the
// sum over an activation block fits an int32.
func (w *fileWriter) hasDotQ8() bool {
	f := w.format
	if w.act == nil || f.Plain() || f.Elems%w.act.elems != 0 {
		return false
	}
	lo, hi, ok := proof.WeightRange(f)
	for _, s := range f.Segs {
		k, integer := weightInteger(s.Value)
		if !ok || !integer || max(-lo, hi)*float64(k)*128*float64(w.act.elems) >= 1<<31 {
			return false
		}
	}
	return true
}

// source is the file: header, imports that the body needs, body.
func (w *fileWriter) source() string {
	var b strings.Builder
	f := w.format
	b.WriteString(emit.Marker(f.Spec))
	fmt.Fprintf(&b, "// Spec sha256: %s\n//\n", f.Digest)
	b.WriteString(emit.Comment(emit.FormatFacts(f)))
	b.WriteString("\npackage cpu\n\n" + imports(w.body.String()) + w.body.String())
	return b.String()
}

// imports lists the packages whose names a body mentions.
func imports(body string) string {
	var b strings.Builder
	for _, p := range []string{"encoding/binary", "fmt", "math"} {
		if strings.Contains(body, p[strings.LastIndexByte(p, '/')+1:]+".") {
			fmt.Fprintf(&b, "%q\n", p)
		}
	}
	for _, p := range []string{"generated/format", "runtime/numeric"} {
		if strings.Contains(body, p[strings.LastIndexByte(p, '/')+1:]+".") {
			fmt.Fprintf(&b, "\n%q\n", "github.com/minfer/minfer/"+p)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "import (\n" + b.String() + ")\n\n"
}

// nests writes the loop nests of all segments.
func (w *fileWriter) nests(u use) error {
	for _, s := range w.format.Segs {
		text, err := newKernel(w.format, s, u, w.act, w.tables).write()
		if err != nil {
			return err
		}
		if len(w.format.Segs) > 1 {
			text = fmt.Sprintf("{ // elements %d..%d\n%s}\n", s.FirstElem, s.FirstElem+s.Elems()-1, text)
		}
		w.printf("%s", text)
	}
	return nil
}

func (w *fileWriter) dequantize(fn string) error {
	f := w.format
	w.printf("// %s sets dst[e] to the value of element e: %s.\n// src is len(dst)/%d blocks of %d bytes.\n", fn, emit.Formula(f.Segs[0].Value), f.Elems, f.Bytes)
	w.printf("func %s(dst []float32, src []byte) {\n", fn)
	w.printf("checkRow(%q, len(dst), len(src), %d, %d)\n", f.Name, f.Elems, f.Bytes)
	if f.Plain() {
		w.printf("for i := range dst {\nb := src[%d*i:][:%d:%d]\ndst[i] = %s\n}\n}\n\n", f.Bytes, f.Bytes, f.Bytes, w.plainValue(0))
		return nil
	}
	w.printf("for ; len(dst) > 0; dst, src = dst[%d:], src[%d:] {\n", f.Elems, f.Bytes)
	w.printf("b := (*[%d]byte)(src)\ny := (*[%d]float32)(dst)\n", f.Bytes, f.Elems)
	if err := w.nests(dequantize); err != nil {
		return err
	}
	w.printf("}\n}\n\n")
	return nil
}

// plainValue is the value of the plain block that starts at a byte offset of b.
func (w *fileWriter) plainValue(at int) string {
	k := newKernel(w.format, w.format.Segs[0], dequantize, w.act, w.tables)
	c := k.value.Weight[0]
	p := &c.Planes[0]
	field := *p.Field
	field.AtBytes += at
	p.Field = &field
	w2 := k.valueAt(k.points(0)[0])
	field.AtBytes -= at
	return w2
}

// plainAccumulators is the number of running sums of a plain format's dot product, so that additions overlap.
const plainAccumulators = 4

func (w *fileWriter) dotF32(fn string) error {
	f := w.format
	w.printf("// %s is the sum over e of weight[e]*x[e]: each weight is the float32 that dequantizing yields, products are summed\n", fn)
	w.printf("// in float32 within a step and the steps in float64. w is len(x)/%d blocks.\n", f.Elems)
	w.printf("func %s(w []byte, x []float32) float32 {\n", fn)
	w.printf("checkRow(%q, len(x), len(w), %d, %d)\n", f.Name, f.Elems, f.Bytes)
	w.printf("var acc float64\n")
	if f.Plain() {
		const steps = 8
		n := plainAccumulators
		w.printf("for ; len(x) >= %d; w, x = w[%d:], x[%d:] {\n", n*steps, n*steps*f.Bytes, n*steps)
		w.printf("var sum0, sum1, sum2, sum3 float32\n")
		w.printf("for i := range %d {\nb := (*[%d]byte)(w[%d*i:])\ny := (*[%d]float32)(x[%d*i:])\n", steps, n*f.Bytes, n*f.Bytes, n, n)
		for i := range n {
			w.printf("sum%d += %s * y[%d]\n", i, w.plainValue(i*f.Bytes), i)
		}
		w.printf("}\nacc += float64((sum0+sum1) + (sum2+sum3))\n}\n")
		w.printf("for i, v := range x {\nb := w[%d*i:][:%d:%d]\nacc += float64(%s) * float64(v)\n}\n", f.Bytes, f.Bytes, f.Bytes, w.plainValue(0))
		w.printf("return float32(acc)\n}\n\n")
		return nil
	}
	w.printf("for ; len(x) > 0; w, x = w[%d:], x[%d:] {\n", f.Bytes, f.Elems)
	w.printf("b := (*[%d]byte)(w)\nx := (*[%d]float32)(x)\n", f.Bytes, f.Elems)
	w.printf("var sum0, sum1, sum2, sum3 float32\n")
	if err := w.nests(dotF32); err != nil {
		return err
	}
	w.printf("acc += float64((sum0+sum1) + (sum2+sum3))\n}\nreturn float32(acc)\n}\n\n")
	return nil
}

func (w *fileWriter) dotQ8(fn string) error {
	f, a := w.format, w.act
	actBytes := f.Elems / a.elems * a.bytes // activations of one block
	k, _ := weightInteger(f.Segs[0].Value)
	w.printf("// %s is the sum over e of weight[e]*x[e], with x in %s blocks: integer sums over the elements that share a scale and\n", fn, a.format.Name)
	w.printf("// an activation block, each scaled once. w is blocks of %d elements, x as many elements: %d bytes for a block.\n", f.Elems, actBytes)
	if k > 1 {
		w.printf("// The weights are taken %d times, which makes them integers, and the scale by 1/%d.\n", k, k)
	}
	w.printf("func %s(w, x []byte) float32 {\n", fn)
	w.printf("checkDot(%q, len(w), len(x), %d, %d)\n", f.Name, f.Bytes, actBytes)
	w.printf("var acc float32\n")
	w.printf("for ; len(w) > 0; w, x = w[%d:], x[%d:] {\n", f.Bytes, actBytes)
	w.printf("b := (*[%d]byte)(w)\nx := (*[%d]byte)(x)\n", f.Bytes, actBytes)
	if err := w.nests(dotQ8); err != nil {
		return err
	}
	w.printf("}\nreturn acc\n}\n\n")
	return nil
}

func (w *fileWriter) weights(fn string) error {
	f := w.format
	k, _ := weightInteger(f.Segs[0].Value)
	times := ""
	if k > 1 {
		times = fmt.Sprintf(", times %d", k)
	}
	w.printf("// %s sets dst[e] to the integer that element e is before it is scaled, %s%s.\n// src is len(dst)/%d blocks of %d bytes.\n", fn, emit.WeightTerm(f.Segs[0].Value), times, f.Elems, f.Bytes)
	w.printf("func %s(dst []int8, src []byte) {\n", fn)
	w.printf("checkRow(%q, len(dst), len(src), %d, %d)\n", f.Name, f.Elems, f.Bytes)
	w.printf("for ; len(dst) > 0; dst, src = dst[%d:], src[%d:] {\n", f.Elems, f.Bytes)
	w.printf("b := (*[%d]byte)(src)\ny := (*[%d]int8)(dst)\n", f.Bytes, f.Elems)
	if err := w.nests(weights); err != nil {
		return err
	}
	w.printf("}\n}\n\n")
	return nil
}

func tablesSource(t *tables) string {
	var b strings.Builder
	b.WriteString(emit.Marker("specs/formats"))
	b.WriteString("\npackage cpu\n")
	t.write(&b)
	return b.String()
}

func lookupSource(entries []entry, act *activation) string {
	var b strings.Builder
	b.WriteString(emit.Marker("specs/formats"))
	b.WriteString(`
// Package cpu holds portable Go kernels for the weight formats: every function is generated from a spec.
// A row's length follows from the bytes given; lengths that do not fit each other are a fault of the caller and panic.
package cpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/minfer/minfer/generated/format"
)

// Kernels are the functions on rows of one format.
type Kernels struct {
	// Dequantize sets dst to the values of a row, exactly as ggml does.
	Dequantize func(dst []float32, src []byte)
	// DotF32 is sum over e of w[e]*x[e] with the dequantized weights.
	DotF32 func(w []byte, x []float32) float32
	// DotQ8 is the same with 8-bit activations, as QuantizeActivations makes them. nil for plain numbers, and for
	// formats whose weights are no small integers.
	DotQ8 func(w, x []byte) float32
	// Quantize rounds a row to blocks. nil where the spec declares no rounding scheme and the format is no plain float.
	Quantize func(dst []byte, src []float32)
	// Weights sets dst to the integers that DotQ8 multiplies: product(weight) + sum(bias), times the least power of two
	// that makes them whole. nil where DotQ8 is.
	Weights func(dst []int8, src []byte)
}

// For is the kernels of a format; false for a type that no format has.
func For(t format.Type) (Kernels, bool) {
	switch t {
`)
	for _, e := range entries {
		if !e.format.InFile() {
			continue
		}
		fmt.Fprintf(&b, "case format.%s:\nreturn Kernels{", emit.GoName(e.format.Name))
		for _, field := range []string{"Dequantize", "DotF32", "DotQ8", "Quantize", "Weights"} {
			if fn := e.funcs[field]; fn != "" {
				fmt.Fprintf(&b, "%s: %s, ", field, fn)
			}
		}
		b.WriteString("}, true\n")
	}
	b.WriteString("}\nreturn Kernels{}, false\n}\n")
	if act != nil {
		fmt.Fprintf(&b, `
// Geometry of the activation format, %s.
const (
	ActivationBlockElems = format.%[2]sElems
	ActivationBlockBytes = format.%[2]sBytes
)
`, act.format.Name, emit.GoName(act.format.Name))
		for _, e := range entries {
			if e.format == act.format && e.funcs["Quantize"] != "" {
				fmt.Fprintf(&b, `
// QuantizeActivations rounds a row of activations to %s blocks. len(src) is a multiple of ActivationBlockElems.
func QuantizeActivations(dst []byte, src []float32) { %s(dst, src) }

// DequantizeActivations is the values that the blocks of a row of activations stand for.
func DequantizeActivations(dst []float32, src []byte) { %s(dst, src) }
`, act.format.Name, e.funcs["Quantize"], e.funcs["Dequantize"])
			}
		}
	}
	b.WriteString(`
// dot8 is the sum of (w[i] - zero) * x[i] over the bytes of w, unsigned, and the first eight of x, signed: four products at a
// time by one multiplication of numbers that have a term in every 16 bits. With the terms of one in reverse
// order, the topmost 16 bits of the product are the sum of all four; the terms below carry at most one into it, which
// adding half a unit to each takes back. It holds while 8 * |w - zero| * |x| stays below 2^15.
func dot8(w, zero uint64, x []byte) int32 {
	const lanes, ones = 0x00ff00ff00ff00ff, 0x0001000100010001
	reversed := bits.ReverseBytes64(binary.LittleEndian.Uint64(x)) ^ 0x8080808080808080 // plus 128, hence unsigned
	even := (w&lanes - zero*ones) * (reversed>>8&lanes - 128*ones)
	odd := (w>>8&lanes - zero*ones) * (reversed&lanes - 128*ones)
	return int32(int64(even+odd+0x0000800080008000) >> 48)
}

// sum8 is the sum of the first eight bytes of x, signed.
func sum8(x []byte) int32 {
	const lanes, ones = 0x00ff00ff00ff00ff, 0x0001000100010001
	v := binary.LittleEndian.Uint64(x) ^ 0x8080808080808080
	return int32((v&lanes+v>>8&lanes)*ones>>48) - 8*128
}

// putBits ors n bits of v into b at a bit address, little endian.
func putBits(b []byte, bit, n int, v uint64) {
	for i := range n {
		b[(bit+i)/8] |= byte(v>>i&1) << ((bit + i) % 8)
	}
}

// checkRow panics unless a row of elems elements is bytes long.
func checkRow(name string, elems, bytes, blockElems, blockBytes int) {
	if elems%blockElems != 0 || bytes != elems/blockElems*blockBytes {
		panic(fmt.Sprintf("BUG: %d elements of %s in %d bytes; a block has %d elements in %d bytes", elems, name, bytes, blockElems, blockBytes))
	}
}

// checkDot panics unless both rows hold as many elements: whole blocks of the weight.
func checkDot(name string, wBytes, xBytes, wBlock, xBlock int) {
	if wBytes%wBlock != 0 || xBytes != wBytes/wBlock*xBlock {
		panic(fmt.Sprintf("BUG: dot product of %d bytes of %s with %d bytes of activations; a block has %d and %d", wBytes, name, xBytes, wBlock, xBlock))
	}
}
`)
	return b.String()
}
