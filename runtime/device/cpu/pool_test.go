package cpu

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
)

// counting counts how often each item is computed, and that no worker is two at once.
type counting struct {
	items []atomic.Int32
	busy  []atomic.Bool
	each  func()
	twice atomic.Bool
}

func (c *counting) run(worker, lo, hi int) {
	if !c.busy[worker].CompareAndSwap(false, true) {
		c.twice.Store(true)
	}
	for i := lo; i < hi; i++ {
		c.items[i].Add(1)
	}
	if c.each != nil {
		c.each()
	}
	c.busy[worker].Store(false)
}

// TestPool: each item of each task is computed once, whatever the number of workers, callers and items, with pauses
// between tasks that let workers sleep.
func TestPool(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		for _, tied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d threads, tied %v", threads, tied), func(t *testing.T) {
				var pins []int
				if tied {
					pins = allowedCPUs()
				}
				p := newPool(threads, pins)
				var callers sync.WaitGroup
				for caller := range 3 {
					callers.Go(func() {
						for n := range 400 {
							items, grain := 1+(n*7+caller)%50, 1+n%3
							c := &counting{items: make([]atomic.Int32, items), busy: make([]atomic.Bool, threads)}
							if err := p.run(context.Background(), c, items, grain); err != nil {
								t.Error(err)
							}
							for i := range c.items {
								if k := c.items[i].Load(); k != 1 {
									t.Errorf("item %d of %d computed %d times", i, items, k)
								}
							}
							if c.twice.Load() {
								t.Error("a worker is two at once")
							}
							if n%100 == 50 {
								time.Sleep(2 * watchTime)
							}
						}
					})
				}
				callers.Wait()
				p.end()
			})
		}
	}
}

// TestPoolStops: goroutines end with the pool, asleep or not.
func TestPoolStops(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, wait := range []time.Duration{0, 3 * watchTime} {
		p := newPool(4, nil)
		time.Sleep(wait)
		p.end()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// TestPoolCancel: a task whose context ends stops between grains.
func TestPoolCancel(t *testing.T) {
	for _, threads := range []int{1, 2} {
		p := newPool(threads, nil)
		ctx, cancel := context.WithCancel(context.Background())
		c := &counting{items: make([]atomic.Int32, 1000), busy: make([]atomic.Bool, threads), each: cancel}
		if err := p.run(ctx, c, 1000, 1); err != context.Canceled {
			t.Errorf("error %v", err)
		}
		done := 0
		for i := range c.items {
			done += int(c.items[i].Load())
		}
		if done > 2*threads {
			t.Errorf("%d items after the context ended", done)
		}
		p.end()
	}
}

// steady is work of the same length for each item.
type steady struct{ steps int }

var sink atomic.Uint64

func (w steady) run(_, lo, hi int) {
	for range hi - lo {
		x := uint64(lo)
		for range w.steps {
			x = x*3 + 1
		}
		sink.Store(x)
	}
}

// BenchmarkBarrier is a task with one item for each worker: without work, and with about 5 us of it, where what 2 threads
// take beyond 1 is the cost of sharing.
func BenchmarkBarrier(b *testing.B) {
	for _, steps := range []int{0, 5000} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%d steps/%d threads", steps, threads), func(b *testing.B) {
				p := newPool(threads, nil)
				defer p.end()
				for b.Loop() {
					p.run(context.Background(), steady{steps}, threads, 1)
				}
			})
		}
	}
}

// BenchmarkAttend is one token's attention at the length of a context, on heads as Qwen2.5-1.5B has them: 12 of 128 with 2
// of keys and values. The speed is that of reading the cache.
func BenchmarkAttend(b *testing.B) {
	for _, kv := range []struct {
		name  string
		typ   format.Type
		bytes float64 // of a number
	}{{"f16", format.F16, 2}, {"f32", format.F32, 4}, {"q8_0", format.Q8_0, float64(format.Q8_0Bytes) / format.Q8_0Elems}} {
		for _, n := range []int{512, 4096, 32768} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%d/%d threads", kv.name, n, threads), func(b *testing.B) {
					m := archtest.Small("qwen2")
					m.Layers, m.Embd, m.Heads, m.KV, m.HD, m.FF, m.Context = 1, 1536, 12, 2, 128, 32, n
					s := openModel(b, m, device.LoadOptions{Threads: threads}, device.SessionOptions{Context: n, KVType: kv.typ}).(*session)
					s.len = n - 1
					s.tokens = []int32{1}
					ctx := context.Background()
					for b.Loop() {
						for _, st := range s.steps {
							switch st.(type) {
							case *attendStep, mergeStep:
								items, grain := st.split(1)
								if err := s.model.pool.run(ctx, st, items, grain); err != nil {
									b.Fatal(err)
								}
							}
						}
					}
					b.ReportMetric(float64(n*2*2*128)*kv.bytes*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}
