// Package interp dequantizes blocks from the model alone, element by element and bit by bit. It is the slow obvious
// reading of a format: it shares no code with what the emitters generate, and works before anything is generated.
package interp

import (
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/minfer/minfer/gen/model"
)

// Dequantize returns y[e] = product(scale) * (product(weight) + sum(bias)) -+ product(minus, plus) for every element
// of whole blocks, every operation in f32. The format must have passed gen/proof. It is an error when the blocks are
// not a whole number of blocks.
func Dequantize(f *model.Format, blocks []byte) ([]float32, error) {
	if len(blocks)%f.Bytes != 0 {
		return nil, fmt.Errorf("%d bytes are %d blocks of %s and %d bytes more; a whole number of blocks of %d bytes is due",
			len(blocks), len(blocks)/f.Bytes, f.Name, len(blocks)%f.Bytes, f.Bytes)
	}
	out := make([]float32, 0, len(blocks)/f.Bytes*f.Elems)
	for ; len(blocks) > 0; blocks = blocks[f.Bytes:] {
		for _, s := range f.Segs {
			for e := range s.Elems() {
				out = append(out, reader{blocks[:f.Bytes], s.Shape.Digits(e)}.value(s.Value))
			}
		}
	}
	return out, nil
}

// reader reads the codes of one element.
type reader struct {
	block  []byte
	digits []int
}

func (r reader) value(v model.Value) float32 {
	y := r.product(v.Weight)
	for _, c := range v.Bias {
		y += r.number(c)
	}
	if len(v.Scale) > 0 {
		y = float32(r.product(v.Scale) * y) // the conversions keep the product from being fused into a sum
	}
	if len(v.Minus) > 0 {
		y -= r.product(v.Minus)
	}
	if len(v.Plus) > 0 {
		y += r.product(v.Plus)
	}
	return y
}

func (r reader) product(codes []*model.Code) float32 {
	y := r.number(codes[0])
	for _, c := range codes[1:] {
		y = float32(y * r.number(c))
	}
	return y
}

// Word is the code's word for the element: its planes, least significant first.
func (r reader) word(c *model.Code) uint64 {
	var word uint64
	pos := 0
	for _, p := range c.Planes {
		a := p.Layout.At(r.digits)
		var v uint64
		if p.Field != nil {
			for k := range p.Bits {
				bit := 8*p.Field.AtBytes + a + k
				v |= uint64(r.block[bit/8]>>(bit%8)&1) << k
			}
		} else {
			v = p.Code.Then.Apply(r.word(p.Code), p.Code.Bits) >> a
			if p.Bits < 64 {
				v &= 1<<p.Bits - 1
			}
		}
		word |= v << pos
		pos += p.Bits
	}
	return word
}

// number is f32(mul * as(word) + add).
func (r reader) number(c *model.Code) float32 {
	w := r.word(c)
	plain := c.Mul == 1 && c.Add == 0
	var x float64
	switch c.As {
	case model.Unsigned:
		if plain {
			return float32(w)
		}
		x = float64(w)
	case model.Signed:
		i := int64(w) << (64 - c.Bits) >> (64 - c.Bits)
		if plain {
			return float32(i) // not by way of f64, which would round twice
		}
		x = float64(i)
	case model.Levels:
		x = c.Levels[w]
	case model.F16:
		x = float64(float16.Frombits(uint16(w)).Float32())
	case model.BF16:
		x = float64(math.Float32frombits(uint32(w) << 16))
	case model.F32:
		x = float64(math.Float32frombits(uint32(w)))
	case model.F64:
		x = math.Float64frombits(w)
	case model.E8M0:
		x = math.Ldexp(1, int(w)-127) // 255 is 2^128, as in ggml
	case model.UE4M3:
		x = ue4m3(uint8(w))
	default:
		panic("BUG: no number is called " + string(c.As))
	}
	return float32(float64(c.Mul*x) + c.Add)
}

// ue4m3 reads an unsigned e4m3 as ggml does: 0x7f is 0, and the top bit is ignored.
func ue4m3(w uint8) float64 {
	e, m := int(w>>3&15), float64(w&7)
	switch {
	case w == 0x7f:
		return 0
	case e == 0:
		return math.Ldexp(m, -9)
	}
	return math.Ldexp(1+m/8, e-7)
}
