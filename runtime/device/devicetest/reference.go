// Package devicetest judges devices: a slow, obvious interpreter of graphs in float64, and a suite that every device
// passes.
package devicetest

import (
	"fmt"
	"math"
	"math/cmplx"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/op"
)

// Reference computes a graph on tokens from position 0 on and gives the logits of all of them. It shares no code with
// any device but the dequantizers: all sums are float64, run over all of K in one loop, and attention is two plain
// passes. With precision device.Q8 the inputs of products with block-quantized weights are rounded as a device rounds
// them, and multiplied in float64. Keys and values are rounded to the type of the cache.
func Reference(g *op.Graph, tokens []int32, precision device.Precision, kv format.Type) [][]float64 {
	n := len(tokens)
	values := make([][][]float64, len(g.Values)) // by Value, token
	keys, vals := make([][][]float64, len(g.KV)), make([][][]float64, len(g.KV))
	set := func(v op.Value, f func(t int) []float64) {
		values[v] = make([][]float64, n)
		for t := range n {
			values[v][t] = f(t)
		}
	}
	for _, o := range g.Ops {
		switch o := o.(type) {
		case op.Embed:
			rows := matrix(o.Table)
			set(o.Out, func(t int) []float64 { return rows[tokens[t]] })
		case op.RMSNorm:
			w := matrix(o.Weight)[0]
			set(o.Out, func(t int) []float64 {
				x := values[o.In][t]
				y := make([]float64, len(x))
				for first := 0; first < len(x); first += o.Group {
					var sum float64
					for i := range o.Group {
						sum += x[first+i] * x[first+i]
					}
					for i := range o.Group {
						y[first+i] = x[first+i] / math.Sqrt(sum/float64(o.Group)+float64(o.Eps)) * w[i]
					}
				}
				return y
			})
		case op.MatMul:
			w := matrix(o.Weight)
			k, _ := kernels.For(o.Weight.Type)
			set(o.Out, func(t int) []float64 {
				x := values[o.In][t]
				if precision == device.Q8 && k.DotQ8 != nil {
					x = rounded(x)
				}
				y := make([]float64, len(w))
				for m := range w {
					for i := range x {
						y[m] += w[m][i] * x[i]
					}
				}
				if o.Bias != nil {
					for m, b := range matrix(o.Bias)[0] {
						y[m] += b
					}
				}
				return y
			})
		case op.RoPE:
			freqs, magnitude := o.Rotary.Frequencies()
			set(o.Out, func(t int) []float64 {
				y := append([]float64(nil), values[o.In][t]...)
				for h := 0; h < len(y); h += o.HeadDim {
					for i, f := range freqs {
						a, b := h+2*i, h+2*i+1
						if o.Rotary.Pairing == op.Halves {
							a, b = h+i, h+i+o.Rotary.Dims/2
						}
						z := complex(y[a], y[b]) * cmplx.Rect(magnitude, float64(t)*f)
						y[a], y[b] = real(z), imag(z)
					}
				}
				return y
			})
		case op.KVAppend:
			cached := func(rows [][]float64) [][]float64 {
				out := make([][]float64, len(rows))
				for t, x := range rows {
					out[t] = roundedTo(kv, x)
				}
				return out
			}
			keys[o.Layer], vals[o.Layer] = cached(values[o.K]), cached(values[o.V])
		case op.Attend:
			k, v := keys[o.Layer], vals[o.Layer]
			set(o.Out, func(t int) []float64 {
				y := make([]float64, o.Heads*o.ValueDim)
				for h := range o.Heads {
					kv := h / (o.Heads / o.KVHeads)
					scores, greatest := make([]float64, t+1), math.Inf(-1)
					for j := range scores {
						for i := range o.KeyDim {
							scores[j] += values[o.Q][t][h*o.KeyDim+i] * k[j][kv*o.KeyDim+i] * float64(o.Scale)
						}
						greatest = max(greatest, scores[j])
					}
					var sum float64
					for j := range scores {
						scores[j] = math.Exp(scores[j] - greatest)
						sum += scores[j]
					}
					for j := range scores {
						for i := range o.ValueDim {
							y[h*o.ValueDim+i] += scores[j] / sum * v[j][kv*o.ValueDim+i]
						}
					}
				}
				return y
			})
		case op.SiLUMul:
			set(o.Out, func(t int) []float64 {
				y := make([]float64, len(values[o.Gate][t]))
				for i, x := range values[o.Gate][t] {
					y[i] = x / (1 + math.Exp(-x)) * values[o.Up][t][i]
				}
				return y
			})
		case op.Add:
			set(o.Out, func(t int) []float64 {
				y := make([]float64, len(values[o.A][t]))
				for i, x := range values[o.A][t] {
					y[i] = x + values[o.B][t][i]
				}
				return y
			})
		case op.Select:
			values[o.Out] = values[o.In]
		default:
			panic(fmt.Sprintf("BUG: the reference does not know %s", op.Name(o)))
		}
	}
	return values[g.Logits]
}

// matrix is a weight, dequantized.
func matrix(w *op.Weight) [][]float64 {
	k, ok := kernels.For(w.Type)
	if !ok {
		panic("BUG: no dequantizer for " + w.TypeName())
	}
	rows, row, n := make([][]float64, w.Rows), make([]float32, w.Cols), w.RowBytes()
	for r := range rows {
		k.Dequantize(row, w.Data[r*n:][:n])
		rows[r] = make([]float64, w.Cols)
		for i, x := range row {
			rows[r][i] = float64(x)
		}
	}
	return rows
}

// roundedTo is x after rounding to a format.
func roundedTo(t format.Type, x []float64) []float64 {
	if t == format.F32 {
		return x
	}
	k, ok := kernels.For(t)
	info, _ := format.Lookup(t)
	if !ok || k.Quantize == nil {
		panic("BUG: nothing rounds to " + info.Name)
	}
	in, blocks := make([]float32, len(x)), make([]byte, len(x)/info.BlockElems*info.BlockBytes)
	for i := range x {
		in[i] = float32(x[i])
	}
	k.Quantize(blocks, in)
	k.Dequantize(in, blocks)
	y := make([]float64, len(x))
	for i := range in {
		y[i] = float64(in[i])
	}
	return y
}

// rounded is x after rounding to activation blocks.
func rounded(x []float64) []float64 {
	in := make([]float32, len(x))
	for i := range x {
		in[i] = float32(x[i])
	}
	blocks := make([]byte, len(x)/kernels.ActivationBlockElems*kernels.ActivationBlockBytes)
	kernels.QuantizeActivations(blocks, in)
	kernels.DequantizeActivations(in, blocks)
	y := make([]float64, len(x))
	for i := range in {
		y[i] = float64(in[i])
	}
	return y
}
