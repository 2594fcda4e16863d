package cpu

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
)

// where notes which CPUs each worker's thread may use.
type where struct {
	mu  sync.Mutex
	may map[int][]int
}

func (w *where) run(worker, lo, hi int) {
	cpus := allowedCPUs()
	w.mu.Lock()
	w.may[worker] = cpus
	w.mu.Unlock()
	time.Sleep(time.Millisecond) // so that others get items too
}

// TestPins: pinned workers keep to one CPU each, in turn; the caller does so for its task and gets its thread back.
func TestPins(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := allowedCPUs()
	if len(all) == 0 {
		t.Skip("the system does not say which CPUs are there")
	}
	p := newPool(3, all)
	defer p.end()
	w := &where{may: map[int][]int{}}
	p.enter()
	if err := p.run(context.Background(), w, 60, 1); err != nil {
		t.Fatal(err)
	}
	p.leave()
	for worker, cpus := range w.may {
		if want := []int{all[worker%len(all)]}; !slices.Equal(cpus, want) {
			t.Errorf("worker %d may use %v, want %v", worker, cpus, want)
		}
	}
	if len(w.may) < 2 {
		t.Errorf("only workers %v had work", w.may)
	}
	if now := allowedCPUs(); !slices.Equal(now, all) {
		t.Errorf("the caller is left with %v of %v", now, all)
	}
	m := archtest.Small("qwen2")
	s := openModel(t, m, device.LoadOptions{Threads: 2, Pin: true}, device.SessionOptions{Context: 16, KVType: format.F16})
	if _, err := s.Forward(context.Background(), []int32{1, 2}, device.LogitsLast); err != nil {
		t.Fatal(err)
	}
	if now := allowedCPUs(); !slices.Equal(now, all) {
		t.Errorf("after a step the caller is left with %v of %v", now, all)
	}
}
