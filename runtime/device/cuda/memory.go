package cuda

import (
	"fmt"
	"slices"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// spans are the allocations of a driver, by address.
type spans []span

type span struct {
	base  gpu.Pointer
	bytes int64
}

func (s spans) search(p gpu.Pointer) (int, bool) {
	return slices.BinarySearchFunc(s, p, func(x span, p gpu.Pointer) int {
		switch {
		case x.base < p:
			return -1
		case x.base > p:
			return 1
		}
		return 0
	})
}

// add notes an allocation.
func (s *spans) add(base gpu.Pointer, bytes int64) {
	i, _ := s.search(base)
	*s = slices.Insert(*s, i, span{base, bytes})
}

// remove forgets the allocation that begins at p and reports whether there was one.
func (s *spans) remove(p gpu.Pointer) bool {
	i, ok := s.search(p)
	if ok {
		*s = slices.Delete(*s, i, i+1)
	}
	return ok
}

// check reports why bytes bytes at p do not lie in one allocation (gpu.ErrArgument); nil if they do.
func (s spans) check(p gpu.Pointer, bytes int64) error {
	i, ok := s.search(p)
	if !ok {
		i-- // the last that begins below p
	}
	if i < 0 || p-s[i].base >= gpu.Pointer(s[i].bytes) {
		return fmt.Errorf("%w: %#x leads to no allocation", gpu.ErrArgument, uint64(p))
	}
	if left := s[i].bytes - int64(p-s[i].base); bytes < 0 || bytes > left {
		return fmt.Errorf("%w: %d bytes at %#x, the allocation ends after %d", gpu.ErrArgument, bytes, uint64(p), left)
	}
	return nil
}
