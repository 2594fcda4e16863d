//go:build !unix && !windows

package gguf

import (
	"io"
	"os"
)

// mapping is a file read into memory, on systems that cannot map one.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (mapping, error) {
	data := make([]byte, size) // the file's real size, as the system gave it
	_, err := io.ReadFull(f, data)
	return mapping{data}, err
}

func (mapping) close() error { return nil }
