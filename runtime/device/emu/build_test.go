package emu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/internal/cache"
)

func TestNoCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CXX", "")
	_, err := Open(t.Context(), Options{})
	wantError(t, "nothing on the path", err, ErrNoCompiler, "c++, g++, clang++", "apt-get install g++", "CXX")
	t.Setenv("CXX", "no-such-compiler -O1")
	_, err = Open(t.Context(), Options{})
	wantError(t, "CXX leads nowhere", err, ErrNoCompiler, "no-such-compiler")
}

// oneUnit is a module of one file with the given text after the include.
func oneUnit(t *testing.T, name, text string, kernels ...string) gpu.Module {
	t.Helper()
	m, err := testModule()
	if err != nil {
		t.Fatal(err)
	}
	m.Units = []gpu.Unit{{Name: name, Source: "#include \"minfer.cuh\"\n" + text, Kernels: kernels}}
	return m
}

func TestBadUnits(t *testing.T) {
	d := open(t)
	kernel := func(name string) string { return "MINFER_KERNEL(" + name + ", 32, (int* y)) { y[0] = 1; }\n" }
	err := d.Load(oneUnit(t, "broken.cu", "\nMINFER_KERNEL(k, 32, (int* y)) { y[0] = nothing; }\n"))
	if err == nil || !strings.Contains(err.Error(), "broken.cu:3:") || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a text that does not compile: %v", err)
	}
	err = d.Load(oneUnit(t, "parameters.cu", "MINFER_KERNEL(k, 32, (double y)) { (void)y; }\n"))
	if err == nil || !strings.Contains(err.Error(), "a kernel parameter is a pointer, int, unsigned, long long or float") {
		t.Errorf("a parameter of a kind that is not allowed: %v", err)
	}
	err = d.Load(oneUnit(t, "lacks.cu", kernel("other"), "wanted"))
	if err == nil || !strings.Contains(err.Error(), "lacks.cu: it does not define kernel wanted") {
		t.Errorf("a kernel that is not there: %v", err)
	}
	if err := d.Load(oneUnit(t, "first.cu", kernel("shared_name"), "shared_name")); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(oneUnit(t, "first.cu", kernel("shared_name"))); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	err = d.Load(oneUnit(t, "first.cu", kernel("shared_name")+kernel("further")))
	if err == nil || !strings.Contains(err.Error(), "first.cu is already loaded with another text") {
		t.Errorf("another text of the same name: %v", err)
	}
	err = d.Load(oneUnit(t, "second.cu", kernel("shared_name")))
	if err == nil || !strings.Contains(err.Error(), "kernel shared_name is already defined by first.cu") {
		t.Errorf("a kernel defined twice: %v", err)
	}
	y := space[int32](t, d, 1)
	launch(t, d, one("shared_name", 1, ptr(y)))
}

// TestCache compiles with a stand-in that counts its runs.
func TestCache(t *testing.T) {
	real := open(t).builder.compiler
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	script := filepath.Join(dir, "compiler")
	text := "#!/bin/sh\n[ \"$1\" = --version ] || echo x >>'" + count + "'\nexec " + strings.Join(real, " ") + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	runs := func() int {
		data, _ := os.ReadFile(count)
		return strings.Count(string(data), "x")
	}
	options := Options{Compiler: script, CacheDir: filepath.Join(dir, "cache")}
	m := oneUnit(t, "small.cu", "MINFER_KERNEL(small, 32, (int* y)) { y[0] = 1; }\n", "small")
	load := func() error {
		d, err := Open(t.Context(), options)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Load(m)
	}
	// Several at once compile each thing once.
	errs := make([]error, 3)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Add(1)
		go func() {
			defer wait.Done()
			errs[i] = load()
		}()
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if runs() != 2 {
		t.Errorf("%d runs of the compiler, want one for the program and one for the unit", runs())
	}
	m.Units[0].Source += "// changed\n"
	if err := load(); err != nil || runs() != 3 {
		t.Errorf("a changed unit: %v, %d runs", err, runs())
	}
	m.Headers = map[string]string{"minfer.cuh": m.Headers["minfer.cuh"] + "// changed\n"}
	if err := load(); err != nil || runs() != 4 {
		t.Errorf("a changed header: %v, %d runs", err, runs())
	}
	if err := load(); err != nil || runs() != 4 {
		t.Errorf("nothing changed: %v, %d runs", err, runs())
	}

	// A damaged object is an error, and is compiled again the next time.
	objects, _ := filepath.Glob(filepath.Join(options.CacheDir, "unit-*.so"))
	if len(objects) != 3 {
		t.Fatalf("%d objects", len(objects))
	}
	for _, o := range objects {
		os.WriteFile(o, []byte("not an object"), 0o666)
	}
	if err := load(); err == nil || !strings.Contains(err.Error(), "unit small.cu: loading") {
		t.Errorf("a damaged object: %v", err)
	}
	if err := load(); err != nil {
		t.Errorf("after a damaged object: %v", err)
	}

	// What has not been used for long goes: all objects, of which one is then made again. The program stays.
	long := time.Now().Add(-(cache.UnusedDays + 1) * 24 * time.Hour)
	for _, o := range objects {
		os.Chtimes(o, long, long)
	}
	before := runs()
	stale := filepath.Join(options.CacheDir, "build-killed")
	os.Mkdir(stale, 0o777)
	os.Chtimes(stale, long, long)
	if err := load(); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(options.CacheDir, "unit-*.so"))
	if _, err := os.Stat(stale); len(left) != 1 || runs() != before+1 || !os.IsNotExist(err) {
		t.Errorf("%d objects left, %d runs more, stale folder: %v", len(left), runs()-before, err)
	}
}
