// Package emu is a gpu.Driver that runs emitted kernels on the host: the .cu files themselves, compiled by a C++ compiler against a header
// that gives their vocabulary (minfer.cuh) a second meaning. It is slow and strict. Its use is to test the whole GPU path where there
// is no GPU, and to find what a GPU would forgive.
//
// Every CUDA thread is a fiber, so barriers, warp collectives, mbarriers and asynchronous copies really wait. The emulator reports,
// by kernel, block, thread and mostly line:
//   - accesses outside of a buffer (guard pages, canaries, and to the byte in loads by width), use after free, misaligned loads by width;
//   - barriers reached from different places or by part of a block, warp collectives whose lanes disagree, deadlocks;
//   - launches over a limit, unknown kernels, wrong arguments, launches that do not end;
//   - copies whose wait is missing: shared and fresh global memory hold NaN, an asynchronous copy makes its target NaN until the wait.
//
// A failed launch leaves the driver usable, unlike CUDA, where a memory fault ends the context; only a timeout, or the death of the
// child process, loses the device (gpu.ErrLost ever after).
//
// Bits: arithmetic is IEEE f32 without contraction (a*b+c rounds twice, fmaf once), so results are the same on every host as far as
// kernels avoid expf, sinf and cosf, which are the C library's. A GPU gives the same bits if it is compiled with -fmad=false
// or fmaf is written out, and the kernel uses no mma of floats, expf, sinf, cosf, rsqrtf or float atomics from several blocks.
//
// Launches run one after the other; that a dependent launch (programmatic dependent launch) may overlap its predecessor is not
// modelled, but a kernel so launched must call dependency_wait in every block.
package emu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minfer/minfer/generated/machine"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// Options adjust the emulator; the zero value is good.
type Options struct {
	Arch     int           // compute capability to pose as, that of a device of specs/devices; 0: 90
	Threads  int           // of the host that run blocks, at most 16; 0: one for each processor
	Relaxed  bool          // deliver asynchronous copies at once and run threads in one order: a little faster, finds less
	Timeout  time.Duration // for each launch; 0: 10 minutes, negative: none
	Memory   int64         // bytes of device memory; 0: three quarters of the host's
	CacheDir string        // for compiled kernels; "": $MINFER_CACHE/emu, else minfer/emu in the user's cache folder
	Compiler string        // C++17 compiler and first arguments; "": $CXX, else the first of c++, g++, clang++ there is
	Log      func(string)  // told what is being compiled; may be nil
}

// DefaultTimeout is the time a launch may take unless Options says otherwise.
const DefaultTimeout = 10 * time.Minute

// Driver is the emulator behind the seam that the CUDA driver also fills. It implements gpu.Driver and gpu.Witness.
type Driver struct {
	options Options
	builder *builder
	child   *child
	info    gpu.Info
	loaded  map[string]string // unit name to key of what was loaded
	arch    int
}

var (
	_ gpu.Driver  = (*Driver)(nil)
	_ gpu.Witness = (*Driver)(nil)
)

// Open compiles the emulator program, unless the cache has it, and starts it. Cancelling ctx kills it, and every call then returns ctx's
// error. The error of a host without a C++ compiler says how to get one (errors.Is ErrNoCompiler).
func Open(ctx context.Context, options Options) (*Driver, error) {
	if options.Arch == 0 {
		options.Arch = 90
	}
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	limits, ok := machine.Of(options.Arch)
	if !ok {
		var known []string
		for _, m := range machine.All {
			known = append(known, strconv.Itoa(m.Arch))
		}
		return nil, fmt.Errorf("emulator: cannot pose as architecture %d; known are %s", options.Arch, strings.Join(known, ", "))
	}
	b, err := newBuilder(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	program, err := b.program()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	mode := "strict"
	if options.Relaxed {
		mode = "relaxed"
	}
	c, hello, err := startChild(ctx, program, max(options.Threads, 0), max(options.Memory, 0), mode, limits.SharedBytes)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	return &Driver{
		options: options, builder: b, child: c, arch: options.Arch, loaded: map[string]string{},
		info: gpu.Info{
			Name: fmt.Sprintf("emulator of sm_%d on %d threads", options.Arch, hello.threads),
			Arch: options.Arch, SMs: limits.SMs, WarpSize: 32, MemoryBytes: hello.memory,
			SharedBytes: 48 << 10, SharedOptInBytes: limits.SharedBytes, MaxThreads: 1024,
			MaxBlock: [3]uint32{1024, 1024, 64}, MaxGrid: [3]uint32{1<<31 - 1, 65535, 65535}, Emulated: true,
		},
	}, nil
}

// Info describes the machine that the emulator poses as.
func (d *Driver) Info() gpu.Info { return d.info }

// Load compiles the units that the cache lacks, several at a time, and loads all of them.
func (d *Driver) Load(module gpu.Module) error {
	var wanted []gpu.Unit
	var keys []string
	for _, u := range module.Units {
		key := d.builder.unitKey(module.Headers, u)
		switch d.loaded[u.Name] {
		case key:
		case "":
			wanted, keys = append(wanted, u), append(keys, key)
		default:
			return fmt.Errorf("load %s: unit %s is already loaded with another text", module.Name, u.Name)
		}
	}
	paths, err := d.builder.units(module.Headers, wanted, keys)
	if err != nil {
		return fmt.Errorf("load %s: %w", module.Name, err)
	}
	for i, u := range wanted {
		if _, ok := d.loaded[u.Name]; ok {
			return fmt.Errorf("load %s: unit %s is named twice", module.Name, u.Name)
		}
		var w writer
		w.text(u.Name)
		w.text(paths[i])
		w.u32(uint32(len(u.Kernels)))
		for _, k := range u.Kernels {
			w.text(k)
		}
		if _, err := d.child.call(opLoad, w.data); err != nil {
			if !errors.Is(err, gpu.ErrLost) {
				d.builder.cache.Drop(paths[i]) // were it damaged in the cache, the next try compiles it again
			}
			return fmt.Errorf("load %s: unit %s: %w", module.Name, u.Name, err)
		}
		d.loaded[u.Name] = keys[i]
	}
	return nil
}

// Alloc returns memory that ends at a guard page and is filled with a NaN pattern.
func (d *Driver) Alloc(bytes int64) (gpu.Pointer, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("alloc %d bytes: %w: a buffer has at least one byte", bytes, gpu.ErrArgument)
	}
	var w writer
	w.u64(uint64(bytes))
	reply, err := d.child.call(opAlloc, w.data)
	if err != nil {
		return 0, fmt.Errorf("alloc %d bytes: %w", bytes, err)
	}
	r := reader{data: reply}
	return gpu.Pointer(r.u64()), r.err
}

