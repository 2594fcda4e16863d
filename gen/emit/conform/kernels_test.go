package conform_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/internal/shared"
)

// The invented formats get GPU kernels and gates as well, and these pass the conformance suite on the emulator: the decoders of units
// reach corners that no real format has.
func TestInventedKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels")
	}
	root, dir := shared.Root(t), t.TempDir()
	specs := filepath.Join(dir, "specs")
	if err := os.CopyFS(specs, os.DirFS(filepath.Join(root, "specs"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(specs, "formats"), os.DirFS(filepath.Join("testdata", "invented"))); err != nil {
		t.Fatal(err)
	}
	files, err := gen.Generate(os.DirFS(specs))
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, f := range files {
		there := filepath.Join(root, "generated", filepath.FromSlash(f.Path))
		if old, err := os.ReadFile(there); err == nil && string(old) == string(f.Data) || strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		path := filepath.Join(dir, strings.ReplaceAll(f.Path, "/", "-"))
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[there] = path
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-short", "-v", "-overlay", list, "-run", "TestKernels/.*/^x|TestEveryKernelHasACase", "./runtime/conform")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "no C++ compiler") {
		t.Skip("there is no C++ compiler")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names, err := filepath.Glob("testdata/invented/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no invented formats", err)
	}
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".yaml")
		for _, family := range []string{"matvec-q8", "matvec-f32", "matmul-q8", "matmul-bf16", "embed"} {
			if !strings.Contains(string(out), "--- PASS: TestKernels/"+family+"/"+name+" ") {
				t.Errorf("kernels of %s of %s did not run", family, name)
			}
		}
	}
}
