package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/minfer/minfer/specs"
)

func runVerb(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// The whole story of the fault that began it all.
func TestWhyTellsTheFault(t *testing.T) {
	code, out, errs := runVerb(t, "why", "q6_K", "3584x18944")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, want := range []string{
		"matvec-q8 of q6_K [3584, 18944] for 1 token on sm_90 (class q8)",
		"v2: CHOSEN",
		"v2_pf: refused",
		"NO  cols 18944: cols <= 16384 (coverage: 256 threads * 2 rounds * 32 elements)",
		"if it ran: units 512..591 of 592 are processed by no thread (13.51 %)",
		"ok  cols 18944: cols % 256 == 0 (block: a row is whole q6_K blocks)",
		"matvec-f32 of q6_K",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// 13824 columns are 432 units: inside the ceiling, where the pipelined form is preferred, unless it is switched off.
	if _, out, _ = runVerb(t, "why", "q6_K", "5120x13824"); !strings.Contains(out, "v2_pf: CHOSEN") {
		t.Errorf("v2_pf is not chosen:\n%s", out)
	}
	if _, out, _ = runVerb(t, "why", "q6_K", "5120x13824", "--off", "MINFER_Q6K_PF"); !strings.Contains(out, "v2_pf: switched off by MINFER_Q6K_PF=0") || !strings.Contains(out, "v2: CHOSEN") {
		t.Errorf("the switch does nothing:\n%s", out)
	}
}

func TestKernelVerbsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"why", "q6_k_m", "1x256"}, 2, `there is no format "q6_k_m"`},
		{[]string{"why", "q6_K", "3584"}, 2, "write rows and columns as 3584x18944"},
		{[]string{"why", "q6_K", "0x256"}, 2, "is no shape"},
		{[]string{"why", "q6_K", "1x256", "--tokens", "0"}, 2, "at least 1 is due"},
		{[]string{"why", "q6_K", "1x256", "--op", "embrace"}, 1, "no kernel family computes embrace of q6_K"},
		{[]string{"cover", "--svg", "x.svg"}, 2, "--svg needs"},
		{[]string{"cover", "--format", "q6_K", "--variant", "matvec-q8/v9", "--svg", "x.svg"}, 2, "has no such kernel"},
		{[]string{"new", "planet", "x"}, 2, "there are format and kernel"},
		{[]string{"new", "format", "9x"}, 2, "is no name of a format"},
	} {
		code, out, errs := runVerb(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: code %d, stdout %q, stderr %q; want code %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

func TestMutateKillsAll(t *testing.T) {
	code, out, errs := runVerb(t, "mutate")
	if code != 0 || !strings.Contains(out, " 0 alive") || !strings.Contains(out, "units 512..591 of 592 are processed by no thread (13.51 %)") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

func TestCover(t *testing.T) {
	code, out, _ := runVerb(t, "cover", "--format", "q6_K")
	if code != 0 || !strings.Contains(out, "18944") || !strings.Contains(out, "<= 512") {
		t.Errorf("code %d:\n%s", code, out)
	}
	path := filepath.Join(t.TempDir(), "v2_pf.svg")
	if code, _, errs := runVerb(t, "cover", "--format", "q6_K", "--variant", "matvec-q8/v2_pf", "--svg", path); code != 0 {
		t.Fatal(errs)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "18944 cols = 592 units: refused: units 512..591 would be dropped"; !strings.Contains(string(svg), want) {
		t.Errorf("no %q in the picture", want)
	}
}

// A spec made by new passes the check beside all others, and is never overwritten.
func TestNewIsValid(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, specs.FS); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"format", "q4_mine"}, {"kernel", "matvec-mine"}} {
		if code, _, errs := runVerb(t, "new", c[0], c[1], "--specs", dir); code != 0 {
			t.Fatal(errs)
		}
		if code, _, errs := runVerb(t, "new", c[0], c[1], "--specs", dir); code != 1 || !strings.Contains(errs, "is there already") {
			t.Errorf("second %v: code %d, %s", c, code, errs)
		}
	}
	if code, out, errs := runVerb(t, "list", "--specs", dir); code != 0 || !strings.Contains(out, "q4_mine") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	if code, out, errs := runVerb(t, "why", "q8_0", "64x4096", "--specs", dir); code != 0 || !strings.Contains(out, "matvec-mine of q8_0") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

// Any bound that a hand takes out of a gate or a kernel is named by the check.
func TestCheckNamesTheBound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "generated")
	if code, _, errs := runVerb(t, "generate", "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	for file, bounds := range map[string]*regexp.Regexp{
		"gate/matvec_q8_q6_K_gate.go": regexp.MustCompile(`PfMaxCols (=|:)|case .*PfMaxCols:`),
		"cuda/matvec_q8_q6_K.cu":      regexp.MustCompile(`static_assert.*_pf_MaxCols`),
	} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		original, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(original)) {
			if !bounds.MatchString(line) {
				continue
			}
			found++
			if err := os.WriteFile(path, []byte(strings.Replace(string(original), line, "", 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			code, _, errs := runVerb(t, "check", "--out", dir)
			if want := "taken out: " + strings.TrimSpace(line); code != 1 || !strings.Contains(errs, want) {
				t.Errorf("%s: code %d, no %q in\n%s", file, code, want, errs)
			}
		}
		if err := os.WriteFile(path, original, 0o644); err != nil {
			t.Fatal(err)
		}
		if found == 0 {
			t.Errorf("%s: no line names %s", file, bounds)
		}
	}
}
