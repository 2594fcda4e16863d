// Command minfer-tune measures which kernels are the fastest for the shapes of a model. It is what minfer-gen tune runs: a program of its own,
// for the generator must build where there is no generated code yet, and this one launches kernels.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/tune"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
	"github.com/minfer/minfer/runtime/synth"
	"github.com/minfer/minfer/specs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, time.Now)
	stop()
	os.Exit(code)
}

// run is the whole command; the exit codes are those of minfer-gen: 0 all is well, 2 the work could not be done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, now func() time.Time) int {
	o := &options{ctx: ctx, stdout: stdout, stderr: stderr, now: now}
	cmd := o.command()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.Execute()
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		o.clear()
		fmt.Fprintln(stderr, "minfer-gen tune: interrupted; nothing was written")
	default:
		o.clear()
		fmt.Fprintf(stderr, "minfer-gen tune: %v\n", err)
	}
	return 2
}

// options are the flags, and what the command talks to.
type options struct {
	device, model, shape, format, out string
	precision, kvType                 string
	tokens                            []int
	families                          []string
	depth                             int64
	rounds, pool                      int
	dry, deep, crossovers             bool

	ctx            context.Context
	stdout, stderr io.Writer
	now            func() time.Time
	progress       int // characters of the line that is shown
}

func (o *options) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "minfer-gen tune (--model FILE | --shape NAME --format MIX) [flags]",
		Short: "Measure which kernels are the fastest for the shapes of a model",
		Long: `Measure which kernels are the fastest for the shapes of a model. For each matrix product and attention of a step, the
variants that the gate admits, and the one it chooses with every combination of its spec's free values, are compiled, judged
by the conformance suite and timed in turn, weights rotating over more than the cache holds. What beats the gate's choice by more than
the noise is a route. With -o FILE routes are written: specs/routes/sm90.yaml is what go generate reads. A route orders variants; bounds stay.`,
		Example: `  minfer-gen tune --device cuda:0 --shape qwen2.5-7b --format q4_K_M --dry-run
  minfer-gen tune --device cuda:0 --shape qwen2.5-7b --format q4_K_M -o specs/routes/sm90.yaml
  MINFER_RING=0 minfer-gen tune --device cuda:0 --model model.gguf --family matvec-q8`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(*cobra.Command, []string) error { return o.tune() },
	}
	f := cmd.Flags()
	f.BoolP("help", "h", false, "print this")
	f.StringVar(&o.device, "device", "cuda:0", "cuda[:N], or emu, whose times mean nothing")
	f.StringVar(&o.model, "model", "", "a GGUF file whose shapes are tuned")
	f.StringVar(&o.shape, "shape", "", "instead: a known model's shape ("+strings.Join(shapeNames(), ", ")+")")
	f.StringVar(&o.format, "format", "q4_K_M", "with --shape: the mix of formats")
	f.StringVar(&o.precision, "precision", "q8", "class of products: q8 or f32")
	f.StringVar(&o.kvType, "cache-type-k", "f16", "numbers in the cache: "+strings.Join(device.KVTypeNames(), ", "))
	f.IntSliceVar(&o.tokens, "tokens", []int{1}, "tokens of a step; more than one are a piece of a prompt")
	f.Int64Var(&o.depth, "depth", 1024, "positions before the token, of attention")
	f.StringSliceVar(&o.families, "family", nil, "these kernel families alone")
	f.BoolVar(&o.deep, "deep", false, "sweep the free values of every variant that is admitted, not of the chosen one alone")
	f.IntVar(&o.rounds, "rounds", 7, "rounds that count; at least 5")
	f.IntVar(&o.pool, "pool", 1300, "MiB of weights that launches rotate over; beyond what the caches hold")
	f.BoolVar(&o.dry, "dry-run", false, "print the contenders, and why some are dropped, and measure nothing")
	f.BoolVar(&o.crossovers, "crossovers", false, "instead: time products with f32 and with 8-bit activations on either side of where one may overtake the other")
	f.StringVarP(&o.out, "out", "o", "", "file of routes to write, called after its device: sm90.yaml; what it says of other shapes is kept")
	return cmd
}

func shapeNames() (names []string) {
	for _, s := range synth.Shapes() {
		names = append(names, s.Name)
	}
	return names
}

