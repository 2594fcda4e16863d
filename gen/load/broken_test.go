package load_test

import (
	"path"
	"regexp"
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
	for _, name := range []string{"tiles/rows32.yaml", "models/qwen2.5.yaml", "kernels/tile-q8.yaml"} {
		data, err := specs.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = &fstest.MapFile{Data: []byte(narrowed(string(data)))}
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
	t.Logf("%d keys", broken)
}
