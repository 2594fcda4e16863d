//go:build unix

package gguf

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a file mapped for reading.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	return mapping{data}, err
}

func (m mapping) close() error {
	if m.data == nil {
		return nil
	}
	return unix.Munmap(m.data)
}
