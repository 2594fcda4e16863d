package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/engine"
)

// writeDump writes a dump as another program might: only what compare needs.
func writeDump(t *testing.T, greedy []int32, rows ...[]float32) string {
	t.Helper()
	dir := t.TempDir()
	var b []byte
	for _, r := range rows {
		for _, l := range r {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(l))
		}
	}
	data, err := json.Marshal(map[string]any{"prompt_tokens": []int32{1, 2}, "greedy_tokens": greedy, "n_vocab": len(rows[0])})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{logitsFile: b, dumpFile: data} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCompare(t *testing.T) {
	a := writeDump(t, []int32{1, 0}, []float32{1, 5, -2}, []float32{3, 1, 1})
	b := writeDump(t, []int32{1, 2}, []float32{1.25, 4.5, -2}, []float32{0, 1, 2})
	nan := writeDump(t, []int32{1, 2}, []float32{1, 5, float32(math.NaN())}, []float32{0, 1, 2})
	later := writeDump(t, []int32{1, 0}, []float32{1, 5, -2}, []float32{3, 1, float32(math.Inf(1))})
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string // of stdout, or of stderr where nothing is on stdout
	}{
		{"itself", []string{a, a}, 0, "step 0: largest difference 0, token 0 (1 and 1, at byte 0 of logits.f32); the same most likely token 1\n"},
		{"differs", []string{a, b}, 1, "step 0: largest difference 0.5, token 1 (5 and 4.5, at byte 4 of logits.f32); the same most likely token 1\n"},
		{"within", []string{a, b, "--tolerance", "0.5"}, 0, "step 0: largest difference 0.5,"},
		{"all steps", []string{a, b, "--tolerance", "3", "--all-steps"}, 0, "step 1: largest difference 3, token 0 (3 and 0, at byte 12 of logits.f32); the most likely token is 0 in one, 2 in the other\n"},
		{"a later step over", []string{a, b, "--tolerance", "2", "--all-steps"}, 1, "step 1: largest difference 3,"},
		{"not a number", []string{a, nan}, 1, filepath.Join(nan, logitsFile) + ": step 0, token 2 (byte 8) is NaN"},
		{"a later step is not looked at", []string{a, later}, 0, "step 0: largest difference 0,"},
		{"infinite in a later step", []string{a, later, "--all-steps"}, 1, filepath.Join(later, logitsFile) + ": step 1, token 2 (byte 20) is +Inf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(context.Background(), append([]string{"compare"}, c.args...), strings.NewReader(""), &out, &errs, nil)
			text := out.String()
			if text == "" {
				text = errs.String()
			}
			if code != c.code || !strings.Contains(text, c.out) {
				t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
}

// TestModelOptions: what the flags say reaches the engine.
func TestModelOptions(t *testing.T) {
	a := &app{stdout: newOutput(&bytes.Buffer{}), stderr: &bytes.Buffer{}}
	var m modelFlags
	root := a.root()
	f := newFlags(root)
	f.group("Test")
	m.addContext(f)
	m.add(f)
	if _, _, err := a.spell(f, strings.Fields("-m x.gguf --device emu -t 3 -c 99 -b 7 -ctk f32 -ctv f32 --precision f32")); err != nil {
		t.Fatal(err)
	}
	want := engine.Options{Device: "emu", Context: 99, Threads: 3, Batch: 7, KVType: "f32", Precision: device.F32}
	if diff := cmp.Diff(m.options(), want, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Progress" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	if m.path != "x.gguf" {
		t.Errorf("model %q", m.path)
	}
}
