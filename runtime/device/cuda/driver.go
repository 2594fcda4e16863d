//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/minfer/minfer/runtime/device/cuda/libcuda"
	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// Driver is one GPU behind the seam that the emulator also fills. It implements gpu.Driver, gpu.Grapher, gpu.Stager and gpu.Sharer.
type Driver struct {
	found
	ctx     context.Context
	options Options
	context cu.CUContext
	stream  cu.Stream
	done    cu.Event // for a wait that is too long to spin

	units   []unit
	kernels map[string]*function
	memory  spans
	shared  map[gpu.Pointer]*libcuda.Pinned // those of memory that are the host's
	staging [2]*staging                     // made when first wanted
	turn    int                             // the buffer of staging that is filled next

	recording bool
	launched  int        // launches since the last wait
	last      gpu.Launch // of them
	lost      error      // once set, the GPU's context is of no further use
	closed    bool
}

var (
	_ gpu.Driver  = (*Driver)(nil)
	_ gpu.Grapher = (*Driver)(nil)
	_ gpu.Stager  = (*Driver)(nil)
	_ gpu.Sharer  = (*Driver)(nil)
)

// unit is a loaded .cu file.
type unit struct {
	name, digest string
	module       cu.Module
	code         gpu.Code
}

// function is a kernel of a loaded unit.
type function struct {
	unit        string
	handle      cu.Function
	overlaps    bool
	maxThreads  int   // of a block
	sharedBytes int   // static
	allowed     int   // dynamic shared bytes that it may be launched with
	whole       bool  // it has asked for all shared memory of a multiprocessor
	params      []int // sizes; nil if the driver cannot tell
}

// staging is memory that the GPU copies from by itself, and the event that says when it has.
type staging struct {
	memory *libcuda.Pinned
	done   cu.Event
	used   bool
}

const (
	stagingBytes = 8 << 20
	// directBytes is the most that is copied without staging: the CUDA driver then takes a copy before it returns.
	directBytes = 64 << 10
	// spin is how long a wait asks again and again. A thread that sleeps is woken some tens of us after the GPU is done, for each token;
	// decoding is within this time. What takes longer, such as prompts, loses nothing by it, and a core is not kept busy for it.
	spin = 20 * time.Millisecond
)

// Open opens a GPU. Cancelling ctx ends what is being compiled. What the machine lacks is an error that names it (code.ErrDriver,
// code.ErrDevice). With Options.Witness the driver is a gpu.Witness too, with
// Options.Marks a gpu.Marker.
func Open(ctx context.Context, index int, o Options) (gpu.Driver, error) {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	f, err := probe(ctx, index, o)
	if err != nil {
		return nil, err
	}
	if !f.codes.Native() {
		o.Log(fmt.Sprintf("cuda:%d: %s", index, f.codes.Why))
	}
	d := &Driver{found: *f, ctx: ctx, options: o, kernels: map[string]*function{}, shared: map[gpu.Pointer]*libcuda.Pinned{}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.context, err = f.device.RetainPrimaryCtx(); err != nil {
		return nil, d.fail("context", err)
	}
	if err = cu.SetCurrentContext(d.context); err == nil {
		d.stream, err = cu.MakeStream(cu.NonBlocking)
	}
	if err == nil {
		d.done, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming)
	}
	if err != nil {
		f.device.ReleasePrimaryCtx()
		return nil, d.fail("stream", err)
	}
	switch {
	case o.Witness:
		return &witness{Driver: d}, nil
	case o.Marks:
		return &marks{Driver: d}, nil
	}
	return d, nil
}

// result is the driver's own result in an error of gorgonia.org/cu, whose type of it is not exported; other errors are as
// they were.
func result(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if v := reflect.ValueOf(e); v.Kind() == reflect.Int && v.Type().PkgPath() == "gorgonia.org/cu" {
			return libcuda.Result(v.Int())
		}
	}
	return err
}

