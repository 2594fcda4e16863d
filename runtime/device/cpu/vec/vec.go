// Package vec computes on rows of f32 what a decode needs beside products with weights: norms, rotary embedding,
// activations, softmax, the two products of attention, conversion to f16, rounding to 8 bits, and
// codes of 8 bits as numbers again.
//
// The code here is portable Go and says what is computed; where a level of vector instructions is there, the assembly of
// generated/vec takes the whole groups of 16 elements and portable code the rest. Results are the same bits at every
// level and on every architecture: products are never fused with sums, sums have 16 lanes whatever the registers hold.
package vec

import (
	"math"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/vec"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/numeric"
)

// Lanes is the number of elements of a group: of sums' lanes, of a tile's row.
const Lanes = 16

// Kernels are the functions of one level.
type Kernels struct {
	asm *vec.Kernels // nil: portable
}

// For gives the functions of a level that this machine runs.
func For(l cpufeature.Level) *Kernels { return &Kernels{asmFor(l.Vector())} }

// whole is the number of elements, from the first on, that assembly takes.
func (k *Kernels) whole(n int) int {
	if k.asm == nil {
		return 0
	}
	return n &^ (Lanes - 1)
}

// finite reports whether magnitudes up to greatest, in bits, are numbers.
func finite(greatest uint32) bool { return greatest < 0x7f800000 }

func magnitude(x float32) uint32 { return math.Float32bits(x) &^ (1 << 31) }

// Finite reports whether no element is NaN or infinite.
func (k *Kernels) Finite(x []float32) bool {
	n, greatest := k.whole(len(x)), uint32(0)
	if n > 0 {
		greatest = k.asm.Magnitude(&x[0], n)
	}
	for _, v := range x[n:] {
		greatest = max(greatest, magnitude(v))
	}
	return finite(greatest)
}

// SumSquares is the sum of x[i]^2 in float64, where no square is rounded. In whole groups lane l sums the elements i of
// l mod 16, ascending; lanes that differ in 8, 4, 2 and 1 are then added in turn, and the elements past the groups follow.
func (k *Kernels) SumSquares(x []float32) (sum float64) {
	n := len(x) &^ (Lanes - 1)
	switch {
	case n == 0:
	case k.asm != nil:
		sum = k.asm.SumSquares(&x[0], n)
	default:
		var lanes [Lanes]float64
		for i, v := range x[:n] {
			lanes[i%Lanes] += float64(v) * float64(v)
		}
		for step := Lanes / 2; step > 0; step /= 2 {
			for i := range step {
				lanes[i] += lanes[i+step]
			}
		}
		sum = lanes[0]
	}
	for _, v := range x[n:] {
		sum += float64(v) * float64(v)
	}
	return sum
}

// RMSNorm is y[i] = x[i] * s * weight[i], s = 1 / sqrt(mean of x^2 + eps) rounded to f32. It reports whether all y are
// finite.
func (k *Kernels) RMSNorm(y, x, weight []float32, eps float64) bool {
	scale := float32(1 / math.Sqrt(k.SumSquares(x)/float64(len(x))+eps))
	y, weight = y[:len(x)], weight[:len(x)]
	n, greatest := k.whole(len(x)), uint32(0)
	if n > 0 {
		greatest = k.asm.Norm(&y[0], &x[0], &weight[0], scale, n)
	}
	for i := n; i < len(x); i++ {
		y[i] = float32(x[i]*scale) * weight[i]
		greatest = max(greatest, magnitude(y[i]))
	}
	return finite(greatest)
}

// Scale is y[i] = x[i]*scale + 0, which is never -0. It reports whether all y are finite.
func (k *Kernels) Scale(y, x []float32, scale float32) bool {
	y = y[:len(x)]
	n, greatest := k.whole(len(x)), uint32(0)
	if n > 0 {
		greatest = k.asm.Scale(&y[0], &x[0], scale, n)
	}
	for i := n; i < len(x); i++ {
		y[i] = float32(x[i]*scale) + 0
		greatest = max(greatest, magnitude(y[i]))
	}
	return finite(greatest)
}

