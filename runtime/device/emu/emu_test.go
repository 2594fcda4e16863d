package emu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/x448/float16"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// vocabularyFolder holds minfer.cuh and a kernel that says every word of it.
const vocabularyFolder = "../../../gen/emit/cuda/vocabulary"

// testModule is the kernels of testdata with the vocabulary they are written in.
var testModule = sync.OnceValues(func() (gpu.Module, error) {
	header, err := os.ReadFile(filepath.FromSlash(vocabularyFolder + "/minfer.cuh"))
	if err != nil {
		return gpu.Module{}, err
	}
	m := gpu.Module{Name: "testdata", Headers: map[string]string{"minfer.cuh": string(header)}}
	files, err := filepath.Glob("testdata/*.cu")
	for _, f := range append(files, filepath.FromSlash(vocabularyFolder+"/testdata/words.cu")) {
		text, err := os.ReadFile(f)
		if err != nil {
			return m, err
		}
		m.Units = append(m.Units, gpu.Unit{Name: filepath.Base(f), Source: string(text)})
	}
	return m, err
})

// openWith returns a driver with the kernels of testdata, or skips the test where there is no C++ compiler.
func openWith(t testing.TB, options Options) *Driver {
	t.Helper()
	d, err := Open(t.Context(), options)
	if errors.Is(err, ErrNoCompiler) {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	m, err := testModule()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Load(m); err != nil {
		t.Fatal(err)
	}
	return d
}

func open(t testing.TB) *Driver { return openWith(t, Options{}) }

// upload makes a buffer of a slice's bytes.
func upload[T any](t testing.TB, d *Driver, s []T) gpu.Pointer {
	t.Helper()
	data, err := binary.Append(nil, binary.LittleEndian, s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Alloc(int64(len(data)))
	if err == nil {
		err = d.Upload(p, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// space makes a buffer for n values.
func space[T any](t testing.TB, d *Driver, n int) gpu.Pointer {
	t.Helper()
	p, err := d.Alloc(int64(binary.Size(make([]T, n))))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func download[T any](t testing.TB, d *Driver, p gpu.Pointer, n int) []T {
	t.Helper()
	s := make([]T, n)
	data := make([]byte, binary.Size(s))
	if err := d.Download(data, p); err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Decode(data, binary.LittleEndian, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// one is a launch of one block.
func one(kernel string, threads int, args ...gpu.Arg) gpu.Launch {
	return many(kernel, 1, threads, args...)
}

func many(kernel string, blocks, threads int, args ...gpu.Arg) gpu.Launch {
	return gpu.Launch{Kernel: kernel, Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Args: args}
}

func launch(t testing.TB, d *Driver, l gpu.Launch) {
	t.Helper()
	if err := d.Launch(l); err != nil {
		t.Fatal(err)
	}
}

var ptr = gpu.PointerArg

// same compares floats by their bits, so that NaN equals itself and the zeros differ.
func same(t testing.TB, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s[%d] = %v (0x%08x), want %v (0x%08x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func randomFloats(n int, seed uint64) []float32 {
	r, x := random(seed), make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// forWgmma are the macros that minfer.cuh makes the products of warpgroups with, and nobody else.
var forWgmma = regexp.MustCompile(`^MINFER_(WGMMA|SUMS\d+|REGISTERS\d+)$`)

// TestEachWordHasTwoMeanings: what minfer.cuh defines for nvcc, the emulator's header defines too, and words.cu says.
func TestEachWordHasTwoMeanings(t *testing.T) {
	open(t) // compiles words.cu
	m, err := testModule()
	if err != nil {
		t.Fatal(err)
	}
	words := m.Units[len(m.Units)-1].Source
	seen := map[string]bool{}
	for _, f := range regexp.MustCompile(`(?m)^(?:template <[^>]*> )?MINFER_DEVICE [\w*]+(?: [\w*]+)?? (\w+)\(`).FindAllStringSubmatch(m.Headers["minfer.cuh"], -1) {
		if name := f[1]; !strings.HasPrefix(name, "minfer_") {
			seen[name] = true
		}
	}
	for _, f := range regexp.MustCompile(`(?m)^template <[^>]*> struct (\w+)|^  MINFER_DEVICE void (wgmma_bf16)\(`).FindAllStringSubmatch(m.Headers["minfer.cuh"], -1) {
		seen[f[1]+f[2]] = true
	}
	for _, f := range regexp.MustCompile(`(?m)^#define (MINFER_\w+)`).FindAllStringSubmatch(m.Headers["minfer.cuh"], -1) {
		if name := f[1]; name != "MINFER_FULL_WARP" && !forWgmma.MatchString(name) {
			seen[name] = true
		}
	}
	if len(seen) < 70 {
		t.Fatalf("only %d words found in minfer.cuh", len(seen))
	}
	for name := range seen {
		word := regexp.MustCompile(`\b` + name + `\b`)
		if !word.MatchString(words) && name != "MINFER_ARCH" {
			t.Errorf("words.cu does not say %s", name)
		}
		if !word.MatchString(hostFile(headerName)) {
			t.Errorf("%s does not define %s", headerName, name)
		}
	}
}

func TestHalvesWiden(t *testing.T) {
	d := open(t)
	const n = 65536
	f16, bf16 := space[float32](t, d, n), space[float32](t, d, n)
	launch(t, d, many("widen_halves", n/256, 256, ptr(f16), ptr(bf16), gpu.I32(n)))
	wantF, wantB := make([]float32, n), make([]float32, n)
	for i := range n {
		wantF[i], wantB[i] = float16.Frombits(uint16(i)).Float32(), math.Float32frombits(uint32(i)<<16)
		if math.IsNaN(float64(wantF[i])) { // x448/float16 quiets signalling NaNs; the payload is not promised
			wantF[i] = 0
		}
	}
	got := download[float32](t, d, f16, n)
	for i := range got {
		if isNaN := got[i] != got[i]; isNaN != float16.Frombits(uint16(i)).IsNaN() {
			t.Fatalf("f16 0x%04x widens to %v", i, got[i])
		} else if isNaN {
			got[i] = 0
		}
	}
	same(t, "f16", got, wantF)
	same(t, "bf16", download[float32](t, d, bf16, n), wantB)
}

// TestFloatsNarrow feeds, for each half, its value, the midpoints to both neighbours and one unit to either side of those.
func TestFloatsNarrow(t *testing.T) {
	d := open(t)
	var x []float32
	around := func(v, next float32) {
		mid := math.Float32bits((v + next) / 2)
		x = append(x, v, math.Float32frombits(mid-1), math.Float32frombits(mid), math.Float32frombits(mid+1))
	}
	for i := range 0x7c00 {
		v, next := float16.Frombits(uint16(i)).Float32(), float16.Frombits(uint16(i+1)).Float32()
		if i == 0x7bff {
			next = 65536
		}
		around(v, next)
		around(-v, -next)
	}
	for i := 0; i < 0x7f80; i++ {
		around(math.Float32frombits(uint32(i)<<16), math.Float32frombits(uint32(i+1)<<16))
	}
	x = append(x, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xff800001), 0.5, 1.5, 2.5, -0.5, -1.5, 1<<31, -1<<31, 1<<31-128, 3e9, -3e9)
	n := len(x)
	px, pf, pb, pi := upload(t, d, x), space[uint16](t, d, n), space[uint16](t, d, n), space[int32](t, d, n)
	pairsF, pairsB := space[uint32](t, d, n), space[uint32](t, d, n)
	launch(t, d, many("narrow_floats", (n+255)/256, 256, ptr(px), ptr(pf), ptr(pb), ptr(pairsF), ptr(pairsB), ptr(pi), gpu.I32(int32(n))))
	twoF, twoB := download[uint32](t, d, pairsF, n), download[uint32](t, d, pairsB, n)
	f, b, whole := download[uint16](t, d, pf, n), download[uint16](t, d, pb, n), download[int32](t, d, pi, n)
	for i, v := range x {
		wantF := float16.Fromfloat32(v).Bits()
		bits := math.Float32bits(v)
		upper, lower := uint16(bits>>16), bits&0xffff
		wantB := upper
		if lower > 0x8000 || lower == 0x8000 && upper&1 == 1 {
			wantB++
		}
		even := math.RoundToEven(float64(v))
		wantI := int32(max(math.MinInt32, min(math.MaxInt32, even)))
		if v != v {
			wantF, wantB, wantI = 0x7fff, 0x7fff, 0
		}
		if f[i] != wantF || b[i] != wantB || whole[i] != wantI {
			t.Fatalf("%g (0x%08x): f16 0x%04x, bf16 0x%04x, whole %d; want 0x%04x, 0x%04x, %d", v, bits, f[i], b[i], whole[i], wantF, wantB, wantI)
		}
		if j := n - 1 - i; twoF[i] != uint32(f[i])|uint32(f[j])<<16 || twoB[i] != uint32(b[i])|uint32(b[j])<<16 {
			t.Fatalf("%g and %g: pairs 0x%08x and 0x%08x, halves 0x%04x, 0x%04x and 0x%04x, 0x%04x", v, x[j], twoF[i], twoB[i], f[i], f[j], b[i], b[j])
		}
	}
}

func TestExponentsWiden(t *testing.T) {
	d := open(t)
	e, half := space[float32](t, d, 256), space[float32](t, d, 256)
	launch(t, d, one("widen_exponents", 256, ptr(e), ptr(half)))
	gotE, gotHalf := download[float32](t, d, e, 256), download[float32](t, d, half, 256)
	for i := range 256 {
		if want := math.Ldexp(1, i-127); float64(gotE[i]) != want && !(i == 255 && math.IsInf(float64(gotE[i]), 1)) {
			t.Errorf("e8m0 %d = %g, want %g", i, gotE[i], want)
		}
		if want := math.Ldexp(1, i-128); float64(gotHalf[i]) != want {
			t.Errorf("half of e8m0 %d = %g, want %g", i, gotHalf[i], want)
		}
	}
}

func TestIntegers(t *testing.T) {
	d := open(t)
	r, n := random(3), 4096
	a, b, c := make([]uint32, n), make([]uint32, n), make([]uint32, n)
	for i := range n {
		a[i], b[i], c[i] = r.Uint32(), r.Uint32(), r.Uint32()
	}
	a[0], b[0], c[0] = 0x80808080, 0x80808080, 0x7fffffff // the sum wraps
	out := space[uint32](t, d, 6*n)
	launch(t, d, many("integers", n/256, 256, ptr(upload(t, d, a)), ptr(upload(t, d, b)), ptr(upload(t, d, c)), ptr(out), gpu.I32(int32(n))))
	var want []uint32
	for i := range n {
		signed, unsigned, perm := c[i], c[i], uint32(0)
		bytes := uint64(b[i])<<32 | uint64(a[i])
		for k := 0; k < 32; k += 8 {
			signed += uint32(int32(int8(a[i]>>k)) * int32(int8(b[i]>>k)))
			unsigned += uint32(int32(uint8(a[i]>>k)) * int32(int8(b[i]>>k)))
			s := c[i] >> (k / 2) & 15
			v := uint32(uint8(bytes >> (8 * (s & 7))))
			if s >= 8 {
				v = uint32(uint8(int8(v) >> 7))
			}
			perm |= v << k
		}
		funnel := uint32((uint64(b[i])<<32 | uint64(a[i])) >> (c[i] & 31))
		want = append(want, signed, unsigned, perm, funnel, uint32(min(int32(a[i]), int32(b[i]))), max(a[i], b[i]))
	}
	if diff := cmp.Diff(want, download[uint32](t, d, out, 6*n)); diff != "" {
		t.Error(diff)
	}
}

func TestFloatsRoundAsWritten(t *testing.T) {
	d := open(t)
	const n = 4096
	a, b, c := randomFloats(n, 4), randomFloats(n, 5), randomFloats(n, 6)
	a[0], b[0], c[0] = 1+0x1p-12, 1-0x1p-12, -1 // the two roundings differ
	twice, once, root, bits := space[float32](t, d, n), space[float32](t, d, n), space[float32](t, d, n), space[uint32](t, d, n)
	launch(t, d, many("floats", n/256, 256, ptr(upload(t, d, a)), ptr(upload(t, d, b)), ptr(upload(t, d, c)), ptr(twice), ptr(once), ptr(root), ptr(bits), gpu.I32(n)))
	wantTwice, wantOnce, wantBits := make([]float32, n), make([]float32, n), make([]uint32, n)
	gotRoot := download[float32](t, d, root, n)
	differ := 0
	for i := range n {
		wantTwice[i] = float32(a[i]*b[i]) + c[i]
		wantOnce[i] = fma32(a[i], b[i], c[i])
		wantBits[i] = math.Float32bits(-a[i])
		if wantTwice[i] != wantOnce[i] {
			differ++
		}
		A, B, C := float64(a[i]), float64(b[i]), float64(c[i])
		want := 1/math.Sqrt(math.Abs(A)) + math.Exp(-math.Abs(B)) + math.Sqrt(math.Abs(C)) + min(A, B) + max(B, C)
		if math.Abs(float64(gotRoot[i])-want) > 1e-6*(math.Abs(want)+1/math.Sqrt(math.Abs(A))+2) {
			t.Errorf("root %d = %g, want %g", i, gotRoot[i], want)
		}
	}
	if differ < 100 {
		t.Errorf("only %d of %d cases tell one rounding from two", differ, n)
	}
	same(t, "a*b+c", download[float32](t, d, twice, n), wantTwice)
	same(t, "fmaf", download[float32](t, d, once, n), wantOnce)
	if diff := cmp.Diff(wantBits, download[uint32](t, d, bits, n)); diff != "" {
		t.Error(diff)
	}
}

// fma32 rounds a*b+c once: the product is exact in float64, and the sum's rounding there is repaired to odd where it matters.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	// Knuth's two-sum gives what s lost; make s odd if it lost something, so that rounding it again is rounding the exact sum.
	z := s - p
	lost := (p - (s - z)) + (q - z)
	if lost != 0 && math.Float64bits(s)&1 == 0 {
		if (lost > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

func TestParameters(t *testing.T) {
	d := open(t)
	out := space[uint64](t, d, 5)
	launch(t, d, one("parameters", 1, ptr(out), gpu.I32(-2), gpu.U32(4e9), gpu.I64(-1<<40), gpu.F32(1.5), ptr(0)))
	minus2, far := int64(-2), int64(-1<<40)
	if diff := cmp.Diff([]uint64{uint64(minus2), 4e9, uint64(far), 0x3fc00000, 1}, download[uint64](t, d, out, 5)); diff != "" {
		t.Error(diff)
	}
}

func TestLoadsAndStores(t *testing.T) {
	d := open(t)
	in := make([]byte, 64)
	for i := range in {
		in[i] = byte(i*7 + 1)
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(in[i:]) }
	out := space[uint32](t, d, 18)
	launch(t, d, one("load_widths", 1, ptr(upload(t, d, in)), ptr(out)))
	want := []uint32{uint32(in[1]), at(2) & 0xffff, at(4), at(8), at(12), at(16), at(20), at(24), at(28), at(32), at(36), at(40), at(44), at(3), at(6), at(12), at(12), at(60)}
	if diff := cmp.Diff(want, download[uint32](t, d, out, 18)); diff != "" {
		t.Error(diff)
	}
	stored := upload(t, d, make([]uint32, 8))
	launch(t, d, one("store_widths", 1, ptr(stored)))
	if diff := cmp.Diff([]uint32{1, 2, 0, 0, 3, 4, 5, 6}, download[uint32](t, d, stored, 8)); diff != "" {
		t.Error(diff)
	}
}

func TestCoordinates(t *testing.T) {
	d := open(t)
	grid, block := [3]uint32{3, 2, 2}, [3]uint32{5, 4, 3}
	n := 12 * 60
	out := space[uint32](t, d, 8*n)
	launch(t, d, gpu.Launch{Kernel: "coordinates", Grid: grid, Block: block, Args: []gpu.Arg{ptr(out)}})
	var want []uint32
	for b := range uint32(12) {
		for i := range uint32(60) {
			want = append(want, i%5, i/5%4, i/20, b%3, b/3%2, b/6, i%32, i/32)
		}
	}
	if diff := cmp.Diff(want, download[uint32](t, d, out, 8*n)); diff != "" {
		t.Error(diff)
	}
}

func TestSharedMemory(t *testing.T) {
	d := open(t)
	in := randomFloats(1024, 7)
	out := space[float32](t, d, 1024)
	launch(t, d, gpu.Launch{Kernel: "transpose_static", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 8, 1}, Args: []gpu.Arg{ptr(upload(t, d, in)), ptr(out)}})
	want := make([]float32, 1024)
	for i := range want {
		want[i] = in[i%32*32+i/32]
	}
	same(t, "transposed", download[float32](t, d, out, 1024), want)

	for _, threads := range []int{4, 32, 100, 256, 1024} {
		in := make([]uint32, 3*threads)
		var want []uint32
		for i := range in {
			in[i] = uint32(i)
		}
		for part := range slices.Chunk(slices.Clone(in), threads) {
			slices.Reverse(part)
			want = append(want, part...)
		}
		out := space[uint32](t, d, len(in))
		l := many("reverse_dynamic", 3, threads, ptr(upload(t, d, in)), ptr(out))
		l.SharedBytes = uint32(4 * threads)
		launch(t, d, l)
		if diff := cmp.Diff(want, download[uint32](t, d, out, len(in))); diff != "" {
			t.Errorf("%d threads: %s", threads, diff)
		}
	}
}

// TestFreshMemoryIsNaN: twice, since a second block finds the first one's shared memory.
func TestFreshMemoryIsNaN(t *testing.T) {
	d := open(t)
	out := space[float32](t, d, 64)
	for _, what := range []string{"fresh global memory", "the first block's shared memory", "the second block's shared memory"} {
		for i, v := range download[float32](t, d, out, 64) {
			if v == v {
				t.Errorf("%s: %g at %d", what, v, i)
			}
		}
		l := one("fresh_shared", 32, ptr(out))
		l.SharedBytes = 128
		launch(t, d, l)
	}
}

func TestTable(t *testing.T) {
	d := open(t)
	out := space[uint32](t, d, 8)
	launch(t, d, one("table", 8, ptr(out)))
	if diff := cmp.Diff([]uint32{0, 2, 8, 18, 32, 50, 72, 98}, download[uint32](t, d, out, 8)); diff != "" {
		t.Error(diff)
	}
}

func TestShuffles(t *testing.T) {
	d := open(t)
	in, want := make([]int32, 32), []int32{}
	for i := range in {
		in[i] = int32(i*i - 100)
	}
	for lane := range 32 {
		for _, x := range []int{1, 2, 4, 8, 16, 31} {
			want = append(want, in[lane^x])
		}
		for _, by := range []int{1, 5, 31} {
			from := lane + by
			if from > 31 {
				from = lane
			}
			want = append(want, in[from])
		}
		want = append(want, in[0], in[lane*7%32], in[8])
	}
	out := space[int32](t, d, 12*32)
	launch(t, d, one("shuffles", 32, ptr(upload(t, d, in)), ptr(out)))
	if diff := cmp.Diff(want, download[int32](t, d, out, 12*32)); diff != "" {
		t.Error(diff)
	}

	f, l := randomFloats(32, 8), make([]uint64, 32)
	wantF, wantL := make([]float32, 32), make([]uint64, 32)
	for i := range l {
		l[i] = uint64(i) << 40
	}
	for i := range l {
		wantF[i], wantL[i] = f[i^3], l[i]
		if i < 28 {
			wantL[i] = l[i+4]
		}
	}
	fo, lo := space[float32](t, d, 32), space[uint64](t, d, 32)
	launch(t, d, one("shuffle_types", 32, ptr(upload(t, d, f)), ptr(upload(t, d, l)), ptr(fo), ptr(lo)))
	same(t, "floats", download[float32](t, d, fo, 32), wantF)
	if diff := cmp.Diff(wantL, download[uint64](t, d, lo, 32)); diff != "" {
		t.Error(diff)
	}
}

func TestShufflesOfParts(t *testing.T) {
	d := open(t)
	in := randomFloats(32, 9)
	want := slices.Clone(in)
	for octet := range 4 {
		for range octet + 1 {
			for _, x := range []int{1, 2, 4} {
				before := slices.Clone(want)
				for lane := 8 * octet; lane < 8*octet+8; lane++ {
					want[lane] = before[lane] + before[lane^x]
				}
			}
		}
	}
	out := space[float32](t, d, 32)
	launch(t, d, one("octets", 32, ptr(upload(t, d, in)), ptr(out)))
	same(t, "octets", download[float32](t, d, out, 32), want)
}

func TestWarpReductions(t *testing.T) {
	d := open(t)
	in := randomFloats(256, 10)
	want, sums := make([]float32, 512), make([]float32, 256)
	for w := range 8 {
		v := slices.Clone(in[32*w : 32*w+32])
		for x := 16; x > 0; x /= 2 {
			before := slices.Clone(v)
			for i := range v {
				v[i] = before[i] + before[i^x]
			}
		}
		for i := range v {
			sums[32*w+i] = v[i]
			want[2*(32*w+i)], want[2*(32*w+i)+1] = v[i], slices.Max(in[32*w:32*w+32])
		}
	}
	out := space[float32](t, d, 512)
	launch(t, d, one("warp_reductions", 256, ptr(upload(t, d, in)), ptr(out)))
	same(t, "reductions", download[float32](t, d, out, 512), want)
	launch(t, d, one("butterfly_sum", 256, ptr(upload(t, d, in)), ptr(out)))
	same(t, "butterfly", download[float32](t, d, out, 256), sums)
}

func TestVotes(t *testing.T) {
	d := open(t)
	for _, positive := range []uint32{0, 0xffffffff, 0x80000001, 0x0f0f0000} {
		in, want := make([]int32, 32), []uint32{}
		for i := range in {
			in[i] = int32(positive>>i&1)*2 - 1
			all := uint32(0)
			if positive == 0xffffffff {
				all = 1
			}
			want = append(want, positive, min(positive, 1), all)
		}
		out := space[uint32](t, d, 96)
		launch(t, d, one("votes", 32, ptr(upload(t, d, in)), ptr(out)))
		if diff := cmp.Diff(want, download[uint32](t, d, out, 96)); diff != "" {
			t.Errorf("0x%08x: %s", positive, diff)
		}
	}
}

func TestLanesThatHaveLeft(t *testing.T) {
	d := open(t)
	out := space[float32](t, d, 16)
	launch(t, d, one("early_exit", 32, ptr(out)))
	got := download[float32](t, d, out, 16)
	for i := range 8 {
		sum := func(i int) float32 { return float32(i) + float32(i^1) }
		if want := sum(i) + sum(i^4); got[i] != want {
			t.Errorf("lane %d: %g, want %g", i, got[i], want)
		}
		if gone := got[8+i]; (gone != gone) != (i == 1) {
			t.Errorf("lane %d reads %g from a lane that has left or from itself", i, gone)
		}
	}
}

func TestMatrixBytes(t *testing.T) {
	d := open(t)
	r := random(11)
	a, b, c := make([]int8, 16*32), make([]int8, 32*8), make([]int32, 16*8)
	for i := range a {
		a[i] = int8(r.Uint32())
	}
	for i := range b {
		b[i] = int8(r.Uint32())
	}
	for i := range c {
		c[i] = int32(r.Uint32())
	}
	want := slices.Clone(c)
	for i := range want {
		for k := range 32 {
			want[i] += int32(a[i/8*32+k]) * int32(b[k*8+i%8])
		}
	}
	out := space[int32](t, d, 128)
	launch(t, d, one("mma_bytes", 32, ptr(upload(t, d, a)), ptr(upload(t, d, b)), ptr(upload(t, d, c)), ptr(out)))
	if diff := cmp.Diff(want, download[int32](t, d, out, 128)); diff != "" {
		t.Error(diff)
	}
}

func TestMatrixHalves(t *testing.T) {
	d := open(t)
	for kind, widen := range []func(uint16) float32{
		func(h uint16) float32 { return float16.Frombits(h).Float32() },
		func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) },
	} {
		narrow := func(x float32) uint16 {
			if kind == 0 {
				return float16.Fromfloat32(x).Bits()
			}
			return uint16(math.Float32bits(x) >> 16)
		}
		a, b := make([]uint16, 256), make([]uint16, 128)
		for i, x := range randomFloats(384, 12) {
			if i < 256 {
				a[i] = narrow(x)
			} else {
				b[i-256] = narrow(x)
			}
		}
		c := randomFloats(128, 13)
		product := func(c []float32) []float32 {
			want := make([]float32, 128)
			for i := range want {
				sum := float64(c[i])
				for k := range 16 {
					sum += float64(widen(a[i/8*16+k])) * float64(widen(b[k*8+i%8]))
				}
				want[i] = float32(sum)
			}
			return want
		}
		pa, pb, out := upload(t, d, a), upload(t, d, b), space[float32](t, d, 128)
		launch(t, d, one("mma_halves", 32, ptr(pa), ptr(pb), ptr(upload(t, d, c)), ptr(out), gpu.I32(int32(kind))))
		same(t, fmt.Sprint("kind ", kind), download[float32](t, d, out, 128), product(c))
		if kind == 0 {
			launch(t, d, one("mma_ldmatrix", 32, ptr(pa), ptr(pb), ptr(out)))
			same(t, "by ldmatrix", download[float32](t, d, out, 128), product(make([]float32, 128)))
		}
	}
}

// warpgroups is a launch of a kernel of testdata/wgmma.cu, with its operands and where its sums go.
type warpgroups struct {
	gpu.Launch
	columns int
	a, b    []uint16
	y       gpu.Pointer
}

func newWarpgroups(t testing.TB, d *Driver, columns, wrong int) warpgroups {
	t.Helper()
	w := warpgroups{columns: columns, a: make([]uint16, 128*64), b: make([]uint16, columns*64), y: space[float32](t, d, 128*columns)}
	for i, x := range randomFloats(len(w.a)+len(w.b), uint64(columns)) {
		if narrow := uint16(math.Float32bits(x) >> 16); i < len(w.a) {
			w.a[i] = narrow
		} else {
			w.b[i-len(w.a)] = narrow
		}
	}
	w.Launch = one(fmt.Sprint("wgmma_", columns), 256, ptr(upload(t, d, w.a)), ptr(upload(t, d, w.b)), ptr(w.y), gpu.I32(int32(wrong)))
	w.SharedBytes = uint32(1024 + 128*(128+columns))
	return w
}

// want is the sums over the first numbers of each row, 16 in each product.
func (w warpgroups) want(numbers int) []float32 {
	sums := make([]float32, 128*w.columns)
	for i := range sums {
		for k := 0; k < numbers; k += 16 {
			sum := float64(sums[i])
			for j := k; j < k+16; j++ {
				sum += float64(math.Float32frombits(uint32(w.a[i/w.columns*64+j])<<16)) * float64(math.Float32frombits(uint32(w.b[i%w.columns*64+j])<<16))
			}
			sums[i] = float32(sum)
		}
	}
	return sums
}

func TestWarpgroups(t *testing.T) {
	relaxedToo(t, func(t *testing.T, d *Driver) {
		for _, columns := range []int{64, 128, 160} {
			w := newWarpgroups(t, d, columns, 0)
			for range 2 { // threads upwards and downwards
				launch(t, d, w.Launch)
				same(t, w.Kernel, download[float32](t, d, w.y, 128*columns), w.want(64))
			}
		}
	})
}

func TestTiles(t *testing.T) {
	d := open(t)
	in, want := make([]uint16, 256), make([]uint32, 512)
	for i := range in {
		in[i] = uint16(i*257 + 3)
	}
	for lane := range 32 {
		for tile := range 4 {
			row, col := lane/4, 2*(lane%4)
			straight := uint32(in[64*tile+8*row+col]) | uint32(in[64*tile+8*row+col+1])<<16
			across := uint32(in[64*tile+8*col+row]) | uint32(in[64*tile+8*(col+1)+row])<<16
			want[4*lane+tile], want[128+4*lane+tile] = straight, across
			if tile < 2 {
				want[256+4*lane+tile], want[384+4*lane+tile] = straight, across
			}
		}
	}
	out := upload(t, d, make([]uint32, 512))
	launch(t, d, one("tiles", 32, ptr(upload(t, d, in)), ptr(out)))
	if diff := cmp.Diff(want, download[uint32](t, d, out, 512)); diff != "" {
		t.Error(diff)
	}
}

// rowSum adds as row_sums does: strided by 256, warps by xor, then the warps' sums.
func rowSum(row []float32) float32 {
	v := make([]float32, 256)
	for i, x := range row {
		v[i%256] += x
	}
	butterfly := func(v []float32) float32 {
		v = slices.Clone(v)
		for x := len(v) / 2; x > 0; x /= 2 {
			for i := range x {
				v[i] += v[i+x]
			}
		}
		return v[0]
	}
	partial := make([]float32, 32)
	for w := range 8 {
		partial[w] = butterfly(v[32*w : 32*w+32])
	}
	return butterfly(partial)
}

func TestRowSums(t *testing.T) {
	d := open(t)
	for _, n := range []int{1, 255, 256, 257, 1000} {
		const rows = 77
		x, y, want := randomFloats(rows*n, uint64(n)), space[float32](t, d, rows), make([]float32, rows)
		for r := range want {
			want[r] = rowSum(x[r*n : r*n+n])
		}
		px := upload(t, d, x)
		launch(t, d, many("row_sums", rows, 256, ptr(px), ptr(y), gpu.I32(int32(n))))
		same(t, fmt.Sprint("rows of ", n), download[float32](t, d, y, rows), want)
	}
}

func TestTreeSum(t *testing.T) {
	d := open(t)
	for threads := 1; threads <= 1024; threads *= 2 {
		x, y, want := randomFloats(5*threads, uint64(threads)), space[float32](t, d, 5), make([]float32, 5)
		for b := range want {
			v := slices.Clone(x[b*threads : (b+1)*threads])
			for half := threads / 2; half > 0; half /= 2 {
				for i := range half {
					v[i] += v[i+half]
				}
			}
			want[b] = v[0]
		}
		l := many("tree_sum", 5, threads, ptr(upload(t, d, x)), ptr(y))
		l.SharedBytes = uint32(4 * threads)
		launch(t, d, l)
		same(t, fmt.Sprint(threads, " threads"), download[float32](t, d, y, 5), want)
	}
}

func TestBarriersOfParts(t *testing.T) {
	d := open(t)
	y := space[float32](t, d, 64)
	want := make([]float32, 64)
	for i := range want {
		want[i] = float32(63 - i)
	}
	for range 2 { // leaving before the others come, and after
		launch(t, d, one("early_leavers", 256, ptr(y)))
		same(t, "early leavers", download[float32](t, d, y, 64), want)
	}

	out := space[int32](t, d, 256)
	launch(t, d, many("two_teams", 2, 256, ptr(out)))
	if diff := cmp.Diff(slices.Repeat([]int32{7 + 100*31}, 256), download[int32](t, d, out, 256)); diff != "" {
		t.Error(diff)
	}
}

// relaxedToo runs a test with copies as late as they can be and as early.
func relaxedToo(t *testing.T, test func(t *testing.T, d *Driver)) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%v", relaxed), func(t *testing.T) { test(t, openWith(t, Options{Relaxed: relaxed})) })
	}
}

func TestAsyncCopies(t *testing.T) {
	relaxedToo(t, func(t *testing.T, d *Driver) {
		for tiles := range 9 {
			x, want := randomFloats(max(tiles, 1)*1024, uint64(tiles)), make([]float32, 256)
			for i := range want {
				for k := range tiles {
					v := x[4*(k*256+255-i):]
					want[i] += (v[0] + v[1] + v[2] + v[3]) * float32(k+1)
				}
			}
			y := space[float32](t, d, 256)
			launch(t, d, many("async_pipeline", 2, 256, ptr(upload(t, d, x)), ptr(y), gpu.I32(int32(tiles))))
			same(t, fmt.Sprint(tiles, " tiles"), download[float32](t, d, y, 256), want)
		}
		// n floats and not one more: what lies beyond is not read.
		x, y, want := randomFloats(500, 14), space[float32](t, d, 256), make([]float32, 256)
		for i := range want {
			if k := 4*(255-i) + 3; k < 500 {
				want[i] = x[k]
			}
		}
		launch(t, d, one("async_tail", 256, ptr(upload(t, d, x)), ptr(y), gpu.I32(500)))
		same(t, "tail", download[float32](t, d, y, 256), want)
	})
}

func TestMbarriers(t *testing.T) {
	relaxedToo(t, func(t *testing.T, d *Driver) {
		out, want := space[int32](t, d, 128), make([]int32, 128)
		for i := range want {
			want[i] = int32((i+4)%128 + 4)
		}
		launch(t, d, many("mbar_meeting", 2, 128, ptr(out)))
		if diff := cmp.Diff(want, download[int32](t, d, out, 128)); diff != "" {
			t.Error(diff)
		}
		for _, tiles := range []int{0, 1, 3, 4, 5, 8, 23} {
			const blocks = 3
			r, x, want := random(15), make([]uint32, max(tiles, 1)*256*blocks), make([]uint32, blocks*128)
			for i := range x {
				x[i] = r.Uint32()
			}
			for b := range blocks {
				for k := range tiles {
					for i := range 128 {
						tile := x[(b*tiles+k)*256:]
						want[b*128+i] = want[b*128+i]*3 + tile[i] + tile[i+128]
					}
				}
			}
			y := space[uint32](t, d, blocks*128)
			launch(t, d, many("bulk_ring", blocks, 160, ptr(upload(t, d, x)), ptr(y), gpu.I32(int32(tiles))))
			if diff := cmp.Diff(want, download[uint32](t, d, y, blocks*128)); diff != "" {
				t.Errorf("%d tiles: %s", tiles, diff)
			}
		}
	})
}

func TestLastBlock(t *testing.T) {
	d := open(t)
	for _, n := range []int{1, 256, 257, 50000} {
		blocks := (n + 255) / 256
		x, arrived, y := randomFloats(n, uint64(n)), upload(t, d, []uint32{0}), space[float32](t, d, 1)
		px, parts := upload(t, d, x), space[float32](t, d, blocks)
		var exact float64
		for _, v := range x {
			exact += float64(v)
		}
		var first float32
		for run := range 3 { // the counter is ready for the next run
			if err := d.Fill(y, 0xff, 4); err != nil {
				t.Fatal(err)
			}
			launch(t, d, many("last_block_sum", blocks, 256, ptr(px), ptr(parts), ptr(arrived), ptr(y), gpu.I32(int32(n)), gpu.I32(int32(run%2))))
			got := download[float32](t, d, y, 1)[0]
			if run == 0 {
				first = got
			}
			if got != first || !(math.Abs(float64(got)-exact) <= 1e-3) || download[uint32](t, d, arrived, 1)[0] != 0 {
				t.Errorf("%d elements, run %d: %g, before %g, exactly %g", n, run, got, first, exact)
			}
		}
	}
}

func TestAtomics(t *testing.T) {
	d := open(t)
	const n = 64 * 256
	r, x := random(16), make([]uint32, n)
	for i := range x {
		x[i] = r.Uint32()
	}
	f, i, u, m, key := upload(t, d, []float32{0.5}), upload(t, d, []int32{7}), upload(t, d, []uint32{1}), upload(t, d, []uint32{0}), upload(t, d, []uint64{0})
	launch(t, d, many("atomics", n/256, 256, ptr(f), ptr(i), ptr(u), ptr(m), ptr(key), ptr(upload(t, d, x))))
	at := slices.Index(x, slices.Max(x))
	if f, i, u, m, key := download[float32](t, d, f, 1)[0], download[int32](t, d, i, 1)[0], download[uint32](t, d, u, 1)[0], download[uint32](t, d, m, 1)[0],
		download[uint64](t, d, key, 1)[0]; f != n+0.5 || i != 7-2*n || u != 1+3*n || m != x[at] || key != uint64(x[at])<<32|uint64(at) {
		t.Errorf("sums %g, %d, %d, maxima %d, %d", f, i, u, m, key)
	}
}

func TestSymbols(t *testing.T) {
	d := open(t)
	got, err := d.Symbol("minfer_bounds_last_block_sum")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := binary.Append(nil, binary.LittleEndian, []int64{256, 2, 32, 16384})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := d.Symbol("minfer_bounds_nothing"); !errors.Is(err, gpu.ErrUnknownSymbol) {
		t.Error(err)
	}
}

// TestWitness runs the fault that this project began with: two rounds of 256 threads over a row of 592 units.
func TestWitness(t *testing.T) {
	d := open(t)
	cover := func(space gpu.CoverSpace, launches ...gpu.Launch) gpu.Coverage {
		t.Helper()
		if err := d.StartWitness(space); err != nil {
			t.Fatal(err)
		}
		for _, l := range launches {
			launch(t, d, l)
		}
		c, err := d.StopWitness()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rows := gpu.CoverSpace{Rows: 5, Units: 592, Tokens: 1}
	c := cover(rows, many("cover_units", 5, 256, gpu.I32(592), gpu.I32(2)))
	if c.Missing != 5*80 || c.Repeated != 0 || c.Min != 0 || c.Max != 1 || len(c.FirstMissing) != gpu.CoverageExamples || c.FirstMissing[0] != (gpu.Cell{Unit: 512}) {
		t.Errorf("%+v", c)
	}
	if err := c.Exact(); err == nil || !strings.Contains(err.Error(), "400 of 2960 cells (13.51 %) were never processed, first (row 0, unit 512, token 0)") {
		t.Error(err)
	}
	if err := cover(rows, many("cover_units", 5, 256, gpu.I32(592), gpu.I32(3))).Exact(); err != nil {
		t.Error(err)
	}
	tokens := gpu.CoverSpace{Rows: 4, Units: 32, Tokens: 3}
	l := gpu.Launch{Kernel: "cover_tokens", Grid: [3]uint32{4, 3, 1}, Block: [3]uint32{32, 1, 1}, Args: []gpu.Arg{gpu.I32(0), gpu.I32(0)}}
	if err := cover(tokens, l).Exact(); err != nil {
		t.Error(err)
	}
	twice := l
	twice.Args = []gpu.Arg{gpu.I32(0), gpu.I32(1)}
	c = cover(tokens, l, twice)
	if c.Min != 3 || c.Max != 3 || c.Repeated != 4*32*3 || c.FirstRepeated[0] != (gpu.Cell{Count: 3}) {
		t.Errorf("%+v", c)
	}
	shifted := l
	shifted.Args = []gpu.Arg{gpu.I32(1), gpu.I32(0)}
	c = cover(tokens, shifted)
	if c.Outside != 32*3 || c.Missing != 32*3 || c.FirstOutside[0].Row != 4 {
		t.Errorf("%+v", c)
	}
	launch(t, d, l) // not counted by anybody
	if _, err := d.StopWitness(); err == nil {
		t.Error("a witness that was not started stops")
	}
	if err := d.StartWitness(gpu.CoverSpace{Rows: 1 << 40, Units: 1 << 40, Tokens: 1}); !errors.Is(err, gpu.ErrArgument) {
		t.Error(err)
	}
}

func TestDependentLaunch(t *testing.T) {
	d := open(t)
	y := space[float32](t, d, 32)
	for _, c := range []struct{ dependent, waits, ok bool }{{false, false, true}, {false, true, true}, {true, true, true}, {true, false, false}} {
		waits := int32(0)
		if c.waits {
			waits = 1
		}
		l := one("dependent", 32, ptr(y), gpu.I32(waits))
		l.Dependent = c.dependent
		if err := d.Launch(l); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
