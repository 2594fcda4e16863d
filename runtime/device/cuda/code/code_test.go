package code

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/cuda/ptx"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// fakeCompiler is an nvcc that knows some architectures.
type fakeCompiler struct {
	release  ptx.Release
	archs    []int
	err      error // of every compilation
	compiled []string
}

func (f *fakeCompiler) String() string       { return "nvcc " + f.release.String() }
func (f *fakeCompiler) Release() ptx.Release { return f.release }
func (f *fakeCompiler) Architectures(context.Context) ([]int, error) {
	if f.archs == nil {
		return nil, errors.New("it crashed")
	}
	return f.archs, nil
}
func (f *fakeCompiler) Native(_ context.Context, s nvcc.Source, arch int, defines ...string) ([]byte, error) {
	f.compiled = append(f.compiled, fmt.Sprint(s.Name, " sm_", arch, defines))
	return []byte("native " + s.Name), f.err
}

var (
	h200 = Machine{"NVIDIA H200", 90, ptx.Release{Major: 13}}
	a100 = Machine{"NVIDIA A100", 80, ptx.Release{Major: 11, Minor: 8}}
)

func archive(t *testing.T) *ptx.Archive {
	t.Helper()
	a, err := ptx.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestChooseCodes(t *testing.T) {
	nvcc13 := &fakeCompiler{release: ptx.Release{Major: 13}, archs: []int{80, 90, 100}}
	nvcc118 := &fakeCompiler{release: ptx.Release{Major: 11, Minor: 8}, archs: []int{80, 86, 90}}
	missing := fmt.Errorf("%w: set CUDA_HOME", nvcc.ErrMissing)
	for _, c := range []struct {
		name     string
		machine  Machine
		compiler Compiler
		missing  error
		defines  []string
		arch     int // what gates may ask for; 0: refused
		native   bool
		why      []string // in the explanation, or the error
		is       error
	}{
		{name: "native", machine: h200, compiler: nvcc13, arch: 90, native: true, why: []string{"native code for sm_90", "nvcc 13.0"}},
		{name: "native, without bulk copies", machine: h200, compiler: nvcc118, arch: 89, native: true, why: []string{"native code for sm_90", "need nvcc 12.0"}},
		{name: "native, baseline", machine: a100, compiler: nvcc118, arch: 80, native: true, why: []string{"sm_80"}},
		{name: "no nvcc", machine: h200, missing: missing, arch: 80, why: []string{"PTX 7.8 for sm_80", "CUDA_HOME"}},
		{name: "nvcc newer than the driver", machine: a100, compiler: nvcc13, arch: 80, why: []string{"PTX 7.8", "nvcc 13.0", "knows CUDA 11.8"}},
		{name: "nvcc that does not know the GPU", machine: Machine{"NVIDIA GB10", 121, ptx.Release{Major: 13}}, compiler: nvcc118, arch: 80, why: []string{"does not know sm_121"}},
		{name: "nvcc that crashes", machine: h200, compiler: &fakeCompiler{release: ptx.Release{Major: 12}}, arch: 80, why: []string{"it crashed"}},
		{name: "old driver", machine: Machine{"NVIDIA A100", 80, ptx.Release{Major: 11, Minor: 4}}, compiler: nvcc118, why: []string{"knows CUDA 11.4", "need CUDA 11.8", "update the NVIDIA driver"}, is: ErrDriver},
		{name: "old GPU", machine: Machine{"Tesla V100", 70, ptx.Release{Major: 12}}, compiler: nvcc118, why: []string{"Tesla V100", "sm_70", "sm_80 or later"}, is: ErrDevice},
		{name: "witness", machine: h200, compiler: nvcc13, defines: []string{"MINFER_WITNESS"}, arch: 90, native: true},
		{name: "witness without nvcc", machine: h200, missing: missing, defines: []string{"MINFER_WITNESS"}, why: []string{"MINFER_WITNESS", "CUDA_HOME"}, is: nvcc.ErrMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			codes, err := Choose(t.Context(), c.machine, archive(t), func() (Compiler, error) { return c.compiler, c.missing }, c.defines)
			text := ""
			switch {
			case c.arch == 0:
				if !errors.Is(err, c.is) {
					t.Fatalf("error %v, want %v", err, c.is)
				}
				text = err.Error()
			case err != nil:
				t.Fatal(err)
			default:
				text = codes.Why
				if codes.Arch != c.arch || (codes.native != nil) != c.native {
					t.Errorf("arch %d, native %v; want %d, %v", codes.Arch, codes.native != nil, c.arch, c.native)
				}
			}
			for _, w := range c.why {
				if !strings.Contains(text, w) {
					t.Errorf("%q does not say %q", text, w)
				}
			}
		})
	}
}

// A machine that is too old is refused before any compiler is looked for.
func TestOldMachineLooksForNoCompiler(t *testing.T) {
	_, err := Choose(t.Context(), Machine{"old", 70, ptx.Release{Major: 10}}, archive(t), func() (Compiler, error) {
		t.Error("a compiler was looked for")
		return nil, nil
	}, nil)
	if err == nil {
		t.Error("no error")
	}
}

