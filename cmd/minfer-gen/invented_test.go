package main

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// user is a program that uses the generated code for an invented format: it reads blocks and prints their values and
// two dot products with ones, f32 little-endian.
const user = `package main

import (
	"encoding/binary"
	"io"
	"log"
	"os"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
)

func main() {
	blocks, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	info, ok := format.ByName("x3_l")
	if !ok || info.Type != 200 {
		log.Fatal("format knows no x3_l: ", info)
	}
	kernels, ok := cpu.For(info.Type)
	if !ok {
		log.Fatal("cpu knows no x3_l")
	}
	values := make([]float32, len(blocks)/info.BlockBytes*info.BlockElems)
	kernels.Dequantize(values, blocks)
	ones := make([]float32, len(values))
	for i := range ones {
		ones[i] = 1
	}
	activations := make([]byte, len(ones)/cpu.ActivationBlockElems*cpu.ActivationBlockBytes)
	cpu.QuantizeActivations(activations, ones)
	values = append(values, kernels.DotF32(blocks, ones), kernels.DotQ8(blocks, activations))
	if err := binary.Write(os.Stdout, binary.LittleEndian, values); err != nil {
		log.Fatal(err)
	}
}
`

// judge runs the conformance suite of the kernels of an invented format on the emulator.
const judge = `package main

import (
	"errors"
	"testing"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/conform"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// A route puts a variant with another value first at its shape, and nowhere else.
func TestRouted(t *testing.T) {
	q := kernel.Query{Rows: 100, Cols: 4096, Tokens: 1, Arch: 90, Weights: "padded", SharedBytes: 232448}
	other, old := q, q
	other.Rows = 101
	old.Arch = 80
	for _, e := range gate.All {
		if e.Family != "matvec-q8" || e.Format != "x3_l" {
			continue
		}
		for want, q := range map[string]*kernel.Query{"v2_thread128": &q, "v2": &other} {
			if v, err := e.Pick(q); err != nil || v.Name != want {
				t.Errorf("%+v: %v, %v; want %s", q, v, err, want)
			}
		}
		if v, err := e.Pick(&old); err != nil || v.Name != "v2" {
			t.Errorf("%+v: %v, %v", old, v, err)
		}
		return
	}
	t.Error("there is no gate")
}

func TestInvented(t *testing.T) {
	if _, err := emu.Open(t.Context(), emu.Options{}); errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	conform.Run(t, conform.Options{
		Open:  func() (gpu.Driver, error) { return emu.Open(t.Context(), emu.Options{Threads: 1}) },
		Match: func(v *kernel.Variant) bool { return v.Format == "x3_l" },
		Brief: true,
	})
}
`

// routes puts a variant first that no spec spells out; the suite judges it with the others.
const routes = `routes: sm90
runs:
  - device: none
    date: "2026-12-01"
    command: a test
    first:
      - {kernel: matvec-q8, format: x3_l, variant: v2, set: {thread: 128}, shape: {rows: 100, cols: 4096, tokens: 1}, figure: none}
`

