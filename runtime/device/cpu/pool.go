package cpu

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minfer/minfer/runtime/device/cpu/vec"
)

// task is work over items that do not depend on each other. run computes the items from lo to hi-1 by itself; worker is
// below the pool's size and no other call with the same number runs at the same time, so it may index scratch memory.
// What run computes for an item must not depend on the worker nor on how items are grouped: this is what makes results
// the same bits for any number of threads.
type task interface {
	run(worker, lo, hi int)
}

// pool is a fixed set of goroutines that share the items of one task at a time. The caller works too.
//
// A token is some hundreds of tasks of some microseconds each, so a worker that is out of work watches for the next task
// for a while before it sleeps. A task does not wait for all workers: those that find it open join it, it is closed when
// no items are left, and the caller waits for those that joined. A worker that the system has taken off its CPU holds up
// no task that it has not begun.
type pool struct {
	mu      sync.Mutex // held over a task: sessions take turns
	workers []*worker
	watch   time.Duration // how long a worker watches before it sleeps
	stopped sync.WaitGroup
	stop    atomic.Bool
	pins    []int // CPUs that workers are tied to, the caller's first; none: not tied

	// The task, written while it is closed and nobody has joined it.
	ctx          context.Context
	task         task
	items, grain int

	_     [64]byte
	state atomic.Uint64 // of the task: stateOpen, joined workers, number
	_     [64]byte
	next  atomic.Int64
	_     [64]byte

	ahead atomic.Pointer[ahead] // what workers ask for while they wait; nil: nothing

	waiting atomic.Bool // the caller sleeps until the last worker leaves
	left    chan struct{}
}

// The parts of pool.state.
const (
	stateOpen   = 1       // workers may join
	stateJoined = 1 << 1  // one worker
	stateNumber = 1 << 32 // one task: numbers tell a task from the last that a worker has seen
	joinedMask  = stateNumber - stateJoined
)

// ahead is what each worker of a coming task reads first.
type ahead struct{ first [][]byte }

// fetchBytes is what a worker asks for between two looks at the task.
const fetchBytes = 1 << 10

// waiter waits for a moment at a time. Memory that a coming task reads is asked for meanwhile: between tasks it would be idle.
type waiter struct {
	p      *pool
	worker int
	of     *ahead
	done   int // bytes of it
}

func (w *waiter) wait() {
	a := w.p.ahead.Load()
	if a != w.of {
		w.of, w.done = a, 0
	}
	if a == nil || !w.fetch(a) {
		vec.Pause(pauses)
	}
}

// fetch asks for a bit of what the worker reads first, and reports whether there was any left.
func (w *waiter) fetch(a *ahead) bool {
	b, at := a.first[w.worker], w.done
	if at >= len(b) {
		return false
	}
	vec.Fetch(b[at:min(at+fetchBytes, len(b))])
	w.done += fetchBytes
	return true
}

type worker struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [64]byte
}

const (
	// watchTime is how long a worker watches for the next task: longer than what one thread does alone between two tasks.
	watchTime = 200 * time.Microsecond
	// pauses is how many of the CPU's pauses lie between two looks, looks how many looks between two at the clock.
	pauses, looks = 2, 64
)

// newPool starts threads-1 goroutines. Watching takes a CPU each: it is left out where there are not enough. With pins,
// workers keep to these CPUs, in turn.
func newPool(threads int, pins []int) *pool {
	p := &pool{left: make(chan struct{}, 1), pins: pins}
	if threads <= runtime.GOMAXPROCS(0) {
		p.watch = watchTime
	}
	p.stopped.Add(threads - 1)
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		go func() {
			defer p.stopped.Done()
			if len(pins) > 0 {
				runtime.LockOSThread() // and never let go: the thread ends with its goroutine
				pin(pins[i%len(pins)])
			}
			p.serve(i, w)
		}()
	}
	return p
}

// threads is the number of workers, the caller included.
func (p *pool) threads() int { return len(p.workers) + 1 }

// enter ties the caller to its CPU for the tasks to come, up to leave, if workers are tied.
func (p *pool) enter() {
	if len(p.pins) > 0 {
		runtime.LockOSThread()
		pin(p.pins[0])
	}
}

// leave gives the caller's thread back as it was.
func (p *pool) leave() {
	if len(p.pins) > 0 {
		unpin(p.pins)
		runtime.UnlockOSThread()
	}
}

// run has the items of t computed, grain at a time; items near each other go to one worker together. It returns ctx's
// error if ctx is done, perhaps with items left out.
func (p *pool) run(ctx context.Context, t task, items, grain int) error {
	if items <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	helpers := min(len(p.workers), (items-1)/grain)
	if helpers == 0 {
		for lo := 0; lo < items && ctx.Err() == nil; lo += grain {
			t.run(0, lo, min(lo+grain, items))
		}
		return ctx.Err()
	}
	p.ctx, p.task, p.items, p.grain = ctx, t, items, grain
	p.next.Store(0)
	p.state.Store(p.state.Load()&^(stateNumber-1) + stateNumber + stateOpen)
	for _, w := range p.workers[:helpers] {
		w.rouse()
	}
	p.share(0)
	p.close()
	p.ctx, p.task = nil, nil
	return ctx.Err()
}

// close lets nobody join any more and waits for those that have.
func (p *pool) close() {
	if p.state.And(^uint64(stateOpen))&joinedMask == 0 {
		return
	}
	w := waiter{p: p}
	for begin := (time.Time{}); p.watch > 0; {
		for range looks {
			if p.state.Load()&joinedMask == 0 {
				return
			}
			w.wait()
		}
		if now := time.Now(); begin.IsZero() {
			begin = now
		} else if now.Sub(begin) > p.watch {
			break
		}
	}
	p.waiting.Store(true)
	if p.state.Load()&joinedMask == 0 && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.left
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

// serve joins one task after the other.
func (p *pool) serve(i int, w *worker) {
	var seen uint64 // the last task
	fresh := func(s uint64) bool { return s&stateOpen != 0 && s/stateNumber != seen }
	for !p.stop.Load() {
		s := p.state.Load()
		if fresh(s) {
			if p.state.CompareAndSwap(s, s+stateJoined) {
				seen = s / stateNumber
				p.share(i)
				if s := p.state.Add(^uint64(stateJoined - 1)); s&joinedMask == 0 && s&stateOpen == 0 && p.waiting.CompareAndSwap(true, false) {
					p.left <- struct{}{}
				}
			}
			continue
		}
		if p.expect(i, seen) {
			continue
		}
		w.asleep.Store(true)
		if (fresh(p.state.Load()) || p.stop.Load()) && w.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-w.wake
	}
}

// expect watches until there is another task than the last that worker i has seen, or the pool stops, and reports whether it came
// in time.
func (p *pool) expect(i int, seen uint64) bool {
	w := waiter{p: p, worker: i}
	for begin := (time.Time{}); p.watch > 0; {
		for range looks {
			if s := p.state.Load(); s&stateOpen != 0 && s/stateNumber != seen || p.stop.Load() {
				return true
			}
			w.wait()
		}
		if now := time.Now(); begin.IsZero() {
			begin = now
		} else if now.Sub(begin) > p.watch {
			return false
		}
		runtime.Gosched() // other goroutines may want this CPU
	}
	return false
}

// rouse wakes a worker that sleeps.
func (w *worker) rouse() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// end ends the goroutines.
func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop.Store(true)
	for _, w := range p.workers {
		w.rouse()
	}
	p.stopped.Wait()
	p.workers = nil
}