// fatal are the results after which a context is of no further use, with what they mean here.
var fatal = map[libcuda.Result]error{
	libcuda.IllegalAddress: gpu.ErrFault, libcuda.MisalignedAddress: gpu.ErrFault, libcuda.InvalidAddressSpace: gpu.ErrFault,
	libcuda.InvalidPC: gpu.ErrFault, libcuda.HardwareStack: gpu.ErrFault, libcuda.IllegalInstruction: gpu.ErrFault,
	libcuda.Assert: gpu.ErrFault, libcuda.LaunchFailed: gpu.ErrFault, libcuda.LaunchTimeout: gpu.ErrTimeout,
	libcuda.ECC: gpu.ErrLost, libcuda.ContextDestroyed: gpu.ErrLost, libcuda.NoDevice: gpu.ErrLost, libcuda.Unknown: gpu.ErrLost,
}

// classify gives an error of the driver the sentinel that fits, and notes whether the context is lost.
func (d *Driver) classify(err error) error {
	err = result(err)
	var r libcuda.Result
	if !errors.As(err, &r) {
		return err
	}
	if r == libcuda.OutOfMemory {
		return fmt.Errorf("%w: %w", gpu.ErrMemory, r)
	}
	if kind, ok := fatal[r]; ok {
		err = fmt.Errorf("%w: %w", kind, r)
		d.lost = err
	}
	return err
}

// fail is the error of a call.
func (d *Driver) fail(call string, err error) error {
	return fmt.Errorf("cuda:%d: %s: %w", d.index, call, d.classify(err))
}

// waited is fail for a call that waits for earlier work, whose error it may return: it names the launches that it may come from.
func (d *Driver) waited(call string, err error) error {
	n := d.launched
	d.launched = 0
	if err == nil {
		return nil
	}
	err = d.classify(err)
	switch {
	case d.lost == nil || n == 0:
		return fmt.Errorf("cuda:%d: %s: %w", d.index, call, err)
	case n == 1:
		return fmt.Errorf("cuda:%d: %w", d.index, &gpu.LaunchError{Launch: d.last, Err: err})
	}
	return fmt.Errorf("cuda:%d: %s: one of %d launches since the last wait, of which the last was %s (%s): %w; MINFER_SYNC_LAUNCHES=1 finds out which",
		d.index, call, n, d.last.Kernel, d.last.Shape(), err)
}

// enter makes the GPU's context that of this thread until leave. Nothing but launches and fills may be called while recording.
func (d *Driver) enter(call string, recorded bool) (leave func(), err error) {
	switch {
	case d.closed:
		return nil, fmt.Errorf("cuda:%d: %s: %w: the driver is closed", d.index, call, gpu.ErrLost)
	case d.lost != nil:
		return nil, fmt.Errorf("cuda:%d: %s: %w by an earlier error: %w", d.index, call, gpu.ErrLost, d.lost)
	case d.recording && !recorded:
		return nil, fmt.Errorf("cuda:%d: %s is not possible while launches are recorded", d.index, call)
	}
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(d.context); err != nil {
		runtime.UnlockOSThread()
		return nil, d.fail(call, err)
	}
	return runtime.UnlockOSThread, nil
}

// Info implements gpu.Driver. Its Arch is the architecture that kernels are compiled for, which may be below the GPU's.
func (d *Driver) Info() gpu.Info { return d.info }

// Code says where the kernels' code comes from.
func (d *Driver) Code() string { return d.codes.Why }

// Native reports whether kernels are compiled by nvcc for this very GPU.
func (d *Driver) Native() bool { return d.codes.Native() }

