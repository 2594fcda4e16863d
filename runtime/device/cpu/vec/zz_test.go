package vec

import (
	"fmt"
	"testing"
	"time"

	"github.com/minfer/minfer/runtime/cpufeature"
)

func TestZZ(t *testing.T) {
	for _, l := range []cpufeature.Level{cpufeature.AVX2, cpufeature.AVX512} {
		k := For(l)
		for _, n := range []int{1, 2, 4, 5, 6, 7, 8, 12, 96} {
			s := Tiles{Groups: 4, GroupStride: 16 * 128, Runs: 1, Run: 128}
			b := make([]uint16, s.end())
			f := make([]float32, s.end())
			a := Rows{make([]float32, n*128), 128}
			y := Rows{make([]float32, n*64), 64}
			best := [2]time.Duration{1e9, 1e9}
			for range 2000 {
				t0 := time.Now()
				for range 8 {
					k.OuterF16(y, a, n, b, s, false)
				}
				best[0] = min(best[0], time.Since(t0)/8)
				t0 = time.Now()
				for range 8 {
					k.OuterF32(y, a, n, f, s, false)
				}
				best[1] = min(best[1], time.Since(t0)/8)
			}
			fmt.Printf("%s rows %d: f16 %v %.2f ns/row-of-16, %.1f GFLOP/s; f32 %v\n", l, n, best[0], float64(best[0])/512, float64(n)*512*32/float64(best[0]), best[1])
		}
	}
	// frequency: dependent adds
	t0 := time.Now()
	x := uint64(1)
	for i := uint64(0); i < 100000000; i++ {
		x = x*3 + i
	}
	fmt.Println("imul+add chain ns", float64(time.Since(t0))/1e8, x)
}
