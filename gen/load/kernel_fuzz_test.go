package load_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// FuzzKernel takes any bytes as the spec of a kernel family beside the formats and devices that there are: it is refused with
// positions, or it resolves and is proved, and then every variant has a gate. Nothing panics.
func FuzzKernel(f *testing.F) {
	base := fstest.MapFS{}
	for _, pattern := range []string{"formats/q8_0.yaml", "formats/q6_K.yaml", "formats/f16.yaml", "formats/a8.yaml", "devices/*.yaml"} {
		names, err := fs.Glob(specs.FS, pattern)
		if err != nil || len(names) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(specs.FS, name)
			if err != nil {
				f.Fatal(err)
			}
			base[name] = &fstest.MapFile{Data: data}
		}
	}
	names, err := fs.Glob(specs.FS, "kernels/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer time.AfterFunc(10*time.Second, func() { panic("reading the spec takes for ever") }).Stop()
		fsys := fstest.MapFS{"kernels/k.yaml": {Data: data}}
		for name, file := range base {
			fsys[name] = file
		}
		set, diags, err := spec.Read(fsys)
		if err != nil {
			t.Fatal(err)
		}
		c, pos, more := load.Load(set)
		diags.Add(more)
		if len(diags) == 0 {
			diags.Add(proof.Prove(c, pos))
		}
		for _, d := range diags {
			if d.Pos.File != "specs/kernels/k.yaml" || strings.TrimSpace(d.Message) == "" {
				t.Fatalf("a diagnostic that helps nobody: %q", d)
			}
		}
		if len(diags) > 0 {
			return
		}
		for _, fam := range c.Families {
			for _, format := range fam.Formats {
				for _, v := range fam.VariantsFor(format) {
					if len(bound.Derive(fam, v, format, c.Base())) == 0 {
						t.Fatalf("%s/%s/%s has no gate", fam.Name, format.Name, v.Name)
					}
				}
			}
		}
	})
}
