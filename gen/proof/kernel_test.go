package proof_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// Dealings that would drop work, repeat it or write an output twice are refused by name.
func TestKernelsRefuse(t *testing.T) {
	const round = "  - {name: round, at: loop, open: true}\n"
	for _, c := range []struct{ name, old, new, want string }{
		{"two digits on one axis of the grid", "at: grid.y", "at: grid.x", "digits block and token both live on grid.x"},
		{"a sum spread over blocks", round, "  - {name: sub, at: grid.z, radix: 2}\n" + round, "digit sub"},
		{"two rows in one sum", "  - {name: thread, at: thread, radix: 256}", "  - {name: w2, at: thread, radix: 2}\n  - {name: thread, at: thread, radix: 256}", "digit w2"},
		{"no whole warps", "radix: 256}", "radix: 255}", "a block has 255 threads"},
		{"a digit nobody deals", "unit: {elems: 32, elems_of: {q4_K: 64}, over: [thread, round]}", "unit: {elems: 32, elems_of: {q4_K: 64}, over: [thread]}", "digit round is dealt to no axis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			if err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := fs.ReadFile(specs.FS, name)
				fsys[name] = &fstest.MapFile{Data: data}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			file := fsys["kernels/matvec-q8.yaml"]
			text := strings.Replace(string(file.Data), c.old, c.new, 1)
			if text == string(file.Data) {
				t.Fatal("the spec is not what it was")
			}
			if c.name == "a sum spread over blocks" {
				text = strings.Replace(text, "over: [thread, round]", "over: [thread, sub, round]", 1)
			}
			if c.name == "two rows in one sum" {
				text = strings.Replace(text, "row: {over: [block]}", "row: {over: [w2, block]}", 1)
			}
			file.Data = []byte(text)
			set, diags, err := spec.Read(fsys)
			if err != nil {
				t.Fatal(err)
			}
			catalog, pos, more := load.Load(set)
			diags.Add(more)
			if len(diags) > 0 {
				t.Fatal(diags)
			}
			found := proof.Prove(catalog, pos)
			if text := found.Error(); len(found) == 0 || !strings.Contains(text, c.want) || !strings.Contains(text, "specs/kernels/matvec-q8.yaml:") {
				t.Errorf("no %q in %q", c.want, text)
			}
		})
	}
}