// Merge is y[i] = y[i]*a + x[i]*b.
func (k *Kernels) Merge(y, x []float32, a, b float32) {
	y = y[:len(x)]
	n := k.whole(len(x))
	if n > 0 {
		k.asm.Merge(&y[0], &x[0], a, b, n)
	}
	for i := n; i < len(x); i++ {
		y[i] = float32(y[i]*a) + float32(x[i]*b)
	}
}

// Add is y[i] = a[i] + b[i]. It reports whether all y are finite.
func (k *Kernels) Add(y, a, b []float32) bool {
	y, b = y[:len(a)], b[:len(a)]
	n, greatest := k.whole(len(a)), uint32(0)
	if n > 0 {
		greatest = k.asm.Add(&y[0], &a[0], &b[0], n)
	}
	for i := n; i < len(a); i++ {
		y[i] = a[i] + b[i]
		greatest = max(greatest, magnitude(y[i]))
	}
	return finite(greatest)
}

// SiLUMul is y[i] = gate[i] * sigmoid(gate[i]) * up[i]. Gates below -88.7, whose sigmoid is below the normal numbers,
// give zeros. It reports whether all y are finite.
func (k *Kernels) SiLUMul(y, gate, up []float32) bool {
	y, up = y[:len(gate)], up[:len(gate)]
	n, greatest := k.whole(len(gate)), uint32(0)
	if n > 0 {
		greatest = k.asm.SiLUMul(&y[0], &gate[0], &up[0], n)
	}
	for i := n; i < len(gate); i++ {
		y[i] = gate[i] / (1 + Exp(-gate[i])) * up[i]
		greatest = max(greatest, magnitude(y[i]))
	}
	return finite(greatest)
}

// Exp is the exponential function, within 1 unit in the last place (0.99 over all arguments with a normal result).
// It is 0 below -103.98, infinite above 88.73, and NaN for NaN.
func Exp(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, -105), 89)
	t := float32(x*0x1.715476p0) + 0x1.8p23 // the lowest bits are now the integer nearest to x/ln(2)
	n := t - 0x1.8p23
	r := x - float32(n*0x1.63p-1)
	r -= float32(n * -0x1.bd0106p-13)
	p := float32(r * 1.9875691500e-4)
	p = float32((p + 1.3981999507e-3) * r)
	p = float32((p + 8.3334519073e-3) * r)
	p = float32((p + 4.1665795894e-2) * r)
	p = float32((p + 1.6666665459e-1) * r)
	p = float32((p + 5.0000001201e-1) * float32(r*r))
	p = p + r + 1
	i := int32(math.Float32bits(t)) - 0x4b400000
	h := i >> 1 // 2^i in two factors: results below the normal numbers are rounded once
	return float32(p*pow2(h)) * pow2(i-h)
}

func pow2(i int32) float32 { return math.Float32frombits(uint32(i+127) << 23) }

// TurnHalves turns the pairs x[i], x[i+len(sin)] to y by angles of the given sines and cosines:
// y[i] = x[i]*cos - x[i+n]*sin, y[i+n] = x[i]*sin + x[i+n]*cos. y must not overlap x unless it is x.
func (k *Kernels) TurnHalves(y, x, sin, cos []float32) {
	pairs := len(sin)
	y, x, cos = y[:2*pairs], x[:2*pairs], cos[:pairs]
	n := k.whole(pairs)
	if n > 0 {
		k.asm.TurnHalves(&y[0], &y[pairs], &x[0], &x[pairs], &sin[0], &cos[0], n)
	}
	for i := n; i < pairs; i++ {
		y[i], y[i+pairs] = turn(x[i], x[i+pairs], sin[i], cos[i])
	}
}