// Load implements gpu.Driver. Units are compiled several at a time.
func (d *Driver) Load(m gpu.Module) error {
	leave, err := d.enter("load of "+m.Name, false)
	if err != nil {
		return err
	}
	defer leave()
	type job struct {
		gpu.Unit
		digest string
		code   gpu.Code
		err    error
	}
	var jobs []*job
	for _, u := range m.Units {
		j := &job{Unit: u, digest: nvcc.Source{Name: u.Name, Text: u.Source, Headers: m.Headers}.Digest()}
		if i := slices.IndexFunc(d.units, func(x unit) bool { return x.name == u.Name }); i >= 0 {
			if d.units[i].digest != j.digest {
				return fmt.Errorf("cuda:%d: %s is already loaded with another text", d.index, u.Name)
			}
			if err := d.look(&d.units[i], u.Kernels); err != nil {
				return err
			}
			continue
		}
		jobs = append(jobs, j)
	}
	var wait sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, j := range jobs {
		wait.Add(1)
		limit <- struct{}{}
		go func() {
			defer wait.Done()
			defer func() { <-limit }()
			j.code, j.err = d.codes.Find(d.ctx, j.Unit, m.Headers)
		}()
	}
	wait.Wait()
	var errs []error
	for _, j := range jobs {
		if j.err != nil {
			errs = append(errs, fmt.Errorf("cuda:%d: %w", d.index, j.err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, j := range jobs {
		u := unit{name: j.Name, digest: j.digest, code: j.code}
		if u.module, err = d.module(j.code); err != nil {
			return fmt.Errorf("cuda:%d: %s, %s: %w", d.index, j.Name, kind(j.code), err)
		}
		d.units = append(d.units, u)
		if err := d.look(&d.units[len(d.units)-1], j.Kernels); err != nil {
			return err
		}
	}
	return nil
}

// kind says what code is: "native code for sm_90".
func kind(c gpu.Code) string {
	if c.Native {
		return fmt.Sprintf("native code for sm_%d", c.Arch)
	}
	return fmt.Sprintf("PTX for sm_%d", c.Arch)
}

// logBytes is the room for what the driver's compiler says.
const logBytes = 16 << 10

// module loads code; an error carries what the driver's compiler says of it.
func (d *Driver) module(c gpu.Code) (cu.Module, error) {
	log := &cu.JITErrorLogBuffer{Buffer: make([]byte, logBytes)}
	m, err := cu.LoadDataEx(string(c.Data), log)
	runtime.KeepAlive(log)
	if err == nil {
		return m, nil
	}
	err = d.classify(err)
	said, _, _ := strings.Cut(string(log.Buffer), "\x00")
	if said = strings.TrimSpace(said); said != "" {
		err = fmt.Errorf("%w: the driver's compiler says: %s", err, said)
	}
	return m, err
}

// look finds kernels of a unit by name and reads what they allow.
func (d *Driver) look(u *unit, names []string) error {
	for _, name := range names {
		if known := d.kernels[name]; known != nil {
			if known.unit != u.name {
				return fmt.Errorf("cuda:%d: kernel %s is defined by %s and by %s", d.index, name, known.unit, u.name)
			}
			continue
		}
		handle, err := u.module.Function(name)
		if result(err) == libcuda.NotFound {
			return fmt.Errorf("cuda:%d: %s does not define kernel %s in its %s (%s): %w", d.index, u.name, name, kind(u.code), d.codes.Why, gpu.ErrUnknownKernel)
		}
		if err != nil {
			return d.fail("kernel "+name, err)
		}
		f := &function{unit: u.name, handle: handle, overlaps: d.codes.Overlaps(u.code)}
		if f.maxThreads, err = handle.Attribute(cu.FnMaxThreadsPerBlock); err == nil {
			f.sharedBytes, err = handle.Attribute(cu.SharedSizeBytes)
		}
		if err != nil {
			return d.fail("attributes of kernel "+name, err)
		}
		f.allowed = d.info.SharedBytes - f.sharedBytes
		f.params, _ = libcuda.Params(handle)
		d.kernels[name] = f
	}
	return nil
}

// Alloc implements gpu.Driver.
func (d *Driver) Alloc(bytes int64) (gpu.Pointer, error) {
	call := fmt.Sprintf("allocation of %d bytes", bytes)
	if bytes <= 0 {
		return 0, fmt.Errorf("cuda:%d: %s: %w", d.index, call, gpu.ErrArgument)
	}
	leave, err := d.enter(call, false)
	if err != nil {
		return 0, err
	}
	defer leave()
	p, err := cu.MemAlloc(bytes)
	if err != nil {
		err = d.fail(call, err)
		if free, total, infoErr := cu.MemInfo(); infoErr == nil {
			err = fmt.Errorf("%w; %d of %d bytes are free", err, free, total)
		}
		return 0, err
	}
	d.memory.add(gpu.Pointer(p), bytes)
	return gpu.Pointer(p), nil
}

// Free implements gpu.Driver.
func (d *Driver) Free(p gpu.Pointer) error {
	if p == 0 {
		return nil
	}
	call := fmt.Sprintf("free of %#x", uint64(p))
	leave, err := d.enter(call, false)
	if err != nil {
		return err
	}
	defer leave()
	if !d.memory.remove(p) {
		return fmt.Errorf("cuda:%d: %s: %w: no allocation begins there", d.index, call, gpu.ErrArgument)
	}
	if err := d.release(p); err != nil {
		return d.fail(call, err)
	}
	return nil
}

// release gives back memory, the GPU's or the host's.
func (d *Driver) release(p gpu.Pointer) error {
	if m := d.shared[p]; m != nil {
		delete(d.shared, p)
		return m.Free()
	}
	return cu.MemFree(cu.DevicePtr(p))
}

// Share implements gpu.Sharer.
func (d *Driver) Share(bytes int) (gpu.Shared, error) {
	call := fmt.Sprintf("shared memory of %d bytes", bytes)
	if bytes <= 0 {
		return gpu.Shared{}, fmt.Errorf("cuda:%d: %s: %w", d.index, call, gpu.ErrArgument)
	}
	leave, err := d.enter(call, false)
	if err != nil {
		return gpu.Shared{}, err
	}
	defer leave()
	m, err := libcuda.AllocPinned(bytes)
	if err != nil {
		return gpu.Shared{}, d.fail(call, err)
	}
	clear(m.Bytes)
	p := gpu.Pointer(m.Address())
	d.shared[p] = m
	d.memory.add(p, int64(bytes))
	return gpu.Shared{Bytes: m.Bytes, Pointer: p}, nil
}

// shares reports whether memory of the host is that of Share: there its address is the GPU's too.
func (d *Driver) shares(b []byte) bool {
	at := gpu.Pointer(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	for base, m := range d.shared {
		if at >= base && at-base < gpu.Pointer(len(m.Bytes)) {
			return true
		}
	}
	return false
}

// stage is the buffer of staging whose turn it is, free to be used.
func (d *Driver) stage() (*staging, error) {
	s := d.staging[d.turn]
	if s == nil {
		memory, err := libcuda.AllocPinned(stagingBytes)
		if err != nil {
			return nil, err
		}
		s = &staging{memory: memory}
		if s.done, err = cu.MakeEvent(cu.DisableTiming); err != nil {
			memory.Free()
			return nil, err
		}
		d.staging[d.turn] = s
	}
	d.turn = (d.turn + 1) % len(d.staging)
	if s.used {
		s.used = false
		if err := s.done.Synchronize(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Stage implements gpu.Stager. What is larger than the staging buffers is ordinary memory.
func (d *Driver) Stage(bytes int) ([]byte, error) {
	if bytes > stagingBytes {
		return make([]byte, bytes), nil
	}
	call := fmt.Sprintf("staging of %d bytes", bytes)
	leave, err := d.enter(call, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	s, err := d.stage()
	if err != nil {
		return nil, d.fail(call, err)
	}
	return s.memory.Bytes[:bytes], nil
}

// staged is the buffer that src is the beginning of, or nil.
func (d *Driver) staged(src []byte) *staging {
	for _, s := range d.staging {
		if s != nil && &s.memory.Bytes[0] == &src[0] {
			return s
		}
	}
	return nil
}

// send copies from a staging buffer to the GPU.
func (d *Driver) send(dst cu.DevicePtr, s *staging, bytes int) error {
	if err := cu.MemcpyHtoDAsync(dst, unsafe.Pointer(&s.memory.Bytes[0]), int64(bytes), d.stream); err != nil {
		return err
	}
	s.used = true
	return s.done.Record(d.stream)
}

// Upload implements gpu.Driver. While the GPU copies one staging buffer, the next is filled.
func (d *Driver) Upload(dst gpu.Pointer, src []byte) error {
	fail := func(err error) error {
		return d.fail(fmt.Sprintf("upload of %d bytes to %#x", len(src), uint64(dst)), err)
	}
	if err := d.memory.check(dst, int64(len(src))); err != nil {
		return fail(err)
	}
	shared := d.shares(src)
	leave, err := d.enter("upload", shared)
	if err != nil {
		return err
	}
	defer leave()
	if len(src) == 0 {
		return nil
	}
	if s := d.staged(src); s != nil {
		if err := d.send(cu.DevicePtr(dst), s, len(src)); err != nil {
			return fail(err)
		}
		return nil
	}
	if shared || len(src) <= directBytes {
		if err := cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src)), d.stream); err != nil {
			return fail(err)
		}
		return nil
	}
	for at := 0; at < len(src); at += stagingBytes {
		s, err := d.stage()
		if err != nil {
			return fail(err)
		}
		n := copyParallel(s.memory.Bytes, src[at:])
		if err := d.send(cu.DevicePtr(dst)+cu.DevicePtr(at), s, n); err != nil {
			return fail(err)
		}
	}
	return nil
}

// copyParallel is copy by several threads: one alone does not fill the link to the GPU.
func copyParallel(dst, src []byte) int {
	n := min(len(dst), len(src))
	const part = 1 << 20
	parts := min(max(1, n/part), runtime.GOMAXPROCS(0), 8)
	var wait sync.WaitGroup
	for i := 1; i < parts; i++ {
		wait.Go(func() { copy(dst[n*i/parts:n*(i+1)/parts], src[n*i/parts:]) })
	}
	copy(dst[:n/parts], src)
	wait.Wait()
	return n
}

// wait waits for what is on the stream.
func (d *Driver) wait() error { return libcuda.Wait(d.stream, d.done, spin) }

// Download implements gpu.Driver.
func (d *Driver) Download(dst []byte, src gpu.Pointer) error {
	call := func() string { return fmt.Sprintf("download of %d bytes from %#x", len(dst), uint64(src)) }
	if err := d.memory.check(src, int64(len(dst))); err != nil {
		return d.fail(call(), err)
	}
	leave, err := d.enter("download", false)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.download(dst, cu.DevicePtr(src)); err != nil {
		return d.waited(call(), err)
	}
	d.launched = 0
	return nil
}

// download copies from the GPU after all earlier work.
func (d *Driver) download(dst []byte, src cu.DevicePtr) error {
	if len(dst) == 0 {
		return d.wait()
	}
	if len(dst) <= directBytes || d.shares(dst) {
		if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&dst[0]), src, int64(len(dst)), d.stream); err != nil {
			return err
		}
		return d.wait()
	}
	for at := 0; at < len(dst); at += stagingBytes {
		s, err := d.stage()
		if err != nil {
			return err
		}
		n := min(stagingBytes, len(dst)-at)
		if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&s.memory.Bytes[0]), src+cu.DevicePtr(at), int64(n), d.stream); err != nil {
			return err
		}
		if err := d.wait(); err != nil {
			return err
		}
		copy(dst[at:], s.memory.Bytes[:n])
	}
	return nil
}

// Fill implements gpu.Driver.
func (d *Driver) Fill(dst gpu.Pointer, value byte, bytes int64) error {
	call := fmt.Sprintf("fill of %d bytes at %#x", bytes, uint64(dst))
	if err := d.memory.check(dst, bytes); err != nil {
		return fmt.Errorf("cuda:%d: %s: %w", d.index, call, err)
	}
	leave, err := d.enter(call, true)
	if err != nil {
		return err
	}
	defer leave()
	if bytes == 0 {
		return nil
	}
	if err := cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, d.stream); err != nil {
		return d.fail(call, err)
	}
	return nil
}

// kernel finds a kernel by name, in units too that were loaded without naming it.
func (d *Driver) kernel(name string) (*function, error) {
	if f := d.kernels[name]; f != nil {
		return f, nil
	}
	for i := range d.units {
		if _, err := d.units[i].module.Function(name); err == nil {
			if err := d.look(&d.units[i], []string{name}); err != nil {
				return nil, err
			}
			return d.kernels[name], nil
		}
	}
	return nil, gpu.ErrUnknownKernel
}

// Launch implements gpu.Driver.
func (d *Driver) Launch(l gpu.Launch) error {
	leave, err := d.enter("launch of "+l.Kernel, true)
	if err != nil {
		return err
	}
	defer leave()
	fail := func(err error) error {
		return fmt.Errorf("cuda:%d: %w", d.index, &gpu.LaunchError{Launch: l, Err: err})
	}
	if err := l.Check(d.info); err != nil {
		return fmt.Errorf("cuda:%d: %w", d.index, err)
	}
	f, err := d.kernel(l.Kernel)
	if err != nil {
		return fail(err)
	}
	if threads := int(l.Block[0] * l.Block[1] * l.Block[2]); threads > f.maxThreads {
		return fail(fmt.Errorf("%w: a block has %d threads, the kernel is compiled for %d", gpu.ErrLimit, threads, f.maxThreads))
	}
	if n := f.sharedBytes + int(l.SharedBytes); n > d.info.SharedOptInBytes {
		return fail(fmt.Errorf("%w: %d bytes of shared memory with the kernel's own %d, allowed are %d", gpu.ErrLimit, n, f.sharedBytes, d.info.SharedOptInBytes))
	}
	args, err := d.arguments(f, l.Args)
	if err != nil {
		return fail(err)
	}
	if int(l.SharedBytes) > f.allowed {
		most := d.info.SharedOptInBytes - f.sharedBytes
		if err := libcuda.AllowShared(f.handle, most); err != nil {
			return fail(d.classify(err))
		}
		f.allowed = most
	}
	// A kernel of whose blocks only one fits on a multiprocessor asks for all of the shared memory that there is: one of another size that
	// follows it need not wait until the multiprocessor is empty, to be divided anew.
	if !f.whole && 2*int(l.SharedBytes) > d.info.SharedOptInBytes {
		if err := libcuda.PreferShared(f.handle); err != nil {
			return fail(d.classify(err))
		}
		f.whole = true
	}
	if err := libcuda.Launch(f.handle, l.Grid, l.Block, l.SharedBytes, d.stream, args, l.Dependent && f.overlaps); err != nil {
		return fail(d.classify(err))
	}
	if d.recording {
		return nil
	}
	d.launched++
	d.last = l
	if d.options.Sync {
		d.launched = 1
		return d.waited("launch", d.stream.Synchronize())
	}
	return nil
}

// arguments are the bits of a launch's arguments, held against the kernel's parameters and the allocations.
func (d *Driver) arguments(f *function, args []gpu.Arg) ([]uint64, error) {
	if len(args) > libcuda.MaxArgs {
		return nil, fmt.Errorf("%w: %d arguments, allowed are %d", gpu.ErrArgument, len(args), libcuda.MaxArgs)
	}
	if f.params != nil && len(f.params) != len(args) {
		return nil, fmt.Errorf("%w: %d arguments, the kernel takes %d", gpu.ErrArgument, len(args), len(f.params))
	}
	bits := make([]uint64, len(args))
	for i, a := range args {
		if f.params != nil && f.params[i] != a.Kind.Bytes() {
			return nil, fmt.Errorf("%w: argument %d is %s, the kernel takes %d bytes there", gpu.ErrArgument, i, a.Kind, f.params[i])
		}
		if a.Kind == gpu.ArgPointer && a.Bits != 0 {
			if err := d.memory.check(gpu.Pointer(a.Bits), 1); err != nil {
				return nil, fmt.Errorf("argument %d: %w", i, err)
			}
		}
		bits[i] = a.Bits
	}
	return bits, nil
}

// Symbol implements gpu.Driver.
func (d *Driver) Symbol(name string) ([]byte, error) {
	call := "symbol " + name
	leave, err := d.enter(call, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	for i := range d.units {
		p, bytes, err := d.units[i].module.Global(name)
		if result(err) == libcuda.NotFound {
			continue
		}
		if err != nil {
			return nil, d.fail(call, err)
		}
		data := make([]byte, bytes)
		return data, d.waited(call, d.download(data, p))
	}
	return nil, fmt.Errorf("cuda:%d: %s: %w", d.index, call, gpu.ErrUnknownSymbol)
}

// Sync implements gpu.Driver.
func (d *Driver) Sync() error {
	leave, err := d.enter("wait", false)
	if err != nil {
		return err
	}
	defer leave()
	return d.waited("wait", d.wait())
}

// graph implements gpu.Graph.
type graph struct {
	driver   *Driver
	recorded *libcuda.Graph
}

// Capture implements gpu.Grapher.
func (d *Driver) Capture(record func() error) (gpu.Graph, error) {
	leave, err := d.enter("recording", false)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := libcuda.BeginCapture(d.stream); err != nil {
		return nil, d.fail("recording", err)
	}
	d.recording = true
	err = record()
	d.recording = false
	if err != nil {
		libcuda.AbortCapture(d.stream)
		return nil, err
	}
	g, err := libcuda.EndCapture(d.stream)
	if err != nil {
		return nil, d.fail("recording", err)
	}
	return &graph{driver: d, recorded: g}, nil
}

// Replay implements gpu.Graph.
func (g *graph) Replay() error {
	d := g.driver
	leave, err := d.enter("replay", false)
	if err != nil {
		return err
	}
	defer leave()
	if err := g.recorded.Launch(d.stream); err != nil {
		return d.fail("replay", err)
	}
	return nil
}

// Close implements gpu.Graph.
func (g *graph) Close() error {
	if g.recorded == nil {
		return nil
	}
	d := g.driver
	if d.closed || d.lost != nil {
		g.recorded = nil
		return nil
	}
	leave, err := d.enter("end of a recording", false)
	if err != nil {
		return err
	}
	defer leave()
	if err := g.recorded.Destroy(); err != nil {
		return d.fail("end of a recording", err)
	}
	g.recorded = nil
	return nil
}

// Close implements gpu.Driver. Of a GPU that is lost nothing is freed.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	if d.lost != nil {
		d.closed = true
		return nil
	}
	leave, err := d.enter("close", false)
	if err != nil {
		return err
	}
	defer leave()
	var errs []error
	try := func(what string, err error) {
		if err != nil && d.lost == nil {
			errs = append(errs, d.fail(what, err))
		}
	}
	try("wait", d.stream.Synchronize())
	for _, s := range d.memory {
		try("free", d.release(s.base))
	}
	for _, s := range d.staging {
		if s != nil {
			try("event", cu.DestroyEvent(&s.done))
			try("staging", s.memory.Free())
		}
	}
	for _, u := range d.units {
		try(u.name, u.module.Unload())
	}
	try("event", cu.DestroyEvent(&d.done))
	try("stream", d.stream.Destroy())
	try("context", d.device.ReleasePrimaryCtx())
	d.closed = true
	return errors.Join(errs...)
}
