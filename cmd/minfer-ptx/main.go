// Command minfer-ptx compiles the emitted kernels with NVIDIA's compiler and keeps what the repository commits of them:
//
//	minfer-ptx            write the archive of PTX (runtime/device/cuda/ptx) and the table of what each kernel takes of a
//	                      GPU (runtime/device/cuda/resource)
//	minfer-ptx --check    compile, and say whether both are what the sources give
//
// It is a tool of this repository, run from its root. It is apart from minfer-gen because that builds without generated/,
// which this command compiles; and from minfer-run because users need no compiler.
//
// It ends with 0 when all is well; 1 when the answer is no: a kernel does not compile, spills, does not fit, or the
// committed files are stale; 2 when it could not do its work: no compiler, wrong usage, a file that cannot be written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/cuda/ptx"
	"github.com/minfer/minfer/runtime/device/cuda/resource"
	"github.com/minfer/minfer/specs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes.
const (
	exitOK     = 0
	exitNo     = 1
	exitFailed = 2
)

// refusal is an error whose answer is no, rather than one of doing the work.
type refusal struct{ error }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("minfer-ptx", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "compile and compare, write nothing")
	jobs := flags.Int("jobs", runtime.NumCPU(), "files compiled at a time")
	root := flags.String("root", ".", "root of the repository")
	verbose := flags.Bool("verbose", false, "name each file that is compiled")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: minfer-ptx [flags], from the root of the repository")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitFailed
	case flags.NArg() > 0 || *jobs < 1:
		flags.Usage()
		return exitFailed
	}
	log := func(string) {}
	if *verbose {
		log = func(s string) { fmt.Fprintln(stderr, s) }
	}
	err := work(ctx, *root, *check, *jobs, log, stdout)
	var no refusal
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &no):
		fmt.Fprintln(stderr, no)
		return exitNo
	}
	fmt.Fprintf(stderr, "minfer-ptx: %v\n", err)
	return exitFailed
}

func work(ctx context.Context, root string, check bool, jobs int, log func(string), stdout io.Writer) error {
	catalog, err := gen.Load(specs.FS)
	if err != nil {
		return err
	}
	sources, err := nvcc.Sources(cuda.Sources)
	if err != nil {
		return err
	}
	compiler, err := nvcc.Find(ctx, nvcc.Options{Log: log})
	if err != nil {
		return err
	}
	known, err := compiler.Architectures(ctx)
	if err != nil {
		return err
	}
	// A GPU that is newer than the compiler runs the PTX, and natively what its own compiler makes.
	devices := slices.DeleteFunc(catalog.Devices, func(d *model.Device) bool { return !slices.Contains(known, d.Arch) })
	archive, table, err := compile(ctx, compiler, sources, devices, jobs)
	if err != nil {
		return refusal{err}
	}
	committed, err := readTable(filepath.Join(root, resourceFolder, resource.File))
	if err != nil {
		return err
	}
	// The release of the archive decides which drivers can run it, so another compiler does not make it, nor the table.
	same := committed.Release == "" || committed.Release == compiler.Release && committed.Flags == table.Flags
	if !same && !check && newer(compiler) {
		return fmt.Errorf("PTX of %s needs a driver of CUDA %d.%d, but the committed archive is of nvcc %s so that older drivers run it: set MINFER_NVCC to an nvcc %d.%d",
			compiler, compiler.Major, compiler.Minor, committed.Release, nvcc.MinMajor, nvcc.MinMinor)
	}
	faults := table.Faults(committed)
	if check {
		return report(table, committed, archive, same, root, faults, stdout)
	}
	if faults != nil {
		fmt.Fprintf(stdout, "look at these before you commit:\n%v\n", faults)
	}
	return write(root, archive, table)
}

// newer reports whether the compiler's PTX needs more than the oldest driver that the kernels allow.
func newer(c *nvcc.Compiler) bool {
	return c.Major > nvcc.MinMajor || c.Major == nvcc.MinMajor && c.Minor > nvcc.MinMinor
}

// compile compiles all sources for all devices, some at a time, and reports every one that fails.
func compile(ctx context.Context, c *nvcc.Compiler, sources []nvcc.Source, devices []*model.Device, jobs int) (*ptx.Archive, *resource.Table, error) {
	archive := &ptx.Archive{Release: c.Release, Target: ptx.Target, Units: make([]ptx.Unit, len(sources))}
	table := &resource.Table{Release: c.Release, Flags: strings.Join(nvcc.Flags(), " ")}
	errs := make([]error, len(sources))
	rows := make([][]resource.Row, len(sources))
	var wait sync.WaitGroup
	limit := make(chan struct{}, jobs)
	for i, s := range sources {
		wait.Add(1)
		limit <- struct{}{}
		go func() {
			defer wait.Done()
			defer func() { <-limit }()
			text, err := c.PTX(ctx, s, ptx.Target)
			if err != nil {
				errs[i] = err
				return
			}
			archive.Units[i] = ptx.Unit{Name: s.Name, Source: s.Digest(), Text: text}
			rows[i], errs[i] = resources(ctx, c, s, devices)
		}()
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		table.Rows = append(table.Rows, r...)
	}
	table.Sort()
	m, err := ptx.Parse(archive.Units[0].Text)
	if err != nil {
		return nil, nil, err
	}
	archive.Version = m.Version
	return archive, table, nil
}

