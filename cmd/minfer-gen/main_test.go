package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/specs"
)

// try runs the command as main does.
func try(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, stdin, &out, &errs)
	return code, out.String(), errs.String()
}

// root is the repository and the folder of reference data beside it.
const root = "../.."

// TestDequantGolden runs every golden block that ggml made through the command, byte for byte.
func TestDequantGolden(t *testing.T) {
	golden := filepath.Join(root, "..", "shared", "golden", "dequant")
	blocks, err := filepath.Glob(filepath.Join(golden, "*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) == 0 {
		t.Skip("the reference data is not there: " + golden)
	}
	for _, name := range blocks {
		format := strings.TrimSuffix(filepath.Base(name), ".bin")
		want, err := os.ReadFile(filepath.Join(golden, format+".f32"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, "specs", "formats", format+".yaml")); err != nil {
			t.Errorf("there is a golden for %s, but no spec", format)
			continue
		}
		if code, out, errs := try(t, nil, "dequant", "--format", format, name); code != exitOK || out != string(want) || errs != "" {
			t.Errorf("%s: code %d, same bytes %t, stderr %q", format, code, out == string(want), errs)
		}
	}
	data, err := os.ReadFile(filepath.Join(golden, "q6_K.bin"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(golden, "q6_K.f32"))
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := try(t, bytes.NewReader(data), "dequant", "--format", "q6_K", "-"); code != exitOK || out != string(want) {
		t.Errorf("standard input: code %d, stderr %q", code, errs)
	}
}

// TestDequantStreams reads more than one chunk.
func TestDequantStreams(t *testing.T) {
	in := bytes.Repeat([]byte{0, 60}, 100000) // 1.0 in f16
	code, out, errs := try(t, bytes.NewReader(in), "dequant", "--format", "f16", "-")
	if code != exitOK || out != strings.Repeat("\x00\x00\x80\x3f", 100000) {
		t.Errorf("code %d, %d bytes, stderr %q", code, len(out), errs)
	}
}

// TestRefusals pins what bad usage and bad input say and end with.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "blocks.bin")
	if err := os.WriteFile(file, make([]byte, 100), 0o666); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	if err := os.MkdirAll(filepath.Join(bad, "formats"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "formats", "b.yaml"), []byte("format: b\nggml_id: 1\nblok: 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	twice := filepath.Join(dir, "twice")
	for _, name := range []string{"a", "b"} {
		text := "format: " + name + "\nggml_id: 1\nblock: {elems: 1, bytes: 1}\nfields:\n  q: {at: 0, type: u8}\nvalue: {weight: [q]}\n"
		if err := errors.Join(os.MkdirAll(filepath.Join(twice, "formats"), 0o777), os.WriteFile(filepath.Join(twice, "formats", name+".yaml"), []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"dequant", "--format", "q4_0", file}, exitNo, "100 bytes: 5 blocks of q4_0 and 10 bytes more; a whole number of blocks of 18 bytes is due"},
		{[]string{"dequant", "--format", "q4_k", file}, exitFailed, "(meant q4_K?)"},
		{[]string{"dequant", "--format", "q4_0", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"dequant", file}, exitFailed, `"format" not set`},
		{[]string{"dequant", "--format", "q4_0"}, exitFailed, "accepts 1 arg"},
		{[]string{"dequant", "--format", "q4_0", "--specs", file, file}, exitFailed, "is no folder"},
		{[]string{"list", "--specs", filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{"list", "--specs", bad}, exitNo, filepath.ToSlash(bad) + "/formats/b.yaml:3:1: unknown key blok (meant block?)"},
		{[]string{"list", "--specs", twice}, exitNo, filepath.ToSlash(twice) + "/formats/b.yaml:2:10: ggml_id 1 is already taken at " + filepath.ToSlash(twice) + "/formats/a.yaml:2:10"},
		{[]string{"check", "--specs", bad, "--out", dir}, exitNo, "4 faults in the specs"},
		{[]string{"generate", "--specs", bad, "--out", dir}, exitNo, "4 faults in the specs"},
		{[]string{"generate", "--out", dir}, exitFailed, "which minfer-gen did not write"},
		{[]string{"gnerate"}, exitFailed, "generate"},
		{[]string{"generate", "now"}, exitFailed, "unknown command"},
		{[]string{"list", "--sepcs", "x"}, exitFailed, "unknown flag"},
	} {
		code, out, errs := try(t, nil, c.args...)
		if code != c.code || !strings.Contains(errs, c.stderr) {
			t.Errorf("%q: code %d, want %d; stderr %q, want %q in it", c.args, code, c.code, errs, c.stderr)
		}
		if out != "" {
			t.Errorf("%q: stdout %q", c.args, out)
		}
	}
	// A partial block at the end of a stream is known only there.
	code, out, errs := try(t, bytes.NewReader(make([]byte, 3)), "dequant", "--format", "f16", "-")
	if code != exitNo || len(out) != 4 || !strings.Contains(errs, "standard input has 3 bytes") {
		t.Errorf("code %d, %d bytes, stderr %q", code, len(out), errs)
	}
}

// TestCheckNamesEveryFault takes a generated folder through what happens to one.
func TestCheckNamesEveryFault(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "generated")
	must := func(code int, args ...string) (string, string) {
		t.Helper()
		got, out, errs := try(t, nil, append(args, "--out", dir)...)
		if got != code {
			t.Fatalf("%q: code %d, want %d; stderr %q", args, got, code, errs)
		}
		return out, errs
	}
	must(exitOK, "generate")
	if out, errs := must(exitOK, "check"); out+errs != "" {
		t.Errorf("a clean check says %q", out+errs)
	}
	if out, _ := must(exitOK, "diff"); out != "" {
		t.Errorf("a clean diff says %q", out)
	}

	edited := filepath.Join(dir, "format", "format.go")
	original, err := os.ReadFile(edited)
	if err != nil {
		t.Fatal(err)
	}
	crlf := filepath.Join(dir, "cpu", "cpu.go")
	text, err := os.ReadFile(crlf)
	if err != nil {
		t.Fatal(err)
	}
	// The line's blanks depend on the formats that there are.
	line := regexp.MustCompile(`\tQ4_0 +Type = 2 +// .*\n`).FindString(string(original))
	damaged := strings.Replace(line, "= 2", "= 22", 1)
	if line == "" {
		t.Fatal("the format's id is not where it was")
	}
	for name, data := range map[string][]byte{
		edited: []byte(strings.Replace(string(original), line, damaged, 1)),
		crlf:   bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
		filepath.Join(dir, "format", "notes.txt"): []byte("notes\n"),
	} {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "format", "q4_0.go")); err != nil {
		t.Fatal(err)
	}
	_, errs := must(exitNo, "check")
	show := filepath.ToSlash(dir)
	want := strings.Join([]string{
		show + "/format/format.go: edited by hand: it is not what the generator wrote; change the spec or the emitter instead",
		"    put in: " + strings.TrimSpace(damaged),
		"    taken out: " + strings.TrimSpace(line),
		show + "/format/notes.txt: foreign: not a generated file; put it elsewhere",
		show + "/format/q4_0.go: missing: the specs make it, but it is not there",
		"3 generated files are not what the specs make; see them with: go run ./cmd/minfer-gen diff --out " + dir,
		"bring them in line with: go run ./cmd/minfer-gen generate --out " + dir,
		"",
	}, "\n")
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	out, _ := must(exitNo, "diff")
	for _, line := range []string{"-" + strings.TrimRight(damaged, "\n"), "+" + strings.TrimRight(line, "\n"), "--- /dev/null", "+++ /dev/null", "-notes", "@@ "} {
		if !strings.Contains(out, line) {
			t.Errorf("the diff has no %q:\n%.2000s", line, out)
		}
	}
	_, errs = must(exitOK, "generate")
	for _, line := range []string{"overwrote edits of " + show + "/format/format.go", "removed " + show + "/format/notes.txt", "wrote " + show + "/format/q4_0.go", "wrote " + show + "/cpu/cpu.go"} {
		if !strings.Contains(errs, line) {
			t.Errorf("generate does not say %q: %q", line, errs)
		}
	}
	must(exitOK, "check")
}

// A figure that was measured of another geometry is named, and only that.
func TestCheckNamesStaleFigures(t *testing.T) {
	dir := t.TempDir()
	folder, out := filepath.Join(dir, "specs"), filepath.Join(dir, "generated")
	if err := os.CopyFS(folder, specs.FS); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "routes", "sm90.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`geometry: "([0-9a-f]{8})"`).FindSubmatch(text)
	if row == nil {
		t.Fatal("no row of routes has a geometry")
	}
	other := strings.Replace(string(text), string(row[0]), `geometry: "0123abcd"`, 1)
	if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, []byte(other), 0o644)); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := try(t, nil, "generate", "--specs", folder, "--out", out); code != exitOK {
		t.Fatalf("generate: code %d, %s", code, errs)
	}
	code, _, errs := try(t, nil, "check", "--specs", folder, "--out", out)
	want := regexp.MustCompile(`^` + regexp.QuoteMeta(filepath.ToSlash(file)) + `:\d+:\d+: \S+ deals otherwise than when it was measured \(geometry 0123abcd, now ` + string(row[1]) + `\); tune again, or delete the row\n$`)
	if code != exitNo || !want.MatchString(errs) {
		t.Errorf("code %d, %q", code, errs)
	}
}

// TestRepositoryIsUpToDate is the check that the committed files are what the specs make.
func TestRepositoryIsUpToDate(t *testing.T) {
	if code, _, errs := try(t, nil, "check", "--out", filepath.Join(root, "generated")); code != exitOK {
		t.Errorf("code %d\n%s", code, errs)
	}
}

// TestList prints one line a format.
func TestList(t *testing.T) {
	code, out, errs := try(t, nil, "list")
	if code != exitOK || errs != "" {
		t.Fatalf("code %d, stderr %q", code, errs)
	}
	specs, err := filepath.Glob(filepath.Join(root, "specs", "formats", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "\n"); n != len(specs)+1 {
		t.Errorf("%d lines for %d specs", n, len(specs))
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] == "q6_K" {
			if diff := cmp.Diff(strings.Fields("q6_K 14 256 210 6.5625 2 224 8 128 -32..31 extreme/even"), f); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			return
		}
	}
	t.Error("no line for q6_K")
}
