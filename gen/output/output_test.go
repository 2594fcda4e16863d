package output_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/output"
)

// set makes files and the manifest that goes with them.
func set(pairs ...string) []emit.File {
	var files []emit.File
	for i := 0; i < len(pairs); i += 2 {
		files = append(files, emit.File{Path: pairs[i], Data: []byte(pairs[i+1])})
	}
	return append(files, output.Manifest(files))
}

// disk reads a whole folder.
func disk(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func asMap(files []emit.File) map[string]string {
	m := map[string]string{}
	for _, f := range files {
		m[f.Path] = string(f.Data)
	}
	return m
}

func write(t *testing.T, dir, name, data string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

func reasons(changes []output.Change) map[string]output.Reason {
	m := map[string]output.Reason{}
	for _, c := range changes {
		m[c.Path] = c.Reason
	}
	return m
}

// TestWriteAndDiff walks through the life of a folder: made, unchanged, changed in every way, brought in line.
func TestWriteAndDiff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "generated")
	first := set("a/x.go", "x\n", "a/y.go", "y\n", "b/z.go", "z\n", "w.md", "w\n", "m.md", "m\n")
	if _, err := output.Write(dir, first); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asMap(first), disk(t, dir)); diff != "" {
		t.Fatalf("(-want +disk)\n%s", diff)
	}

	// A second time nothing is touched.
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(filepath.Join(dir, "a/x.go"), old, old); err != nil {
		t.Fatal(err)
	}
	changes, err := output.Write(dir, first)
	if err != nil || len(changes) != 0 {
		t.Fatalf("%v %v", changes, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a/x.go")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("an unchanged file was written: %v %v", info.ModTime(), err)
	}

	// The specs change y, drop z and add n; someone edits x, turns w to CRLF, deletes m and adds a file.
	second := set("a/x.go", "x\n", "a/y.go", "y2\n", "c/n.go", "n\n", "w.md", "w\n", "m.md", "m\n")
	write(t, dir, "a/x.go", "edited\n")
	write(t, dir, "w.md", "w\r\n")
	write(t, dir, "mine/notes.txt", "notes\n")
	if err := os.Remove(filepath.Join(dir, "m.md")); err != nil {
		t.Fatal(err)
	}
	changes, err = output.Diff(dir, second)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]output.Reason{
		"a/x.go": output.Edited, "a/y.go": output.Stale, "b/z.go": output.Orphan, "c/n.go": output.Missing,
		"m.md": output.Missing, "w.md": output.LineEnds, "mine/notes.txt": output.Foreign, output.ManifestPath: output.Stale,
	}
	if diff := cmp.Diff(want, reasons(changes)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := output.Write(dir, second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asMap(second), disk(t, dir)); diff != "" {
		t.Errorf("(-want +disk)\n%s", diff)
	}
	for _, gone := range []string{"b", "mine"} {
		if _, err := os.Stat(filepath.Join(dir, gone)); err == nil {
			t.Errorf("the empty folder %s is left", gone)
		}
	}
}

// TestForeignFolder refuses to empty a folder that the generator never filled.
func TestForeignFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "thesis.txt", "years of work\n")
	_, err := output.Write(dir, set("a.go", "a\n"))
	if err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(map[string]string{"thesis.txt": "years of work\n"}, disk(t, dir)); diff != "" {
		t.Errorf("(-want +disk)\n%s", diff)
	}
}

// TestOutside never follows a link out of the folder.
func TestOutside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, "precious.go", "precious\n")
	if _, err := output.Write(dir, set("a/x.go", "x\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if _, err := output.Write(dir, set("a/precious.go", "generated\n")); err != nil { // the link goes, a folder comes
		t.Error(err)
	}
	if got := disk(t, dir)["a/precious.go"]; got != "generated\n" {
		t.Errorf("a/precious.go holds %q", got)
	}
	for _, name := range []string{"../up.go", "/etc/up.go"} {
		if _, err := output.Write(dir, []emit.File{{Path: name, Data: []byte("up\n")}}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if diff := cmp.Diff(map[string]string{"precious.go": "precious\n"}, disk(t, outside)); diff != "" {
		t.Errorf("(-want +disk)\n%s", diff)
	}
}

// TestUnwritable names the file that cannot be written.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	if _, err := output.Write(dir, set("a/x.go", "x\n")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // nothing is read-only for root: put a folder where the file should go
		if err := os.Remove(filepath.Join(dir, "a/x.go")); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "a/x.go/in-the-way", "")
	} else if err := os.Chmod(filepath.Join(dir, "a"), 0o555); err != nil {
		t.Fatal(err)
	}
	_, err := output.Write(dir, set("a/x.go", "x2\n"))
	if err == nil || !strings.Contains(err.Error(), "a/x.go") {
		t.Errorf("error %v", err)
	}
}

// TestKilled kills a writing process again and again: every file is an old one or a new one, whole, and the next run
// brings the folder in line.
func TestKilled(t *testing.T) {
	version := func(v byte) []emit.File {
		var pairs []string
		for i := range 40 {
			pairs = append(pairs, fmt.Sprintf("d%d/f%02d.go", i%4, i), strings.Repeat(string(v), 1<<18)+"\n")
		}
		return set(pairs...)
	}
	if dir := os.Getenv("MINFER_OUTPUT_DIR"); dir != "" {
		for i := 0; ; i++ {
			if _, err := output.Write(dir, version("ab"[i%2])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if testing.Short() {
		t.Skip("starts 30 processes")
	}
	dir := t.TempDir()
	if _, err := output.Write(dir, version('a')); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		cmd := exec.Command(exe, "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "MINFER_OUTPUT_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for name, data := range disk(t, dir) {
			if name == output.ManifestPath || strings.HasPrefix(filepath.Base(name), ".minfer-gen-") {
				continue
			}
			if len(data) != 1<<18+1 || strings.Trim(data, data[:1]) != "\n" || !bytes.Contains([]byte("ab"), []byte(data[:1])) {
				t.Fatalf("%s is neither the old nor the new file (%d bytes)", name, len(data))
			}
		}
	}
	want := version('b')
	if _, err := output.Write(dir, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asMap(want), disk(t, dir)); diff != "" {
		t.Error("the next run did not bring the folder in line")
	}
}
