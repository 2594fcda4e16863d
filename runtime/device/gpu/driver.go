// Package gpu runs a plan of kernel launches over a Driver. This file is the seam between the two: what a machine that runs the
// emitted kernels must offer, be it a GPU behind the CUDA driver or the emulator, which runs the same kernel text on the host.
package gpu

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Pointer is an address in a driver's memory; it means nothing to the host. Pointer arithmetic within one allocation is allowed.
type Pointer uint64

// Driver is a machine that runs kernels. Calls take effect in the order they are made, as on one CUDA stream; Launch and Fill may
// return before the work is done, and then the error of that work comes from a later call, Sync at the latest. A driver is used by
// one goroutine at a time. Every error names the call and, of a launch, the kernel and the shape (LaunchError).
type Driver interface {
	// Info describes the machine.
	Info() Info
	// Load compiles (or finds in the cache) all units of a module and makes their kernels and symbols known. A unit that is
	// already loaded with the same text is left alone; a kernel name defined by two different units is an error naming both.
	Load(module Module) error
	// Alloc returns bytes of memory aligned to at least 16 bytes, with arbitrary content (the emulator's is NaN in every float type).
	// Zero or negative bytes, and more than there is (ErrMemory), are errors.
	Alloc(bytes int64) (Pointer, error)
	// Free gives back what Alloc (or Sharer.Share) returned; 0 is allowed and does nothing.
	Free(Pointer) error
	// Upload copies src to dst, which must lie in one allocation with room for it. src may be reused when Upload returns.
	Upload(dst Pointer, src []byte) error
	// Download waits for all earlier work and copies len(dst) bytes from src.
	Download(dst []byte, src Pointer) error
	// Fill sets bytes bytes at dst to value.
	Fill(dst Pointer, value byte, bytes int64) error
	// Launch starts a kernel over a grid of blocks.
	Launch(l Launch) error
	// Symbol returns the content of a global array that a loaded unit exports, such as minfer_bounds_<kernel>; ErrUnknownSymbol
	// if no loaded unit has it.
	Symbol(name string) ([]byte, error)
	// Sync waits for all earlier work and returns its first error.
	Sync() error
	// Close frees everything. It may be called twice.
	Close() error
}

// Grapher is a Driver that can record launches once and replay them with one call.
type Grapher interface {
	// Capture runs record, whose Fill and Launch calls on this driver, and Uploads from shared memory, are recorded and not run, and
	// instantiates the recording. Load, Alloc, Free, other Uploads, Download, Symbol and Sync are errors while recording.
	Capture(record func() error) (Graph, error)
}

// Graph is a recorded sequence of launches.
type Graph interface {
	// Replay starts the recorded launches, with the arguments they were recorded with.
	Replay() error
	// Close frees the recording.
	Close() error
}

// Stager is a Driver with memory of its own, from which it uploads without another copy.
type Stager interface {
	// Stage returns memory of that size, with arbitrary content, to be filled and given to Upload; it is not to be touched after that,
	// nor after the next Stage.
	Stage(bytes int) ([]byte, error)
}

// Sharer is a Driver with memory that both its kernels and the host reach, so that neither what a step is given nor what it finds takes
// another copy or a call of its own.
type Sharer interface {
	// Share returns shared memory of zeros. What the host writes there is seen by the calls that follow, and is to stay until these are
	// done; what kernels write there is to be read after the next Sync or Download. An Upload from it copies what is there when the
	// copy's turn comes, which for a recorded one is at each replay. A Download into it takes no copy in between.
	Share(bytes int) (Shared, error)
}

// Shared is memory of a Sharer. Free gives it back.
type Shared struct {
	Bytes   []byte  // the host's view
	Pointer Pointer // the kernels'
}

// Witness is a Driver that counts which cells of an operation its kernels process: the coverage witness.
type Witness interface {
	// StartWitness begins counting: from here on each MINFER_COVER(row, unit[, token]) of any launch adds one to a cell of space.
	StartWitness(space CoverSpace) error
	// StopWitness ends counting and returns what was counted since StartWitness, over all launches between.
	StopWitness() (Coverage, error)
}

// Marker is a Driver that logs when the blocks of its kernels reach the moments that their bodies mark.
type Marker interface {
	// StartMarks begins a log with room for so many marks.
	StartMarks(room int) error
	// StopMarks ends it and returns what was logged, in no order; more than there was room for is an error.
	StopMarks() ([]Mark, error)
}

// Mark is one MINFER_MARK that one block came by.
type Mark struct {
	Unit   string // the .cu file
	Moment int    // what it stands for is said in the kernel's body
	Block  int    // in order of x, then y, then z
	SM     int    // the multiprocessor
	Nanos  int64  // on the GPU's clock
}

