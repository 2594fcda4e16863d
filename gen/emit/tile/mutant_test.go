package tile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/specs"
)

// mutation damages one kernel of every format that has the place: all of them in one build, each in a variant of its own.
type mutation struct {
	name    string
	variant string
	test    string // that must notice
	pattern *regexp.Regexp
	with    string
	few     bool // only some formats have the place
}

var mutations = []mutation{
	{"a unit is left out", "avx512vnni", "TestElements", regexp.MustCompile(`(CMPQ\s+R14, )\$0x[0-9a-f]+(\n\s+JLT\s+unit)`), "${1}$$0x80$2", true},
	{"a block is left out", "avx512vnni_t4", "TestElements", regexp.MustCompile(`(DECQ\s+R13\n)(\s+)JNZ(\s+block)`), "${1}\tCMPQ R13, $$1\n${2}JGT$3", false},
	{"an activation of the next lane", "avx512vnni_t16", "TestElements", regexp.MustCompile(`(VPDPBUSD\.BCST\s+)8\(R9\)`), "${1}12(R9)", false},
	{"scale and dot are added", "avx512", "TestElements", regexp.MustCompile(`(VCVTDQ2PS\s+(Z\d+), Z\d+\n\s+)VMULPS(\s+Z\d+, Z\d+, Z\d+\n)`), "${1}VADDPS$3", false},
	{"the offset has the wrong sign", "avx512_t4", "TestElements", regexp.MustCompile(`VFNMADD231PS`), "VFMADD231PS", true},
	{"the bias is subtracted", "avx512_t16", "TestDot", regexp.MustCompile(`VADDPS(\s+\(R11\))`), "VSUBPS$1", false},
	{"a shift is one less", "avx2", "TestElements", regexp.MustCompile(`(VMOVDQU\s+\d+\(DX\)\(R14\*\d\), (Y\d+)\n\s+VPSRLD\s+\$0x0)([2-7])`), "${1}1", true},
	{"a sum of pairs is dropped", "avx2_t4", "TestElements", regexp.MustCompile(`VPADDW(\s+Y\d+, Y\d+, Y\d+)`), "VPSUBW$1", false},
	{"numbers that are not finite go unnoticed", "avx2vnni", "TestNotFinite", regexp.MustCompile(`ORQ(\s+AX, R15)`), "ANDQ$1", false},
	{"the eighth bit of an index goes unread", "avx512vbmi", "TestElements", regexp.MustCompile(`VPMOVB2M(\s+)Z\d+, (K\d)`), "KXORQ${1}$2, $2, $2", true},
	{"a bit beyond the eighth is taken off", "avx512vbmi_t4", "TestElements", regexp.MustCompile(`VPADDB(\s+\d+\(R15\), Z\d+, K\d)`), "VPSUBB$1", true},
	{"a lane's bits are spread as its neighbour's", "avx512vbmi_t16", "TestElements", regexp.MustCompile(`(VMOVDQU32\s+)512\(R15\)`), "${1}576(R15)", true},
	{"two tokens share a row of sums", "avx2vnni_t4", "TestElements", regexp.MustCompile(`ADDQ(\s+)CX, AX`), "ADDQ${1}$$0, AX", false},
}

// packings damage how rows are laid out; one build each.
var packings = []mutation{
	{name: "bits of a word are shifted", test: "TestPack", pattern: regexp.MustCompile(`(putPlane\(y\[\d+\+4\*row:\], w, \d, )(\d)\)`), with: "${1}$2+1)"},
	{name: "an index goes to the neighbour", test: "TestPack", pattern: regexp.MustCompile(`&0xff<<8\|`), with: "&0xff<<16|", few: true},
	{name: "a scale goes to the neighbour", test: "TestPack", pattern: regexp.MustCompile(`\*row:\], uint(16|32)`), with: "*(row^1):], uint$1"},
}

func TestMutantsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the kernels several times")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the kernels are assembly of amd64")
	}
	root := shared.Root(t)
	files, err := gen.Generate(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	if levels := cpufeature.Levels(); len(levels) < 5 {
		t.Logf("this CPU runs %v: mutants of other levels are not run", levels)
	}
	t.Run("kernels", func(t *testing.T) {
		t.Parallel()
		sources, mutated := map[string]string{}, map[*mutation][]string{}
		for i := range mutations {
			m := &mutations[i]
			level, _, _ := strings.Cut(m.variant, "_")
			if l, err := cpufeature.Parse(level); err != nil || !slices.Contains(cpufeature.Levels(), l) {
				continue
			}
			for _, f := range files {
				base := filepath.Base(f.Path)
				format, ok := strings.CutSuffix(base, "_"+level+"_amd64.s")
				if !ok || filepath.Dir(f.Path) != "tile" || !bytes.Contains(f.Data, []byte("·tileQ8")) {
					continue
				}
				if sources[f.Path] == "" {
					sources[f.Path] = string(f.Data)
				}
				if damaged, ok := damage(sources[f.Path], m); ok {
					sources[f.Path] = damaged
					mutated[m] = append(mutated[m], format)
				}
			}
			if n := len(mutated[m]); n < 3 || !m.few && n < 20 {
				t.Errorf("%s: only %d formats have the place", m.name, n)
			}
		}
		out := run(t, root, sources, "TestElements|TestDot|TestNotFinite")
		for m, formats := range mutated {
			for _, format := range formats {
				if want := fmt.Sprintf("--- FAIL: %s/%s/%s ", m.test, format, m.variant); !bytes.Contains(out, []byte(want)) {
					t.Errorf("%s survives in %s of %s", m.name, m.variant, format)
				}
			}
		}
	})
	for _, m := range packings {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			sources := map[string]string{}
			var formats []string
			for _, f := range files {
				source := string(f.Data)
				at := m.pattern.FindStringSubmatchIndex(source)
				if filepath.Dir(f.Path) != "tile" || !strings.Contains(source, "func pack") || at == nil || strings.HasSuffix(f.Path, "tile.go") {
					continue
				}
				sources[f.Path] = source[:at[0]] + string(m.pattern.ExpandString(nil, m.with, source, at)) + source[at[1]:]
				formats = append(formats, strings.TrimSuffix(filepath.Base(f.Path), ".go"))
			}
			if n := len(formats); n < 3 || !m.few && n < 20 {
				t.Errorf("only %d formats have the place", len(formats))
			}
			out := run(t, root, sources, "TestPack")
			for _, format := range formats {
				if !bytes.Contains(out, []byte("--- FAIL: "+m.test+"/"+format+" ")) {
					t.Errorf("survives in %s", format)
				}
			}
		})
	}
}

// damage makes the mutation in the function of its variant, in its first place.
func damage(source string, m *mutation) (string, bool) {
	parts := strings.Split(m.variant, "_")
	name := strings.ToUpper(parts[0][:1]) + parts[0][1:]
	if len(parts) > 1 {
		name += strings.ToUpper(parts[1])
	}
	lo := strings.Index(source, name+"(SB), NOSPLIT")
	if lo < 0 {
		return "", false
	}
	hi := len(source)
	if n := strings.Index(source[lo:], "\n// func "); n >= 0 {
		hi = lo + n
	}
	body := source[lo:hi]
	at := m.pattern.FindStringSubmatchIndex(body)
	if at == nil {
		return "", false
	}
	body = body[:at[0]] + string(m.pattern.ExpandString(nil, m.with, body, at)) + body[at[1]:]
	return source[:lo] + body + source[hi:], true
}

// run runs tests of the kernels with some files replaced; they must fail.
func run(t *testing.T, root string, sources map[string]string, tests string) []byte {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, source := range sources {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, "generated", filepath.FromSlash(name))] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-overlay", list, "-run", "^("+tests+")$", "./generated/tile")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("--- FAIL: ")) {
		t.Fatalf("the mutants do not run, or none is noticed: %v\n%s", err, out)
	}
	return out
}
