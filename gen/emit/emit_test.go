package emit_test

import (
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, exported, camel string }{
		{"q4_K", "Q4K", "q4K"},
		{"q4_0", "Q4_0", "q40"},
		{"iq2_xxs", "IQ2XXS", "iq2Xxs"},
		{"tq1_0", "TQ1_0", "tq10"},
		{"mxfp4", "MXFP4", "mxfp4"},
		{"iq2xxs_grid", "IQ2XXSGRID", "iq2xxsGrid"},
		{"q8_1_x4", "Q8_1X4", "q81X4"},
	} {
		if got := emit.GoName(c.name); got != c.exported {
			t.Errorf("GoName(%s) = %s, want %s", c.name, got, c.exported)
		}
		if got := emit.CamelName(c.name); got != c.camel {
			t.Errorf("CamelName(%s) = %s, want %s", c.name, got, c.camel)
		}
	}
}

// The go tool would leave a file out whose name ends in a platform, or take it for a test.
func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"q4_K": "q4_K.go", "q4_0": "q4_0.go", "x_arm64": "x_arm64_block.go", "q_test": "q_test_block.go", "windows": "windows.go", "q4_windows": "q4_windows_block.go",
	} {
		if got := emit.FileName(&model.Format{Name: name}, ".go"); got != want {
			t.Errorf("FileName(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestGoFile(t *testing.T) {
	f, err := emit.GoFile("a.go", []byte("package a\nvar  x=1\n"))
	if err != nil || string(f.Data) != "package a\n\nvar x = 1\n" {
		t.Errorf("formatted to %q, %v", f.Data, err)
	}
	_, err = emit.GoFile("cpu/a.go", []byte("package a\nvar x = = 1\n"))
	if err == nil {
		t.Fatal("source that does not parse is accepted")
	}
	for _, want := range []string{"cpu/a.go", "    2  var x = = 1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not show %q:\n%v", want, err)
		}
	}
}
