//go:build cuda && linux && cgo

// Package libcuda opens the CUDA driver when it is wanted, and makes the few of its calls that gorgonia.org/cu lacks: pinned
// memory, attributes of launches and functions, recorded graphs. A program with this package starts, and runs on the CPU,
// where there is no driver.
package libcuda

/*
#cgo LDFLAGS: -Wl,--as-needed -ldl
#include <stdlib.h>
#include <time.h>
#include <cuda.h>
#include "load.h"

// minfer_launch launches with the attribute that lets the grid begin before its predecessor has ended.
static CUresult minfer_launch(CUfunction f, const unsigned* grid, const unsigned* block, unsigned shared, CUstream stream, void** params, int dependent) {
  CUlaunchAttribute attribute;
  CUlaunchConfig config;
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  config.gridDimX = grid[0];
  config.gridDimY = grid[1];
  config.gridDimZ = grid[2];
  config.blockDimX = block[0];
  config.blockDimY = block[1];
  config.blockDimZ = block[2];
  config.sharedMemBytes = shared;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = dependent ? 1 : 0;
  return cuLaunchKernelEx(&config, f, params, NULL);
}

// minfer_launch_args lays the arguments' addresses out on the C stack, where they may point to Go memory.
static CUresult minfer_launch_args(CUfunction f, const unsigned* grid, const unsigned* block, unsigned shared, CUstream stream, unsigned long long* args, int count, int dependent) {
  void* params[64];
  if (count < 0 || count > 64) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < count; i++) params[i] = &args[i];
  return minfer_launch(f, grid, block, shared, stream, params, dependent);
}

// minfer_wait waits for the stream: for some time by asking, then asleep, until the event behind its work.
static CUresult minfer_wait(CUstream stream, CUevent event, long long spin_ns) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (;;) {
    CUresult r = cuStreamQuery(stream);
    if (r != CUDA_ERROR_NOT_READY) return r;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - begin.tv_sec) * 1000000000ll + (now.tv_nsec - begin.tv_nsec) >= spin_ns) break;
  }
  CUresult r = cuEventRecord(event, stream);
  return r ? r : cuEventSynchronize(event);
}

// Headers before CUDA 12.4 do not declare it.
extern CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* bytes);
*/
import "C"

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// Result is what a call of the driver returns.
type Result int

// Results that callers tell apart.
const (
	OutOfMemory          Result = C.CUDA_ERROR_OUT_OF_MEMORY
	NotInitialized       Result = C.CUDA_ERROR_NOT_INITIALIZED
	NoDevice             Result = C.CUDA_ERROR_NO_DEVICE
	InvalidValue         Result = C.CUDA_ERROR_INVALID_VALUE
	InvalidImage         Result = C.CUDA_ERROR_INVALID_IMAGE
	NoBinary             Result = C.CUDA_ERROR_NO_BINARY_FOR_GPU
	InvalidPTX           Result = C.CUDA_ERROR_INVALID_PTX
	UnsupportedPTX       Result = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	NotFound             Result = C.CUDA_ERROR_NOT_FOUND
	NotReady             Result = C.CUDA_ERROR_NOT_READY
	IllegalAddress       Result = C.CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchOutOfResources Result = C.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
	LaunchTimeout        Result = C.CUDA_ERROR_LAUNCH_TIMEOUT
	Assert               Result = C.CUDA_ERROR_ASSERT
	HardwareStack        Result = C.CUDA_ERROR_HARDWARE_STACK_ERROR
	IllegalInstruction   Result = C.CUDA_ERROR_ILLEGAL_INSTRUCTION
	MisalignedAddress    Result = C.CUDA_ERROR_MISALIGNED_ADDRESS
	InvalidAddressSpace  Result = C.CUDA_ERROR_INVALID_ADDRESS_SPACE
	InvalidPC            Result = C.CUDA_ERROR_INVALID_PC
	LaunchFailed         Result = C.CUDA_ERROR_LAUNCH_FAILED
	SystemNotReady       Result = C.CUDA_ERROR_SYSTEM_NOT_READY
	ECC                  Result = C.CUDA_ERROR_ECC_UNCORRECTABLE
	ContextDestroyed     Result = C.CUDA_ERROR_CONTEXT_IS_DESTROYED
	DriverMismatch       Result = C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
	Unknown              Result = C.CUDA_ERROR_UNKNOWN
)

