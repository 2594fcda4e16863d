package vec

import (
	"github.com/minfer/minfer/runtime/numeric"
)

// Tiles says where the second factor of an outer product lies: rows of 16 numbers in Groups groups of Runs runs of Run
// rows. The first row of a group lies GroupStride numbers after that of the one before, the first of a run RunStride
// numbers; the rows of a run lie one after the other.
type Tiles struct {
	Groups, GroupStride int
	Runs, RunStride     int
	Run                 int // a multiple of 4
}

// end is one past the last number.
func (t Tiles) end() int {
	return (t.Groups-1)*t.GroupStride + (t.Runs-1)*t.RunStride + t.Run*Lanes
}

// row is where row i of group g lies.
func (t Tiles) row(g, i int) int { return g*t.GroupStride + i/t.Run*t.RunStride + i%t.Run*Lanes }

// Rows says where rows of f32 lie: Stride numbers from one to the next.
type Rows struct {
	Data   []float32
	Stride int
}

// From is the rows from first on.
func (r Rows) From(first int) Rows { return Rows{r.Data[first*r.Stride:], r.Stride} }

// OuterF32 adds outer products to n rows of y. For row q, group g and lane l:
//
//	y[q][16*g + l] = (y[q][16*g + l], or 0 unless keep) + sum over i ascending of a[q][i] * b_g[i][l],
//
// where i counts the rows of the group's runs. It is q times k where tiles of keys lie as [dim][position], and weights
// times values where tiles of values lie as [position][dim].
func (k *Kernels) OuterF32(y, a Rows, n int, b []float32, t Tiles, keep bool) {
	if !check(y, a, n, len(b), t) {
		return
	}
	if k.asm == nil {
		start(y, n, t.Groups, keep)
		for g := range t.Groups {
			for i := range t.Runs * t.Run {
				accumulate(y, a, n, g, i, (*[Lanes]float32)(b[t.row(g, i):]))
			}
		}
		return
	}
	for q := 0; q < n; {
		rows := tile(n-q, k.asm.MaxRows)
		yq, aq := y.From(q), a.From(q)
		k.asm.OuterF32[rows](&yq.Data[0], 4*y.Stride, &aq.Data[0], 4*a.Stride, bytesOf(b), t.Groups, 4*t.GroupStride, t.Runs, 4*t.RunStride, t.Run, number(keep))
		q += rows
	}
}

// OuterF16 is OuterF32 of a second factor in f16.
func (k *Kernels) OuterF16(y, a Rows, n int, b []uint16, t Tiles, keep bool) {
	if !check(y, a, n, len(b), t) {
		return
	}
	if k.asm == nil {
		start(y, n, t.Groups, keep)
		for g := range t.Groups {
			for i := range t.Runs * t.Run {
				var row [Lanes]float32
				for l, h := range (*[Lanes]uint16)(b[t.row(g, i):]) {
					row[l] = numeric.F16(h)
				}
				accumulate(y, a, n, g, i, &row)
			}
		}
		return
	}
	for q := 0; q < n; {
		rows := tile(n-q, k.asm.MaxRows)
		yq, aq := y.From(q), a.From(q)
		k.asm.OuterF16[rows](&yq.Data[0], 4*y.Stride, &aq.Data[0], 4*a.Stride, bytesOf(b), t.Groups, 2*t.GroupStride, t.Runs, 2*t.RunStride, t.Run, number(keep))
		q += rows
	}
}

// tile is how many of n rows are taken next: few tiles, of rows as even as they come.
func tile(n, most int) int {
	tiles := (n + most - 1) / most
	return (n + tiles - 1) / tiles
}

// check holds slices to what assembly will touch. It is false where there is nothing to do.
func check(y, a Rows, n, b int, t Tiles) bool {
	if n == 0 || t.Groups == 0 {
		return false
	}
	if t.Runs <= 0 || t.Run <= 0 || t.Run%4 != 0 || t.end() > b ||
		(n-1)*y.Stride+Lanes*t.Groups > len(y.Data) || (n-1)*a.Stride+t.Runs*t.Run > len(a.Data) {
		panic("BUG: an outer product past the end of its rows")
	}
	return true
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// start clears what sums begin from.
func start(y Rows, n, groups int, keep bool) {
	for q := 0; q < n && !keep; q++ {
		clear(y.Data[q*y.Stride:][:Lanes*groups])
	}
}

// accumulate adds row i of group g times the rows' own numbers.
func accumulate(y, a Rows, n, g, i int, row *[Lanes]float32) {
	for q := range n {
		s, acc := a.Data[q*a.Stride+i], (*[Lanes]float32)(y.Data[q*y.Stride+Lanes*g:])
		for l, v := range row {
			acc[l] += float32(s * v)
		}
	}
}