// resources reads what the kernels of a source take on each device.
func resources(ctx context.Context, c *nvcc.Compiler, s nvcc.Source, devices []*model.Device) (all []resource.Row, err error) {
	for _, d := range devices {
		text, err := c.PTX(ctx, s, d.Arch)
		if err != nil {
			return nil, err
		}
		m, err := ptx.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		said, err := c.Assemble(ctx, s.Name, text, d.Arch)
		if err != nil {
			return nil, err
		}
		rows, err := resource.ParseReport(said)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if len(rows) != len(m.Entries) {
			return nil, fmt.Errorf("%s: the assembler reports on %d kernels of %d", s.Name, len(rows), len(m.Entries))
		}
		limits := resource.Limits{Arch: d.Arch, Warp: d.Warp, Threads: d.ThreadsPerSM, Blocks: d.BlocksPerSM, Registers: d.RegistersPerSM, SharedBytes: d.SharedPerSMBytes}
		for i := range rows {
			entry := m.Entry(rows[i].Kernel)
			if entry == nil {
				return nil, fmt.Errorf("%s: the assembler reports on %s, which the PTX does not define", s.Name, rows[i].Kernel)
			}
			rows[i].Fit(limits, entry.MaxThreads)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// readTable reads the committed table; one that is not there yet is empty.
func readTable(path string) (*resource.Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: run this from the root of the repository", err)
	}
	if len(text) == 0 {
		return &resource.Table{}, nil
	}
	return resource.Parse(string(text))
}

// report says whether the committed files are what the sources give. Another compiler than theirs deals registers out
// differently, so it is held to spills, stack and fit alone.
func report(table, committed *resource.Table, archive *ptx.Archive, same bool, root string, faults error, stdout io.Writer) error {
	if !same {
		fmt.Fprintf(stdout, "the committed table is of nvcc %s %s, this is nvcc %s %s: only spills, stack and fit are compared\n", committed.Release, committed.Flags, table.Release, table.Flags)
		if faults != nil {
			return refusal{faults}
		}
		return nil
	}
	if diff := table.Diff(committed); diff != "" {
		faults = errors.Join(faults, fmt.Errorf("%s is not what the kernels take (- committed, + now); %s makes it anew:\n%s", resource.File, ptx.Remake, strings.TrimSuffix(diff, "\n")))
	}
	_, manifest, err := archive.Write()
	if err != nil {
		return err
	}
	have, err := os.ReadFile(filepath.Join(root, ptxFolder, ptx.ManifestFile))
	if err != nil {
		return err
	}
	if string(have) != manifest {
		faults = errors.Join(faults, fmt.Errorf("%s is not what the sources compile to; %s makes it anew: %s", ptx.ManifestFile, ptx.Remake, firstDifference(string(have), manifest)))
	}
	if faults != nil {
		return refusal{faults}
	}
	fmt.Fprintf(stdout, "%d files, %d rows of kernels: as committed\n", len(archive.Units), len(table.Rows))
	return nil
}

// mostNames is how many stale units are named.
const mostNames = 5

// firstDifference names the first units whose lines differ.
func firstDifference(have, want string) string {
	known := map[string]bool{}
	for line := range strings.Lines(have) {
		known[line] = true
	}
	var names []string
	for line := range strings.Lines(want) {
		if !known[line] {
			name, _, _ := strings.Cut(line, "\t")
			names = append(names, strings.TrimSpace(name))
		}
	}
	if len(names) == 0 {
		return "it has units that are no more"
	}
	if len(names) > mostNames {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}

const (
	ptxFolder      = "runtime/device/cuda/ptx"
	resourceFolder = "runtime/device/cuda/resource"
)

// write writes the committed files where their content changed. An archive that holds what it should is left as it is,
// whatever compressed it.
func write(root string, archive *ptx.Archive, table *resource.Table) error {
	packed, manifest, err := archive.Write()
	if err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(root, ptxFolder, ptx.ArchiveFile))
	if err != nil {
		return err
	}
	if _, err := ptx.Read(old, manifest); err != nil {
		if err := replace(filepath.Join(root, ptxFolder, ptx.ArchiveFile), packed); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{filepath.Join(ptxFolder, ptx.ManifestFile): manifest, filepath.Join(resourceFolder, resource.File): table.String()} {
		path = filepath.Join(root, path)
		if have, err := os.ReadFile(path); err == nil && string(have) == text {
			continue
		}
		if err := replace(path, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file whole, or leaves the one that was there.
func replace(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
