//go:build !linux

package cpu

// hugeBytes is what memory is aligned to beside what is asked for: nothing here.
const hugeBytes = 0

func allocate(n int) ([]byte, error) { return aligned(n), nil }

func release([]byte) error { return nil }