// SharedOptIn is the attribute of a GPU that gorgonia.org/cu does not name: the shared bytes that a block may ask for.
const SharedOptIn = cu.DeviceAttribute(C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

// Error is the driver's name and description of the result: "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
func (r Result) Error() string {
	var name, text *C.char
	if C.cuGetErrorName(C.CUresult(r), &name) != 0 || C.cuGetErrorString(C.CUresult(r), &text) != 0 || name == nil || text == nil {
		return fmt.Sprintf("CUDA error %d", int(r))
	}
	return C.GoString(name) + ": " + C.GoString(text)
}

func result(r C.CUresult) error {
	if r == 0 {
		return nil
	}
	return Result(r)
}

// NoDriverError says that there is no CUDA driver to open.
type NoDriverError struct{ Reason string }

func (e *NoDriverError) Error() string { return "no CUDA driver: " + e.Reason }

// Load opens the driver, once. Its error is a *NoDriverError or a Result. No other call may be made before.
var Load = sync.OnceValue(func() error {
	var reason [512]C.char
	if r := C.minfer_load(&reason[0], C.int(len(reason))); r < 0 {
		return &NoDriverError{C.GoString(&reason[0])}
	} else if r > 0 {
		return Result(r)
	}
	return nil
})

// function, stream and event are the handles inside of gorgonia.org/cu's types.
func function(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func stream(s cu.Stream) C.CUstream       { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func event(e cu.Event) C.CUevent          { return *(*C.CUevent)(unsafe.Pointer(&e)) }

// A handle is all that those types hold.
var (
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Function{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Stream{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Event{})]byte{}
)

// MaxArgs is the largest number of arguments that Launch passes.
const MaxArgs = 64

// Launch starts a kernel; args are the bits of its arguments, in the low bytes of each. dependent lets it begin before its
// predecessor on the stream has ended.
func Launch(f cu.Function, grid, block [3]uint32, sharedBytes uint32, s cu.Stream, args []uint64, dependent bool) error {
	var first *C.ulonglong
	if len(args) > 0 {
		first = (*C.ulonglong)(unsafe.Pointer(&args[0]))
	}
	d := C.int(0)
	if dependent {
		d = 1
	}
	return result(C.minfer_launch_args(function(f), (*C.uint)(unsafe.Pointer(&grid[0])), (*C.uint)(unsafe.Pointer(&block[0])), C.uint(sharedBytes), stream(s), first, C.int(len(args)), d))
}

// AllowShared raises the dynamic shared memory that a kernel may be launched with.
func AllowShared(f cu.Function, bytes int) error {
	return result(C.cuFuncSetAttribute(function(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// PreferShared asks for as much of an SM's memory as there may be shared memory while the kernel runs.
func PreferShared(f cu.Function) error {
	return result(C.cuFuncSetAttribute(function(f), C.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, C.CU_SHAREDMEM_CARVEOUT_MAX_SHARED))
}

// Params are the sizes of a kernel's parameters in bytes; ok is false where the driver cannot tell (before CUDA 12.4).
func Params(f cu.Function) (sizes []int, ok bool) {
	for {
		var offset, bytes C.size_t
		switch Result(C.cuFuncGetParamInfo(function(f), C.size_t(len(sizes)), &offset, &bytes)) {
		case 0:
			sizes = append(sizes, int(bytes))
		case InvalidValue:
			return sizes, true // past the last one
		default:
			return nil, false
		}
	}
}

// Wait waits for all that is on a stream: it spins at first, then sleeps until e, which must be made to block. It is one call into C, since
// one that came back between questions would take longer to hear.
func Wait(s cu.Stream, e cu.Event, spin time.Duration) error {
	return result(C.minfer_wait(stream(s), event(e), C.longlong(spin.Nanoseconds())))
}

// Pinned is memory of the host that the GPU copies from and to by itself, and that kernels reach at its address: every GPU of
// compute capability 8 and later has one space of addresses with the host.
type Pinned struct {
	address unsafe.Pointer
	Bytes   []byte
}

// AllocPinned allocates pinned memory in the current context.
func AllocPinned(bytes int) (*Pinned, error) {
	p := &Pinned{}
	if err := result(C.cuMemHostAlloc(&p.address, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return nil, err
	}
	p.Bytes = unsafe.Slice((*byte)(p.address), bytes)
	return p, nil
}

// Address is where it begins.
func (p *Pinned) Address() uintptr { return uintptr(p.address) }

// Free gives the memory back.
func (p *Pinned) Free() error {
	err := result(C.cuMemFreeHost(p.address))
	p.address, p.Bytes = nil, nil
	return err
}

// BeginCapture records what is put on the stream, rather than running it, until EndCapture.
func BeginCapture(s cu.Stream) error {
	return result(C.cuStreamBeginCapture(stream(s), C.CU_STREAM_CAPTURE_MODE_RELAXED))
}

// Graph is recorded work, ready to be launched.
type Graph struct{ exec C.CUgraphExec }

// EndCapture ends the recording and makes a Graph of it.
func EndCapture(s cu.Stream) (*Graph, error) {
	var graph C.CUgraph
	if err := result(C.cuStreamEndCapture(stream(s), &graph)); err != nil {
		return nil, err
	}
	defer C.cuGraphDestroy(graph)
	g := &Graph{}
	if err := result(C.cuGraphInstantiateWithFlags(&g.exec, graph, 0)); err != nil {
		return nil, err
	}
	return g, nil
}

// AbortCapture ends a recording and drops it.
func AbortCapture(s cu.Stream) {
	var graph C.CUgraph
	if C.cuStreamEndCapture(stream(s), &graph) == 0 && graph != nil {
		C.cuGraphDestroy(graph)
	}
}

// Launch puts the recorded work on the stream.
func (g *Graph) Launch(s cu.Stream) error { return result(C.cuGraphLaunch(g.exec, stream(s))) }

// Destroy frees the graph.
func (g *Graph) Destroy() error {
	err := result(C.cuGraphExecDestroy(g.exec))
	g.exec = nil
	return err
}
