package gen_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/specs"
)

// hash is the hash of everything that is generated.
func hash(t testing.TB, fsys fs.FS) string {
	t.Helper()
	files, err := gen.Generate(fsys)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n%s", f.Path, len(f.Data), f.Data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// backwards lists folders in the wrong order.
type backwards struct{ fs.FS }

func (b backwards) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(b.FS, name)
	slices.Reverse(list)
	return list, err
}

// TestSameBytes generates many times, in this process and in others, and demands one result.
func TestSameBytes(t *testing.T) {
	if os.Getenv("MINFER_GEN_HASH") != "" {
		fmt.Printf("hash %s\n", hash(t, specs.FS))
		return
	}
	want := hash(t, specs.FS)
	same := func(how, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: other bytes", how)
		}
	}
	for _, procs := range []int{1, 8} {
		before := runtime.GOMAXPROCS(procs)
		for i := range 4 {
			same(fmt.Sprintf("GOMAXPROCS %d, run %d", procs, i), hash(t, specs.FS))
		}
		runtime.GOMAXPROCS(before)
	}
	same("listed backwards", hash(t, backwards{specs.FS}))
	same("from the folder on disk", hash(t, os.DirFS(filepath.Join(shared.Root(t), "specs"))))

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, env := range [][]string{
		{"TZ=Pacific/Kiritimati", "LANG=tr_TR.UTF-8", "LC_ALL=tr_TR.UTF-8", "GOMAXPROCS=1"},
		{"TZ=America/St_Johns", "LANG=C", "HOME=/nonexistent", "USER=someone", "HOSTNAME=elsewhere", "GOMAXPROCS=8"},
		{"GODEBUG=randmaphash=1"},
		{}, {}, {}, {}, {}, {}, {},
	} {
		cmd := exec.Command(exe, "-test.run=^TestSameBytes$")
		cmd.Dir = t.TempDir()
		cmd.Env = append(append(os.Environ(), "MINFER_GEN_HASH=1"), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", env, err, out)
		}
		_, rest, _ := strings.Cut(string(out), "hash ")
		got, _, _ := strings.Cut(rest, "\n")
		same(fmt.Sprintf("process %d with %v", i, env), got)
	}
}

// TestLineEnds saves the specs as other editors would and demands the same bytes.
func TestLineEnds(t *testing.T) {
	want := hash(t, specs.FS)
	for name, edit := range map[string]func([]byte) []byte{
		"CRLF":             func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
		"BOM":              func(b []byte) []byte { return append([]byte("\ufeff"), b...) },
		"no final newline": func(b []byte) []byte { return bytes.TrimRight(b, "\n") },
		"BOM and CRLF": func(b []byte) []byte {
			return append([]byte("\ufeff"), bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))...)
		},
	} {
		edited := fstest.MapFS{}
		err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(specs.FS, name)
			edited[name] = &fstest.MapFile{Data: edit(data)}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if hash(t, edited) != want {
			t.Errorf("%s: other bytes", name)
		}
	}
}

// TestNoTraces looks for what must not be in generated files: carriage returns, paths of this machine, missing
// newlines at the end.
func TestNoTraces(t *testing.T) {
	files, err := gen.Generate(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	root := shared.Root(t)
	host, _ := os.Hostname()
	for _, f := range files {
		switch {
		case bytes.IndexByte(f.Data, '\r') >= 0:
			t.Errorf("%s has carriage returns", f.Path)
		case bytes.Contains(f.Data, []byte(root)):
			t.Errorf("%s names %s", f.Path, root)
		case len(host) > 4 && bytes.Contains(f.Data, []byte(host)):
			t.Errorf("%s names the host %s", f.Path, host)
		case !bytes.HasSuffix(f.Data, []byte("\n")) || bytes.HasSuffix(f.Data, []byte("\n\n")):
			t.Errorf("%s does not end with one newline", f.Path)
		}
	}
}
