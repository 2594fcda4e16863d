package conform_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/emit/conform"
	"github.com/minfer/minfer/gen/emit/cpu"
	"github.com/minfer/minfer/gen/emit/format"
	"github.com/minfer/minfer/gen/internal/shared"
)

// Formats that nobody has, made to reach the corners of the lowering, are added to the real ones; what is generated for
// them compiles and passes the same conformance tests.
func TestInventedFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels")
	}
	root, dir := shared.Root(t), t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "specs", "formats"), os.DirFS(filepath.Join(root, "specs", "formats"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "specs", "formats"), os.DirFS(filepath.Join("testdata", "invented"))); err != nil {
		t.Fatal(err)
	}
	catalog, err := gen.Load(os.DirFS(filepath.Join(dir, "specs")))
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, e := range []emit.Emitter{format.Emitter{}, cpu.Emitter{}, conform.Emitter{}} {
		files, err := e.Emit(catalog)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text := string(f.Data)
			if strings.HasSuffix(f.Path, "/conform_test.go") {
				text = strings.Replace(text, "specs.FS", "os.DirFS("+quote(filepath.Join(dir, "specs"))+")", 1)
				text = strings.Replace(text, "\t\"github.com/minfer/minfer/specs\"\n", "", 1)
			}
			path := filepath.Join(dir, strings.ReplaceAll(f.Path, "/", "-"))
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			overlay.Replace[filepath.Join(root, "generated", filepath.FromSlash(f.Path))] = path
		}
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-v", "-overlay", list, "-run", "/x", "./generated/cpu")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CI=true") // where nothing that a format lacks is passed over
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names, err := filepath.Glob("testdata/invented/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no invented formats", err)
	}
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".yaml")
		for _, test := range []string{"TestDequantize", "TestDotF32", "TestDotQ8"} {
			if !strings.Contains(string(out), "--- PASS: "+test+"/"+name+" ") {
				t.Errorf("%s did not run on %s", test, name)
			}
		}
	}
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}
