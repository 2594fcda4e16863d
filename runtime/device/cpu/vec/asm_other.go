//go:build !amd64

package vec

import (
	"github.com/minfer/minfer/generated/vec"
	"github.com/minfer/minfer/runtime/cpufeature"
)

func asmFor(cpufeature.Level) *vec.Kernels { return nil }

// Pause waits for n of the CPU's pauses, for loops that wait for another thread.
func Pause(int) {}

// Fetch asks for memory that is soon to be read, in lines of 64 bytes, and does not wait for it.
func Fetch([]byte) {}

func bytesOf[T any]([]T) *byte { panic("BUG: no assembly on this architecture") }

func floatOf([]byte) *float32 { panic("BUG: no assembly on this architecture") }
