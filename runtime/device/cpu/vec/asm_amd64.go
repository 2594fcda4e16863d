package vec

import (
	"unsafe"

	"github.com/minfer/minfer/generated/vec"
	"github.com/minfer/minfer/runtime/cpufeature"
)

func asmFor(l cpufeature.Level) *vec.Kernels {
	switch l {
	case cpufeature.AVX2:
		return &vec.AVX2
	case cpufeature.AVX512:
		return &vec.AVX512
	}
	return nil
}

// Pause waits for n of the CPU's pauses, for loops that wait for another thread.
func Pause(n int) { vec.Pause(n) }

// Fetch asks for memory that is soon to be read, in lines of 64 bytes, and does not wait for it.
func Fetch(b []byte) {
	if lines := len(b) / 64; lines > 0 {
		vec.Fetch(unsafe.SliceData(b), lines)
	}
}

func bytesOf[T any](x []T) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }

func floatOf(x []byte) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }
