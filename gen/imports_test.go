package gen_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/internal/shared"
)

const module = "github.com/minfer/minfer/"

// TestImports holds the direction of imports: specs, gen, generated, runtime, cmd. gen stands without generated and
// runtime, so that a wiped generated/ leaves the generator buildable; what runs models never needs the generator.
func TestImports(t *testing.T) {
	rules := []struct {
		packages  string   // a pattern of the go command
		forbidden []string // path prefixes that they must not reach
	}{
		{"./gen/...", []string{module + "generated", module + "runtime", module + "cmd"}},
		{"./cmd/minfer-gen", []string{module + "generated", module + "runtime"}},
		{"./specs", []string{module + "gen", module + "generated", module + "runtime", module + "cmd"}},
		{"./generated/...", []string{module + "gen/", module + "cmd", module + "specs", "github.com/goccy/", "github.com/dave/", "github.com/mmcloughlin/", "github.com/Masterminds/"}},
		{"./generated/format", []string{module + "runtime", module + "generated/cpu"}},
		{"./runtime/...", []string{module + "gen/", module + "cmd", module + "specs", "github.com/goccy/", "github.com/dave/", "github.com/mmcloughlin/"}},
	}
	for _, rule := range rules {
		t.Run(rule.packages, func(t *testing.T) {
			cmd := exec.Command("go", "list", "-deps", "-e", "-f", "{{.ImportPath}} {{.DepOnly}}", rule.packages)
			cmd.Dir = shared.Root(t)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %v", cmd, err)
			}
			own := 0
			for line := range strings.Lines(string(out)) {
				path, depOnly, _ := strings.Cut(strings.TrimSpace(line), " ")
				if depOnly == "false" {
					own++
				}
				for _, f := range rule.forbidden {
					if path == strings.TrimSuffix(f, "/") || strings.HasPrefix(path, f) && (strings.HasSuffix(f, "/") || strings.HasPrefix(path, f+"/")) {
						t.Errorf("%s reaches %s", rule.packages, path)
					}
				}
			}
			if own == 0 {
				t.Errorf("no package matches %s", rule.packages)
			}
		})
	}
}
