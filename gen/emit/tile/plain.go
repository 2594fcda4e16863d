package tile

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/minfer/minfer/gen/model"
)

// A plain kernel multiplies rows of plain numbers, as a file has them, with f32 activations: rows times tokens at once,
// each product of two rows in sumLanes sums of its own that are added at the end, lanes that differ in 8, 4, 2 and 1 in turn.
// So it has the same bits in every plain kernel, whatever the level and the number of rows and tokens.
type plainKernel struct {
	*asm
	as           model.Number
	rows, tokens int
}

// sumLanes is the sums of a product.
const sumLanes = 16

// plainNumber is what a plain format's elements read as.
func plainNumber(f *model.Format) (model.Number, error) {
	if c := f.Segs[0].Value.Weight[0]; f.Plain() && len(f.Segs[0].Value.Weight) == 1 && c.Mul == 1 && c.Add == 0 && c.Bits == 8*f.Bytes {
		switch c.As {
		case model.F16, model.BF16, model.F32:
			return c.As, nil
		}
	}
	return "", fmt.Errorf("%s is no f16, bf16 or f32; plain kernels read those", f.Name)
}

// plainKernels writes the plain kernels of a format at a level.
func plainKernels(f *file) ([]byte, error) {
	as, err := plainNumber(f.format)
	if err != nil {
		return nil, err
	}
	a, err := newFile(f.level)
	if err != nil {
		return nil, err
	}
	for _, in := range f.instances {
		k := &plainKernel{asm: a, as: as, rows: in.vectors, tokens: in.tokens}
		k.write(in.function())
	}
	return a.print(f)
}

// parts is the registers that the sums of a product take.
func (k *plainKernel) parts() int { return sumLanes / k.lanes() }

func (k *plainKernel) sum(row, token, part int) vec {
	return vec((row*k.tokens+token)*k.parts() + part)
}

var plainArgs = struct{ w, x, y, wStride, xStride, yStride, steps, groups int }{0, 8, 16, 24, 32, 40, 48, 56}

func (k *plainKernel) write(name string) {
	k.fn = ir.NewFunction(name)
	k.fn.Attributes = attr.NOSPLIT
	sig, err := gotypes.ParseSignature("func(a *byte)")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	k.fn.SetSignature(sig)
	k.file.AddSection(k.fn)
	sums := k.rows * k.tokens * k.parts()
	weights := vec(sums) // a register for each row
	x := weights + vec(k.rows)
	if int(x) >= k.registers() {
		panic("BUG: out of vector registers in " + name)
	}

	k.op("MOVQ", operand.NewParamAddr("a", 0), rArgs)
	rows := []reg.Register{reg.RSI, reg.R8, reg.R9, reg.R10}[:k.rows]
	tokens := []reg.Register{reg.R11, reg.R12, reg.R13, reg.R14}[:k.tokens]
	ahead, y := reg.RBX, reg.R15 // in a register: the arguments' pointers stay in the memory that they were given for
	k.pointers(rows, plainArgs.w, plainArgs.wStride)
	k.pointers(tokens, plainArgs.x, plainArgs.xStride)
	k.op("MOVQ", mem(rArgs, plainArgs.y), y)
	groups := k.loop("group")
	if k.streams() {
		// The rows of the next group, which follow.
		k.op("MOVQ", rows[k.rows-1], ahead)
		k.op("ADDQ", mem(rArgs, plainArgs.wStride), ahead)
	}
	k.op("MOVQ", mem(rArgs, plainArgs.steps), reg.RCX)
	k.op("XORL", reg.EAX, reg.EAX) // element
	for i := range sums {
		k.zero(vec(i))
	}
	loop := k.loop("step")
	if k.streams() {
		share := sumLanes * k.elemBytes() * k.rows
		for at := 0; at < share; at += cacheLine {
			k.op("PREFETCHT0", mem(ahead, at))
		}
		k.op("ADDQ", share, ahead)
	}
	for p := range k.parts() {
		for r, ptr := range rows {
			at := indexed(ptr, reg.RAX, k.elemBytes(), p*k.lanes()*k.elemBytes())
			w := weights + vec(r)
			switch k.as {
			case model.F16:
				k.op("VCVTPH2PS", at, w)
			case model.BF16:
				k.op("VPMOVZXWD", at, w)
				k.op("VPSLLD", 16, w, w)
			default:
				k.op("VMOVUPS", at, w)
			}
		}
		for t, ptr := range tokens {
			at := indexed(ptr, reg.RAX, 4, p*k.bytes())
			if k.rows > 1 {
				k.op("VMOVUPS", at, x)
			}
			for r := range rows {
				if k.rows > 1 {
					k.op("VFMADD231PS", x, weights+vec(r), k.sum(r, t, p))
				} else {
					k.op("VFMADD231PS", at, weights, k.sum(r, t, p))
				}
			}
		}
	}
	k.op("ADDQ", sumLanes, reg.RAX)
	k.op("DECQ", reg.RCX)
	k.op("JNZ", loop)
	k.op("MOVQ", y, reg.RAX)
	for t := range k.tokens {
		for r := range k.rows {
			k.fold(r, t, x)
			k.op("VMOVSS", xmm(k.sum(r, t, 0)), mem(reg.RAX, 4*r))
		}
		if t < k.tokens-1 {
			k.op("ADDQ", mem(rArgs, plainArgs.yStride), reg.RAX)
		}
	}
	k.op("ADDQ", 4*k.rows, y)
	// The next rows.
	k.op("MOVQ", mem(rArgs, plainArgs.wStride), reg.RCX)
	for i := range rows {
		if i == 0 {
			k.op("MOVQ", rows[k.rows-1], rows[0])
		} else {
			k.op("MOVQ", rows[i-1], rows[i])
		}
		k.op("ADDQ", reg.RCX, rows[i])
	}
	k.op("DECQ", mem(rArgs, plainArgs.groups))
	k.op("JNZ", groups)
	k.op("VZEROUPPER")
	k.op("RET")
}

