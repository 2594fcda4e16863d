package gguf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var advices = map[Advice]int{
	Normal: unix.MADV_NORMAL, Sequential: unix.MADV_SEQUENTIAL, Random: unix.MADV_RANDOM, WillNeed: unix.MADV_WILLNEED,
}

func advise(b []byte, a Advice) error { return unix.Madvise(b, advices[a]) }

// release lets whole pages of a map go; a system that refuses keeps them.
func release(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }

// populate reads b, a part of a map, into memory. The system does it in one call where it can, and reports a page that the disk does not give
// as an error; touching that page would end the program.
func populate(b []byte) error {
	lead := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(pageBytes))
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -lead)), len(b)+lead) // within the map: it begins on a page
	switch err := unix.Madvise(pages, unix.MADV_POPULATE_READ); err {
	case unix.EINVAL, unix.ENOSYS: // before Linux 5.14
		return touch(b)
	default:
		return err
	}
}
