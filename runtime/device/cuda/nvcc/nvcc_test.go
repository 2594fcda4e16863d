package nvcc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	release, major, minor, err := parseVersion("nvcc: NVIDIA (R) Cuda compiler driver\nBuilt on Wed_Sep_21\nCuda compilation tools, release 11.8, V11.8.89\nBuild cuda_11.8.r11.8/compiler.31833905_0\n")
	if err != nil || release != "11.8.89" || major != 11 || minor != 8 {
		t.Errorf("read %s, %d, %d, %v", release, major, minor, err)
	}
	if release, major, minor, err = parseVersion("Cuda compilation tools, release 13.0, V13.0.88"); err != nil || release != "13.0.88" || major != 13 || minor != 0 {
		t.Errorf("read %s, %d, %d, %v", release, major, minor, err)
	}
	if _, _, _, err := parseVersion("gcc (Debian) 12.2.0"); err == nil {
		t.Error("gcc was taken for nvcc")
	}
}

// fake writes a program that says text and, asked to compile, writes what it was asked into the result.
func fake(t *testing.T, dir, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake compiler is a shell script")
	}
	script := `#!/bin/sh
if [ "$1" = --version ]; then echo "` + text + `"; exit; fi
case "$*" in *broken*) echo "broken.cu(3): error: no" >&2; exit 2;; esac
result=
for a; do [ "$last" = -o ] && result=$a; last=$a; done
{ echo "$* // in $PWD"; cat "$last"; } > "$result"
echo x >> "` + dir + `/calls"
`
	path := filepath.Join(dir, "nvcc")
	if err := os.WriteFile(path, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func calls(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "x")
}

func clean(t *testing.T) {
	t.Helper()
	for _, v := range []string{"MINFER_NVCC", "CUDA_HOME", "CUDA_PATH"} {
		t.Setenv(v, "")
	}
	t.Setenv("MINFER_CACHE", t.TempDir())
}

const good = "Cuda compilation tools, release 11.8, V11.8.89"

