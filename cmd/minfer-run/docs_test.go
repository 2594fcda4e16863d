package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

// repository is the root of the repository.
const repository = "../.."

// help is what minfer-run prints for arguments that ask for help.
func help(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(context.Background(), args, strings.NewReader(""), &out, &errs, nil); code != 0 || errs.Len() > 0 {
		t.Fatalf("%q: exit %d: %s", args, code, errs.String())
	}
	return out.String()
}

// cliPage is docs/cli.md: the help of every verb.
func cliPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString("<!-- Written by: go test ./cmd/minfer-run -run TestCommandLinePage -update -->\n\n# minfer-run\n\nWhat `minfer-run --help` and the help of each verb print.\n\n```\n")
	b.WriteString(help(t, "--help"))
	b.WriteString("```\n")
	a := &app{stdout: newOutput(io.Discard), stderr: io.Discard}
	for _, c := range a.root().Commands() {
		if c.Name() == "run" || a.verbs[c.Name()] == nil {
			continue
		}
		b.WriteString("\n## " + c.Name() + "\n\n```\n" + help(t, c.Name(), "--help") + "```\n")
	}
	return b.String()
}

func TestCommandLinePage(t *testing.T) {
	path := filepath.Join(repository, "docs", "cli.md")
	want := cliPage(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("%s is not what the help says; write it anew with -update:\n%s", path, diff)
	}
}

// TestHelpFits: the help is for terminals of 80 columns.
func TestHelpFits(t *testing.T) {
	for line := range strings.Lines(cliPage(t)) {
		line = strings.TrimSuffix(line, "\n")
		if len([]rune(line)) > 80 && !strings.HasPrefix(line, "<!--") {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

// pages are the texts that a newcomer reads.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	texts := map[string]string{}
	for _, f := range append(files, filepath.Join(repository, "README.md"), filepath.Join(repository, "ARCHITECTURE.md")) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = string(data)
	}
	return texts
}

// code gives the lines of a page that are code: in fences, and between backticks.
func code(text string) []string {
	var lines []string
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			lines = append(lines, line)
		default:
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 {
					lines = append(lines, part)
				}
			}
		}
	}
	return lines
}

// words splits a command as a shell does, up to a comment, a pipe or a redirection.
func words(line string) (args []string) {
	word, in, quote := "", false, rune(0)
	end := func() {
		if in {
			args = append(args, word)
		}
		word, in = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			in, quote = true, r
		case r == ' ' || r == '\t':
			end()
		case !in && r == '#', r == '|' || r == '>' || r == '<' || r == ';' || r == '&':
			end()
			return args
		default:
			in, word = true, word+string(r)
		}
	}
	end()
	return args
}

// command gives the arguments of a minfer-run or minfer-gen command in a line.
func command(line string) (program string, args []string) {
	line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
	line = strings.TrimPrefix(line, "go run ./cmd/")
	line = strings.TrimPrefix(line, "./")
	if i := strings.Index(line, "| minfer-run"); i >= 0 {
		line = line[i+2:]
	}
	if i := strings.Index(line, "     "); i > 0 && strings.HasPrefix(line, "minfer-") {
		line = line[:i] // a remark
	}
	args = words(line)
	if len(args) == 0 || args[0] != "minfer-run" && args[0] != "minfer-gen" {
		return "", nil
	}
	return args[0], args[1:]
}

// TestCommandsInDocs: every command that a page shows is one that there is, with flags that there are.
func TestCommandsInDocs(t *testing.T) {
	found := 0
	for name, text := range pages(t) {
		for _, line := range code(text) {
			program, args := command(line)
			switch {
			case program == "":
				continue
			case program == "minfer-gen":
				if len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] == strings.ToLower(args[0]) && !generatorVerb(t, args[0]) {
					t.Errorf("%s: minfer-gen has no verb %q: %s", name, args[0], line)
				}
				continue
			case len(args) > 0 && (args[0] == "VERB" || args[0] == "[run]"):
				continue // usage
			case slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "[") }), strings.Contains(line, "NAME"):
				continue
			}
			found++
			a := &app{stdout: newOutput(io.Discard), stderr: io.Discard}
			if _, err := a.prepare(a.root(), args); err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}

// generatorVerb reports whether minfer-gen has a verb.
func generatorVerb(t *testing.T, verb string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "cmd", "minfer-gen", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	use := regexp.MustCompile(`Use:\s+"` + regexp.QuoteMeta(verb) + `[" ]`)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if use.Match(data) {
			return true
		}
	}
	return false
}

// TestLinksInDocs: files, folders and make targets that the pages name are there.
func TestLinksInDocs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	path := regexp.MustCompile(`^(specs|gen|generated|runtime|cmd|docs)(/[A-Za-z0-9_./-]+)?$`)
	target := regexp.MustCompile(`^make ([a-z]+)`)
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: dead link %s", name, m[1])
			}
		}
		for _, c := range code(text) {
			c = strings.TrimSpace(c)
			if m := target.FindStringSubmatch(c); m != nil && !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", name, m[1])
			}
			if base := filepath.Base(name); path.MatchString(c) && (base == "README.md" || base == "ARCHITECTURE.md") {
				if _, err := os.Stat(filepath.Join(repository, strings.TrimSuffix(c, "/..."))); err != nil {
					t.Errorf("%s: there is no %s", name, c)
				}
			}
		}
	}
}

// TestExamples: the examples of the help are commands that there are.
func TestExamples(t *testing.T) {
	a := &app{stdout: newOutput(io.Discard), stderr: io.Discard}
	for _, c := range a.root().Commands() {
		for line := range strings.Lines(c.Example) {
			program, args := command(line)
			if program == "" {
				t.Errorf("%s: %q is no command", c.Name(), line)
				continue
			}
			b := &app{stdout: newOutput(io.Discard), stderr: io.Discard}
			if _, err := b.prepare(b.root(), args); err != nil {
				t.Errorf("%s: %s: %v", c.Name(), line, err)
			}
		}
	}
}
