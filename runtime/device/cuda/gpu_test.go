//go:build cuda && linux && cgo

package cuda_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/conform"
	"github.com/minfer/minfer/runtime/device"
	_ "github.com/minfer/minfer/runtime/device/cpu"
	driver "github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// These tests need a GPU; make check-gpu runs them.

// needGPU skips the test where there is no GPU.
func needGPU(t testing.TB) {
	t.Helper()
	if s := driver.List()[0]; s.Err != nil {
		t.Skip(s.Err)
	}
}

// haveCompiler reports whether kernels can be compiled here.
func haveCompiler(t testing.TB) bool {
	t.Helper()
	_, err := nvcc.Find(t.Context(), nvcc.Options{})
	return err == nil
}

func open(t testing.TB, o driver.Options) gpu.Driver {
	t.Helper()
	needGPU(t)
	d, err := driver.Open(t.Context(), 0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestList(t *testing.T) {
	needGPU(t)
	for _, s := range driver.List() {
		t.Logf("%s: %s (%v)", s.Name, s.Text, s.Err)
	}
}

// conformance runs the edge suite of every kernel that the GPU has code for.
func conformance(t *testing.T, o driver.Options, brief bool) {
	info := open(t, driver.Options{PTX: o.PTX}).Info()
	conform.Run(t, conform.Options{
		Open:  func() (gpu.Driver, error) { return driver.Open(context.Background(), 0, o) },
		Match: func(v *kernel.Variant) bool { return v.Arch <= info.Arch },
		Brief: brief || testing.Short() || os.Getenv("MINFER_BRIEF") != "",
	})
}

// Every kernel as native code, with the coverage witness where there is a compiler for it. MINFER_LANES_ARRIVE=1: as a checker of races needs
// it, to which an arrival at an mbarrier tells of what its own lane did alone.
func TestKernels(t *testing.T) {
	needGPU(t)
	conformance(t, driver.Options{Witness: haveCompiler(t), Lanes: os.Getenv("MINFER_LANES_ARRIVE") != ""}, false)
}

// Every kernel of the archive, as the driver compiles PTX for an older GPU.
func TestKernelsFromPTX(t *testing.T) {
	needGPU(t)
	conformance(t, driver.Options{PTX: true}, true)
}

// The suite notices kernels that compute wrong, on this GPU as on the emulator.
func TestDamagedKernels(t *testing.T) {
	needGPU(t)
	if !haveCompiler(t) {
		t.Skip("there is no nvcc to compile damaged kernels")
	}
	conform.RunDamaged(t, func() (gpu.Driver, error) { return driver.Open(context.Background(), 0, driver.Options{Witness: true}) })
}

// fromPTX is the device without a compiler.
func fromPTX() device.Device {
	return gpu.New("cuda", func() (gpu.Driver, error) { return driver.Open(context.Background(), 0, driver.Options{PTX: true}) }, nil)
}

func first(t testing.TB) device.Device {
	t.Helper()
	needGPU(t)
	d, err := device.Open("cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDevice(t *testing.T) { devicetest.Run(t, first(t), devicetest.Promises{}) }

func TestGoldenModels(t *testing.T) {
	needGPU(t)
	devicetest.Golden(t, "cuda:0")
}

// small is a small model with room for a context.
func small(t testing.TB, context int) *op.Graph {
	t.Helper()
	m := archtest.Small("llama")
	m.Context = context
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sequence computes pieces of tokens on a device, one after the other, and returns all logits.
func sequence(t testing.TB, d device.Device, g *op.Graph, o device.LoadOptions, batch int, pieces []int) (all [][]float32) {
	t.Helper()
	m, err := d.Load(context.Background(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: g.Context, KVType: format.F16, Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next := int32(1)
	for _, n := range pieces {
		tokens := make([]int32, n)
		for i := range tokens {
			next = (next*7 + 3) % int32(g.Vocab)
			tokens[i] = next
		}
		rows, err := s.Forward(context.Background(), tokens, device.LogitsAll)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			all = append(all, slices.Clone(r))
		}
	}
	return all
}

// Code for an older GPU than the one it runs on: 1 to 16 tokens at once, and a prompt of 519 in chunks of 512, whose last has 7.
func TestFewTokensAndChunks(t *testing.T) {
	needGPU(t)
	cpu, err := device.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for n := 1; n <= 16; n++ {
		counts = append(counts, n)
	}
	for _, c := range []struct {
		name   string
		batch  int
		pieces []int
	}{{"1 to 16 tokens", 32, counts}, {"519 tokens in chunks of 512", 512, []int{519}}} {
		g := small(t, 640)
		want := sequence(t, cpu, g, device.LoadOptions{Precision: device.F32}, c.batch, c.pieces)
		for name, d := range map[string]device.Device{"native": first(t), "PTX": fromPTX()} {
			have := sequence(t, d, g, device.LoadOptions{Precision: device.F32}, c.batch, c.pieces)
			for i := range want {
				if apart := archtest.Distance(have[i], want[i]); !(apart <= 0.02) {
					t.Errorf("%s, %s: logits of token %d are %.4f from the CPU device's", c.name, name, i, apart)
				}
			}
		}
	}
}

// A recorded step gives the bits of the one whose launches are made one by one.
func TestReplayGivesTheSameBits(t *testing.T) {
	d := first(t)
	g := small(t, 128)
	pieces := []int{5, 1, 1, 1, 1, 3, 3, 3, 1, 1, 1, 40, 1, 1, 1}
	if d := cmp.Diff(sequence(t, d, g, device.LoadOptions{Eager: true}, 32, pieces), sequence(t, d, g, device.LoadOptions{}, 32, pieces)); d != "" {
		t.Error(d)
	}
	for _, golden := range archtest.Goldens(t) {
		f, err := gguf.Open(golden.Path)
		if err != nil {
			t.Fatal(err)
		}
		g, err := arch.Build(f)
		if err != nil {
			t.Fatal(err)
		}
		eager := devicetest.Steps(t, "cuda:0", g, device.LoadOptions{Eager: true}, format.F16, golden.Tokens, golden.Peer.Tokens)
		replayed := devicetest.Steps(t, "cuda:0", g, device.LoadOptions{}, format.F16, golden.Tokens, golden.Peer.Tokens)
		for i := range eager {
			if !slices.Equal(eager[i], replayed[i]) {
				t.Errorf("%s: step %d differs by %g", golden.Name, i, archtest.Distance(eager[i], replayed[i]))
				break
			}
		}
		f.Close()
	}
}

// random is n bytes of a simple generator.
func random(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestMemory(t *testing.T) {
	d := open(t, driver.Options{})
	for _, n := range []int{1, 3, 64 << 10, 64<<10 + 1, 8 << 20, 20<<20 + 3} {
		p, err := d.Alloc(int64(n))
		if err != nil {
			t.Fatal(err)
		}
		src, dst := random(n), make([]byte, n)
		if err := d.Upload(p, src); err != nil {
			t.Fatal(err)
		}
		kept := slices.Clone(src)
		clear(src) // the driver has what it needs
		if err := d.Download(dst, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, kept) {
			t.Errorf("%d bytes come back changed", n)
		}
		if n > 2 {
			if err := d.Fill(p+1, 0xa5, int64(n-2)); err != nil {
				t.Fatal(err)
			}
			if err := d.Download(dst, p); err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(kept[:1], bytes.Repeat([]byte{0xa5}, n-2), kept[n-1:])
			if !bytes.Equal(dst, want) {
				t.Errorf("a fill of %d bytes reaches too far or not far enough", n-2)
			}
		}
		for what, err := range map[string]error{
			"an upload past the end":     d.Upload(p+1, kept),
			"a download past the end":    d.Download(dst, p+1),
			"a fill past the end":        d.Fill(p, 0, int64(n)+1),
			"a free inside":              d.Free(p + 1),
			"an upload to nowhere":       d.Upload(1, kept),
			"an allocation of nothing":   second(d.Alloc(0)),
			"an allocation of less":      second(d.Alloc(-5)),
			"a symbol that is not there": second(d.Symbol("no_such_symbol")),
		} {
			if err == nil || !strings.Contains(err.Error(), "cuda:0: ") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := d.Free(p); err != nil {
			t.Fatal(err)
		}
		if err := d.Free(p); !errors.Is(err, gpu.ErrArgument) {
			t.Errorf("freed twice: %v", err)
		}
	}
	if _, err := d.Alloc(1 << 50); !errors.Is(err, gpu.ErrMemory) || !strings.Contains(err.Error(), "are free") {
		t.Errorf("more than there is: %v", err)
	}
	if err := d.Free(0); err != nil {
		t.Error(err)
	}
}

// What is filled in place arrives, however often the buffers are reused.
func TestStage(t *testing.T) {
	d := open(t, driver.Options{})
	const n, rounds = 3 << 20, 9
	p, err := d.Alloc(n * rounds)
	if err != nil {
		t.Fatal(err)
	}
	want := random(n * rounds)
	for i := range rounds {
		b, err := d.(gpu.Stager).Stage(n - i)
		if err != nil || len(b) != n-i {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		copy(b, want[i*n:])
		if err := d.Upload(p+gpu.Pointer(i*n), b); err != nil {
			t.Fatal(err)
		}
	}
	have := make([]byte, n*rounds)
	if err := d.Download(have, p); err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		if !bytes.Equal(have[i*n:(i+1)*n-i], want[i*n:(i+1)*n-i]) {
			t.Errorf("round %d comes back changed", i)
		}
	}
	if b, err := d.(gpu.Stager).Stage(64 << 20); err != nil || len(b) != 64<<20 {
		t.Errorf("more than the buffers hold: %d bytes, %v", len(b), err)
	}
}

func second[T any](_ T, err error) error { return err }

// add is the kernel out = a + b, loaded, with its arguments for n elements of which a and b hold 1 and 2.
type add struct {
	driver  gpu.Driver
	variant *kernel.Variant
	n       int
	out     gpu.Pointer
	launch  gpu.Launch
}

func newAdd(t testing.TB, d gpu.Driver, n int) *add {
	t.Helper()
	a := &add{driver: d, variant: gate.Add.Steps[0].Variant, n: n}
	if err := gpu.LoadVariants(d, []*kernel.Variant{a.variant}); err != nil {
		t.Fatal(err)
	}
	var pointers [3]gpu.Pointer
	for i := range pointers {
		p, err := d.Alloc(int64(4 * n))
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 4*n)
		for k := range n {
			binary.LittleEndian.PutUint32(data[4*k:], math.Float32bits(float32(i+1)))
		}
		if err := d.Upload(p, data); err != nil {
			t.Fatal(err)
		}
		pointers[i] = p
	}
	a.out = pointers[2]
	a.launch = gpu.Launch{Kernel: a.variant.Symbol, Grid: a.variant.Grid(&kernel.Query{Cols: int64(n)}), Block: [3]uint32{a.variant.Threads, 1, 1},
		Args: []gpu.Arg{gpu.PointerArg(pointers[0]), gpu.PointerArg(pointers[1]), gpu.PointerArg(a.out), gpu.I32(int32(n))}}
	return a
}

// sums counts the elements of out that are 3.
func (a *add) sums(t testing.TB) (n int) {
	t.Helper()
	data := make([]byte, 4*a.n)
	if err := a.driver.Download(data, a.out); err != nil {
		t.Fatal(err)
	}
	for k := range a.n {
		if math.Float32frombits(binary.LittleEndian.Uint32(data[4*k:])) == 3 {
			n++
		}
	}
	return n
}

func TestLaunch(t *testing.T) {
	for _, o := range []driver.Options{{}, {PTX: true}, {Sync: true}} {
		d := open(t, o)
		a := newAdd(t, d, 1000)
		if err := d.Launch(a.launch); err != nil {
			t.Fatal(err)
		}
		if n := a.sums(t); n != 1000 {
			t.Errorf("%d of 1000 sums are right", n)
		}
		for name, c := range map[string]struct {
			change func(l *gpu.Launch)
			is     error
			says   string
		}{
			"unknown kernel":    {func(l *gpu.Launch) { l.Kernel = "no_such_kernel" }, gpu.ErrUnknownKernel, "no_such_kernel"},
			"more threads":      {func(l *gpu.Launch) { l.Block[0] = 512 }, gpu.ErrLimit, "compiled for 256"},
			"far more threads":  {func(l *gpu.Launch) { l.Block[0] = 2048 }, gpu.ErrLimit, "2048"},
			"an empty grid":     {func(l *gpu.Launch) { l.Grid[1] = 0 }, gpu.ErrLimit, "grid y"},
			"a grid too high":   {func(l *gpu.Launch) { l.Grid[1] = 65536 }, gpu.ErrLimit, "65535"},
			"too much shared":   {func(l *gpu.Launch) { l.SharedBytes = 1 << 20 }, gpu.ErrLimit, "shared"},
			"a pointer nowhere": {func(l *gpu.Launch) { l.Args[1] = gpu.PointerArg(16) }, gpu.ErrArgument, "argument 1"},
		} {
			l := a.launch
			l.Args = slices.Clone(l.Args)
			c.change(&l)
			err := d.Launch(l)
			var le *gpu.LaunchError
			if !errors.Is(err, c.is) || !errors.As(err, &le) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), l.Shape()) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Which parameters a kernel takes is known to drivers since CUDA 12.4.
		l := a.launch
		l.Args = l.Args[:3]
		if err := d.Launch(l); err == nil {
			t.Log("this driver cannot tell the number of a kernel's parameters")
		} else if !errors.Is(err, gpu.ErrArgument) {
			t.Errorf("an argument less: %v", err)
		}
		// A launch with more shared memory than it gets without asking.
		l = a.launch
		l.SharedBytes = uint32(d.Info().SharedOptInBytes)
		if err := d.Launch(l); err != nil {
			t.Errorf("%d bytes of shared memory: %v", l.SharedBytes, err)
		}
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
	}
}

func TestCapture(t *testing.T) {
	d := open(t, driver.Options{})
	a := newAdd(t, d, 1000)
	grapher := d.(gpu.Grapher)
	forbidden := map[string]func() error{
		"upload":   func() error { return d.Upload(a.out, make([]byte, 4)) },
		"download": func() error { return d.Download(make([]byte, 4), a.out) },
		"alloc":    func() error { return second(d.Alloc(4)) },
		"free":     func() error { return d.Free(a.out) },
		"sync":     d.Sync,
		"symbol":   func() error { return second(d.Symbol("minfer_bounds_" + a.launch.Kernel)) },
		"load":     func() error { return gpu.LoadVariants(d, []*kernel.Variant{a.variant}) },
	}
	g, err := grapher.Capture(func() error {
		for name, call := range forbidden {
			if err := call(); err == nil || !strings.Contains(err.Error(), "while launches are recorded") {
				t.Errorf("%s while recording: %v", name, err)
			}
		}
		return errors.Join(d.Fill(a.out, 0, int64(4*a.n)), d.Launch(a.launch))
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := a.sums(t); n != 1000 { // out holds the 3 that it was made with: nothing has run yet
		t.Errorf("the recording ran: %d of 1000 are as they were", n)
	}
	for range 3 {
		if err := d.Fill(a.out, 0xff, int64(4*a.n)); err != nil {
			t.Fatal(err)
		}
		if err := g.Replay(); err != nil {
			t.Fatal(err)
		}
		if n := a.sums(t); n != 1000 {
			t.Errorf("after a replay %d of 1000 sums are right", n)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := grapher.Capture(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a recording that fails: %v", err)
	}
	if err := d.Launch(a.launch); err != nil {
		t.Errorf("a launch after it: %v", err)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// A fault ends the GPU's context, so it is made in another process, which then must say which launch it was.
func TestFaultNamesTheLaunch(t *testing.T) {
	const variable = "MINFER_TEST_FAULT"
	if os.Getenv(variable) == "" {
		needGPU(t)
		for _, sync := range []string{"0", "1"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestFaultNamesTheLaunch$", "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+sync)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Errorf("%s=%s: %v:\n%s", variable, sync, err, out)
			}
		}
		return
	}
	d, err := driver.Open(t.Context(), 0, driver.Options{Sync: os.Getenv(variable) == "1"})
	if err != nil {
		t.Fatal(err)
	}
	a := newAdd(t, d, 1000)
	bad := a.launch
	bad.Args = slices.Clone(bad.Args)
	const many = 1 << 30 // elements: far past the end of anything
	bad.Grid, bad.Args[3] = a.variant.Grid(&kernel.Query{Cols: many}), gpu.I32(many)
	err = errors.Join(d.Launch(bad), d.Sync())
	var le *gpu.LaunchError
	if !errors.Is(err, gpu.ErrFault) || !errors.As(err, &le) || le.Launch.Kernel != a.variant.Symbol || !strings.Contains(err.Error(), bad.Shape()) {
		t.Errorf("the fault: %v", err)
	}
	if err := d.Launch(a.launch); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("a launch after it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
}

// What is wrong with a module is said by the unit's name, and by the driver's own compiler.
func TestBadModules(t *testing.T) {
	d := open(t, driver.Options{PTX: true})
	good := ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry test_kernel()\n{\nret;\n}\n"
	load := func(name, text string, kernels ...string) error {
		return d.Load(gpu.Module{Name: "test", Units: []gpu.Unit{{Name: name, Kernels: kernels, Codes: []gpu.Code{{Arch: 80, Data: []byte(text)}}}}})
	}
	for _, c := range []struct{ name, text, kernel, says string }{
		{"version.cu", strings.Replace(good, "7.8", "99.9", 1), "test_kernel", "PTX 99.9"},
		{"target.cu", strings.Replace(good, "sm_80", "sm_990", 1), "test_kernel", "sm_990"},
		{"half.cu", good[:len(good)-8], "test_kernel", "cut"},
		{"nonsense.cu", strings.Replace(good, "ret;", "no such instruction;", 1), "test_kernel", "the driver's compiler says"},
		{"absent.cu", good, "other_kernel", "does not define kernel other_kernel"},
		{"stale.cu", "", "", "not in the archive"},
	} {
		u := gpu.Unit{Name: c.name, Source: "// " + c.name, Codes: []gpu.Code{{Arch: 80, Data: []byte(c.text)}}}
		if c.kernel != "" {
			u.Kernels = []string{c.kernel}
		}
		if c.text == "" {
			u.Codes = nil
		}
		if err := d.Load(gpu.Module{Name: "test", Units: []gpu.Unit{u}}); err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := load("good.cu", good, "test_kernel"); err != nil {
		t.Fatal(err)
	}
	if err := load("good.cu", good, "test_kernel"); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	if err := load("again.cu", good, "test_kernel"); err == nil || !strings.Contains(err.Error(), "good.cu and by again.cu") {
		t.Errorf("a kernel of two units: %v", err)
	}
	if err := d.Load(gpu.Module{Units: []gpu.Unit{{Name: "good.cu", Source: "changed"}}}); err == nil || !strings.Contains(err.Error(), "good.cu is already loaded with another text") {
		t.Errorf("another text of the same name: %v", err)
	}
}

// Every kernel of every gate is there, in native code and in PTX, with the bounds of its gate.
func TestEveryKernelIsThere(t *testing.T) {
	for _, o := range []driver.Options{{}, {PTX: true}} {
		d := open(t, o)
		var variants []*kernel.Variant
		for _, e := range gate.All {
			for _, s := range e.Steps {
				if s.Variant.Arch <= d.Info().Arch {
					variants = append(variants, s.Variant)
				}
			}
		}
		if err := gpu.LoadVariants(d, variants); err != nil {
			t.Error(err)
		}
		t.Logf("%d kernels", len(variants))
	}
}

// The kernels count what they process, if they are asked to.
func TestWitness(t *testing.T) {
	needGPU(t)
	if !haveCompiler(t) {
		t.Skip("there is no nvcc to compile kernels with the witness")
	}
	if _, ok := open(t, driver.Options{}).(gpu.Witness); ok {
		t.Error("a driver without the witness offers it")
	}
	d := open(t, driver.Options{Witness: true})
	headers := map[string]string{}
	text, err := cuda.Sources.ReadFile("minfer.cuh")
	if err != nil {
		t.Fatal(err)
	}
	headers["minfer.cuh"] = string(text)
	source := "#include \"minfer.cuh\"\nMINFER_KERNEL(test_cover, 32, (int rows, int repeat)) {\n" +
		"  if ((int)blockIdx.x < rows) MINFER_COVER(blockIdx.x, threadIdx.x);\n  if (repeat && threadIdx.x == 5) MINFER_COVER(blockIdx.x, 5);\n}\n"
	if err := d.Load(gpu.Module{Name: "test", Headers: headers, Units: []gpu.Unit{{Name: "test_cover.cu", Source: source, Kernels: []string{"test_cover"}}}}); err != nil {
		t.Fatal(err)
	}
	w := d.(gpu.Witness)
	cover := func(rows, repeat int32) gpu.Coverage {
		t.Helper()
		if err := w.StartWitness(gpu.CoverSpace{Rows: 4, Units: 32, Tokens: 1}); err != nil {
			t.Fatal(err)
		}
		if err := d.Launch(gpu.Launch{Kernel: "test_cover", Grid: [3]uint32{5, 1, 1}, Block: [3]uint32{32, 1, 1}, Args: []gpu.Arg{gpu.I32(rows), gpu.I32(repeat)}}); err != nil {
			t.Fatal(err)
		}
		c, err := w.StopWitness()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := cover(4, 0).Exact(); err != nil {
		t.Error(err)
	}
	if c := cover(3, 0); c.Missing != 32 || c.Repeated != 0 || c.Outside != 0 {
		t.Errorf("a row less: %v", c.Exact())
	}
	if c := cover(5, 1); c.Missing != 0 || c.Repeated != 4 || c.Outside != 33 {
		t.Errorf("a row more, a unit twice: %v", c.Exact())
	}
	if _, err := w.StopWitness(); err == nil {
		t.Error("stopped twice")
	}
}

func BenchmarkUpload(b *testing.B) {
	d := open(b, driver.Options{})
	const n = 256 << 20
	p, err := d.Alloc(n)
	if err != nil {
		b.Fatal(err)
	}
	data := random(n)
	b.SetBytes(n)
	for b.Loop() {
		if err := d.Upload(p, data); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Sync(); err != nil {
		b.Fatal(err)
	}
}

// Launches one by one, and the same recorded.
func BenchmarkLaunches(b *testing.B) {
	d := open(b, driver.Options{})
	a := newAdd(b, d, 256)
	const launches = 400
	all := func() error {
		for range launches {
			if err := d.Launch(a.launch); err != nil {
				return err
			}
		}
		return nil
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := errors.Join(f(), d.Sync()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*launches), "ns/launch")
		})
	}
	run("eager", all)
	g, err := d.(gpu.Grapher).Capture(all)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	run("replay", g.Replay)
}