// Free gives a buffer back, and reports it if something was written in front of it.
func (d *Driver) Free(p gpu.Pointer) error {
	if p == 0 {
		return nil
	}
	var w writer
	w.u64(uint64(p))
	if _, err := d.child.call(opFree, w.data); err != nil {
		return fmt.Errorf("free 0x%x: %w", uint64(p), err)
	}
	return nil
}

// Upload copies src into a buffer.
func (d *Driver) Upload(dst gpu.Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	var w writer
	w.u64(uint64(dst))
	if _, err := d.child.call(opUpload, w.data, src); err != nil {
		return fmt.Errorf("upload %d bytes: %w", len(src), err)
	}
	return nil
}

// Download copies from a buffer into dst.
func (d *Driver) Download(dst []byte, src gpu.Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	var w writer
	w.u64(uint64(src))
	w.u64(uint64(len(dst)))
	if err := d.child.callInto(dst, opDownload, w.data); err != nil {
		return fmt.Errorf("download %d bytes: %w", len(dst), err)
	}
	return nil
}

// Fill sets bytes of a buffer.
func (d *Driver) Fill(dst gpu.Pointer, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if bytes < 0 {
		return fmt.Errorf("fill %d bytes: %w", bytes, gpu.ErrArgument)
	}
	var w writer
	w.u64(uint64(dst))
	w.u64(uint64(bytes))
	w.u32(uint32(value))
	if _, err := d.child.call(opFill, w.data); err != nil {
		return fmt.Errorf("fill %d bytes: %w", bytes, err)
	}
	return nil
}

// Launch runs a kernel to its end.
func (d *Driver) Launch(l gpu.Launch) error {
	if err := l.Check(d.info); err != nil {
		return err
	}
	var w writer
	w.text(l.Kernel)
	for _, n := range slices.Concat(l.Grid[:], l.Block[:]) {
		w.u32(n)
	}
	w.u32(l.SharedBytes)
	if l.Dependent {
		w.u32(1)
	} else {
		w.u32(0)
	}
	w.u64(uint64(max(d.options.Timeout.Milliseconds(), 0)))
	w.u32(uint32(len(l.Args)))
	for _, a := range l.Args {
		w.u32(uint32(a.Kind))
		w.u64(a.Bits)
	}
	if _, err := d.child.call(opLaunch, w.data); err != nil {
		return &gpu.LaunchError{Launch: l, Err: err}
	}
	return nil
}

// Symbol returns an exported array of a loaded unit.
func (d *Driver) Symbol(name string) ([]byte, error) {
	var w writer
	w.text(name)
	reply, err := d.child.call(opSymbol, w.data)
	if err != nil {
		return nil, fmt.Errorf("symbol %s: %w", name, err)
	}
	return reply, nil
}

// Sync reports whether the device is still there; nothing is ever pending.
func (d *Driver) Sync() error {
	if err := d.child.lostError(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// StartWitness begins counting cells.
func (d *Driver) StartWitness(space gpu.CoverSpace) error {
	var w writer
	w.u64(uint64(space.Rows))
	w.u64(uint64(space.Units))
	w.u64(uint64(space.Tokens))
	if _, err := d.child.call(opWitnessStart, w.data); err != nil {
		return fmt.Errorf("witness of %d rows x %d units x %d tokens: %w", space.Rows, space.Units, space.Tokens, err)
	}
	d.child.space = space
	return nil
}

// StopWitness returns what was counted. A cell's count stops at 65535.
func (d *Driver) StopWitness() (gpu.Coverage, error) {
	reply, err := d.child.call(opWitnessStop, nil)
	if err != nil {
		return gpu.Coverage{}, fmt.Errorf("witness: %w", err)
	}
	r := reader{data: reply}
	c := gpu.Coverage{
		Space: d.child.space, Min: uint32(r.u64()), Max: uint32(r.u64()),
		Missing: int64(r.u64()), Repeated: int64(r.u64()), Outside: int64(r.u64()),
	}
	for _, list := range []*[]gpu.Cell{&c.FirstMissing, &c.FirstRepeated, &c.FirstOutside} {
		for n := r.u64(); n > 0 && r.err == nil; n-- {
			*list = append(*list, gpu.Cell{Row: int64(r.u64()), Unit: int64(r.u64()), Token: int64(r.u64()), Count: uint32(r.u64())})
		}
	}
	return c, r.err
}

// Close ends the child process. Later calls return gpu.ErrLost.
func (d *Driver) Close() error {
	d.child.close()
	return nil
}