// TurnAdjacent turns the pairs x[2*i], x[2*i+1].
func (k *Kernels) TurnAdjacent(y, x, sin, cos []float32) {
	pairs := len(sin)
	y, x, cos = y[:2*pairs], x[:2*pairs], cos[:pairs]
	n := k.whole(pairs)
	if n > 0 {
		k.asm.TurnAdjacent(&y[0], &x[0], &sin[0], &cos[0], n)
	}
	for i := n; i < pairs; i++ {
		y[2*i], y[2*i+1] = turn(x[2*i], x[2*i+1], sin[i], cos[i])
	}
}

func turn(a, b, sin, cos float32) (float32, float32) {
	return float32(a*cos) - float32(b*sin), float32(a*sin) + float32(b*cos)
}

// ToF16 rounds x to f16 and reports whether all of it is finite then.
func (k *Kernels) ToF16(y []uint16, x []float32) bool {
	y = y[:len(x)]
	n, greatest := k.whole(len(x)), uint32(0)
	if n > 0 {
		greatest = k.asm.ToF16(&y[0], &x[0], n)
	}
	for i := n; i < len(x); i++ {
		y[i] = numeric.ToF16(x[i])
		greatest = max(greatest, uint32(y[i]&0x7fff))
	}
	return greatest < 0x7c00
}

// Quantize rounds x to activation blocks, as generated/cpu.QuantizeActivations does, and reports whether all scales are
// finite.
func (k *Kernels) Quantize(y []byte, x []float32) bool {
	const elems, size = kernels.ActivationBlockElems, kernels.ActivationBlockBytes
	if k.asm != nil && len(x) > 0 && len(x)%elems == 0 {
		y = y[:len(x)/elems*size]
		return k.asm.Quantize(&y[0], &x[0], len(x)/elems) < 0x7c00
	}
	kernels.QuantizeActivations(y, x)
	ok := true
	for b := 0; b < len(x)/elems*size; b += size {
		ok = ok && uint16(y[b+1])&0x7c != 0x7c
	}
	return ok
}

// QuantizeDealt rounds x as Quantize does and deals the parts of the blocks out: codes at q, and at f, stride bytes apart,
// the scale in f32, the sums of all codes, of the first 16 and of the last 16 in f32, and these three negated in i32. Both
// move on by unit bytes from block to block. ok is Quantize's result. Without vector instructions it does nothing, and
// done is false.
func (k *Kernels) QuantizeDealt(q, f []byte, x []float32, unit, stride int) (ok, done bool) {
	const elems = kernels.ActivationBlockElems
	n := len(x) / elems
	if k.asm == nil || n == 0 {
		return false, false
	}
	_, _, _ = q[(n-1)*unit+elems-1], f[(n-1)*unit+6*stride+3], x[n*elems-1]
	return k.asm.QuantizeDealt(&q[0], floatOf(f), &x[0], n, unit, stride) < 0x7c00, true
}

// Softmax sets the first n of x to exp(x[i] - greatest), where greatest is the greatest of them and of before, and the
// rest to zero. x is whole groups. sum is the sum of the results, in lanes and these in turn as SumSquares has them. A NaN in makes sum NaN.
func (k *Kernels) Softmax(x []float32, n int, before float32) (greatest, sum float32) {
	for i := n; i < len(x); i++ {
		x[i] = float32(math.Inf(-1))
	}
	if k.asm != nil {
		if len(x)%Lanes != 0 || len(x) == 0 {
			panic("BUG: softmax of a part of a group")
		}
		return k.asm.Softmax(&x[0], len(x), before)
	}
	greatest = before
	for _, v := range x {
		if v > greatest {
			greatest = v
		}
	}
	var lanes [Lanes]float32
	for i, v := range x {
		x[i] = Exp(v - greatest)
		lanes[i%Lanes] += x[i]
	}
	for step := Lanes / 2; step > 0; step /= 2 {
		for i := range step {
			lanes[i] += lanes[i+step]
		}
	}
	return greatest, lanes[0]
}
