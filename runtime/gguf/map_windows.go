package gguf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapping is a file mapped for reading.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (mapping, error) {
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return mapping{}, err
	}
	defer windows.CloseHandle(h) // the view keeps the mapping alive
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return mapping{}, err
	}
	// The address is the system's, not the collector's: reading it back through a pointer tells vet so.
	return mapping{unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), size)}, nil
}

func (m mapping) close() error {
	if m.data == nil {
		return nil
	}
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(m.data))))
}
