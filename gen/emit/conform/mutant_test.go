package conform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/specs"
)

// mutation damages one function of a format's file in one place.
type mutation struct {
	name     string
	function string // prefix of the function's name
	test     string // the test that must notice
	pattern  *regexp.Regexp
	with     func(match []string) string
}

func number(match []string, i, add int) int {
	var v int
	fmt.Sscan(match[i], &v)
	return v + add
}

var mutations = []mutation{
	{"a mask has a bit less", "dequantize", "TestDequantize", regexp.MustCompile(`&(0x[0-9a-f]+|3|7)\b`),
		func(m []string) string { return "&(" + m[1] + ">>1)" }},
	{"a shift is one more", "dequantize", "TestDequantize", regexp.MustCompile(`>>(\d+)`),
		func(m []string) string { return fmt.Sprintf(">>%d", number(m, 1, 1)) }},
	{"a scale is left out", "dotF32", "TestDotF32", regexp.MustCompile(`(scale\d*|d)\*`),
		func(m []string) string { return m[1] + "/" + m[1] + "*" }},
	{"the wrong element of x", "dotF32", "TestDotF32", regexp.MustCompile(`(xs?)\[(\w[^\]]*)\]\n`),
		func(m []string) string { return m[1] + "[(" + m[2] + ")^1]\n" }},
	{"a product is subtracted", "dotQ8", "TestDotQ8", regexp.MustCompile(`(dot\d*) \+= `),
		func(m []string) string { return m[1] + " -= " }},
	{"a packed mask loses a lane", "dotQ8", "TestDotQ8", regexp.MustCompile(`&0x[0-9a-f]{16}`),
		func(m []string) string { return m[0] + "&^(0xff<<56)" }},
	{"a sum counts twice", "dotQ8", "TestDotQ8", regexp.MustCompile(`acc \+= `),
		func(m []string) string { return "acc += 2 * " }},
	{"a code is one more", "quantize", "TestQuantizeRoundTrip", regexp.MustCompile(`byte\((q)\b`),
		func(m []string) string { return "byte(3+" + m[1] }},
	{"the scale is stored twice as great", "quantize", "TestQuantizeRoundTrip", regexp.MustCompile(`\bd := numeric\.`),
		func(m []string) string { return "d := 2 * numeric." }},
}

// Each mutation is made in the file of every format that has the place, all in one build; the test of each must fail.
func TestMutantsOfKernelsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels once for each mutation")
	}
	root := shared.Root(t)
	files, err := gen.Generate(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			var mutated []string
			for _, f := range files {
				format := strings.TrimSuffix(filepath.Base(f.Path), ".go")
				source, ok := damage(string(f.Data), m)
				if filepath.Dir(f.Path) != "cpu" || !ok {
					continue
				}
				copy := filepath.Join(dir, format+".go")
				if err := os.WriteFile(copy, []byte(source), 0o644); err != nil {
					t.Fatal(err)
				}
				overlay.Replace[filepath.Join(root, "generated", "cpu", format+".go")] = copy
				mutated = append(mutated, format)
			}
			if len(mutated) < 3 {
				t.Fatalf("only %d formats have the place: %v", len(mutated), mutated)
			}
			data, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, data, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "test", "-vet=off", "-overlay", list, "-run", "^"+m.test+"$", "./generated/cpu")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("no mutant is noticed:\n%s", out)
			}
			if !bytes.Contains(out, []byte("--- FAIL: "+m.test)) {
				t.Fatalf("the mutants do not run:\n%s", out)
			}
			for _, format := range mutated {
				if !bytes.Contains(out, []byte("--- FAIL: "+m.test+"/"+format+" ")) {
					t.Errorf("%s: the mutant survives", format)
				}
			}
			t.Logf("%d mutants noticed: %v", len(mutated), mutated)
		})
	}
}

// damage changes the first place in the function that the mutation names.
func damage(source string, m mutation) (string, bool) {
	start := strings.Index(source, "\nfunc "+m.function)
	if start < 0 {
		return "", false
	}
	end := start + strings.Index(source[start:], "\n}\n")
	body := source[start:end]
	at := m.pattern.FindStringSubmatchIndex(body)
	if at == nil {
		return "", false
	}
	var match []string
	for i := 0; i < len(at); i += 2 {
		match = append(match, body[at[i]:at[i+1]])
	}
	return source[:start] + body[:at[0]] + m.with(match) + body[at[1]:] + source[end:], true
}