// line shows progress on a terminal, over the line before.
func (o *options) line(format string, args ...any) {
	f, ok := o.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && len(text) >= width {
		text = text[:max(0, width-1)]
	}
	o.clear()
	o.progress = len(text)
	fmt.Fprint(o.stderr, text)
}

func (o *options) clear() {
	if o.progress > 0 {
		fmt.Fprintf(o.stderr, "\r%*s\r", o.progress, "")
		o.progress = 0
	}
}

func (o *options) check() error {
	switch {
	case o.rounds < 5:
		return fmt.Errorf("--rounds %d: a median of fewer than 5 says little", o.rounds)
	case o.pool < 1 || o.pool > 1<<20:
		return fmt.Errorf("--pool %d: 1 to %d MiB are allowed", o.pool, 1<<20)
	case o.depth < 0 || o.depth > 1<<20:
		return fmt.Errorf("--depth %d: 0 to %d positions are allowed", o.depth, 1<<20)
	case slices.ContainsFunc(o.tokens, func(n int) bool { return n < 1 || n > 65535 }):
		return fmt.Errorf("--tokens %s: 1 to 65535 are allowed", strings.Trim(fmt.Sprint(o.tokens), "[]"))
	case o.crossovers && o.dry:
		return errors.New("--dry-run: crossovers have no contenders to list; give one of the two flags")
	case o.crossovers && o.out != "":
		return errors.New("-o: crossovers are no routes; what they show belongs in specs/kernels/matvec-f32.yaml")
	case o.crossovers:
		return nil
	case (o.model == "") == (o.shape == ""):
		return errors.New("whose shapes? give --model FILE or --shape NAME, one of them")
	}
	return nil
}

func (o *options) tune() (err error) {
	if err := o.check(); err != nil {
		return err
	}
	c, err := gen.Load(specs.FS)
	if err != nil {
		return err
	}
	d, err := open(o.ctx, o.device)
	if err != nil {
		return err
	}
	defer func() {
		if closed := d.Close(); err == nil {
			err = closed
		}
	}()
	if o.crossovers {
		return o.cross(d, timing.Crossover())
	}
	routes, err := o.routes(c, d.Info().Arch)
	if err != nil {
		return err
	}
	g, closeModel, err := o.graph()
	if err != nil {
		return err
	}
	defer closeModel()
	all, err := o.subjects(c, g, d.Info())
	if err != nil {
		return err
	}
	if o.dry {
		return o.table(all)
	}
	timer, err := timing.New(d, timing.Options{PoolBytes: int64(o.pool) << 20, Launches: 160})
	if err != nil {
		return err
	}
	w := &sweep{ctx: o.ctx, catalog: c, driver: d, timer: timer, rounds: o.rounds, note: o.line, faults: map[string]string{}}
	found := tune.Run{Device: d.Info().Name, Date: o.now().Format(time.DateOnly), Command: o.spelled()}
	var measured []tune.Measured
	if err := w.compile(all); err != nil {
		return err
	}
	for i, s := range all {
		w.note = func(format string, args ...any) {
			o.line("%d of %d: "+format, append([]any{i + 1, len(all)}, args...)...)
		}
		if err := w.measure(s); err != nil {
			return err
		}
		o.clear()
		best, wins, figure := s.verdict()
		if err := o.report(s, best, wins, figure); err != nil {
			return err
		}
		if best == nil {
			continue
		}
		measured = append(measured, s.measured())
		if wins {
			found.First = append(found.First, tune.Win{Shape: s.shape(), Variant: best.base.Name, Settings: best.settings, Figure: figure, Geometry: best.variant.Fingerprint(s.format)})
		}
	}
	fmt.Fprintf(o.stdout, "%d shapes measured on %s, %d routes\n", len(measured), d.Info().Name, len(found.First))
	if d.Info().Emulated {
		fmt.Fprintln(o.stderr, "kernels ran on the host: these times mean nothing")
	}
	if o.out == "" {
		return nil
	}
	routes.Add(found, measured)
	return o.write(routes)
}

