package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// header13 has what the bridge header relies on, with the parameters that CUDA 13 gives the six calls.
const header13 = `
#include <stddef.h>
#define CUDA_VERSION %d
#define CUDAAPI
typedef int CUresult, CUdevice, CUmem_advise;
typedef unsigned long long CUdeviceptr;
typedef struct ctx* CUcontext;
typedef struct stream* CUstream;
typedef struct graph* CUgraph;
typedef struct node* CUgraphNode;
typedef struct event* CUevent;
typedef struct { int type, id; } CUmemLocation;
#if CUDA_VERSION >= 13000
#define cuCtxCreate cuCtxCreate_v4
#define cuMemAdvise cuMemAdvise_v2
#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#define cuGraphGetEdges cuGraphGetEdges_v2
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
CUresult cuCtxCreate(CUcontext*, void*, unsigned, CUdevice);
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUmemLocation);
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);
CUresult cuGraphGetEdges(CUgraph, CUgraphNode*, CUgraphNode*, void*, size_t*);
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, const void*, size_t);
CUresult cuEventElapsedTime(float*, CUevent, CUevent);
#else
#define cuCtxCreate cuCtxCreate_v2
CUresult cuCtxCreate(CUcontext*, unsigned, CUdevice);
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult cuGraphGetEdges(CUgraph, CUgraphNode*, CUgraphNode*, size_t*);
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t);
CUresult cuEventElapsedTime(float*, CUevent, CUevent);
#endif
`

// caller makes the calls as gorgonia.org/cu does.
const caller = `
#include <cuda.h>
int main(void) {
  CUcontext c; CUgraphNode n; size_t e = 0; float f;
  return cuCtxCreate(&c, 0, 0) + cuMemAdvise(0, 0, 0, 0) + cuMemPrefetchAsync(0, 0, 0, 0) + cuGraphGetEdges(0, &n, &n, &e) +
    cuGraphAddDependencies(0, &n, &n, e) + cuEventElapsedTime(&f, 0, 0);
}
`

// toolkit makes a folder that looks like a CUDA toolkit of a version, at a path with a space.
func toolkit(t *testing.T, version int) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "cu da")
	for name, text := range map[string]string{"include/cuda.h": fmt.Sprintf(header13, version), "lib64/stubs/libcuda.so": ""} {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// The headers of CUDA 11.8, 12 and 13 mean the same to gorgonia.org/cu behind the bridge header; older ones are refused in words.
func TestBridgeHeader(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	compile := func(version int, include ...string) (string, error) {
		dir := t.TempDir()
		file := filepath.Join(dir, "caller.c")
		if err := os.WriteFile(file, []byte(caller), 0o666); err != nil {
			t.Fatal(err)
		}
		args := []string{"-Wall", "-Werror", "-c", "-o", filepath.Join(dir, "caller.o"), "-I" + filepath.Join(toolkit(t, version), "include"), file}
		for _, i := range include {
			args = append([]string{"-I" + i}, args...)
		}
		out, err := exec.Command(cc, args...).CombinedOutput()
		return string(out), err
	}
	for _, version := range []int{11080, 12000, 12090, 13000, 13010} {
		if out, err := compile(version, "include"); err != nil {
			t.Errorf("CUDA %d: %v\n%s", version, err, out)
		}
	}
	if out, err := compile(11070, "include"); err == nil || !strings.Contains(out, "set CUDA_HOME") {
		t.Errorf("CUDA 11.7: %v\n%s", err, out)
	}
	if _, err := compile(13000); err == nil {
		t.Error("CUDA 13 compiles without the bridge header, so this test shows nothing")
	}
}

// env.sh finds a toolkit at a path with a space, and otherwise stops with one line that says which versions work and which
// variable names one.
func TestBuildEnvironment(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("for Linux")
	}
	run := func(home string, line string) (string, error) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "CUDA_HOME="+home, "CGO_CFLAGS=-O1", "CGO_LDFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	home := toolkit(t, 12040)
	out, err := run(home, `eval "$(./env.sh)" && printf '%s\n' "$CGO_ENABLED" "$CGO_CFLAGS" "$CGO_LDFLAGS"`)
	here, _ := os.Getwd()
	want := fmt.Sprintf("1\n\"-I%s\" \"-I%s\" -O1\n\"-L%s\"", filepath.Join(here, "include"), filepath.Join(home, "include"), filepath.Join(home, "lib64/stubs"))
	if err != nil || strings.TrimSpace(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
	for name, c := range map[string]struct{ home, says string }{
		"no toolkit":  {t.TempDir(), "no include/cuda.h"},
		"too old":     {toolkit(t, 11040), "CUDA 11.4"},
		"no library":  {func() string { h := toolkit(t, 13000); os.RemoveAll(filepath.Join(h, "lib64")); return h }(), "libcuda.so"},
		"not a place": {"/no/such/place", "/no/such/place"},
	} {
		out, err := run(c.home, "./env.sh")
		if name == "no library" && err == nil {
			continue // one was found in the system's own folders
		}
		if err == nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, c.says) || !strings.Contains(out, "set CUDA_HOME to one of CUDA 11.8, 12 or 13") {
			t.Errorf("%s: %v: %q", name, err, out)
		}
	}
}
