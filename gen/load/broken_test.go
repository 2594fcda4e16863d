package load_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/specs"
)

var topKey = regexp.MustCompile(`(?m)^([a-z_0-9]+):`)

// A key that is misspelled in every spec of a folder is a fault of each file, in its line, and of no other folder: what the others need of
// them is not held against them, nor does its absence end in a panic.
func TestMisspelledKeys(t *testing.T) {
	whole := fstest.MapFS{"routes/sm90.yaml": {Data: []byte("routes: sm90\nruns:\n  - device: H200\n    date: \"2026-12-01\"\n    command: tune\n    first:\n" + okRow)}}
	for name, file := range few() {
		whole[name] = file
	}
	for _, name := range []string{"tiles/rows32.yaml", "tiles/rows32index.yaml", "models/qwen2.5.yaml", "kernels/tile-q8.yaml"} {
		data, err := specs.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(narrowed(string(data)), "  avx512vbmi:") // none of the few formats reads a codebook
		whole[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if _, err := gen.Load(whole); err != nil {
		t.Fatal(err)
	}
	keys := map[string]map[string]bool{}
	for name, file := range whole {
		folder := path.Dir(name)
		if keys[folder] == nil {
			keys[folder] = map[string]bool{}
		}
		for _, m := range topKey.FindAllStringSubmatch(string(file.Data), -1) {
			keys[folder][m[1]] = true
		}
	}
	broken := 0
	for folder, all := range keys {
		for key := range all {
			fsys := fstest.MapFS{}
			for name, file := range whole {
				if path.Dir(name) == folder {
					text := regexp.MustCompile("(?m)^"+key+":").ReplaceAllString(string(file.Data), key+"x:")
					file = &fstest.MapFile{Data: []byte(text)}
				}
				fsys[name] = file
			}
			broken++
			_, err := gen.Load(fsys)
			if err == nil {
				t.Errorf("%s: %sx instead of %s is accepted", folder, key, key)
				continue
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "specs/"+folder+"/") {
					t.Errorf("%s: %sx instead of %s: %s", folder, key, key, line)
				}
			}
		}
	}
	if broken < 60 {
		t.Errorf("%d keys tried", broken)
	}
}

// A file that cannot be read, or need not end, is a fault like any, and hides no other.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, few()); err != nil {
		t.Fatal(err)
	}
	var wants []string
	for _, c := range []struct {
		name, want string
		create     func(path string) error
	}{
		{"formats/folder.yaml", ": it is no file", func(p string) error { return os.Mkdir(p, 0o777) }},
		{"formats/nowhere.yaml", ": it cannot be read: no such file or directory", func(p string) error { return os.Symlink("there-is-no-such", p) }},
		{"devices/endless.yaml", ": it is no file", func(p string) error { return os.Symlink("/dev/zero", p) }},
		{"kernels/long.yaml", ": the file has 307200 bytes; at most 262144 are allowed", func(p string) error { return os.WriteFile(p, make([]byte, 300<<10), 0o666) }},
		{"kernels/bad.yaml", ":1:1", func(p string) error { return os.WriteFile(p, []byte("kernel: 3\n"), 0o666) }},
	} {
		if err := c.create(filepath.Join(dir, filepath.FromSlash(c.name))); err != nil {
			if link := new(os.LinkError); runtime.GOOS == "windows" && errors.As(err, &link) {
				continue // links take a right of their own there; the others are held to all the same
			}
			t.Fatal(err)
		}
		wants = append(wants, "specs/"+c.name+c.want)
	}
	_, err := gen.Load(os.DirFS(dir))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