func TestFind(t *testing.T) {
	clean(t)
	dir := filepath.Join(t.TempDir(), "cu da") // a path with a space
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	path := fake(t, bin, good)
	find := func() (*Compiler, error) { return Find(t.Context(), Options{}) }
	t.Setenv("CUDA_HOME", dir)
	if c, err := find(); err != nil || c.Path != path || c.Major != 11 || c.Minor != 8 || c.Release != "11.8.89" {
		t.Errorf("CUDA_HOME: %+v, %v", c, err)
	}
	t.Setenv("CUDA_HOME", filepath.Join(dir, "none"))
	if _, err := find(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "CUDA_HOME") {
		t.Errorf("CUDA_HOME that leads nowhere: %v", err)
	}
	t.Setenv("MINFER_NVCC", path)
	if c, err := find(); err != nil || c.Path != path {
		t.Errorf("MINFER_NVCC before CUDA_HOME: %+v, %v", c, err)
	}
	t.Setenv("MINFER_NVCC", "0")
	if _, err := find(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "MINFER_NVCC=0") {
		t.Errorf("MINFER_NVCC=0: %v", err)
	}
	t.Setenv("MINFER_NVCC", "no-such-program")
	if _, err := find(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("MINFER_NVCC that leads nowhere: %v", err)
	}
	t.Setenv("MINFER_NVCC", "")
	t.Setenv("CUDA_HOME", "")
	t.Setenv("PATH", bin)
	if c, err := find(); err != nil || c.Path != path {
		t.Errorf("on the path: %+v, %v", c, err)
	}
	fake(t, bin, "Cuda compilation tools, release 11.7, V11.7.64")
	if _, err := find(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "11.7.64") || !strings.Contains(err.Error(), "11.8 or later") {
		t.Errorf("too old: %v", err)
	}
	if _, err := os.Stat("/usr/local/cuda/bin/nvcc"); err == nil {
		t.Skip("this machine has an nvcc where all are looked for")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := find(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "CUDA_HOME") {
		t.Errorf("nowhere: %v", err)
	}
}

func source(text string) Source {
	return Source{Name: "unit.cu", Text: text, Headers: map[string]string{
		"a.cuh": "#pragma once\n  #  include \"b.cuh\"\n", "b.cuh": "#include \"a.cuh\"\nint b;\n", "unused.cuh": "int u;\n",
	}}
}

func TestUsedHeaders(t *testing.T) {
	if d := cmp.Diff([]string{"a.cuh", "b.cuh"}, source("#include <stdint.h>\n#include \"a.cuh\"\n#include \"absent.hpp\"\n").Used()); d != "" {
		t.Error(d)
	}
	if used := source("int x;").Used(); len(used) != 0 {
		t.Errorf("a source without includes uses %v", used)
	}
}

func TestDigestDependsOnWhatIsIncluded(t *testing.T) {
	base := source("#include \"a.cuh\"\n")
	other := source("#include \"a.cuh\"\n")
	if base.Digest() != other.Digest() {
		t.Error("two digests of one source")
	}
	other.Headers["unused.cuh"] = "changed"
	if base.Digest() != other.Digest() {
		t.Error("a header that is not included changes the digest")
	}
	other.Headers["b.cuh"] = "changed"
	if base.Digest() == other.Digest() {
		t.Error("a header of a header does not change the digest")
	}
	if base.Digest() == source("#include \"a.cuh\"\n\n").Digest() {
		t.Error("the text does not change the digest")
	}
}

func TestCacheIsByContent(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	t.Setenv("MINFER_NVCC", fake(t, dir, good))
	open := func() *Compiler {
		t.Helper()
		c, err := Find(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	expect := func(what string, n int) {
		t.Helper()
		if have := calls(t, dir); have != n {
			t.Errorf("%s: compiled %d times, want %d", what, have, n)
		}
	}
	compile := func(c *Compiler, s Source, arch int, defines ...string) {
		t.Helper()
		code, err := c.PTX(t.Context(), s, arch, defines...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(code, "int x;") {
			t.Errorf("the code is not of %q", s.Text)
		}
	}
	c, s := open(), source("#include \"a.cuh\"\nint x;\n")
	compile(c, s, 90)
	compile(c, s, 90)
	expect("the same again", 1)
	compile(open(), s, 90)
	expect("the same, another process", 1)
	compile(c, s, 80)
	expect("another architecture", 2)
	compile(c, s, 90, "MINFER_WITNESS")
	expect("with a definition", 3)
	s.Headers["unused.cuh"] = "changed"
	compile(c, s, 90)
	expect("a header that is not included", 3)
	s.Headers["b.cuh"] = "int c;"
	compile(c, s, 90)
	expect("a header of a header", 4)
	if _, err := c.Native(t.Context(), s, 90); err != nil {
		t.Fatal(err)
	}
	if calls(t, dir) == 4 {
		t.Error("native code is PTX from the cache")
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.MkdirAll(moved, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MINFER_NVCC", fake(t, moved, good))
	compile(open(), s, 90)
	if calls(t, moved) != 0 {
		t.Error("the compiler's path is part of the key")
	}
	t.Setenv("MINFER_NVCC", fake(t, moved, "Cuda compilation tools, release 12.0, V12.0.76"))
	compile(open(), s, 90)
	if calls(t, moved) != 1 {
		t.Error("the compiler's release is not part of the key")
	}
}

// Native code for sm_90 may have the instructions of that architecture alone, where the compiler knows them; PTX is for later ones too.
func TestTargets(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	for _, c := range []struct {
		version string
		arch    int
		want    string // of native code
	}{
		{good, 80, "sm_80"},
		{good, 90, "sm_90"},
		{"Cuda compilation tools, release 12.0, V12.0.76", 80, "sm_80"},
		{"Cuda compilation tools, release 12.0, V12.0.76", 89, "sm_89"},
		{"Cuda compilation tools, release 12.0, V12.0.76", 90, "sm_90a"},
		{"Cuda compilation tools, release 13.0, V13.0.88", 90, "sm_90a"},
		{"Cuda compilation tools, release 13.0, V13.0.88", 100, "sm_100"},
		{"Cuda compilation tools, release 13.0, V13.0.88", 121, "sm_121"},
	} {
		t.Setenv("MINFER_NVCC", fake(t, dir, c.version))
		compiler, err := Find(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		code, err := compiler.Native(t.Context(), source("int x;"), c.arch)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(code), " -cubin -arch="+c.want+" ") {
			t.Errorf("%s, native code for %d: %s", c.version, c.arch, code)
		}
		ptx, err := compiler.PTX(t.Context(), source("int y;"), c.arch)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(" -ptx -arch=compute_%d ", c.arch); !strings.Contains(ptx, want) {
			t.Errorf("%s, PTX for %d: %s", c.version, c.arch, ptx)
		}
	}
}

func TestFailureNamesTheFile(t *testing.T) {
	clean(t)
	t.Setenv("MINFER_NVCC", fake(t, t.TempDir(), good))
	c, err := Find(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := source("")
	s.Name = "broken.cu"
	if _, err := c.Native(t.Context(), s, 90); err == nil || !strings.Contains(err.Error(), "broken.cu: nvcc: ") || !strings.Contains(err.Error(), "broken.cu(3): error: no") {
		t.Errorf("a source that does not compile: %v", err)
	}
	s.Name = "../unit.cu"
	if _, err := c.Native(t.Context(), s, 90); err == nil || !strings.Contains(err.Error(), "leads outside") {
		t.Errorf("a name that leads outside: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Native(ctx, source("int cancelled;"), 90); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStrip(t *testing.T) {
	have := strip("//\n// Compiler Build ID: CL-1\n//\n\n.version 7.8\n\t// .globl\tk\n.shared .b8 _ZZN50_INTERNAL_b804dab1_19_matvec_q8_iq2_xs_cu_53c2f8a39block_sumILi8EEEffE9warp_sums[32];\n\tmov.u32 %r1, 1; // inline\n\n\n}\n")
	want := ".version 7.8\n.shared .b8 _ZZN50_INTERNAL_00000000_19_matvec_q8_iq2_xs_cu_000000009block_sumILi8EEEffE9warp_sums[32];\n\tmov.u32 %r1, 1;\n}\n"
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
}

func TestSources(t *testing.T) {
	have, err := Sources(fstest.MapFS{"b.cu": {Data: []byte("b")}, "a.cu": {Data: []byte("a")}, "h.cuh": {Data: []byte("h")}, "x.go": {Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{"h.cuh": "h"}
	if d := cmp.Diff([]Source{{"a.cu", "a", headers}, {"b.cu", "b", headers}}, have); d != "" {
		t.Error(d)
	}
	if _, err := Sources(fstest.MapFS{"h.cuh": {}}); err == nil {
		t.Error("a folder without sources was read")
	}
}

// TestRealCompiler runs where there is one: what is compiled does not depend on where.
func TestRealCompiler(t *testing.T) {
	t.Setenv("MINFER_CACHE", t.TempDir())
	c, err := Find(t.Context(), Options{})
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := Source{Name: "unit.cu", Text: "#include \"h.cuh\"\nextern \"C\" __global__ void __launch_bounds__(64) k(float* x) { __shared__ float s[32]; s[threadIdx.x] = f(x[threadIdx.x]); __syncthreads(); x[0] = s[1]; }\n",
		Headers: map[string]string{"h.cuh": "static __device__ const float table[4] = {1, 2, 3, 4};\nstatic __device__ __noinline__ float f(float x) { return table[(int)x & 3] * x + 1; }\n"}}
	first, err := c.PTX(t.Context(), s, 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MINFER_CACHE", t.TempDir())
	if c, err = Find(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	second, err := c.PTX(t.Context(), s, 80)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, second); d != "" {
		t.Errorf("compiled at two places:\n%s", d)
	}
	if strings.Contains(first, "fma.rn") || !strings.Contains(first, "mul.f32") && !strings.Contains(first, "mul.rn.f32") {
		t.Errorf("a*b+c was contracted:\n%s", first)
	}
	report, err := c.Assemble(t.Context(), s.Name, first, 80)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(report, "'k' for 'sm_80'") || !strings.Contains(report, "registers") {
		t.Errorf("the assembler says:\n%s", report)
	}
	code, err := c.Native(t.Context(), s, 80)
	if err != nil || !strings.HasPrefix(string(code), "\x7fELF") {
		t.Fatalf("native code: %d bytes, %v", len(code), err)
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("MINFER_CACHE"), "cuda", "cubin-*"))
	if len(files) != 1 {
		t.Fatalf("the cache holds %v", files)
	}
	for _, n := range []int{0, 100, len(code) / 2} {
		if err := os.WriteFile(files[0], code[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if again, err := c.Native(t.Context(), s, 80); err != nil || len(again) != len(code) {
			t.Errorf("after the cached code was cut to %d bytes: %d bytes, %v", n, len(again), err)
		}
	}
	if archs, err := c.Architectures(t.Context()); err != nil || len(archs) == 0 {
		t.Errorf("architectures %v, %v", archs, err)
	}
}