// routes is the file to be written as it is now: an empty one where there is none.
func (o *options) routes(c *model.Catalog, arch int) (*tune.Routes, error) {
	if o.out == "" {
		return nil, nil
	}
	var names []string
	var r *tune.Routes
	for _, d := range c.Devices {
		names = append(names, fmt.Sprintf("%s.yaml for sm_%d", d.Name, d.Arch))
		if d.Arch == arch {
			r = &tune.Routes{Device: d.Name}
		}
	}
	if r == nil {
		return nil, fmt.Errorf("-o: the kernels of %s are for sm_%d as gates see it, and routes are kept for the devices of specs/devices: %s", o.device, arch, strings.Join(names, ", "))
	}
	if base := filepath.Base(o.out); base != r.Device+".yaml" {
		return nil, fmt.Errorf("-o %s: the file is called after its device, %s.yaml", o.out, r.Device)
	}
	data, err := os.ReadFile(o.out)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	old, err := tune.Parse(o.out, data)
	if err != nil {
		return nil, fmt.Errorf("-o %s is there and is no file of routes: %w", o.out, err)
	}
	r.Runs = old.Runs
	return r, nil
}

// write puts the routes in their file, whole, once the generator has taken them.
func (o *options) write(r *tune.Routes) error {
	if len(r.Runs) == 0 {
		fmt.Fprintf(o.stderr, "no route is left to be written; %s is as it was\n", o.out)
		return nil
	}
	text := r.Text()
	if err := tune.Check(specs.FS, r); err != nil {
		return fmt.Errorf("BUG: the generator refuses these routes, and nothing was written: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o777); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(o.out), ".routes-*")
	if err != nil {
		return err
	}
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), o.out)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	fmt.Fprintf(o.stderr, "wrote %s; go generate ./... puts it into the gates\n", o.out)
	return nil
}

// graph is the model's: of a file, or of a known shape with as many layers as it has.
func (o *options) graph() (*op.Graph, func(), error) {
	name, remove := o.model, func() {}
	if o.shape != "" {
		p, err := synth.New(synth.Options{Shape: o.shape, Format: o.format})
		if err != nil {
			return nil, nil, err
		}
		dir, err := os.MkdirTemp("", "minfer-tune-")
		if err != nil {
			return nil, nil, err
		}
		name, remove = filepath.Join(dir, o.shape+".gguf"), func() { os.RemoveAll(dir) }
		if err := p.WriteHollow(o.ctx, name); err != nil {
			remove()
			return nil, nil, err
		}
	}
	f, err := gguf.Open(name)
	if err != nil {
		remove()
		return nil, nil, err
	}
	closeFile := func() {
		f.Close()
		remove()
	}
	g, err := arch.Build(f)
	if err != nil {
		closeFile()
		return nil, nil, err
	}
	return g, closeFile, nil
}

func (o *options) subjects(c *model.Catalog, g *op.Graph, info gpu.Info) ([]*subject, error) {
	precision, err := device.ParsePrecision(o.precision)
	if err != nil {
		return nil, fmt.Errorf("--precision: %w", err)
	}
	kv, err := device.ParseKVType(o.kvType)
	if err != nil {
		return nil, fmt.Errorf("--cache-type-k: %w", err)
	}
	p, err := plan.New(g, gpu.TargetOf(info), plan.Options{Precision: precision, KVType: kv, Off: gpu.SwitchedOff()})
	if err != nil {
		return nil, err
	}
	for _, name := range o.families {
		if !slices.ContainsFunc(c.Families, func(f *model.Family) bool { return f.Name == name }) {
			return nil, fmt.Errorf("--family: no kernel family of GPUs is called %s", name)
		}
	}
	all, err := subjects(c, p, o.tokens, o.depth, o.deep, func(family string) bool { return len(o.families) == 0 || slices.Contains(o.families, family) })
	if err == nil && len(all) == 0 {
		err = errors.New("no launch of these steps has a choice of kernels (MINFER_FUSE=0 and MINFER_RING=0 bring families that others replace)")
	}
	return all, err
}

