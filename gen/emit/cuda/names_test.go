package cuda_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/specs"
)

// What a digit cannot be called, in the kernels of a spec.
func TestNamesRefuse(t *testing.T) {
	for _, c := range []struct{ file, from, to, want string }{
		{"rmsnorm", "block", "int", "digit int: the kernel would declare it, and that is a word of C++; give it another name"},
		{"rmsnorm", "thread", "cols", "digit cols: the kernel would declare it, and that is an argument"},
		{"rmsnorm", "thread", "sum", "digit sum: the kernel would declare it, and that is a name that body rmsnorm itself has"},
		{"rmsnorm", "thread", "factor", "digit factor: the kernel would declare it, and that is a name that body rmsnorm itself has"},
		{"rmsnorm", "thread", "block_sum", "digit block_sum: the kernel would declare it, and that is a name that body rmsnorm itself has"},
		{"matvec-q8", "block", "acts", "digit acts: the kernel would declare it, and that is a name that body matvec_q8 itself has"},
		{"matvec-q8", "block", "a", "digit a: the kernel would declare it, and that is a name that body matvec_q8 itself has"},
		{"argmax", "run", "max", "digit max: the kernel would declare it, and that is a name that body argmax itself has"},
		{"argmax", "run", "lane_index", "digit lane_index: the kernel would declare it, and that is a name that body argmax itself has"},
		{"rmsnorm", "round", "pass", "digit pass: body rmsnorm has no loop of this name"},
		{"argmax", "slot", "seat", "digit seat: body argmax has no slot of this name"},
		{"argmax", "place", "home", ""}, // of one value: no text says it
		{"argmax", "run", "strip", ""},
	} {
		fsys := fstest.MapFS{}
		for _, pattern := range []string{"formats/q4_K.yaml", "formats/q6_K.yaml", "formats/a8.yaml", "devices/*.yaml"} {
			names, err := fs.Glob(specs.FS, pattern)
			if err != nil || len(names) == 0 {
				t.Fatal(pattern, err)
			}
			for _, name := range names {
				data, err := fs.ReadFile(specs.FS, name)
				if err != nil {
					t.Fatal(err)
				}
				fsys[name] = &fstest.MapFile{Data: data}
			}
		}
		name := "kernels/" + c.file + ".yaml"
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?m)^over:.*\n|, formats: \[q.*?\]`).ReplaceAllString(string(data), "")
		from := regexp.MustCompile(`(name: |\[|, |\{)` + c.from + `([],:])`)
		head, rest, _ := strings.Cut(text, "\ndigits:")
		digits, tail, _ := strings.Cut(rest, "\ncover:")
		fsys[name] = &fstest.MapFile{Data: []byte(head + "\ndigits:" + from.ReplaceAllString(digits, "${1}"+c.to+"${2}") + "\ncover:" + tail)}
		switch _, err := gen.Load(fsys); {
		case c.want == "" && err != nil:
			t.Errorf("%s with %s: %v", c.file, c.to, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "specs/"+name+":")):
			t.Errorf("%s with %s: %v, want %s", c.file, c.to, err, c.want)
		}
	}
}
