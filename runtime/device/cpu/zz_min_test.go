package cpu

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
)

func TestZZMin(t *testing.T) {
	for _, n := range []int{512, 4096, 32768} {
		for _, threads := range []int{1, 2} {
			m := archtest.Small("qwen2")
			m.Layers, m.Embd, m.Heads, m.KV, m.HD, m.FF, m.Context = 1, 1536, 12, 2, 128, 32, n
			s := openModel(t, m, device.LoadOptions{Threads: threads}, device.SessionOptions{Context: n, KVType: format.F16}).(*session)
			s.len = n - 1
			s.tokens = []int32{1}; s.wanted = []int{0}
			ctx := context.Background()
			for i := range s.cache[0].key.f16 { s.cache[0].key.f16[i] = 0x3800 + uint16(i&255) ; s.cache[0].val.f16[i] = 0x3800+ uint16(i&127)}
			best := map[string]time.Duration{}
			for range 300 {
				for _, st := range s.steps {
					items, grain := st.split(1)
					t0 := time.Now()
					s.model.pool.run(ctx, st, items, grain)
					d := time.Since(t0)
					k := fmt.Sprintf("%T", st)
					if b, ok := best[k]; !ok || d < b {
						best[k] = d
					}
				}
			}
			a := best["*cpu.attendStep"]
			fmt.Println(n, threads, a, float64(n*2*2*128*2)/float64(a.Nanoseconds()), "GB/s", best)
		}
	}
}