// streams reports whether the weights come out of memory: for one token they are read once.
func (k *plainKernel) streams() bool { return k.tokens == 1 }

func (k *plainKernel) elemBytes() int {
	if k.as == model.F32 {
		return 4
	}
	return 2
}

// pointers loads a pointer and adds a stride from one register to the next.
func (k *plainKernel) pointers(to []reg.Register, base, stride int) {
	for i, r := range to {
		if i == 0 {
			k.op("MOVQ", mem(rArgs, base), r)
			continue
		}
		k.op("MOVQ", to[i-1], r)
		k.op("ADDQ", mem(rArgs, stride), r)
	}
}

func xmm(v vec) operand.Op { return reg.Vector.Lookup(reg.Index(v), reg.S128) }
func ymm(v vec) operand.Op { return reg.Vector.Lookup(reg.Index(v), reg.S256) }

// fold adds the lanes of a product into the lowest one.
func (k *plainKernel) fold(r, t int, x vec) {
	s := k.sum(r, t, 0)
	if k.bits == 512 {
		k.op("VEXTRACTF64X4", 1, s, ymm(x))
		k.op("VADDPS", ymm(x), ymm(s), ymm(s))
		k.op("VEXTRACTF32X4", 1, ymm(s), xmm(x))
	} else {
		k.op("VADDPS", k.sum(r, t, 1), s, s)
		k.op("VEXTRACTF128", 1, s, xmm(x))
	}
	k.op("VADDPS", xmm(x), xmm(s), xmm(s))
	k.op("VPERMILPS", 0b1110, xmm(s), xmm(x))
	k.op("VADDPS", xmm(x), xmm(s), xmm(s))
	k.op("VPERMILPS", 0b01, xmm(s), xmm(x))
	k.op("VADDPS", xmm(x), xmm(s), xmm(s))
}

// plainSource is the Go that lists the plain kernels.
func plainSource() string {
	return fmt.Sprintf(`
// PlainArgs are the arguments of a kernel for plain numbers: y[t,r] = sum over k of w[r,k] * x[t,k].
type PlainArgs struct {
	W       unsafe.Pointer // rows as a file has them
	X       unsafe.Pointer // f32
	Y       unsafe.Pointer // f32
	WStride int            // bytes from one row to the next
	XStride int            // bytes from one token's activations to the next
	YStride int            // bytes from one token's sums to the next
	Steps   int            // of PlainStep elements, at least one
	Groups  int            // of as many rows as the kernel takes, one after the other; used up
}

// PlainStep is the number of elements that plain kernels take at a time; the sum of the others is added to theirs.
const PlainStep = %d

// Plain finds a kernel by the symbol that its gate gives; nil where this build has none. Kernels check nothing.
func Plain(symbol string) func(*PlainArgs) { return plain[symbol] }

var plain map[string]func(*PlainArgs)
`, sumLanes)
}
