package tile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/specs"
)

// TestInventedFormats: formats that nobody has, made to reach the corners of lowering, get kernels that pass the same tests, without
// a line for them; a format that fits no tile goes without.
func TestInventedFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels")
	}
	root, dir := shared.Root(t), t.TempDir()
	invented := os.DirFS(filepath.Join("..", "conform", "testdata", "invented"))
	if err := os.CopyFS(filepath.Join(dir, "specs"), specs.FS); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "specs", "formats"), invented); err != nil {
		t.Fatal(err)
	}
	catalog, err := gen.Load(os.DirFS(filepath.Join(dir, "specs")))
	if err != nil {
		t.Fatal(err)
	}
	files, err := gen.Generate(os.DirFS(filepath.Join(dir, "specs")))
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, f := range files {
		to := filepath.Join(root, "generated", filepath.FromSlash(f.Path))
		have, err := os.ReadFile(to)
		test := f.Path == "tile/tile_test.go"
		if folder := filepath.Dir(f.Path); folder != "tile" && folder != "cpu" && folder != "format" && folder != "gate" || err == nil && bytes.Equal(have, f.Data) && !test {
			continue
		}
		text := string(f.Data)
		if test {
			from, _ := json.Marshal(filepath.Join(dir, "specs"))
			text = strings.Replace(text, "specs.FS", "os.DirFS("+string(from)+")", 1)
			text = strings.Replace(text, "\t\"github.com/minfer/minfer/specs\"\n", "", 1)
		}
		file := filepath.Join(dir, strings.ReplaceAll(f.Path, "/", "-"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[to] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-v", "-overlay", list, "-run", "/^x", "./generated/tile")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tiled := 0
	for _, f := range catalog.Formats {
		if !strings.HasPrefix(f.Name, "x") {
			continue
		}
		ran := bytes.Contains(out, []byte("--- PASS: TestPack/"+f.Name+" ")) && bytes.Contains(out, []byte("--- PASS: TestElements/"+f.Name+" "))
		has := f.TileAs("rows32") != nil
		t.Logf("%s: tiles %v", f.Name, has)
		if has != ran {
			t.Errorf("%s: tiles %v, tests ran %v", f.Name, has, ran)
		}
		if has {
			tiled++
		}
	}
	if tiled < 3 {
		t.Errorf("%d of the invented formats have tiles", tiled)
	}
}
