package cuda

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What the script finds packed: programs that answer as theirs would on a machine with a GPU, or as a variable says.
const (
	fakeRun = `#!/bin/sh
case "$*" in
  --list-devices) echo "cpu     here"; echo "${FAKE_GPU:-cuda:0  NVIDIA H200, sm_90, 132 SMs, 139.7 GiB, driver of CUDA 13.0; native code for sm_90 by nvcc 13.0}" ;;
  *--device*) echo "${FAKE_ANSWER:-Paris.}" ;;
  *) echo Paris. ;;
esac
`
	fakeTests = `#!/bin/sh
echo "=== RUN   TestKernels"
echo "    --- PASS: TestKernels/matvec-q8 (0.10s)"
[ -z "$FAKE_SKIP" ] || { echo "    gpu_test.go:5: there is no nvcc"; echo "--- SKIP: TestWitness (0.00s)"; }
[ -z "$FAKE_STATUS" ] || echo "    gpu_test.go:9: a bit differs"
exit ${FAKE_STATUS:-0}
`
	fakeSanitizer = `#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 77
echo "========= COMPUTE-SANITIZER"
tool=$2
while [ "$1" != "${1%.test}x" ] && [ "${1%cuda.test}" = "$1" ]; do shift; done
"$@" || exit
echo "========= ERROR SUMMARY: ${FAKE_ERRORS:-0} errors"
[ "$FAKE_HIT" != "$tool" ] || exit 9
`
)

// TestGPUCheck holds .ci/gpu-check to what it says on machines of all kinds, none of which this one is.
func TestGPUCheck(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the script is for Linux")
	}
	tools := t.TempDir()
	for _, name := range []string{"bash", "sh", "tar", "gzip", "grep", "sed", "head", "mktemp", "rm", "ln", "mkdir", "dirname", "realpath", "touch", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../../../.ci/gpu-check")
	if err != nil {
		t.Fatal(err)
	}
	root, packed := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	write(root, ".ci/gpu-check", string(script))
	write(root, "runtime/device/cuda/here", "")
	write(packed, "minfer-run", fakeRun)
	write(packed, "cuda.test", fakeTests)
	write(packed, "golden/qwen2-tall-q4_K_M.gguf", "")
	archive := filepath.Join(t.TempDir(), "gpu.tar.gz")
	if out, err := exec.Command("tar", "-C", packed, "-czf", archive, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sanitizer := t.TempDir()
	write(sanitizer, "compute-sanitizer", fakeSanitizer)
	_, err = os.Stat("/usr/local/cuda")
	toolkit := err == nil // where the script finds a sanitizer that no path leads to
	temp := t.TempDir()
	for _, c := range []struct {
		name, parts string
		env         []string // beside the path; PATH names the fake sanitizer unless bare
		bare        bool
		code        int
		want        []string
		not         string
	}{
		{name: "all", parts: "all sanitize", want: []string{"all that was checked is right", "== all tests", "--- PASS: TestKernels/matvec-q8", "== compute-sanitizer memcheck", "== compute-sanitizer racecheck"}, not: "left out"},
		{name: "by default", want: []string{"== all tests", "cuda: Paris."}, not: "sanitizer"},
		{name: "brief", parts: "brief", want: []string{"== brief tests"}, not: "left out"},
		{name: "no GPU", parts: "all", env: []string{"FAKE_GPU=cuda    NVIDIA GPUs: no usable GPU: the driver sees none"}, code: 2, want: []string{"nothing was checked", "the driver sees none"}},
		{name: "a GPU that is too old", env: []string{"FAKE_GPU=cuda:0  NVIDIA GPU: Tesla V100 is of architecture sm_70, and the kernels need sm_80 or later"}, code: 2, want: []string{"nothing was checked"}},
		{name: "no nvcc", env: []string{"FAKE_GPU=cuda:0  NVIDIA H200, sm_90, 132 SMs, 139.7 GiB, driver of CUDA 13.0; PTX 7.8 for sm_80, compiled by the driver: no nvcc", "FAKE_SKIP=1"},
			want: []string{"left out: native kernels, the coverage witness and damaged kernels: PTX 7.8", "left out: all tests: TestWitness: there is no nvcc", "all that was checked is right"}},
		{name: "no sanitizer", parts: "sanitize", bare: true, want: []string{"left out: sanitize: there is no compute-sanitizer", "all that was checked is right"}},
		{name: "a test fails", parts: "all", env: []string{"FAKE_STATUS=1"}, code: 1, want: []string{"a bit differs", "WRONG: all tests (status 1)"}, not: "is right"},
		{name: "memcheck hits", parts: "sanitize", env: []string{"FAKE_HIT=memcheck"}, code: 1, want: []string{"WRONG: compute-sanitizer memcheck (status 9)", "== compute-sanitizer racecheck"}, not: "WRONG: compute-sanitizer racecheck"},
		{name: "racecheck hits", parts: "sanitize", env: []string{"FAKE_HIT=racecheck"}, code: 1, want: []string{"WRONG: compute-sanitizer racecheck (status 9)"}, not: "WRONG: compute-sanitizer memcheck"},
		{name: "another answer", parts: "brief", env: []string{"FAKE_ANSWER=Rome."}, code: 1, want: []string{"WRONG: the demo model answers otherwise on the GPU", "cuda: Rome."}},
		{name: "no such part", parts: "some", code: 2, want: []string{"no such part: some"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bare && toolkit {
				t.Skip("there is a CUDA toolkit")
			}
			path := tools
			if !c.bare {
				path += ":" + sanitizer
			}
			cmd := exec.Command(filepath.Join(root, ".ci/gpu-check"), append([]string{archive}, strings.Fields(c.parts)...)...)
			cmd.Path = filepath.Join(tools, "bash")
			cmd.Args = append([]string{"bash"}, cmd.Args...)
			cmd.Env = append([]string{"PATH=" + path, "TMPDIR=" + temp}, c.env...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("code %d, want %d (%v):\n%s", code, c.code, err, &out)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, &out)
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("%q in\n%s", c.not, &out)
			}
		})
	}
}
