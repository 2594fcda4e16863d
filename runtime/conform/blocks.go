package conform

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/kernel"
)

// Fills of weight blocks. Floating-point fields get numbers of moderate size except in wild blocks.
const (
	sane  = "random codes"
	ones  = "all bits set"
	tops  = "all bytes 0x80"
	lows  = "all bytes 0x7f"
	blank = "all bytes zero" // scales too
	wild  = "random bytes"   // scales too: NaN, Inf, denormals
)

// weights is rows of a format with their values.
type weights struct {
	info   format.Info
	rows   int64
	cols   int64
	blocks []byte    // as in a file
	values []float32 // as ggml reads them
}

func random(seed ...int64) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, s := range seed {
		h = (h ^ uint64(s)) * 1099511628211
	}
	return rand.New(rand.NewPCG(h, 1))
}

// makeWeights fills rows with blocks. Of many rows only the first and the last are all different; those between repeat a pool.
func makeWeights(info format.Info, rows, cols int64, fill string, r *rand.Rand) *weights {
	n := rows * cols / int64(info.BlockElems)
	w := &weights{info: info, rows: rows, cols: cols, blocks: make([]byte, n*int64(info.BlockBytes)), values: make([]float32, rows*cols)}
	pool := min(n, 4096)
	head := w.blocks[:pool*int64(info.BlockBytes)]
	fillBlocks(head, info, fill, r)
	for at := len(head); at < len(w.blocks); {
		at += copy(w.blocks[at:], head[r.IntN(len(head)/info.BlockBytes)*info.BlockBytes:])
	}
	k, ok := cpu.For(info.Type)
	if !ok {
		panic("BUG: cpu knows no " + info.Name)
	}
	k.Dequantize(w.values, w.blocks)
	return w
}

func fillBlocks(b []byte, info format.Info, fill string, r *rand.Rand) {
	if info.Plain() && fill != wild {
		x := make([]float32, len(b)/info.BlockBytes)
		for i := range x {
			switch fill {
			case sane:
				x[i] = float32(r.NormFloat64())
			case ones, tops, lows:
				x[i] = map[string]float32{ones: 1, tops: -240, lows: 0x1p-14}[fill]
			}
		}
		k, _ := cpu.For(info.Type)
		k.Quantize(b, x)
		return
	}
	for i := range b {
		switch fill {
		case ones:
			b[i] = 0xff
		case tops:
			b[i] = 0x80
		case lows:
			b[i] = 0x7f
		case sane, wild:
			b[i] = byte(r.Uint32() >> 24)
		}
	}
	if fill == wild || fill == blank {
		return
	}
	for ; len(b) > 0; b = b[info.BlockBytes:] {
		for _, f := range conform.Floats[info.Name] {
			word := moderate(f.As, r)
			for _, run := range f.Bits {
				for i := range run.Count {
					at := run.At + i
					b[at/8] = b[at/8]&^(1<<(at%8)) | byte(word&1)<<(at%8)
					word >>= 1
				}
			}
		}
	}
}

// moderate is a number of magnitude 1/64..2 in a floating-point type.
func moderate(as string, r *rand.Rand) uint64 {
	x := float32(math.Ldexp(1+r.Float64(), -r.IntN(7)))
	if r.IntN(2) == 0 {
		x = -x
	}
	switch as {
	case "f64":
		return math.Float64bits(float64(x))
	case "f32":
		return uint64(math.Float32bits(x))
	case "bf16":
		return uint64(math.Float32bits(x) >> 16)
	case "f16":
		return uint64(9+r.IntN(7))<<10 | uint64(r.IntN(1024)) | uint64(r.IntN(2))<<15
	case "e8m0":
		return uint64(122 + r.IntN(6))
	case "ue4m3":
		return uint64(8 + r.IntN(100))
	}
	panic("BUG: no floating-point type is called " + as)
}

// place lays the blocks out as a layout says.
func (w *weights) place(l kernel.Layout) []byte {
	p, ok := gate.Placements[w.info.Name][l]
	if !ok {
		panic(fmt.Sprintf("BUG: %s has no layout %s", w.info.Name, l))
	}
	blocks := int(w.cols) / w.info.BlockElems
	b := make([]byte, len(w.blocks)/(blocks*p.FileBlockBytes)*p.RowBytes(blocks))
	p.Pack(b, w.blocks, blocks)
	return b
}

func (w *weights) row(i int64) []float32 { return w.values[i*w.cols : (i+1)*w.cols] }

// Fills of activations.
const (
	normal    = "random x"
	zero      = "x zero"
	minusZero = "x minus zero"
	lastUnit  = "the last unit alone"
	firstUnit = "the first unit alone"
	oneNaN    = "one NaN"
	oneInf    = "one Inf"
	loud      = "x all 3000"
	flip      = "x 3000 and -3000 in turn"
	huge      = "x all 1e7"
	denormal  = "x denormal"
	tiny      = "blocks of one 1e-38, of 1e-6, of zero"
	outliers  = "x with outliers"
)

// activations is tokens of cols numbers. unit is what the fills of one unit mean by it.
func activations(tokens, cols, unit int64, fill string, r *rand.Rand) []float32 {
	x := make([]float32, tokens*cols)
	for i := range x {
		c := int64(i) % cols
		switch fill {
		case normal, oneNaN, oneInf:
			x[i] = float32(r.NormFloat64())
		case minusZero:
			x[i] = float32(math.Copysign(0, -1))
		case lastUnit:
			if c >= cols-unit {
				x[i] = 1
			}
		case firstUnit:
			if c < unit {
				x[i] = -1
			}
		case loud:
			x[i] = 3000
		case flip:
			x[i] = float32(3000 * (1 - 2*(c%2)))
		case huge:
			x[i] = 1e7
		case denormal:
			x[i] = float32(r.NormFloat64()) * 1e-41
		case tiny:
			switch c / 32 % 4 {
			case 0:
				if c%32 == 3 {
					x[i] = 1e-38
				}
			case 1:
				x[i] = 1e-6
			case 2:
			case 3:
				x[i] = float32(r.NormFloat64())
			}
		case outliers:
			x[i] = float32(r.NormFloat64())
			if r.IntN(64) == 0 {
				x[i] *= 1000
			}
		}
	}
	// One bad number in the middle token: the others are not to notice.
	bad := int(tokens/2*cols) + r.IntN(int(cols))
	switch fill {
	case oneNaN:
		x[bad] = float32(math.NaN())
	case oneInf:
		x[bad] = float32(math.Inf(1 - 2*r.IntN(2)))
	}
	return x
}

// finite reports whether x is a number.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func put32(b []byte, i int64, bits uint32) { binary.LittleEndian.PutUint32(b[4*i:], bits) }
