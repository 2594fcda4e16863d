package cpu

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"pgregory.net/rapid"
)

// TestShares: as many calls of take as there are pieces give every item once, whichever workers call and how often each; a worker
// that calls alone begins with its own stretch, from the front.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		items := rapid.IntRange(1, 300).Draw(t, "items")
		least := rapid.IntRange(1, 8).Draw(t, "least")
		most := rapid.IntRange(least, 400).Draw(t, "most")
		calling := rapid.IntRange(1, workers).Draw(t, "calling")
		shares := make([]share, workers)
		for range 2 { // shares are dealt out again for each token
			pieces := dealOut(shares, items, least, most)
			seen := make([]atomic.Int32, items)
			var left atomic.Int64
			left.Store(int64(pieces))
			var wg sync.WaitGroup
			for w := range calling {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						lo, hi := take(shares, w)
						if n := hi - lo; n < 1 || n > most {
							t.Errorf("a piece of %d items, of %d to %d", n, least, most)
						}
						for i := lo; i < hi; i++ {
							seen[i].Add(1)
						}
					}
				})
			}
			wg.Wait()
			for i := range seen {
				if n := seen[i].Load(); n != 1 {
					t.Fatalf("item %d of %d: computed %d times", i, items, n)
				}
			}
		}
		dealOut(shares, items, least, most)
		for w := range workers {
			first, end := shareOf(items, w, workers), shareOf(items, w+1, workers)
			if first == end {
				continue
			}
			if lo, _ := take(shares, w); lo != first {
				t.Errorf("worker %d begins with item %d, not with its own first, %d", w, lo, first)
			}
		}
	})
}

// TestAhead: before each step, what the first product after it reads is known: for each worker the first bytes of its own stretch.
func TestAhead(t *testing.T) {
	s := openModel(t, archtest.Small("qwen2"), device.LoadOptions{Threads: 2}, device.SessionOptions{Context: 16}).(*session)
	if s.ahead[0] == nil && s.model.level == cpufeature.Portable {
		t.Skip("no vector code: weights are not laid out")
	}
	for i := range s.steps {
		next := -1
		for k := 1; k <= len(s.steps); k++ {
			if _, ok := s.steps[(i+k)%len(s.steps)].(*matmulStep); ok {
				next = (i + k) % len(s.steps)
				break
			}
		}
		st := s.steps[next].(*matmulStep)
		m := st.parts[0].matrix
		a := s.ahead[i]
		if a == nil || len(a.first) != 2 || &a.first[0][0] != &m.data[0] {
			t.Fatalf("step %d: the next product's first bytes are not those asked for", i)
		}
		item := shareOf(st.total, 1, 2)
		for _, p := range st.parts {
			if item >= p.first && item < p.first+p.items && &a.first[1][0] != &p.matrix.item(item - p.first)[0] {
				t.Fatalf("step %d: not the second worker's first bytes", i)
			}
		}
	}
	a := &ahead{[][]byte{make([]byte, 3*fetchBytes+64), make([]byte, fetchBytes), nil}}
	for worker, want := range []int{4, 1, 0} {
		w, n := waiter{p: s.model.pool, worker: worker}, 0
		for w.fetch(a) {
			n++
		}
		if n != want {
			t.Errorf("worker %d asks %d times, want %d", worker, n, want)
		}
	}
}
