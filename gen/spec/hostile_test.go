package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/spec"
)

// TestHostile gives the parser texts that are made to exhaust it: each is refused, quickly.
func TestHostile(t *testing.T) {
	const n = 20000
	many := func(s string) string { return strings.Repeat(s, n/len(s)) }
	var stairs strings.Builder
	for i := range 300 {
		fmt.Fprintf(&stairs, "%sa:\n", strings.Repeat(" ", i))
	}
	for name, text := range map[string]string{
		"open brackets":      "format: " + many("["),
		"brackets on lines":  "format: " + many("[\n"),
		"open braces":        many("{a: "),
		"dashes":             many("- "),
		"question marks":     many("? "),
		"stairs":             stairs.String(),
		"anchors":            many("&a "),
		"tags":               many("! "),
		"one long line":      "format: " + many("x"),
		"many keys":          many("a: 1\n"),
		"many quotes":        many("'"),
		"long block of text": "doc: |\n" + many("  a\n"),
		"alias bomb":         "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
		"too long":           strings.Repeat("#", 65<<10),
		"many commas":        "shape: [" + many(",") + "]",
		"colons":             many(":"),
		"colons apart":       many(": "),
		"percent":            many("%"),
		"documents":          many("---\n"),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var diags diag.List
			spec.ParseFormat("specs/formats/hostile.yaml", []byte(text), &diags)
			if len(diags) == 0 {
				t.Error("it was accepted")
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if text := diags.Error(); len(text) > 40*len(diags)+n*4 && len(diags) < 100 {
				t.Errorf("the diagnostics have %d bytes", len(text))
			}
		})
	}
}