// unit is a source, and an archive that has its PTX.
func unit() (gpu.Unit, map[string]string, *ptx.Archive) {
	u, headers := gpu.Unit{Name: "unit.cu", Source: "#include \"h.cuh\"\n"}, map[string]string{"h.cuh": "int h;\n"}
	digest := nvcc.Source{Name: u.Name, Text: u.Source, Headers: headers}.Digest()
	return u, headers, &ptx.Archive{Version: ptx.Version{Major: 7, Minor: 8}, Target: 80, Units: []ptx.Unit{{Name: u.Name, Source: digest, Text: ".version 7.8 // of the archive"}}}
}

func TestFindCode(t *testing.T) {
	u, headers, archive := unit()
	fake := &fakeCompiler{release: ptx.Release{Major: 13}, archs: []int{90}}
	native := &Codes{Machine: h200, archive: archive, native: fake, Arch: 90}
	driver := &Codes{Machine: h200, archive: archive, Arch: 80, Why: "PTX"}

	code, err := native.Find(t.Context(), u, headers)
	if err != nil || !code.Native || code.Arch != 90 || string(code.Data) != "native "+u.Name {
		t.Errorf("native: %+v, %v", code, err)
	}
	if !native.Overlaps(code) {
		t.Error("native code for sm_90 may not overlap")
	}
	code, err = driver.Find(t.Context(), u, headers)
	if err != nil || code.Native || code.Arch != 80 || string(code.Data) != archive.Units[0].Text {
		t.Errorf("PTX of the archive: arch %d, %v", code.Arch, err)
	}
	if driver.Overlaps(code) {
		t.Error("PTX for sm_80, which does not wait for its predecessor, may overlap it")
	}
	if (&Codes{}).Overlaps(gpu.Code{Native: true, Arch: 80}) {
		t.Error("native code for sm_80 may overlap")
	}

	brought := u
	brought.Codes = []gpu.Code{{Arch: 80, Native: true, Data: []byte("other GPU")}, {Arch: 80, Data: []byte(".version 7.8\n.target sm_80\n")}, {Arch: 90, Native: true, Data: []byte("this GPU")}}
	if code, err = driver.Find(t.Context(), brought, headers); err != nil || string(code.Data) != "this GPU" {
		t.Errorf("native code that the unit brings: %q, %v", code.Data, err)
	}
	brought.Codes = brought.Codes[:2]
	if code, err = driver.Find(t.Context(), brought, headers); err != nil || !strings.HasPrefix(string(code.Data), ".version") {
		t.Errorf("PTX that the unit brings: %q, %v", code.Data, err)
	}

	changed := u
	changed.Source += "\n"
	if _, err := driver.Find(t.Context(), changed, headers); !errors.Is(err, ptx.ErrStale) || !strings.Contains(err.Error(), u.Name) || !strings.Contains(err.Error(), "nvcc") {
		t.Errorf("a source that the archive does not have: %v", err)
	}
	if _, err := native.Find(t.Context(), changed, headers); err != nil {
		t.Errorf("the same with nvcc: %v", err)
	}
	fake.err = errors.New("it does not compile")
	if _, err := native.Find(t.Context(), u, headers); !errors.Is(err, fake.err) {
		t.Errorf("a failed compilation: %v", err)
	}
	witness := &Codes{Machine: h200, archive: archive, native: fake, defines: []string{"MINFER_WITNESS"}}
	fake.err, fake.compiled = nil, nil
	if _, err := witness.Find(t.Context(), u, headers); err != nil || len(fake.compiled) != 1 || !strings.Contains(fake.compiled[0], "MINFER_WITNESS") {
		t.Errorf("with the witness: %v, %v", fake.compiled, err)
	}
}

// PTX that the driver could not compile is refused by name, with both versions and what to do.
func TestUnusablePTX(t *testing.T) {
	driver := &Codes{Machine: a100, archive: archive(t), Arch: 80}
	text := ".version 7.8\n.target sm_80\n.visible .entry k()\n{\nret;\n}\n"
	for _, c := range []struct {
		name, text string
		is         error
		says       []string
	}{
		{"whole", text, nil, nil},
		{"of a later toolkit", strings.Replace(text, "7.8", "9.9", 1), ErrDriver, []string{"brought.cu", "PTX 9.9", "needs CUDA 13.9", "knows CUDA 11.8"}},
		{"for a later GPU", strings.Replace(text, "sm_80", "sm_90", 1), ErrDevice, []string{"brought.cu", "sm_90", "NVIDIA A100 is sm_80"}},
		{"cut in half", text[:len(text)-6], nil, []string{"brought.cu", "cut"}},
		{"no PTX", "int main() {}", nil, []string{"brought.cu", ".version"}},
	} {
		_, err := driver.Find(t.Context(), gpu.Unit{Name: "brought.cu", Codes: []gpu.Code{{Arch: 80, Data: []byte(c.text)}}}, nil)
		if c.says == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", c.name, err, c.is)
			continue
		}
		for _, w := range c.says {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", c.name, err, w)
			}
		}
	}
}
