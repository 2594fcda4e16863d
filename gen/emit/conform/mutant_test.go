package conform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// rounds packs the mutations into few builds: in one build no two damage the same function, and none that the
// test of another relies on (a round trip relies on both quantize and dequantize).
func rounds() [][]mutation {
	var list [][]mutation
	for _, m := range mutations {
		placed := false
		for i, round := range list {
			if !placed && !slices.ContainsFunc(round, func(o mutation) bool {
				return o.function == m.function || o.function == "dequantize" && m.function == "quantize" || o.function == "quantize" && m.function == "dequantize"
			}) {
				list[i], placed = append(round, m), true
			}
		}
		if !placed {
			list = append(list, []mutation{m})
		}
	}
	return list
}

// Each mutation is made in the file of every format that has the place, many in one build; the test of each must fail
// for each of the formats.
func TestMutantsOfKernelsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels several times")
	}
	root := shared.Root(t)
	files, err := gen.Generate(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	for i, round := range rounds() {
		t.Run(fmt.Sprint("build ", i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			mutated := map[string][]string{} // by the mutation's name
			tests := map[string]bool{}
			for _, f := range files {
				if filepath.Dir(f.Path) != "cpu" || strings.HasSuffix(f.Path, "_test.go") {
					continue
				}
				format, source := strings.TrimSuffix(filepath.Base(f.Path), ".go"), string(f.Data)
				for _, m := range round {
					if damaged, ok := damage(source, m); ok {
						source = damaged
						mutated[m.name] = append(mutated[m.name], format)
						tests[m.test] = true
					}
				}
				if source == string(f.Data) {
					continue
				}
				copy := filepath.Join(dir, format+".go")
				if err := os.WriteFile(copy, []byte(source), 0o644); err != nil {
					t.Fatal(err)
				}
				overlay.Replace[filepath.Join(root, "generated", "cpu", format+".go")] = copy
			}
			data, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, data, 0o644); err != nil {
				t.Fatal(err)
			}
			run := strings.Join(slices.Sorted(maps.Keys(tests)), "|")
			cmd := exec.Command("go", "test", "-vet=off", "-overlay", list, "-run", "^("+run+")$", "./generated/cpu")
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: ")) {
				t.Fatalf("the mutants do not run, or none is noticed: %v\n%s", err, out)
			}
			for _, m := range round {
				formats := mutated[m.name]
				if len(formats) < 3 {
					t.Errorf("%s: only %d formats have the place", m.name, len(formats))
				}
				for _, format := range formats {
					if !bytes.Contains(out, []byte("--- FAIL: "+m.test+"/"+format+" ")) {
						t.Errorf("%s: %s survives in %s", m.test, m.name, format)
					}
				}
				t.Logf("%s: %s, noticed in %v", m.test, m.name, formats)
			}
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
