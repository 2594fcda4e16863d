package cpu

import (
	"context"
	"sync"
	"sync/atomic"
)

// task is work over items that do not depend on each other. run computes the items from lo to hi-1 by itself; worker is
// below the pool's size and no other call with the same number runs at the same time, so it may index scratch memory.
// What run computes for an item must not depend on the worker nor on how items are grouped: this is what makes results
// the same bits for any number of threads.
type task interface {
	run(worker, lo, hi int)
}

// pool is a fixed set of goroutines that share the items of one task at a time. The caller works too.
type pool struct {
	mu      sync.Mutex // held over a task: sessions take turns
	wake    []chan struct{}
	working sync.WaitGroup
	stopped sync.WaitGroup

	ctx          context.Context
	task         task
	items, grain int
	next         atomic.Int64
}

func newPool(threads int) *pool {
	p := &pool{wake: make([]chan struct{}, threads-1)}
	p.stopped.Add(len(p.wake))
	for i := range p.wake {
		p.wake[i] = make(chan struct{}, 1)
		go func() {
			defer p.stopped.Done()
			for range p.wake[i] {
				p.share(i + 1)
				p.working.Done()
			}
		}()
	}
	return p
}

// threads is the number of workers, the caller included.
func (p *pool) threads() int { return len(p.wake) + 1 }

// run has the items of t computed, grain at a time; items near each other go to one worker together. It returns ctx's
// error if ctx is done, perhaps with items left out.
func (p *pool) run(ctx context.Context, t task, items, grain int) error {
	if items <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.task, p.items, p.grain = ctx, t, items, grain
	p.next.Store(0)
	helpers := min(len(p.wake), (items-1)/grain)
	p.working.Add(helpers)
	for _, c := range p.wake[:helpers] {
		c <- struct{}{}
	}
	p.share(0)
	p.working.Wait()
	p.ctx, p.task = nil, nil
	return ctx.Err()
}

// share computes items of the current task until none is left.
func (p *pool) share(worker int) {
	for p.ctx.Err() == nil {
		lo := int(p.next.Add(int64(p.grain))) - p.grain
		if lo >= p.items {
			return
		}
		p.task.run(worker, lo, min(lo+p.grain, p.items))
	}
}

// close ends the goroutines.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.wake {
		close(c)
	}
	p.stopped.Wait()
	p.wake = nil
}
