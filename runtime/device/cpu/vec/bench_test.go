package vec

import (
	"testing"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/runtime/cpufeature"
)

// BenchmarkRows is each function on 1536 elements that are near, at every level. B/s counts what is read and written.
func BenchmarkRows(b *testing.B) {
	const n = 1536
	x, w, y, half := make([]float32, n), make([]float32, n), make([]float32, n), make([]uint16, n)
	blocks := make([]byte, n/kernels.ActivationBlockElems*kernels.ActivationBlockBytes)
	for i := range x {
		x[i], w[i] = float32(i%37)-18, float32(i%11)-5
	}
	for _, f := range []struct {
		name  string
		bytes int // for each element
		run   func(k *Kernels)
	}{
		{"rmsnorm", 12, func(k *Kernels) { k.RMSNorm(y, x, w, 1e-6) }},
		{"add", 12, func(k *Kernels) { k.Add(y, x, w) }},
		{"silumul", 12, func(k *Kernels) { k.SiLUMul(y, x, w) }},
		{"turn-halves", 8, func(k *Kernels) { k.TurnHalves(y, x, w[:n/2], w[n/2:]) }},
		{"turn-adjacent", 8, func(k *Kernels) { k.TurnAdjacent(y, x, w[:n/2], w[n/2:]) }},
		{"softmax", 8, func(k *Kernels) { copy(y, x); k.Softmax(y, n, 20) }},
		{"to-f16", 6, func(k *Kernels) { k.ToF16(half, x) }},
		{"quantize", 5, func(k *Kernels) { k.Quantize(blocks, x) }},
	} {
		eachLevel(b, f.name, func(b *testing.B, k *Kernels) {
			b.SetBytes(int64(n * f.bytes))
			for b.Loop() {
				f.run(k)
			}
		})
	}
}

// BenchmarkOuter is a block of 64 positions of 128 dims times the rows of 1, 6 and 96 queries. B/s counts the block.
func BenchmarkOuter(b *testing.B) {
	t := Tiles{Groups: 4, GroupStride: 16 * 128, Runs: 1, Run: 128}
	f32, f16 := make([]float32, t.end()), make([]uint16, t.end())
	for _, c := range []struct {
		name string
		rows int
	}{{"1", 1}, {"6", 6}, {"96", 96}} {
		a, y := Rows{make([]float32, c.rows*128), 128}, Rows{make([]float32, c.rows*64), 64}
		eachLevel(b, "f16/"+c.name, func(b *testing.B, k *Kernels) {
			b.SetBytes(int64(2 * len(f16)))
			for b.Loop() {
				k.OuterF16(y, a, c.rows, f16, t, false)
			}
		})
		eachLevel(b, "f32/"+c.name, func(b *testing.B, k *Kernels) {
			b.SetBytes(int64(4 * len(f32)))
			for b.Loop() {
				k.OuterF32(y, a, c.rows, f32, t, false)
			}
		})
	}
}

func eachLevel(b *testing.B, name string, run func(b *testing.B, k *Kernels)) {
	for _, l := range cpufeature.Levels() {
		if l == l.Vector() {
			b.Run(name+"/"+l.String(), func(b *testing.B) { run(b, For(l)) })
		}
	}
}
