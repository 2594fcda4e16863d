// Package vec emits, with avo, the vector assembly of what a decode computes beside products with weights: norms,
// rotary embedding, activations, softmax, the two products of attention, and the rounding of activations to 8 bits.
//
// What a function computes is the same, bit for bit, at every level: no product is fused with a sum, but where the
// product is exact; sums have lanes of a number that does not depend on the width of a register; each function works
// on whole groups of 16 elements. The judge, and the code for the rest of a row, is the portable Go of the package
// that calls these functions.
package vec

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// Emitter emits package vec.
type Emitter struct{}

// Name implements emit.Emitter.
func (Emitter) Name() string { return "vec" }

// source is what Marker names: these functions follow from no spec but the activation format's.
const source = "gen/emit/vec"

// Emit implements emit.Emitter. A catalog without an activation format has no use for the functions.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	a8, err := activationOf(c)
	if err != nil || a8 == nil {
		return nil, err
	}
	files := make([]emit.File, 0, 4)
	add := func(path string, data []byte) error {
		f, err := emit.GoFile(path, data)
		files = append(files, f)
		return err
	}
	w := &writer{Context: build.NewContext(), a8: a8, constants: map[string]operand.Mem{}}
	w.ConstraintExpr("amd64")
	for _, bits := range []int{256, 512} {
		w.bits = bits
		for _, f := range functions() {
			f.emit(w)
		}
	}
	w.pause()
	w.fetch()
	file, err := w.Result()
	if err == nil {
		err = pass.Compile.Execute(file)
	}
	if err != nil {
		return nil, err
	}
	cfg := printer.Config{Name: "avo", Pkg: "vec"}
	for _, p := range []struct {
		path  string
		print printer.Printer
	}{{"vec/vec_amd64.s", printer.NewGoAsm(cfg)}, {"vec/stub_amd64.go", printer.NewStubs(cfg)}} {
		text, err := p.print.Print(file)
		if err != nil {
			return nil, err
		}
		_, text, _ = bytes.Cut(text, []byte("\n")) // avo's own first line
		text = append([]byte(emit.Marker(source)), text...)
		if strings.HasSuffix(p.path, ".s") {
			files = append(files, emit.File{Path: p.path, Data: text})
		} else if err := add(p.path, text); err != nil {
			return nil, err
		}
	}
	if err := add("vec/vec.go", typesSource()); err != nil {
		return nil, err
	}
	return files, add("vec/level_amd64.go", levelsSource())
}

// function is a member of the emitted Kernels.
type function struct {
	field     string // of Kernels
	signature string
	doc       string
	emit      func(*writer)
	rows      bool // one for each number of rows from 1 to maxRows
}

// maxRows is the most rows that the products of attention take at a time: a row has as many accumulators as 16 numbers
// need, and beside them there are the numbers of the other factor, one of the rows' own and a product.
func maxRows(bits int) int {
	if bits == 512 {
		return 8
	}
	return 6
}

// levels are the names of the emitted variables by width.
var levels = map[int]string{256: "AVX2", 512: "AVX512"}

func typesSource() []byte {
	var b bytes.Buffer
	b.WriteString(emit.Marker(source))
	b.WriteString(`
// Package vec holds vector assembly for what a decode computes beside products with weights. The functions take
// pointers and counts and check nothing; package runtime/device/cpu/vec is their caller and has their portable twins.
package vec

// Kernels are the functions of one set of instructions. Counts are multiples of 16 elements. Results that are named
// greatest are the greatest of the magnitudes written, as their bits without the sign: 0x7f800000 or more where one of
// them is not a finite number.
type Kernels struct {
`)
	for _, f := range functions() {
		b.WriteString(emit.Comment(f.doc))
		if f.rows {
			fmt.Fprintf(&b, "%s [%d]func%s\n", f.field, maxRows(512)+1, f.signature)
		} else {
			fmt.Fprintf(&b, "%s func%s\n", f.field, f.signature)
		}
	}
	b.WriteString("MaxRows int // the most rows of OuterF32 and OuterF16\n}\n")
	return b.Bytes()
}

func levelsSource() []byte {
	var b bytes.Buffer
	b.WriteString(emit.Marker(source) + "\npackage vec\n")
	for _, bits := range []int{256, 512} {
		fmt.Fprintf(&b, "\n// %s holds the functions with registers of %d bits.\nvar %[1]s = Kernels{\n", levels[bits], bits)
		for _, f := range functions() {
			if !f.rows {
				fmt.Fprintf(&b, "%s: %s,\n", f.field, symbol(f.field, bits))
				continue
			}
			fmt.Fprintf(&b, "%s: [%d]func%s{", f.field, maxRows(512)+1, f.signature)
			for r := 1; r <= maxRows(bits); r++ {
				fmt.Fprintf(&b, "%d: %s, ", r, symbol(fmt.Sprintf("%sx%d", f.field, r), bits))
			}
			b.WriteString("},\n")
		}
		fmt.Fprintf(&b, "MaxRows: %d,\n}\n", maxRows(bits))
	}
	return b.Bytes()
}

// symbol is the name of a function's assembly.
func symbol(field string, bits int) string {
	return strings.ToLower(field[:1]) + field[1:] + levels[bits]
}

// writer writes functions for one width of registers.
type writer struct {
	*build.Context
	bits      int
	a8        *activation
	constants map[string]operand.Mem
	labels    int
}

