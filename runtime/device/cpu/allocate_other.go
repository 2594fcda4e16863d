//go:build !linux

package cpu

func allocate(n int) ([]byte, error) { return aligned(n), nil }

func release([]byte) error { return nil }
