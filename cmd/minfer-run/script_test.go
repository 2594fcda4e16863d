package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/minfer/minfer/runtime/demo"
	"github.com/minfer/minfer/runtime/gguf"
)

// asProgram is set where the test binary is to be minfer-run itself.
const asProgram = "MINFERRUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
	}
	testscript.Main(m, map[string]func(){"minfer-run": main})
}

// program is minfer-run as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "LLAMA_") || strings.HasPrefix(s, "MINFER_") || strings.HasPrefix(s, "NO_COLOR=")
	}), asProgram+"=1", "TERM=xterm")
	c.Dir = t.TempDir()
	return c
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"demo":  writeDemo,
			"json":  checkJSON,
			"fails": fails,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "full":
				_, err := os.Stat("/dev/full")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
	})
}

// fails runs minfer-run and wants an exit code, nothing on stdout and one line on stderr: fails CODE ARGUMENT...
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fails CODE ARGUMENT...")
	}
	err := ts.Exec("minfer-run", args[1:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout: %q", out)
	}
	text := ts.ReadFile("stderr")
	if lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n"); len(lines) != 1 || !strings.HasPrefix(text, "minfer-run: ") {
		ts.Fatalf("not one line of minfer-run's: %q", text)
	}
}

// writeDemo writes the demo model to a file: demo FILE [-KEY | KEY=VALUE]... leaves metadata out or sets it, to a bool, an
// integer or a text.
func writeDemo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: demo FILE [-KEY | KEY=VALUE]...")
	}
	f, err := demo.Open()
	ts.Check(err)
	w := gguf.NewWriter()
	drop, set := map[string]bool{}, [][2]string{}
	for _, a := range args[1:] {
		if key, ok := strings.CutPrefix(a, "-"); ok {
			drop[key] = true
			continue
		}
		key, val, ok := strings.Cut(a, "=")
		if !ok {
			ts.Fatalf("demo: %q is neither -KEY nor KEY=VALUE", a)
		}
		drop[key] = true
		set = append(set, [2]string{key, val})
	}
	for key, v := range f.Meta.All() {
		if !drop[key] {
			ts.Check(w.Set(key, v))
		}
	}
	for _, kv := range set {
		v := gguf.Of(kv[1])
		if n, err := strconv.ParseUint(kv[1], 10, 32); err == nil {
			v = gguf.Of(uint32(n))
		} else if b, err := strconv.ParseBool(kv[1]); err == nil {
			v = gguf.Of(b)
		}
		ts.Check(w.Set(kv[0], v))
	}
	for _, t := range f.Tensors {
		ts.Check(w.Add(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data())))
	}
	ts.Check(w.WriteFile(context.Background(), ts.MkAbs(args[0]), nil))
}

// checkJSON checks values in a JSON file: json FILE PATH [VALUE]. PATH is of keys and indexes joined by dots; "len" counts an
// array. Without VALUE something must be there.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: json FILE PATH [VALUE]")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, key := range strings.Split(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				if neg && len(args) == 2 {
					return
				}
				ts.Fatalf("%s: no %q on the way to %s", args[0], key, args[1])
			}
			v = next
		case []any:
			if key == "len" {
				v = len(x)
				continue
			}
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i < 0 || i >= len(x) {
				ts.Fatalf("%s: no item %q of %d on the way to %s", args[0], key, len(x), args[1])
			}
			v = x[i]
		default:
			ts.Fatalf("%s: %q is in no object on the way to %s", args[0], key, args[1])
		}
	}
	got := fmt.Sprint(v)
	if len(args) == 3 && (got == args[2]) == neg {
		ts.Fatalf("%s: %s is %s", args[0], args[1], got)
	}
	if len(args) == 2 && neg {
		ts.Fatalf("%s: %s is there: %s", args[0], args[1], got)
	}
}

// TestScriptsAreRun: a script that is misnamed would be passed over.
func TestScriptsAreRun(t *testing.T) {
	files, err := os.ReadDir("testdata/script")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".txtar" {
			t.Errorf("%s is no script", f.Name())
		}
	}
}
