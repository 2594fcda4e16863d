// Package nvcc finds NVIDIA's compiler and compiles kernels with it: to PTX for a virtual architecture, and to native code
// for one GPU. Results are cached by the content of all that they depend on: source, headers, flags, architecture and the
// compiler's version, but not by where any of them lies.
package nvcc

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/minfer/minfer/runtime/device/internal/cache"
)

// ErrMissing: there is no nvcc, or what is there does not run or is too old.
var ErrMissing = errors.New("no CUDA compiler")

// The oldest release of nvcc that knows sm_90 and the PTX that the kernels use.
const (
	MinMajor = 11
	MinMinor = 8
)

// flags are common to all compilations. Nothing is contracted: a*b+c rounds twice wherever it is not written as fmaf, so
// that two variants which promise the same bits give them, and the emulator's are the GPU's.
var flags = []string{"-std=c++17", "-O3", "-fmad=false"}

// Flags are the flags that every kernel is compiled with.
func Flags() []string { return slices.Clone(flags) }

// Compiler is an nvcc.
type Compiler struct {
	Path         string // of the program
	Major, Minor int    // of its release: 11, 8
	Release      string // in full: "11.8.89"
	cache        *cache.Cache
	log          func(string)
}

// Options adjust Find; the zero value is good.
type Options struct {
	CacheDir string       // for results; "": $MINFER_CACHE/cuda, else minfer/cuda in the user's cache folder
	Log      func(string) // told what is being compiled; may be nil
}

// Find finds nvcc: $MINFER_NVCC, else bin/nvcc of $CUDA_HOME or $CUDA_PATH, else the one on the path, else the one of
// /usr/local/cuda. MINFER_NVCC=0 hides them all. The error of a machine without one (ErrMissing) says how to name it.
func Find(ctx context.Context, o Options) (*Compiler, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s --version: %w", ErrMissing, path, err)
	}
	c := &Compiler{Path: path, log: o.Log}
	if c.log == nil {
		c.log = func(string) {}
	}
	if c.Release, c.Major, c.Minor, err = parseVersion(string(out)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMissing, path, err)
	}
	if c.Major < MinMajor || c.Major == MinMajor && c.Minor < MinMinor {
		return nil, fmt.Errorf("%w: %s is release %s, needed is %d.%d or later", ErrMissing, path, c.Release, MinMajor, MinMinor)
	}
	if c.cache, err = cache.Open("cuda", o.CacheDir); err != nil {
		return nil, err
	}
	return c, nil
}

func find() (string, error) {
	exe := "nvcc"
	if runtime.GOOS == "windows" {
		exe = "nvcc.exe"
	}
	const remedy = "install the CUDA toolkit or set MINFER_NVCC or CUDA_HOME"
	if named := os.Getenv("MINFER_NVCC"); named == "0" {
		return "", fmt.Errorf("%w: MINFER_NVCC=0", ErrMissing)
	} else if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%w: MINFER_NVCC=%s: %w", ErrMissing, named, err)
		}
		return path, nil
	}
	for _, variable := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if home := os.Getenv(variable); home != "" {
			path, err := exec.LookPath(filepath.Join(home, "bin", exe))
			if err != nil {
				return "", fmt.Errorf("%w: %s=%s: %w", ErrMissing, variable, home, err)
			}
			return path, nil
		}
	}
	for _, candidate := range []string{exe, filepath.Join("/usr/local/cuda/bin", exe)} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrMissing, remedy)
}

var releaseText = regexp.MustCompile(`release (\d+)\.(\d+), V(\d+(?:\.\d+)*)`)

// parseVersion reads what nvcc says of itself: "Cuda compilation tools, release 11.8, V11.8.89".
func parseVersion(text string) (release string, major, minor int, err error) {
	m := releaseText.FindStringSubmatch(text)
	if m == nil {
		return "", 0, 0, errors.New("it does not say which release it is")
	}
	major, _ = strconv.Atoi(m[1])
	minor, _ = strconv.Atoi(m[2])
	return m[3], major, minor, nil
}

// Source is a .cu file and the headers that it may include.
type Source struct {
	Name    string            // file name: matvec_q8_q6_K.cu
	Text    string            // its content
	Headers map[string]string // include name to content
}

var includeText = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"`)

// Used are the names of the headers that the source includes, headers of headers too, sorted. Includes that Headers has
// not are left to the compiler.
func (s Source) Used() []string {
	var used []string
	todo := []string{s.Text}
	for len(todo) > 0 {
		text := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, m := range includeText.FindAllStringSubmatch(text, -1) {
			if header, ok := s.Headers[m[1]]; ok && !slices.Contains(used, m[1]) {
				used = append(used, m[1])
				todo = append(todo, header)
			}
		}
	}
	slices.Sort(used)
	return used
}

// Digest stands for the text of the source and of every header that it includes, compiled with Flags.
func (s Source) Digest() string {
	parts := []string{strings.Join(flags, " "), s.Name, s.Text}
	for _, name := range s.Used() {
		parts = append(parts, name, s.Headers[name])
	}
	return cache.Key(parts...)
}

// String is the compiler in words: "nvcc 11.8.89".
func (c *Compiler) String() string { return "nvcc " + c.Release }

