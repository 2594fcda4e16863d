package cuda

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/model"
)

// The options that templates ask for are those that are declared for them, each of them; and the arguments that are declared are said.
func TestBodiesAreDeclared(t *testing.T) {
	names, err := fs.Glob(sources, "templates/*.cu.tmpl")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	asks := regexp.MustCompile(`\.Option "(\w+)"`)
	idle := map[string]string{"matvec_q8": "rows"} // a block to a row: the grid has so many
	var bodies []string
	options := 0
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		template := strings.TrimSuffix(path.Base(name), ".cu.tmpl")
		bodies = append(bodies, template)
		body := model.BodyOf(template)
		if body == nil {
			t.Errorf("gen/model/body.go does not say which arguments %s takes", name)
			continue
		}
		var asked []string
		for _, m := range asks.FindAllStringSubmatch(string(text), -1) {
			asked = append(asked, m[1])
		}
		declared := body.OptionNames()
		slices.Sort(asked)
		slices.Sort(declared)
		if !slices.Equal(slices.Compact(asked), declared) {
			t.Errorf("%s asks for %v, declared are %v", name, asked, declared)
		}
		options += len(declared)
		for _, a := range body.Args {
			if said := regexp.MustCompile(`\b` + a.Name + `\b`).Match(text); said == (idle[template] == a.Name) {
				t.Errorf("%s says argument %s: %t", name, a.Name, said)
			}
			if a.Out && !strings.HasSuffix(a.Types[0], "*") {
				t.Errorf("%s: argument %s is no pointer, and out", name, a.Name)
			}
		}
	}
	if declared := model.BodyNames(false); !slices.Equal(bodies, declared) {
		t.Errorf("there are templates of %v; gen/model/body.go has bodies of %v", bodies, declared)
	}
	if options == 0 {
		t.Error("no template has an option")
	}
}
