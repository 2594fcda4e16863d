package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	ardan "github.com/ardanlabs/jinja"
	"github.com/google/go-cmp/cmp"
	gonjaparts "github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	gonja "github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// The reasons for an interpreter of our own are facts about the two Go libraries for Jinja, in the versions of go.mod.
// This file holds them to be facts: when a newer version changes one, a test here says so, and docs/chat-templates.md
// wants another look.

// renderers render a template with variables made of plain Go data.
var renderers = map[string]func(template string, variables map[string]any) (string, error){
	"gonja": func(template string, variables map[string]any) (text string, err error) {
		defer recovered(&err)
		c := config.New()
		c.TrimBlocks, c.LeftStripBlocks = true, true
		files, err := loaders.NewFileSystemLoader("")
		if err != nil {
			return "", err
		}
		loader, err := loaders.NewShiftedLoader("/template", strings.NewReader(template), files)
		if err != nil {
			return "", err
		}
		t, err := gonja.NewTemplate("/template", c, loader, &gonja.Environment{
			Context: gonjaparts.GlobalFunctions, Filters: gonjaparts.Filters, Tests: gonjaparts.Tests,
			ControlStructures: gonjaparts.ControlStructures, Methods: gonjaparts.Methods,
		})
		if err != nil {
			return "", err
		}
		return t.ExecuteToString(gonja.NewContext(variables))
	},
	"ardanlabs": func(template string, variables map[string]any) (text string, err error) {
		defer recovered(&err)
		t, err := ardan.Compile(template)
		if err != nil {
			return "", err
		}
		values := map[string]ardan.Value{}
		for k, v := range variables {
			values[k] = ardan.FromGoValue(v)
		}
		return t.RenderValues(values)
	},
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

func jsonValue(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return plainNumbers(v)
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// TestLibrariesOnGoldens counts how many of the goldens each library renders to the byte, of the committed templates.
// (Order of keys is theirs to keep or not: both sort the keys of Go maps, so the tool goldens are hard on them; the count
// without them is the second one.)
func TestLibrariesOnGoldens(t *testing.T) {
	type score struct{ Right, RightWithoutTools int }
	got := map[string]score{}
	all := score{}
	folders, err := filepath.Glob("testdata/want/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		if strings.HasPrefix(name, "vocab-") {
			continue
		}
		template := templateText(t, name)
		files, err := filepath.Glob(folder + "/*.txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			conversation, kind, _ := strings.Cut(filepath.Base(f), ".")
			if kind != "txt" {
				continue
			}
			tools := strings.HasPrefix(conversation, "tool")
			want := readFile(t, f)
			raw := jsonValue(t, []byte(readFile(t, "testdata/conversations/"+conversation+".json"))).(map[string]any)
			variables := map[string]any{
				"messages": raw["messages"], "tools": raw["tools"], "documents": nil, "bos_token": "<s>", "eos_token": "</s>",
				"add_generation_prompt": raw["add_generation_prompt"] == true,
			}
			if more, ok := raw["variables"].(map[string]any); ok {
				for k, v := range more {
					variables[k] = v
				}
			}
			count := func(s score) score {
				s.Right++
				if !tools {
					s.RightWithoutTools++
				}
				return s
			}
			all = count(all)
			for library, render := range renderers {
				if text, err := render(template, variables); err == nil && text == want {
					got[library] = count(got[library])
				}
			}
		}
	}
	want := map[string]score{"gonja": {168, 138}, "ardanlabs": {208, 172}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of %+v goldens (-recorded +now):\n%s", all, diff)
	}
}

// TestLibrariesOnConstructs: what templates in use rely on, and each library does otherwise.
func TestLibrariesOnConstructs(t *testing.T) {
	messages := []any{map[string]any{"role": "user", "content": "u1"}, map[string]any{"role": "assistant", "content": "a1"}}
	for _, tt := range []struct{ name, template, want, gonja, ardanlabs string }{
		{"an item by number behind a dot", "{{ messages.0.role }}", "user", "user", ""},
		{"None is not undefined", "{{ none is defined }} {{ missing is none }}", "True False", "False True", "True False"},
		{"an expression over two lines", "{{ 'a' if messages and\n  true else 'b' }}", "a", "error", "a"},
		{"a condition in parentheses", "{{ ('a' if true else 'b') ~ 'c' }}", "ac", "error", "ac"},
		{"division rounds down", "{{ -3 // 2 }} {{ -3 % 2 }}", "-2 1", "-1 -1", "-1 -1"},
		{"strftime_now with a day that is not padded", "{{ strftime_now('%-d') | length < 3 }}", "True", "error", "False"},
		{"escapes", `{{ '\u00e9\x41' }}`, "éA", "éA", `\u00e9\x41`},
		{"an undefined operand", "{{ missing.x }}", "error", "error", ""},
		{"adding a number to a text", "{{ 'a' + 1 }}", "error", "a1", "a1"},
		{"an unknown sign", "{{ $messages }}", "error", "", "[{'content': 'u1', 'role': 'user'}, {'content': 'a1', 'role': 'assistant'}]"},
		{"a text as large as it likes", "{{ ('a' * 50000000) | length }}", "50000000", "50000000", "50000000"},
	} {
		for library, want := range map[string]string{"gonja": tt.gonja, "ardanlabs": tt.ardanlabs} {
			got, err := renderers[library](tt.template, map[string]any{"messages": messages})
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("%s: %s gives %q, recorded is %q", tt.name, library, got, want)
			}
		}
		p, err := Render(tt.template, turns("user", "assistant"), Options{})
		got := p.String()
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("%s: this package gives %q (%v), want %q", tt.name, got, err, tt.want)
		}
	}
}

// TestLibrariesOverflowTheStack: a macro that calls itself ends the program in either library; no recover helps. The
// child process has a small stack limit, so that it ends soon.
func TestLibrariesOverflowTheStack(t *testing.T) {
	const variable = "MINFER_TEST_OVERFLOW"
	const template = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"
	if library := os.Getenv(variable); library != "" {
		debug.SetMaxStack(16 << 20)
		_, err := renderers[library](template, nil)
		fmt.Printf("survived: %v\n", err)
		os.Exit(0)
	}
	for library := range renderers {
		c := exec.Command(os.Args[0], "-test.run=^TestLibrariesOverflowTheStack$")
		c.Env = append(os.Environ(), variable+"="+library)
		out, err := c.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Logf("%s: an emulator runs this program, and the system cannot", library)
			continue
		}
		if err == nil || !strings.Contains(string(out), "stack") {
			t.Errorf("%s: %v\n%.300s", library, err, out)
		}
	}
	if _, err := Render(template, turns("user"), Options{}); err == nil {
		t.Error("this package renders it")
	}
}
