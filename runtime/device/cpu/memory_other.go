//go:build !linux

package cpu

// availableBytes is not known on this system: a cache that does not fit fails where it is allocated.
func availableBytes() (uint64, bool) { return 0, false }