// TestInventedFormat adds the format of docs/adding-a-format.md to a scratch copy of the repository whose generated
// files are wiped: one YAML file. The generator builds and generates, and the format is usable at once: through the
// spec alone and through the generated Go code, with values that are worked out here by hand, and through its GPU kernels,
// which pass the conformance suite on the emulator.
func TestInventedFormat(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a copy of the repository")
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "adding-a-format.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	spec, _, ok := strings.Cut(rest, "```\n")
	if !ok || !strings.Contains(spec, "format: x3_l\n") {
		t.Fatal("the page has no example")
	}
	scratch := t.TempDir()
	copyTree(t, root, scratch)
	if err := os.RemoveAll(filepath.Join(scratch, "generated")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(scratch, "specs", "formats", "x3_l.yaml"), spec)
	put(t, filepath.Join(scratch, "specs", "routes", "sm90.yaml"), routes)
	put(t, filepath.Join(scratch, "cmd", "user", "main.go"), user)

	blocks, want := inventedBlocks()
	generator := filepath.Join(scratch, "minfer-gen-test")
	goTool(t, scratch, nil, "build", "-o", generator, "./cmd/minfer-gen")

	// Before anything is generated, by the spec alone.
	dequant := exec.Command(generator, "dequant", "--format", "x3_l", "-")
	dequant.Stdin = bytes.NewReader(blocks)
	got, err := dequant.Output()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "minfer-gen dequant", got, want)

	goTool(t, scratch, nil, "generate", ".")
	check := exec.Command(generator, "check")
	check.Dir = scratch
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	out := goTool(t, scratch, blocks, "run", "./cmd/user")
	if len(out) != 4*(len(want)+2) {
		t.Fatalf("the generated code gives %d bytes", len(out))
	}
	compare(t, "generated code", out[:4*len(want)], want)
	var sum, magnitude float64
	for _, y := range want {
		sum += float64(y)
		magnitude += math.Abs(float64(y))
	}
	for i, name := range []string{"DotF32", "DotQ8"} {
		y := float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*(len(want)+i):])))
		// 127 steps of d = 1/127 rounded to f16 make one; f32 sums round at each step.
		if math.Abs(y-sum) > 1e-3*magnitude {
			t.Errorf("%s with ones is %g, the values sum to %g", name, y, sum)
		}
	}

	put(t, filepath.Join(scratch, "cmd", "user", "kernels_test.go"), judge)
	report := string(goTool(t, scratch, nil, "test", "-v", "./cmd/user"))
	if !strings.Contains(report, "--- PASS: TestRouted") {
		t.Errorf("routes were not looked at:\n%s", report)
	}
	if strings.Contains(report, "SKIP: TestInvented") {
		t.Log("there is no C++ compiler: the GPU kernels were not run")
		return
	}
	for _, family := range []string{"embed", "matmul-bf16", "matmul-q8", "matvec-f32", "matvec-q8"} {
		if !strings.Contains(report, "--- PASS: TestInvented/"+family+"/x3_l ") {
			t.Errorf("the kernels of %s were not run:\n%s", family, report)
		}
	}
}

// inventedBlocks makes blocks of the invented format and their values, without a look at its spec.
func inventedBlocks() (blocks []byte, values []float32) {
	r := rand.New(rand.NewPCG(3, 1))
	level := [8]float32{-31, -17, -8, -2, 3, 9, 18, 30}
	for range 50 {
		var d uint16 = 0x2c00 // 1/16
		dValue := float32(1.0 / 16)
		if r.IntN(2) == 1 {
			d, dValue = 0xc200, -3
		}
		block := binary.LittleEndian.AppendUint16(nil, d)
		var scales [2]byte
		var qs [16]byte
		var qh [8]byte
		for g := range 4 {
			s := r.IntN(16)
			scales[g/2] |= byte(s << (g % 2 * 4))
			for l := range 16 {
				e, q := 16*g+l, r.IntN(8)
				qs[e/4] |= byte(q & 3 << (e % 4 * 2))
				qh[e/8] |= byte(q >> 2 << (e % 8))
				values = append(values, dValue*float32(s+1)*level[q])
			}
		}
		blocks = append(blocks, append(append(append(block, scales[:]...), qs[:]...), qh[:]...)...)
	}
	return blocks, values
}

func compare(t *testing.T, what string, got []byte, want []float32) {
	t.Helper()
	if len(got) != 4*len(want) {
		t.Fatalf("%s: %d bytes for %d values", what, len(got), len(want))
	}
	for i, w := range want {
		if y := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); y != w {
			t.Fatalf("%s: value %d is %v, want %v", what, i, y, w)
		}
	}
}

func goTool(t *testing.T, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v\n%s%s", args, err, out, &errs)
	}
	return out
}

func put(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

// copyTree copies what the go command needs of the repository: no hidden folders, no test data, no tests.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}
