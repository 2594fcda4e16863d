package gguf

import (
	"context"
	"os"
	"sync/atomic"
	"unsafe"
)

// Advice is how a program is going to read a file.
type Advice int

// The advices. A system that knows none of them ignores them.
const (
	Normal     Advice = iota
	Sequential        // front to back, once: read ahead boldly
	Random            // here and there: do not read ahead
	WillNeed          // soon: begin to read it now
)

// Advise tells the system how the whole model is going to be read. It is a hint: nothing depends on it.
func (f *File) Advise(a Advice) error {
	for _, m := range f.maps {
		if len(m.data) > 0 {
			if err := advise(m.data, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// prefaultStepBytes is how much is read between two calls of progress and two looks at the context.
const prefaultStepBytes = 16 << 20

// Prefault reads the tensors into memory, so that later use of them does not wait for the disk. progress, which may be nil, is
// called with the bytes done so far, from 0 to the total, in order and from this goroutine. It ends early with the context's
// error when the context ends.
func (f *File) Prefault(ctx context.Context, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(done, total int64) {}
	}
	total := f.TensorBytes()
	var done int64
	progress(0, total)
	read := touch
	if len(f.maps) > 0 {
		read = populate
	}
	for _, t := range f.Tensors {
		for rest := t.data; len(rest) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(rest), prefaultStepBytes)
			if err := read(rest[:n]); err != nil {
				return &Error{File: f.Parts[t.Part].Name, Field: "tensor " + clip(t.Name), Offset: -1, Reason: "cannot be read: " + err.Error(), Kind: ErrFile, Err: err}
			}
			rest = rest[n:]
			done += int64(n)
			progress(done, total)
		}
	}
	return nil
}

// Release gives the memory of data, a part of a tensor, back to the system for now: whole pages of a mapped file alone, which are
// read again when they are touched. Other data stays where it is.
func (f *File) Release(data []byte) {
	if len(data) == 0 {
		return
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for _, m := range f.maps {
		if len(m.data) == 0 {
			continue
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if first < base || first+uintptr(len(data)) > base+uintptr(len(m.data)) {
			continue
		}
		lo := (int(first-base) + pageBytes - 1) / pageBytes * pageBytes
		hi := (int(first-base) + len(data)) / pageBytes * pageBytes
		if lo < hi {
			release(m.data[lo:hi])
		}
	}
}

var pageBytes = os.Getpagesize()

// touched keeps the reads of touch alive.
var touched atomic.Uint32

// touch reads a byte of each page.
func touch(b []byte) error {
	var sum byte
	for i := 0; i < len(b); i += pageBytes {
		sum += b[i]
	}
	touched.Store(uint32(sum + b[len(b)-1]))
	return nil
}
