package emu

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"

	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/internal/cache"
)

//go:embed host
var host embed.FS

// headerName is what minfer.cuh includes when a host compiler reads it.
const headerName = "minfer_emu.hpp"

// programSources make up the emulator program.
var programSources = []string{"block.cpp", "memory.cpp", "serve.cpp"}

// ErrNoCompiler: the host has no C++ compiler, or what was named as one does not run.
var ErrNoCompiler = errors.New("no C++ compiler")

// builder compiles into the cache. A result's name is the digest of all that it depends on: texts, flags, compiler version.
type builder struct {
	ctx      context.Context
	compiler []string // program and first arguments
	version  string   // what it says of itself
	cache    *cache.Cache
	arch     int
	log      func(string)
}

func newBuilder(ctx context.Context, options Options) (*builder, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		return nil, fmt.Errorf("it needs a POSIX system, this is %s", runtime.GOOS)
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return nil, fmt.Errorf("it runs on amd64 and arm64, this is %s", runtime.GOARCH)
	}
	b := &builder{ctx: ctx, arch: options.Arch, log: options.Log}
	if b.log == nil {
		b.log = func(string) {}
	}
	if err := b.findCompiler(options.Compiler); err != nil {
		return nil, err
	}
	var err error
	if b.cache, err = cache.Open("emu", options.CacheDir); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *builder) findCompiler(named string) error {
	const remedy = "install one (Debian: apt-get install g++; macOS: xcode-select --install) or set CXX"
	if named == "" {
		named = os.Getenv("CXX")
	}
	if named != "" {
		b.compiler = strings.Fields(named)
		if _, err := exec.LookPath(b.compiler[0]); err != nil {
			return fmt.Errorf("%w: %q: %w; %s", ErrNoCompiler, named, err, remedy)
		}
	} else {
		candidates := []string{"c++", "g++", "clang++"}
		i := slices.IndexFunc(candidates, func(c string) bool { _, err := exec.LookPath(c); return err == nil })
		if i < 0 {
			return fmt.Errorf("%w: kernels are compiled on this machine, and none of %s is there; %s", ErrNoCompiler, strings.Join(candidates, ", "), remedy)
		}
		b.compiler = candidates[i : i+1]
	}
	out, err := exec.CommandContext(b.ctx, b.compiler[0], append(b.compiler[1:], "--version")...).Output()
	if err != nil {
		return fmt.Errorf("%w: %s --version: %w; %s", ErrNoCompiler, b.compiler[0], err, remedy)
	}
	b.version = string(out)
	return nil
}

// flags are common to the program and the units. Nothing may be contracted or reassociated: results are to be the same everywhere.
func (b *builder) flags() []string {
	f := []string{"-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-exceptions", "-w"}
	if runtime.GOARCH == "amd64" && cpu.X86.HasFMA && cpu.X86.HasAVX2 {
		f = append(f, "-mavx2", "-mfma") // fmaf is then an instruction; without it the C library computes the same
	}
	return f
}

func (b *builder) key(parts ...string) string {
	return cache.Key(append([]string{b.version, strings.Join(b.compiler, " "), strings.Join(b.flags(), " "), runtime.GOOS, runtime.GOARCH}, parts...)...)
}

func hostFile(name string) string {
	data, err := fs.ReadFile(host, "host/"+name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(data)
}

// program returns the path of the compiled emulator program.
func (b *builder) program() (string, error) {
	files := map[string]string{}
	var parts []string
	for _, name := range append([]string{headerName, "machine.hpp"}, programSources...) {
		files[name] = hostFile(name)
		parts = append(parts, name, files[name])
	}
	args := slices.Concat(b.flags(), []string{"-rdynamic", "-pthread"}, programSources)
	if runtime.GOOS == "linux" {
		args = append(args, "-ldl")
	}
	return b.build("the emulator", "emulator-"+b.key(parts...), files, args)
}

func (b *builder) unitFlags() []string {
	f := append(b.flags(), "-fvisibility=hidden", fmt.Sprintf("-DMINFER_ARCH=%d0", b.arch), "-shared")
	if runtime.GOOS == "darwin" {
		f = append(f, "-Wl,-undefined,dynamic_lookup")
	} else {
		f = append(f, "-fstack-clash-protection") // a large frame touches its pages in order, the guard page first
	}
	return f
}

func (b *builder) unitKey(headers map[string]string, u gpu.Unit) string {
	parts := []string{strings.Join(b.unitFlags(), " "), u.Name, u.Source, hostFile(headerName)}
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		parts = append(parts, name, headers[name])
	}
	return b.key(parts...)
}

// units compiles units, as many at a time as there are processors, and returns the paths of the shared objects. Of several failures all are
// reported.
func (b *builder) units(headers map[string]string, units []gpu.Unit, keys []string) ([]string, error) {
	paths, errs := make([]string, len(units)), make([]error, len(units))
	limit := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	for i, u := range units {
		wait.Add(1)
		limit <- struct{}{}
		go func() {
			defer wait.Done()
			defer func() { <-limit }()
			paths[i], errs[i] = b.unit(headers, u, keys[i])
		}()
	}
	wait.Wait()
	return paths, errors.Join(errs...)
}

func (b *builder) unit(headers map[string]string, u gpu.Unit, key string) (string, error) {
	name := filepath.Base(u.Name)
	files := map[string]string{headerName: hostFile(headerName), "unit.cpp": fmt.Sprintf("#line 1 %q\n%s", name, u.Source)}
	maps.Copy(files, headers)
	return b.build(name, "unit-"+key+".so", files, append(b.unitFlags(), "-I.", "unit.cpp"))
}

// build returns the path of the result with this name, compiling it if it is not there.
func (b *builder) build(what, name string, files map[string]string, args []string) (string, error) {
	path, err := b.cache.File(b.ctx, name, func(dir, result string) error {
		b.log("compiling " + what)
		if err := cache.Write(dir, files); err != nil {
			return err
		}
		cmd := exec.CommandContext(b.ctx, b.compiler[0], slices.Concat(b.compiler[1:], []string{"-o", result}, args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		switch {
		case b.ctx.Err() != nil:
			return context.Cause(b.ctx)
		case err != nil:
			return fmt.Errorf("%s: %w\n%s", b.compiler[0], err, firstLines(string(out), 30))
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("compiling %s: %w", what, err)
	}
	return path, nil
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(strings.TrimSpace(s), "\n", n+1)
	if len(lines) > n {
		lines[n] = "..."
	}
	return strings.Join(lines, "")
}