// text begins a function.
func (w *writer) text(name, signature, doc string) {
	w.Function(name)
	w.Attributes(attr.NOSPLIT)
	w.SignatureExpr("func" + signature)
	w.Pragma("noescape")
	w.Doc(name + " " + doc)
}

// begin begins the function of a field.
func (w *writer) begin(field string) {
	for _, f := range functions() {
		if f.field == field {
			w.text(symbol(field, w.bits), f.signature, "is Kernels."+field+".")
			return
		}
	}
	panic("BUG: no function " + field)
}

// end returns; upper halves of registers are cleared so that code with SSE instructions runs at its speed.
func (w *writer) end() {
	w.VZEROUPPER()
	w.RET()
}

func (w *writer) pause() {
	w.text("Pause", "(n int)", "waits for n of the CPU's pauses, some tens of cycles each.")
	n := w.load("n")
	loop := w.loop()
	w.PAUSE()
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
	w.RET()
}

func (w *writer) fetch() {
	w.text("Fetch", "(p *byte, lines int)", "asks for cache lines of 64 bytes, to be in the second cache when they are read.")
	p, n := w.load("p"), w.load("lines")
	loop := w.loop()
	w.PREFETCHT1(operand.Mem{Base: p})
	w.ADDQ(operand.Imm(64), p)
	w.DECQ(n)
	w.JNZ(operand.LabelRef(loop))
	w.RET()
}

// loop puts a new label.
func (w *writer) loop() string {
	w.labels++
	l := fmt.Sprintf("loop%d", w.labels)
	w.Label(l)
	return l
}

// load takes a parameter into a register.
func (w *writer) load(name string) reg.GPVirtual {
	r := w.GP64()
	w.Load(w.Param(name), r)
	return r
}

// lanes is the number of float32 in a register; parts is how many registers hold a group of 16.
func (w *writer) lanes() int { return w.bits / 32 }
func (w *writer) parts() int { return 512 / w.bits }
func (w *writer) width() int { return w.bits / 8 }

// vector allocates a register.
func (w *writer) vector() reg.VecVirtual {
	if w.bits == 512 {
		return w.ZMM()
	}
	return w.YMM()
}

// half is the register of half the width that is the lower part of v.
func (w *writer) half(v reg.VecVirtual) reg.Register {
	if w.bits == 512 {
		return v.AsY()
	}
	return v.AsX()
}

// at is part p of the group that begins at off bytes from base.
func (w *writer) at(base reg.Register, off, p int) operand.Mem {
	return operand.Mem{Base: base, Disp: off + p*w.width()}
}

// zero clears a register.
func (w *writer) zero(v reg.VecVirtual) {
	if w.bits == 512 {
		w.VPXORD(v, v, v)
	} else {
		w.VPXOR(v, v, v)
	}
}

// words is a constant of 16 lanes, in which the given words repeat.
func (w *writer) words(name string, words ...uint32) operand.Mem {
	if m, ok := w.constants[name]; ok {
		return m
	}
	m := w.StaticGlobal(name)
	w.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		w.AppendDatum(operand.U32(words[i%len(words)]))
	}
	w.constants[name] = m
	return m
}

// word is a constant in every lane.
func (w *writer) word(name string, bits uint32) operand.Mem { return w.words(name, bits) }

func (w *writer) number(name string, x float32) operand.Mem { return w.word(name, math.Float32bits(x)) }

// broadcast fills a register with a parameter.
func (w *writer) broadcast(name string) reg.VecVirtual {
	v := w.vector()
	b, err := w.Param(name).Resolve()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.VBROADCASTSS(b.Addr, v)
	return v
}

// track keeps the greatest magnitude of what is written.
func (w *writer) track(greatest, v reg.VecVirtual) {
	t := w.vector()
	w.VANDPS(w.word("magnitude", 0x7fffffff), v, t)
	w.VPMAXUD(t, greatest, greatest)
}

// fold halves the number of lanes with op until one is left, in the lower lanes of an XMM register.
func (w *writer) fold(v reg.VecVirtual, op func(a, b, dst operand.Op)) reg.VecVirtual {
	y := w.YMM()
	if w.bits == 512 {
		w.VEXTRACTF64X4(operand.Imm(1), v, y)
		op(v.AsY(), y, y)
	} else {
		w.VMOVUPS(v, y)
	}
	x := w.XMM()
	w.VEXTRACTF128(operand.Imm(1), y, x)
	op(y.AsX(), x, x)
	t := w.XMM()
	w.VPSHUFD(operand.Imm(0b01_00_11_10), x, t)
	op(t, x, x)
	w.VPSHUFD(operand.Imm(0b10_11_00_01), x, t)
	op(t, x, x)
	return x
}

// storeGreatest returns the greatest magnitude.
func (w *writer) storeGreatest(v reg.VecVirtual) {
	x := w.fold(v, func(a, b, dst operand.Op) { w.VPMAXUD(a, b, dst) })
	r := w.GP32()
	w.VMOVD(x, r)
	w.Store(r, w.ReturnIndex(0))
}

// storeFloat returns a float32. The move is VEX-encoded: mixing in SSE instructions is slow while upper halves are in use.
func (w *writer) storeFloat(v reg.VecVirtual, result int) {
	r, err := w.ReturnIndex(result).Resolve()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.VMOVSS(v, r.Addr)
}
