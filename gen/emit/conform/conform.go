// Package conform emits the tests that hold the generated kernels to the specs. They are generated Go tests that stand
// beside the kernels, rather than a table with a runner elsewhere, for two reasons: each format's line states
// the facts it is tested against, derived from its spec, in the diff that a new format brings; and a wiped
// generated/ takes the tests with it, so that the generator never depends on what it generates.
package conform

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

//go:embed templates/*.tmpl
var files embed.FS

var templates = template.Must(template.New("").Funcs(sprig.HermeticTxtFuncMap()).Funcs(template.FuncMap{
	"goName": emit.GoName,
	"marker": emit.Marker,
	"align":  func(f *model.Format) int { return proof.FactsOf(f).AlignBytes },
}).ParseFS(files, "templates/*.tmpl"))

// Emitter emits the tests of packages generated/cpu and generated/format, and package generated/conform.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "conform" }

// suite is what the tests know of a format.
type suite struct {
	Name   string
	Weight string // the range of the weight integer, in words
	Steps  int    // quantize: number of steps between the least and the greatest code; 0 where no scheme is declared
	Exact  bool   // quantize: to the bytes that ggml's reference quantizer gives
}

// Emit yields the test files.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	var data struct {
		Suites     []suite
		InFile     []*model.Format
		Activation string
	}
	for _, f := range c.Formats {
		if !f.InFile() {
			data.Activation = f.Name
		} else {
			data.InFile = append(data.InFile, f)
		}
		s := suite{Name: f.Name, Weight: "a plain number"}
		if lo, hi, ok := proof.WeightRange(f); ok && !f.Plain() {
			s.Weight = fmt.Sprintf("w in %g..%g", lo, hi)
		}
		if e := f.Encode; e != nil {
			numbers := emit.Numbers(e.Code)
			s.Steps = len(numbers) - 1
			// A scale rounded once, by the reciprocal, is ggml's own scheme.
			s.Exact = len(e.Scale) == 1 && e.Round != model.RoundEven
		}
		data.Suites = append(data.Suites, s)
	}
	var out []emit.File
	slices.SortFunc(data.InFile, func(a, b *model.Format) int { return cmp.Compare(a.ID, b.ID) })
	tests := []string{"cpu/conform_test.go", "cpu/quantize_test.go", "cpu/bench_test.go", "format/format_test.go"}
	if len(c.CPU) > 0 {
		tests = append(tests, "tile/tile_test.go")
	}
	for _, path := range tests {
		name := path[strings.IndexByte(path, '/')+1:]
		if data.Activation == "" && (name == "quantize_test.go" || name == "bench_test.go") {
			continue // they compare with activations
		}
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, name+".tmpl", data); err != nil {
			return nil, err
		}
		f, err := emit.GoFile(path, b.Bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if len(c.Families) > 0 {
		f, err := kernels(c)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