// CoverSpace is the extent of an operation's cells. A kernel that names no token counts as token 0.
type CoverSpace struct {
	Rows, Units, Tokens int64
}

// Cells is the number of cells.
func (s CoverSpace) Cells() int64 { return s.Rows * s.Units * s.Tokens }

// Cell is one cell of a CoverSpace and how often it was processed.
type Cell struct {
	Row, Unit, Token int64
	Count            uint32
}

// Coverage says how often the cells of a space were processed.
type Coverage struct {
	Space    CoverSpace
	Min, Max uint32 // the least and the largest count of any cell
	Missing  int64  // cells counted 0 times
	Repeated int64  // cells counted more than once
	Outside  int64  // counts for cells outside of the space
	// The first cells of each kind, in order of token, row, unit: at most CoverageExamples each. Outside cells come as they were met.
	FirstMissing, FirstRepeated, FirstOutside []Cell
}

// CoverageExamples is the largest number of cells of a kind that a Coverage lists.
const CoverageExamples = 16

// Exact returns nil if every cell was processed exactly once, else an error that gives the counts and the first cells.
func (c Coverage) Exact() error {
	if c.Missing == 0 && c.Repeated == 0 && c.Outside == 0 {
		return nil
	}
	var parts []string
	say := func(n int64, what string, cells []Cell) {
		if n == 0 {
			return
		}
		s := fmt.Sprintf("%d %s", n, what)
		if len(cells) > 0 {
			s += fmt.Sprintf(", first (row %d, unit %d, token %d)", cells[0].Row, cells[0].Unit, cells[0].Token)
		}
		parts = append(parts, s)
	}
	total := c.Space.Cells()
	missing := "cells were never processed"
	if total > 0 {
		missing = fmt.Sprintf("of %d cells (%.2f %%) were never processed", total, 100*float64(c.Missing)/float64(total))
	}
	say(c.Missing, missing, c.FirstMissing)
	say(c.Repeated, fmt.Sprintf("cells were processed more than once (at most %d times)", c.Max), c.FirstRepeated)
	say(c.Outside, "times a cell outside was processed", c.FirstOutside)
	return fmt.Errorf("coverage of %d rows x %d units x %d tokens: %s", c.Space.Rows, c.Space.Units, c.Space.Tokens, strings.Join(parts, "; "))
}

// Info describes a machine.
type Info struct {
	Name        string
	Arch        int   // that kernels are compiled for, at most the machine's: compute capability, major*10 + minor; the emulator poses as one
	SMs         int   // multiprocessors
	WarpSize    int   // threads
	MemoryBytes int64 // all of it, used or not
	// Shared memory of a block, in bytes: what a kernel may have without asking, and the most it may ask for. Static plus dynamic.
	SharedBytes, SharedOptInBytes int
	MaxThreads                    int       // of a block
	MaxBlock, MaxGrid             [3]uint32 // threads and blocks along each axis
	Emulated                      bool      // kernels run on the host: times mean nothing
}

// Module is a set of kernels in one or more units, each of them one .cu file with the kernels that it defines.
type Module struct {
	Name    string            // for messages
	Headers map[string]string // include name to text, shared by the units
	Units   []Unit
}

// Unit is one .cu file and, if there is any, what it was compiled to.
type Unit struct {
	Name    string   // file name, for messages: matvec_q6_K.cu
	Source  string   // its text, which includes Module.Headers by name
	Kernels []string // the kernels it defines; Load refuses a unit that lacks one. Those for other architectures are not listed
	Codes   []Code   // compiled forms; the emulator needs none
}

// Code is a compiled unit: PTX for a baseline, or native code for one architecture.
type Code struct {
	Arch   int    // sm number: PTX runs there and later, native code there alone
	Native bool   // cubin rather than PTX
	Data   []byte // PTX is text ending in a NUL or not
}

// Launch is one kernel launch.
type Launch struct {
	Kernel      string
	Grid, Block [3]uint32 // blocks, threads of a block; every axis at least 1
	SharedBytes uint32    // dynamic shared memory of a block
	Args        []Arg
	// Dependent allows the launch to overlap its predecessor's end (programmatic dependent launch): the kernel calls dependency_wait
	// before it touches what the predecessor writes. Machines without it run the launches one after the other.
	Dependent bool
}

