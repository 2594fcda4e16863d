package synth

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/numeric"
)

// poolElems is the number of weights in a pool.
const poolElems = 1 << 18

// stream is the source of random numbers of one thing in a model, independent of the order in which things are made.
func stream(seed uint64, what string) *rand.Rand {
	h := fnv.New64a()
	io.WriteString(h, what)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// pool is valid blocks of a format, whose weights are N(0, sd) or spread alike.
type pool struct {
	info   format.Info
	blocks []byte
}

type poolKey struct {
	typ format.Type
	sd  float64
}

// pools makes pools as they are asked for.
type pools struct {
	seed uint64
	made map[poolKey]*pool
}

func (p *pools) get(typ format.Type, sd float64) (*pool, error) {
	key := poolKey{typ, sd}
	if made, ok := p.made[key]; ok {
		return made, nil
	}
	made, err := makePool(typ, sd, stream(p.seed, fmt.Sprintf("pool of %d at %x", typ, math.Float64bits(sd))))
	if err != nil {
		return nil, err
	}
	p.made[key] = made
	return made, nil
}

func makePool(typ format.Type, sd float64, rng *rand.Rand) (*pool, error) {
	info, ok := format.Lookup(typ)
	kernels, has := cpu.For(typ)
	if !ok || !has {
		return nil, fmt.Errorf("no kernels for format %v", typ)
	}
	p := &pool{info: info, blocks: make([]byte, poolElems/info.BlockElems*info.BlockBytes)}
	if kernels.Quantize != nil {
		x := make([]float32, poolElems)
		for i := range x {
			x[i] = float32(sd * gaussian(rng))
		}
		kernels.Quantize(p.blocks, x)
		return p, nil
	}
	scale, ok := scales[typ]
	if !ok {
		return nil, fmt.Errorf("format %s has neither a rounding scheme nor a block scale that is known here", info.Name)
	}
	// Random codes under scales of ±unit, measured; then the same codes under scales that give sd.
	for i := 0; i < len(p.blocks); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], rng.Uint64())
		copy(p.blocks[i:], word[:])
	}
	signs := make([]float32, len(p.blocks)/info.BlockBytes) // cancel what mean the codes have
	for i := range signs {
		signs[i] = float32(int(rng.Uint32()&2) - 1)
	}
	set := func(d float32) {
		for i, sign := range signs {
			scale(p.blocks[i*info.BlockBytes:(i+1)*info.BlockBytes], numeric.ToF16(sign*d))
		}
	}
	const unit = 1
	set(unit)
	x := make([]float32, poolElems)
	kernels.Dequantize(x, p.blocks)
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v)) // converted, so that no machine fuses product and sum
	}
	set(float32(sd / math.Sqrt(sum/poolElems)))
	return p, nil
}

// scales set a block's scale to an f16, for formats that no rounding scheme makes. What else is in a block may be any bits.
var scales = map[format.Type]func(block []byte, d uint16){
	format.IQ1S:   f16At(format.IQ1SDAtBytes),
	format.IQ1M:   scatter,
	format.IQ2XXS: f16At(format.IQ2XXSDAtBytes),
	format.IQ2XS:  f16At(format.IQ2XSDAtBytes),
	format.IQ2S:   f16At(format.IQ2SDAtBytes),
	format.IQ3XXS: f16At(format.IQ3XXSDAtBytes),
	format.IQ3S:   f16At(format.IQ3SDAtBytes),
	format.IQ4NL:  f16At(format.IQ4NLDAtBytes),
	format.IQ4XS:  f16At(format.IQ4XSDAtBytes),
	format.TQ1_0:  f16At(format.TQ1_0DAtBytes),
	format.TQ2_0:  ternary,
}

func f16At(at int) func([]byte, uint16) {
	return func(block []byte, d uint16) { binary.LittleEndian.PutUint16(block[at:], d) }
}

// scatter puts the four nibbles of d on top of iq1_m's four words of scales, the lowest nibble first.
func scatter(block []byte, d uint16) {
	for i := range 4 {
		word := block[format.IQ1MScalesAtBytes+2*i:]
		binary.LittleEndian.PutUint16(word, binary.LittleEndian.Uint16(word)&0x0fff|d>>(4*i)<<12)
	}
}

// ternary sets tq2_0's scale, and turns its codes of 3, which stand for 2, into 1, which stands for 0.
func ternary(block []byte, d uint16) {
	qs := block[format.TQ2_0QsAtBytes : format.TQ2_0QsAtBytes+format.TQ2_0Bytes-2]
	for i, q := range qs {
		three := q & (q >> 1) & 0x55
		qs[i] = q &^ (three << 1)
	}
	f16At(format.TQ2_0DAtBytes)(block, d)
}

// chunkBytes is how much of a tensor is made at a time.
const chunkBytes = 1 << 18

// source gives the rows of a matrix: each laid from runs of the pool, four or more, that begin anywhere.
func (p *pool) source(rng *rand.Rand, cols int, sizeBytes int64) func(context.Context, io.Writer) error {
	rowBlocks := cols / p.info.BlockElems
	n := len(p.blocks) / p.info.BlockBytes
	most := max(1, min(rowBlocks/4, n/2))
	return func(ctx context.Context, w io.Writer) error {
		rowBytes := rowBlocks * p.info.BlockBytes
		buf := make([]byte, 0, chunkBytes+rowBytes)
		for left := sizeBytes; left > 0; left -= int64(rowBytes) {
			for blocks := rowBlocks; blocks > 0; {
				r := rng.Uint64()
				run := min(blocks, most)
				from := int(uint32(r)) % (n - run + 1)
				buf = append(buf, p.blocks[from*p.info.BlockBytes:(from+run)*p.info.BlockBytes]...)
				blocks -= run
			}
			if len(buf) >= chunkBytes || left == int64(rowBytes) {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		return ctx.Err()
	}
}

// gaussian draws a number of mean 0 and deviation 1: the sum of twelve uniform ones of 16 bits, which is near to a normal distribution and the
// same on every machine, where rand.NormFloat64 has products and sums that some fuse.
func gaussian(rng *rand.Rand) float64 {
	sum := 0
	for range 3 {
		for w := rng.Uint64(); w != 0; w >>= 16 {
			sum += int(w & 0xffff)
		}
	}
	return float64(sum-12*0xffff/2) / 0x1p16
}
