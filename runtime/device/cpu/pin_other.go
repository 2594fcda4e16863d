//go:build !linux

package cpu

// allowedCPUs is empty: threads are not tied to CPUs on this system.
func allowedCPUs() []int { return nil }

func pin(int) {}

func unpin([]int) {}