// PTX compiles a source to PTX for a virtual architecture (80) and later ones. The same source gives the same text
// wherever it is compiled.
func (c *Compiler) PTX(ctx context.Context, s Source, arch int, defines ...string) (string, error) {
	args := slices.Concat(flags, defined(defines), []string{"-ptx", fmt.Sprintf("-arch=compute_%d", arch)})
	path, err := c.compile(ctx, s, "ptx", args, func(dir, result string) error {
		text, err := os.ReadFile(filepath.Join(dir, result))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, result), []byte(strip(string(text))), 0o666)
	})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// BulkArch is the first architecture with bulk copies, and the only one with products of warpgroups, which nvcc makes of the target sm_90a; both
// from release BulkMajor on. Native code is for one architecture anyway.
const BulkArch, BulkMajor = 90, 12

// Native compiles a source to native code for one architecture (90).
func (c *Compiler) Native(ctx context.Context, s Source, arch int, defines ...string) ([]byte, error) {
	target := fmt.Sprintf("sm_%d", arch)
	if arch == BulkArch && c.Major >= BulkMajor {
		target += "a"
	}
	args := slices.Concat(flags, defined(defines), []string{"-cubin", "-arch=" + target})
	path, err := c.compile(ctx, s, "cubin", args, nil)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil || whole(data) {
		return data, err
	}
	c.cache.Drop(path) // a machine that lost power can leave a file without its content
	if path, err = c.compile(ctx, s, "cubin", args, nil); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// whole reports whether native code has all its sections.
func whole(data []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return false
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Offset+s.FileSize > uint64(len(data)) {
			return false
		}
	}
	return true
}

func defined(names []string) []string {
	var args []string
	for _, n := range names {
		args = append(args, "-D"+n)
	}
	return args
}

// compile returns the path of the result, after finish has seen it where it is made.
func (c *Compiler) compile(ctx context.Context, s Source, kind string, args []string, finish func(dir, result string) error) (string, error) {
	key := cache.Key(c.Release, strings.Join(args, " "), s.Digest())
	path, err := c.cache.File(ctx, kind+"-"+key, func(dir, result string) error {
		c.log(fmt.Sprintf("compiling %s with nvcc %s (%s)", s.Name, c.Release, args[len(args)-1]))
		files := map[string]string{s.Name: s.Text}
		for _, name := range s.Used() {
			files[name] = s.Headers[name]
		}
		if err := cache.Write(dir, files); err != nil {
			return err
		}
		if _, err := run(ctx, dir, c.Path, slices.Concat(args, []string{"-I.", "-o", result, s.Name})...); err != nil {
			return err
		}
		if finish != nil {
			return finish(dir, result)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	return path, nil
}

// run runs a program of the toolkit in dir and returns what it said; so does its error.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, firstLines(string(out), 30))
	}
	return string(out), nil
}

// Assemble compiles PTX to native code for one architecture and returns what the assembler reports of each kernel's
// registers, stack and spills (ptxas -v).
func (c *Compiler) Assemble(ctx context.Context, name, ptx string, arch int) (report string, err error) {
	key := cache.Key(c.Release, "ptxas", strconv.Itoa(arch), ptx)
	path, err := c.cache.File(ctx, "report-"+key, func(dir, result string) error {
		if err := cache.Write(dir, map[string]string{"unit.ptx": ptx}); err != nil {
			return err
		}
		out, err := run(ctx, dir, c.tool("ptxas"), "-v", "-O3", fmt.Sprintf("-arch=sm_%d", arch), "-o", "unit.cubin", "unit.ptx")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, result), []byte(out), 0o666)
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// tool is the program of that name beside nvcc, or the one on the path.
func (c *Compiler) tool(name string) string {
	if real, err := filepath.EvalSymlinks(c.Path); err == nil {
		for _, dir := range []string{filepath.Dir(c.Path), filepath.Dir(real)} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return name
}

// Architectures lists the native architectures of the compiler, ascending: 80, 86, 90. Those with a letter are left out.
func (c *Compiler) Architectures(ctx context.Context) ([]int, error) {
	out, err := exec.CommandContext(ctx, c.Path, "--list-gpu-code").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --list-gpu-code: %w", c.Path, err)
	}
	var archs []int
	for _, word := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(strings.TrimPrefix(word, "sm_")); err == nil && strings.HasPrefix(word, "sm_") {
			archs = append(archs, n)
		}
	}
	slices.Sort(archs)
	return archs, nil
}

var (
	comment = regexp.MustCompile(`[ \t]*//[^\n]*`)
	blank   = regexp.MustCompile(`\n{2,}`)
	// hidden names carry digests of where they were compiled; no two of a module differ in these alone.
	hidden = regexp.MustCompile(`(_INTERNAL_)[0-9a-f]{8}(_\d+_\w+?_cu_)([0-9a-f]{8})?`)
)

// strip makes PTX depend on what was compiled alone: without comments, and without traces of where it was compiled.
func strip(ptx string) string {
	ptx = comment.ReplaceAllString(ptx, "")
	ptx = hidden.ReplaceAllStringFunc(ptx, func(name string) string {
		m := hidden.FindStringSubmatch(name)
		return m[1] + "00000000" + m[2] + strings.Repeat("0", len(m[3]))
	})
	return strings.TrimLeft(blank.ReplaceAllString(ptx, "\n"), "\n")
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(strings.TrimSpace(s), "\n", n+1)
	if len(lines) > n {
		lines[n] = "..."
	}
	return strings.Join(lines, "")
}
