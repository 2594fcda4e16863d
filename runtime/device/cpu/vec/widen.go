package vec

import (
	"github.com/minfer/minfer/runtime/numeric"
)

// WidenedRows is how many rows of codes share the scales of WidenLanes.
const WidenedRows = 32

// WidenRows is y[i][l] = d[i] * q[i][l] for rows of 16 codes, each with a scale in f16. There is a multiple of 4 of them.
func (k *Kernels) WidenRows(y []float32, d []uint16, q []int8) {
	n := len(d)
	if n%4 != 0 || len(q) != n*Lanes {
		panic("BUG: codes and scales of unlike rows")
	}
	y = y[:n*Lanes]
	if n == 0 {
		return
	}
	if k.asm != nil {
		k.asm.WidenRows(&y[0], &d[0], &q[0], n)
		return
	}
	for i, h := range d {
		scale := numeric.F16(h)
		for l := i * Lanes; l < (i+1)*Lanes; l++ {
			y[l] = scale * float32(q[l])
		}
	}
}

// WidenLanes is y[g][i][l] = d[g][l] * q[g][i][l] for groups of 32 rows of 16 codes, each lane of a group with a scale in f16.
func (k *Kernels) WidenLanes(y []float32, d []uint16, q []int8) {
	const group = WidenedRows * Lanes
	n := len(d) / Lanes
	if len(d)%Lanes != 0 || len(q) != n*group {
		panic("BUG: codes and scales of unlike groups")
	}
	y = y[:n*group]
	if n == 0 {
		return
	}
	if k.asm != nil {
		k.asm.WidenLanes(&y[0], &d[0], &q[0], n)
		return
	}
	var scales [Lanes]float32
	for g := range n {
		for l, h := range (*[Lanes]uint16)(d[g*Lanes:]) {
			scales[l] = numeric.F16(h)
		}
		for i := g * group; i < (g+1)*group; i += Lanes {
			for l, scale := range scales {
				y[i+l] = scale * float32(q[i+l])
			}
		}
	}
}
