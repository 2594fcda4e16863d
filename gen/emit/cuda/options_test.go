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

// The options that templates ask for are those that are declared for them, each of them.
func TestOptionsAreDeclared(t *testing.T) {
	names, err := fs.Glob(sources, "templates/*.cu.tmpl")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	asks := regexp.MustCompile(`\.Option "(\w+)"`)
	n := 0
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		var asked, declared []string
		for _, m := range asks.FindAllStringSubmatch(string(text), -1) {
			asked = append(asked, m[1])
		}
		for _, o := range model.BodyOptions(strings.TrimSuffix(path.Base(name), ".cu.tmpl")) {
			declared = append(declared, o.Name)
		}
		slices.Sort(asked)
		slices.Sort(declared)
		if !slices.Equal(slices.Compact(asked), declared) {
			t.Errorf("%s asks for %v, declared are %v", name, asked, declared)
		}
		n += len(declared)
	}
	if n == 0 {
		t.Error("no template has an option")
	}
}
