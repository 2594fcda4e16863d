package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/tune"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
	"github.com/minfer/minfer/specs"
)

func day() time.Time { return time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC) }

func runArgs(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs, day)
	return code, out.String(), errs.String()
}

// small writes a model of two layers.
func small(t *testing.T) string {
	t.Helper()
	data, err := archtest.Small("qwen2").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func needsCompiler(t *testing.T) {
	t.Helper()
	d, err := emu.Open(t.Context(), emu.Options{})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// The whole way on the emulator: candidates are compiled, judged and timed, and the file of routes is one that the generator takes. Which
// of them wins is chance there.
func TestTuneOnTheEmulator(t *testing.T) {
	t.Setenv("MINFER_STEP_MMA", "0") // attend-step, which has free parameters, is then the choice
	needsCompiler(t)
	file := filepath.Join(t.TempDir(), "routes", "sm90.yaml")
	args := []string{"--device", "emu", "--model", small(t), "--family", "attend-step", "--pool", "1", "--rounds", "5", "--depth", "3"}
	code, out, errs := runArgs(t.Context(), append(args, "-o", file)...)
	if code != 0 {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{"attend-step of f16 tokens 1 kv_heads ", "d128_g8_batch2_warp4", " us, quartiles ", "1 shapes measured on emulator of sm_90 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "dropped") {
		t.Errorf("a candidate was dropped:\n%s", out)
	}
	if !strings.Contains(errs, "these times mean nothing") {
		t.Error(errs)
	}
	data, err := os.ReadFile(file)
	if strings.Contains(out, " 0 routes\n") {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no route was found, and yet there is a file: %s, %v", data, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	routes, err := tune.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := tune.Check(specs.FS, routes); err != nil {
		t.Error(err)
	}
	if have := routes.Runs[0]; have.Date != "2026-12-01" || have.Command != "MINFER_STEP_MMA=0 minfer-gen tune --device emu --model small.gguf --depth 3 --family attend-step --rounds 5 --pool 1" || len(have.First) != 1 {
		t.Errorf("%+v", have)
	}
}

// A contender that computes wrong is dropped and says which judge spoke.
func TestWrongKernelIsDropped(t *testing.T) {
	needsCompiler(t)
	c := catalog(t)
	d, err := emu.Open(t.Context(), emu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fam := familyOf(t, c, "matvec-q8")
	v := fam.Variants[1]
	bad := v.With([]model.Setting{{Name: "thread", Value: 48}}) // a warp and a half: the block's sum leaves lanes out
	w := &sweep{ctx: t.Context(), catalog: c, driver: d, note: func(string, ...any) {}, faults: map[string]string{}}
	f := formatOf(c, "q4_0")
	s := &subject{fam: fam, format: f}
	fault, err := w.make(s, &contender{base: v, variant: bad, settings: []model.Setting{{Name: "thread", Value: 48}}}, entryOf(c, fam, bad, f))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(fault, "judged wrong: ") {
		t.Errorf("%q", fault)
	}
}

func familyOf(t *testing.T, c *model.Catalog, name string) *model.Family {
	t.Helper()
	for _, f := range c.Families {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no family %s", name)
	return nil
}

func TestVerdict(t *testing.T) {
	c := catalog(t)
	v := familyOf(t, c, "matvec-q8").Variants
	for _, x := range []struct {
		own, other []float64
		best       string
		wins       bool
		figure     string
	}{
		{[]float64{10, 10.1, 10.2, 10.1, 10}, []float64{8, 8, 8.1, 8, 8.2}, "v1", true, "8.00 us against 10.10 of v2, medians of 5; noise 0.10"},
		{[]float64{10, 12, 9, 11, 10}, []float64{9.9, 9.5, 9.5, 9, 9.5}, "v1", false, "9.50 us against 10.00 of v2, medians of 5; noise 1.00"},
		{[]float64{10, 10, 10, 10, 10}, []float64{11, 11, 11, 11, 11}, "v2", false, "10.00 us against 10.00 of v2, medians of 5; noise 0.00"},
		{[]float64{10, 10, 10, 10, 10}, nil, "v2", false, "10.00 us against 10.00 of v2, medians of 5; noise 0.00"},
	} {
		s := &subject{contenders: []*contender{{base: v[1], variant: v[1], times: x.own}, {base: v[0], variant: v[0], times: x.other}}}
		best, wins, figure := s.verdict()
		if best.variant.Name != x.best || wins != x.wins || figure != x.figure {
			t.Errorf("%v against %v: %s, %v, %q", x.other, x.own, best.variant.Name, wins, figure)
		}
	}
	if best, _, _ := (&subject{contenders: []*contender{{base: v[0], variant: v[0]}}}).verdict(); best != nil {
		t.Error("a choice that was not timed has a verdict")
	}
}

// What cannot be done is said in one sentence, and nothing is written; an interrupt leaves what was there.
func TestTuneRefuses(t *testing.T) {
	file := small(t)
	dir := t.TempDir()
	for _, x := range []struct {
		want string
		args []string
	}{
		{"give --model FILE or --shape NAME", []string{"--device", "emu"}},
		{"give --model FILE or --shape NAME", []string{"--device", "emu", "--model", file, "--shape", "qwen2.5-7b"}},
		{"--rounds 4: a median of fewer than 5", []string{"--device", "emu", "--model", file, "--rounds", "4"}},
		{"--tokens 0: 1 to 65535", []string{"--device", "emu", "--model", file, "--tokens", "0"}},
		{"--device cpu: kernels are tuned on cuda[:N] or emu", []string{"--device", "cpu", "--model", file}},
		{"-o: crossovers are no routes", []string{"--device", "emu", "--crossovers", "-o", "sm90.yaml"}},
		{"--dry-run: crossovers have no contenders to list", []string{"--device", "emu", "--crossovers", "--dry-run"}},
		{"unknown flag: --fast", []string{"--fast"}},
	} {
		code, out, errs := runArgs(t.Context(), x.args...)
		if code != 2 || out != "" || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, %q, want %q", x.args, code, errs, x.want)
		}
	}
	needsCompiler(t)
	for _, x := range []struct {
		want string
		args []string
	}{
		{"-o " + filepath.Join(dir, "h200.yaml") + ": the file is called after its device, sm90.yaml", []string{"-o", filepath.Join(dir, "h200.yaml")}},
		{"no kernel family of GPUs is called matvec", []string{"--family", "matvec"}},
		{"no launch of these steps has a choice", []string{"--family", "rmsnorm"}},
		{"--cache-type-k: cache type \"q5\" is none of f16, ", []string{"--cache-type-k", "q5"}},
	} {
		code, out, errs := runArgs(t.Context(), append(x.args, "--device", "emu", "--model", file)...)
		if code != 2 || out != "" || !strings.Contains(errs, x.want) {
			t.Errorf("%v: code %d, %q%q, want %q", x.args, code, out, errs, x.want)
		}
	}
	routes := filepath.Join(dir, "sm90.yaml")
	if err := os.WriteFile(routes, []byte("routes: [\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runArgs(t.Context(), "--device", "emu", "--model", file, "-o", routes); code != 2 || !strings.Contains(errs, "is there and is no file of routes") {
		t.Errorf("code %d, %s", code, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, errs := runArgs(ctx, "--device", "emu", "--model", file, "-o", routes); code != 2 || !strings.Contains(errs, "interrupted; nothing was written") {
		t.Errorf("code %d, %s", code, errs)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// Crossovers name, for each size, the faster kernel of either class and their ratio.
func TestCrossovers(t *testing.T) {
	needsCompiler(t)
	d, err := emu.Open(t.Context(), emu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var cases []timing.Case
	for _, family := range []string{"matvec-f32", "matvec-q8", "matvec-ring-q8"} {
		cases = append(cases, timing.Case{Family: family, Format: "q4_K", Rows: 8, Cols: 256})
	}
	var out, errs bytes.Buffer
	o := &options{ctx: t.Context(), stdout: &out, stderr: &errs, pool: 1, rounds: 5}
	if err := o.cross(d, cases); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^q4_K +8 +256 +[0-9.]+ +[0-9.]+ +matvec-(ring-)?q8/q4_K/\w+ +[0-9.]+$`).MatchString(out.String()) {
		t.Errorf("%s%s", &out, &errs)
	}
}

// A shape needs no model: what is listed is that of the real one.
func TestDryRunOfAShape(t *testing.T) {
	t.Setenv("MINFER_STEP_MMA", "0")
	needsCompiler(t)
	code, out, errs := runArgs(t.Context(), "--device", "emu", "--shape", "qwen2.5-7b", "--dry-run")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, want := range []string{
		"gate-ring-q8 of q4_K rows 18944 cols 3584 tokens 1, weights lanes (blk.0.ffn_act, blk.1.ffn_act and 26 more)\n",
		"attend-step of f16 tokens 1 kv_heads 4 group 7 head_dim 128, weights file",
		"dropped: not proved: the ring of q4_K has 1 stage at the widest row that the digits cover; two are due",
		"dropped: not proved: a block has 1248 threads; sm90 allows 1024",
		"the gate's choice",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