// spelled is the command for the provenance: what decides the figures, and no path.
func (o *options) spelled() string {
	s := "minfer-gen tune --device " + o.device
	if o.shape != "" {
		s += " --shape " + o.shape + " --format " + o.format
	} else {
		s += " --model " + filepath.Base(o.model)
	}
	add := func(flag, value, usual string) {
		if value != usual {
			s += " --" + flag + " " + value
		}
	}
	var tokens []string
	for _, n := range o.tokens {
		tokens = append(tokens, strconv.Itoa(n))
	}
	add("precision", o.precision, "q8")
	add("cache-type-k", o.kvType, "f16")
	add("tokens", strings.Join(tokens, ","), "1")
	add("depth", strconv.FormatInt(o.depth, 10), "1024")
	add("family", strings.Join(o.families, ","), "")
	add("rounds", strconv.Itoa(o.rounds), "7")
	add("pool", strconv.Itoa(o.pool), "1300")
	if o.deep {
		s += " --deep"
	}
	off := gpu.SwitchedOff()
	var names []string
	for name := range off {
		names = append(names, name+"=0 ")
	}
	slices.Sort(names)
	return strings.Join(names, "") + s
}

// title is a subject with its uses, the first few.
func (s *subject) title() string {
	uses := s.uses
	more := ""
	if len(uses) > 2 {
		more = fmt.Sprintf(" and %d more", len(uses)-2)
		uses = uses[:2]
	}
	return fmt.Sprintf("%s, weights %s (%s%s)", s.shape(), s.query.Weights, strings.Join(uses, ", "), more)
}

// table prints the contenders.
func (o *options) table(all []*subject) error {
	for _, s := range all {
		fmt.Fprintln(o.stdout, s.title())
		t := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
		for i, x := range s.contenders {
			state := "takes part"
			switch {
			case i == 0:
				state = "the gate's choice"
			case x.dropped != "":
				state = "dropped: " + x.dropped
			}
			fmt.Fprintf(t, "  %s\t%s\n", x.variant.Name, state)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// report prints what was measured of a subject.
func (o *options) report(s *subject, best *contender, wins bool, figure string) error {
	fmt.Fprintln(o.stdout, s.title())
	t := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
	for _, x := range s.contenders {
		if x.dropped != "" {
			fmt.Fprintf(t, "  %s\tdropped: %s\n", x.variant.Name, x.dropped)
			continue
		}
		median, noise := spread(x.times)
		fmt.Fprintf(t, "  %s\t%.2f us, quartiles %.2f apart\n", x.variant.Name, median, noise)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	switch {
	case best == nil:
		fmt.Fprintln(o.stdout, "  the gate's choice was not timed, so there is nothing to compare with")
	case wins:
		fmt.Fprintf(o.stdout, "  first: %s, %s\n", best.variant.Name, figure)
	default:
		fmt.Fprintf(o.stdout, "  the gate's choice stays: %s\n", figure)
	}
	return nil
}

// cross prints how products with f32 activations compare with those with 8-bit ones.
func (o *options) cross(d gpu.Driver, cases []timing.Case) error {
	timer, err := timing.New(d, timing.Options{PoolBytes: int64(o.pool) << 20, Launches: 160, Replays: o.rounds})
	if err != nil {
		return err
	}
	type key struct {
		format     string
		rows, cols int64
	}
	var keys []key
	least := map[key]map[string]timing.Rate{}
	for i, c := range cases {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		o.line("%d of %d: %s of %s %dx%d", i+1, len(cases), c.Family, c.Format, c.Rows, c.Cols)
		k := key{c.Format, c.Rows, c.Cols}
		if least[k] == nil {
			keys = append(keys, k)
			least[k] = map[string]timing.Rate{}
		}
		for _, r := range timer.Time(c) {
			if r.Err != nil {
				continue // a family that does not take the shape
			}
			if best, ok := least[k][r.Variant.Class]; !ok || r.Micros < best.Micros {
				least[k][r.Variant.Class] = r
			}
		}
	}
	o.clear()
	t := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "format\trows\tcols\tf32 us\tq8 us\tof\tq8 / f32")
	for _, k := range keys {
		f32, q8 := least[k]["f32"], least[k]["q8"]
		if f32.Variant == nil || q8.Variant == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f\t%s\t%.2f\n", k.format, k.rows, k.cols, f32.Micros, q8.Micros, q8.Variant, q8.Micros/f32.Micros)
	}
	return t.Flush()
}