// Shape is the launch's geometry in words: "grid 4x1x1, block 256x1x1, 0 bytes shared".
func (l Launch) Shape() string {
	return fmt.Sprintf("grid %dx%dx%d, block %dx%dx%d, %d bytes shared",
		l.Grid[0], l.Grid[1], l.Grid[2], l.Block[0], l.Block[1], l.Block[2], l.SharedBytes)
}

// Check returns a LaunchError (ErrLimit) if no machine of this description can launch l. It knows the machine's limits alone: threads
// above a kernel's __launch_bounds__, its static shared memory and its arguments are the driver's to check.
func (l Launch) Check(info Info) error {
	fail := func(format string, args ...any) error {
		return &LaunchError{Launch: l, Err: fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))}
	}
	threads := uint64(1)
	for i, axis := range "xyz" {
		if l.Grid[i] < 1 || l.Grid[i] > info.MaxGrid[i] {
			return fail("grid %c is %d, allowed are 1 to %d", axis, l.Grid[i], info.MaxGrid[i])
		}
		if l.Block[i] < 1 || l.Block[i] > info.MaxBlock[i] {
			return fail("block %c is %d, allowed are 1 to %d", axis, l.Block[i], info.MaxBlock[i])
		}
		threads *= uint64(l.Block[i])
	}
	if threads > uint64(info.MaxThreads) {
		return fail("a block has %d threads, allowed are %d", threads, info.MaxThreads)
	}
	if uint64(l.SharedBytes) > uint64(info.SharedOptInBytes) {
		return fail("%d bytes of dynamic shared memory, allowed are %d", l.SharedBytes, info.SharedOptInBytes)
	}
	return nil
}

// ArgKind is the type of a kernel argument.
type ArgKind uint8

// The types a kernel parameter may have.
const (
	ArgPointer ArgKind = iota + 1
	ArgI32
	ArgU32
	ArgI64
	ArgF32
)

// String is the kind as a kernel writes it.
func (k ArgKind) String() string {
	switch k {
	case ArgPointer:
		return "pointer"
	case ArgI32:
		return "int"
	case ArgU32:
		return "unsigned"
	case ArgI64:
		return "long long"
	case ArgF32:
		return "float"
	}
	return fmt.Sprintf("ArgKind(%d)", uint8(k))
}

// Bytes is the size of a parameter of this kind.
func (k ArgKind) Bytes() int {
	if k == ArgPointer || k == ArgI64 {
		return 8
	}
	return 4
}

// Arg is a kernel argument: its kind, and its bits in the low Kind.Bytes() bytes.
type Arg struct {
	Kind ArgKind
	Bits uint64
}

// PointerArg passes a pointer.
func PointerArg(p Pointer) Arg { return Arg{ArgPointer, uint64(p)} }

// I32 passes an int.
func I32(v int32) Arg { return Arg{ArgI32, uint64(uint32(v))} }

// U32 passes an unsigned.
func U32(v uint32) Arg { return Arg{ArgU32, uint64(v)} }

// I64 passes a long long.
func I64(v int64) Arg { return Arg{ArgI64, uint64(v)} }

// F32 passes a float.
func F32(v float32) Arg { return Arg{ArgF32, uint64(math.Float32bits(v))} }

// LaunchError is the failure of one launch.
type LaunchError struct {
	Launch Launch
	Err    error // wraps one of the sentinels below where one fits
}

// Error names the kernel, the shape and the cause.
func (e *LaunchError) Error() string {
	return fmt.Sprintf("launch %s (%s): %v", e.Launch.Kernel, e.Launch.Shape(), e.Err)
}

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// What went wrong, to be found with errors.Is.
var (
	// ErrUnknownKernel: no loaded unit defines the kernel.
	ErrUnknownKernel = errors.New("unknown kernel")
	// ErrUnknownSymbol: no loaded unit exports the symbol.
	ErrUnknownSymbol = errors.New("unknown symbol")
	// ErrLimit: the machine, or the kernel's launch bounds, do not allow a launch of this shape.
	ErrLimit = errors.New("launch over a limit")
	// ErrArgument: the arguments are not those that the kernel takes, or a pointer leads nowhere.
	ErrArgument = errors.New("wrong argument")
	// ErrMemory: not enough memory.
	ErrMemory = errors.New("out of memory")
	// ErrFault: a kernel touched memory that is not its own, or misaligned memory.
	ErrFault = errors.New("memory fault")
	// ErrSync: a kernel's threads disagree at a barrier or wait for each other for ever.
	ErrSync = errors.New("synchronization fault")
	// ErrTimeout: a launch did not end in time.
	ErrTimeout = errors.New("timeout")
	// ErrLost: the machine is gone, by an earlier fault or by Close; the driver is of no further use.
	ErrLost = errors.New("device lost")
)
