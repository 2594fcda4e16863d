// Package format emits the facts about weight formats as Go: ids, block geometry, field offsets, block types.
package format

import (
	"bytes"
	"cmp"
	"embed"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"github.com/Masterminds/sprig/v3"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

//go:embed templates/*.tmpl
var files embed.FS

var templates = template.Must(template.New("").Funcs(sprig.HermeticTxtFuncMap()).Funcs(template.FuncMap{
	"goName":  emit.GoName,
	"field":   fieldName,
	"comment": emit.Comment,
	"marker":  emit.Marker,
	"facts":   emit.FormatFacts,
	"align":   func(f *model.Format) int { return proof.FactsOf(f).AlignBytes },
	"doc":     func(f *model.Format) string { return emit.Formula(f.Segs[0].Value) },
}).ParseFS(files, "templates/*.tmpl"))

// Emitter emits package generated/format.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "format" }

// Emit yields format/format.go and one file per format.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	inFile := slices.DeleteFunc(slices.Clone(c.Formats), func(f *model.Format) bool { return !f.InFile() })
	slices.SortFunc(inFile, func(a, b *model.Format) int { return cmp.Compare(a.ID, b.ID) })
	files := make([]emit.File, 0, len(c.Formats)+1)
	add := func(path, tmpl string, data any) error {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, tmpl, data); err != nil {
			return err
		}
		f, err := emit.GoFile(path, b.Bytes())
		files = append(files, f)
		return err
	}
	if err := add("format/format.go", "format.go.tmpl", inFile); err != nil {
		return nil, err
	}
	for _, f := range c.Formats {
		if err := add("format/"+emit.FileName(f, ".go"), "block.go.tmpl", f); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// fieldName is the exported Go name of a field: scales_l is ScalesL, dmin is Dmin.
func fieldName(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "_") {
		r := []rune(part)
		if len(r) > 0 {
			r[0] = unicode.ToUpper(r[0])
		}
		b.WriteString(string(r))
	}
	return b.String()
}
