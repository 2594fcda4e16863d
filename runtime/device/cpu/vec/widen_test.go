package vec

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/cpufeature"
)

// TestWiden holds codes times scales to the dequantizer of the format whose blocks they are the parts of, at every level, bit for bit.
func TestWiden(t *testing.T) {
	q8, _ := kernels.For(format.Q8_0)
	const elems, size = format.Q8_0Elems, format.Q8_0Bytes
	rng := rand.New(rand.NewPCG(3, 4))
	for _, l := range cpufeature.Levels() {
		if l != l.Vector() {
			continue
		}
		t.Run(l.String(), func(t *testing.T) {
			k := For(l)
			for _, n := range []int{4, 16, 20, 64} {
				for _, lanesWise := range []bool{false, true} {
					blocks := n
					if lanesWise {
						blocks = n / 4 * Lanes
					}
					file := make([]byte, blocks*size)
					for i := range file {
						file[i] = byte(rng.Uint32())
					}
					want := make([]float32, blocks*elems)
					q8.Dequantize(want, file)
					scale := func(b int) uint16 { return binary.LittleEndian.Uint16(file[b*size+format.Q8_0DAtBytes:]) }
					code := func(b, e int) int8 { return int8(file[b*size+format.Q8_0QsAtBytes+e]) }
					if !lanesWise {
						// Rows are the first half of each block, then the second.
						for half := range 2 {
							d, q := make([]uint16, n), make([]int8, n*Lanes)
							for i := range q {
								d[i/Lanes], q[i] = scale(i/Lanes), code(i/Lanes, half*Lanes+i%Lanes)
							}
							got := guard(n * Lanes)
							k.WidenRows(got.row(), d, q)
							y := make([]float32, n*Lanes)
							for i := range y {
								y[i] = want[i/Lanes*elems+half*Lanes+i%Lanes]
							}
							got.check(t, "rows", y)
						}
						continue
					}
					d, q, y := make([]uint16, blocks), make([]int8, blocks*elems), make([]float32, blocks*elems)
					for b := range blocks {
						d[b] = scale(b)
						for e := range elems {
							to := b/Lanes*Lanes*elems + e*Lanes + b%Lanes
							q[to], y[to] = code(b, e), want[b*elems+e]
						}
					}
					got := guard(blocks * elems)
					k.WidenLanes(got.row(), d, q)
					got.check(t, "lanes", y)
				}
			}
		})
	}
}
