package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/generated/machine"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
)

// machineOf is a machine that plans can be made for without having it.
func machineOf(arch int) machine.Machine {
	m, ok := machine.Of(arch)
	if !ok {
		panic("BUG: an architecture that --arch refuses")
	}
	return m
}

func targetOf(arch int) (name string, t plan.Target) {
	m := machineOf(arch)
	return m.Name, plan.Target{Arch: m.Arch, SharedBytes: int64(m.SharedBytes), SMs: m.SMs}
}

// architectures are those of the machines, as a list of numbers and with their names.
func architectures() (numbers, named string) {
	var n, with []string
	for _, m := range machine.All {
		n = append(n, strconv.Itoa(m.Arch))
		with = append(with, fmt.Sprintf("%d (%s)", m.Arch, m.Name))
	}
	return strings.Join(n, ", "), strings.Join(with[:len(with)-1], ", ") + " or " + with[len(with)-1]
}

// gpuFlags choose what is planned for; audit and plan have them.
type gpuFlags struct {
	model modelFlags
	arch  int
	json  bool
}

func (g *gpuFlags) add(f *flagSet) {
	g.model.addPath(f)
	g.arch = 90
	numbers, named := architectures()
	f.add("--arch", "N", "architecture of the GPU: "+named, &value{text: "90", parse: func(s string) error {
		n, err := strconv.Atoi(strings.TrimPrefix(s, "sm_"))
		if _, ok := machine.Of(n); err != nil || !ok {
			return rangeError{s, numbers}
		}
		g.arch = n
		return nil
	}})
	g.model.addNumeric(f)
	f.yes(&g.json, "--json", "JSON")
}

func (g *gpuFlags) options() plan.Options {
	kv, _ := device.ParseKVType(g.model.keys) // the flag admits no other name
	return plan.Options{Precision: device.Precision(g.model.precision), KVType: kv, Off: gpu.SwitchedOff()}
}

func (a *app) auditCommand() *cobra.Command {
	o := &gpuFlags{}
	cmd := &cobra.Command{
		Use:   "audit [flags]",
		Short: "Show that a kernel covers every matrix of a model",
		Long: `For each matrix of a model: the kernel variant that its gate chooses on a GPU, how many
units of a row there are, and how many the variant covers (the ceiling; none where it
covers any width). No GPU is needed. Ends with 1 if a matrix is refused or not covered.`,
		Example: `  minfer-run audit -m model.gguf
  minfer-run audit -m model.gguf --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.audit(o) },
	}
	f := a.flags(cmd)
	f.group("Audit")
	o.add(f)
	return cmd
}

// audited is a matrix and what covers it: with one token (decode), and with several (prefill).
type audited struct {
	Name    string `json:"name"`
	Format  string `json:"format"`
	Rows    int    `json:"rows"`
	Cols    int    `json:"cols"`
	Layout  string `json:"layout"` // in device memory
	Units   *int64 `json:"units"`  // of a row; null where no variant was chosen
	Variant string `json:"variant"`
	Ceiling *int64 `json:"ceiling"` // units that the variant covers; null: any number
	Covered bool   `json:"covered"` // every unit of every row, by both variants
	Reason  string `json:"reason,omitempty"`
	Prefill *cover `json:"prefill,omitempty"`
}

// cover is a variant held against a shape.
type cover struct {
	Variant string `json:"variant"`
	Units   int64  `json:"units"`
	Ceiling *int64 `json:"ceiling"`
	Covered bool   `json:"covered"`
	Reason  string `json:"reason,omitempty"`
}

// hold compares a shape with what a variant covers: the bounds that the generator derived, evaluated here one by one,
// not by the gate's own function.
func hold(v *kernel.Variant, q *kernel.Query) cover {
	c := cover{Variant: v.String(), Covered: true}
	unit := int64(max(1, v.UnitElems))
	c.Units = (q.Cols + unit - 1) / unit
	refuse := func(b kernel.Bound) {
		if c.Covered {
			c.Covered, c.Reason = false, fmt.Sprintf("%s is %d, needed is %s", b.Dim, q.Dim(b.Dim), b)
		}
	}
	for _, b := range v.Bounds {
		switch b.Kind {
		case kernel.Max:
			if b.Dim == "cols" && b.Source == "coverage" {
				ceiling := b.Value / unit
				c.Ceiling = &ceiling
				if c.Units > ceiling && c.Covered {
					c.Covered, c.Reason = false, fmt.Sprintf("units %d..%d of %d are not covered: %s", ceiling, c.Units-1, c.Units, b)
				}
			}
			if q.Dim(b.Dim) > b.Value {
				refuse(b)
			}
		case kernel.Min:
			if q.Dim(b.Dim) < b.Value {
				refuse(b)
			}
		case kernel.Multiple:
			if q.Dim(b.Dim)%b.Value != 0 {
				refuse(b)
			}
		}
	}
	return c
}

// auditMatrices asks the gates for each matrix of a graph. One that is refused does not hide the others: each is planned
// as a graph of its own, with all operations that read it, as the layout depends on all.
func auditMatrices(g *op.Graph, t plan.Target, o plan.Options) []audited {
	var all []audited
	for _, w := range g.Weights() {
		var ops []op.Op
		matrix := false
		for _, x := range g.Ops {
			if slices.Contains(x.Weights(), w) {
				ops = append(ops, x)
			}
			switch x := x.(type) {
			case op.Embed:
				matrix = matrix || x.Table == w
			case op.MatMul:
				matrix = matrix || x.Weight == w
			}
		}
		if !matrix {
			continue
		}
		a := audited{Name: w.Name, Format: w.Type.String(), Rows: w.Rows, Cols: w.Cols, Covered: true}
		p, err := plan.New(&op.Graph{Arch: g.Arch, Name: g.Name, Vocab: g.Vocab, Context: g.Context, KV: g.KV, Values: g.Values, Ops: ops, Logits: g.Logits}, t, o)
		if err != nil {
			a.Covered, a.Reason = false, err.Error()
			all = append(all, a)
			continue
		}
		decode, prefill := coverOf(p, w, 1), coverOf(p, w, prefillTokens)
		a.Units, a.Variant, a.Ceiling = &decode.Units, decode.Variant, decode.Ceiling
		if prefill.Variant != decode.Variant {
			a.Prefill = &prefill
		}
		for _, placed := range p.Weights {
			if placed.Weight == w {
				a.Layout = string(placed.Layout)
			}
		}
		for _, c := range []cover{decode, prefill} {
			if !c.Covered && a.Covered {
				a.Covered, a.Reason = false, c.Variant+": "+c.Reason
			}
		}
		all = append(all, a)
	}
	return all
}

// prefillTokens stands for a prompt: enough tokens for the kernels that take them by tiles.
const prefillTokens = 64

// coverOf is the worst cover of a matrix's uses with a number of tokens; a product counts before a gather of rows.
func coverOf(p *plan.Plan, w *op.Weight, tokens int) cover {
	launches, err := p.Step(tokens, tokens)
	if err != nil {
		return cover{Reason: err.Error()}
	}
	var worst *cover
	slices.SortStableFunc(launches, func(x, y plan.Launch) int {
		return cmp.Compare(btoi(x.Variant.Family == "embed"), btoi(y.Variant.Family == "embed"))
	})
	for i := range launches {
		l := &launches[i]
		if l.Weight == nil || l.Weight.Weight != w {
			continue
		}
		if c := hold(l.Variant, &l.Query); worst == nil || worst.Covered && !c.Covered {
			worst = &c
		}
	}
	if worst == nil {
		return cover{Reason: "no launch reads it"}
	}
	return *worst
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (a *app) audit(o *gpuFlags) error {
	if err := o.model.checkNumeric(); err != nil {
		return err
	}
	a.checkSwitches()
	f, err := o.model.file()
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := arch.Build(f)
	if err != nil {
		return err
	}
	_, t := targetOf(o.arch)
	all := auditMatrices(g, t, o.options())
	var bad []audited
	for _, m := range all {
		if !m.Covered {
			bad = append(bad, m)
		}
	}
	if o.json {
		if err := a.writeJSON(all); err != nil {
			return err
		}
	} else {
		rows := []string{"matrix\tformat\trows\tcols\tunits\tceiling\tvariant\tof a prompt\tcovered"}
		for _, m := range all {
			prefill := "same"
			if m.Prefill != nil {
				prefill = m.Prefill.Variant
			}
			rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s", m.Name, m.Format, m.Rows, m.Cols, orDash(m.Units), orAny(m.Ceiling, m.Variant), or(m.Variant, "none"), prefill, yesNo(m.Covered)))
		}
		a.columns(rows...)
		fmt.Fprintf(a.stdout, "\n%d matrices, %d covered; sm_%d\n", len(all), len(all)-len(bad), o.arch)
	}
	for _, m := range bad {
		a.complain(fmt.Errorf("%s %s [%d, %d] is not covered: %s", m.Name, m.Format, m.Rows, m.Cols, m.Reason))
	}
	if len(bad) > 0 {
		return errNo
	}
	return nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func orDash(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func orAny(n *int64, variant string) string {
	if n == nil && variant != "" {
		return "any"
	}
	return orDash(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

type planFlags struct {
	gpuFlags
	tokens    int
	bandwidth float64
}

func (a *app) planCommand() *cobra.Command {
	o := &planFlags{tokens: 1}
	cmd := &cobra.Command{
		Use:   "plan [flags]",
		Short: "Show the kernel launches of a step on a GPU",
		Long: `List the kernel launches that compute a step on a GPU: which variant and why not another,
its grid and block, the bytes of weights that it reads (content, and streamed with
padding), and the time that the memory takes for them. No GPU is needed.`,
		Example: `  minfer-run plan -m model.gguf
  minfer-run plan -m model.gguf --tokens 512 --arch 80 --bandwidth 1.5e12`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.plan(o) },
	}
	f := a.flags(cmd)
	f.group("Plan")
	o.add(f)
	f.integer(&o.tokens, 1, 65535, nil, "--tokens", "N", "tokens of the step: 1 generates, more are a piece of a prompt; logits are computed for the last")
	f.add("--bandwidth", "X", "bytes a second that the memory streams (default as the GPU of --arch)", &value{parse: func(s string) error {
		if err := parseNonNegative(s, &o.bandwidth); err != nil || o.bandwidth == 0 {
			return rangeError{s, "a number above 0, in bytes per second"}
		}
		return nil
	}})
	return cmd
}

// planned is a launch as JSON has it.
type planned struct {
	Name     string    `json:"name"`
	Kernel   string    `json:"kernel"`
	Class    string    `json:"class"`
	Why      string    `json:"why"`
	Grid     [3]uint32 `json:"grid"`
	Threads  uint32    `json:"threads"`
	Shared   uint32    `json:"shared_bytes"` // dynamic
	Weight   string    `json:"weight,omitempty"`
	Content  int64     `json:"content_bytes"`
	Streamed int64     `json:"streamed_bytes"`
	Micros   float64   `json:"us_at_bandwidth"`
}

// census counts the launches of a kernel.
type census struct {
	Kernel   string  `json:"kernel"`
	Launches int     `json:"launches"`
	Content  int64   `json:"content_bytes"`
	Streamed int64   `json:"streamed_bytes"`
	Micros   float64 `json:"us_at_bandwidth"`
}

type planReport struct {
	Model     string    `json:"model"`
	Arch      int       `json:"arch"`
	Machine   string    `json:"machine"`
	Tokens    int       `json:"tokens"`
	Bandwidth float64   `json:"bandwidth"`
	Weights   int64     `json:"weight_bytes"` // in device memory
	Launches  []planned `json:"launches"`
	Census    []census  `json:"census"`
	Content   int64     `json:"content_bytes"`
	Streamed  int64     `json:"streamed_bytes"`
	Micros    float64   `json:"us_at_bandwidth"`
	PerSecond float64   `json:"steps_per_second_at_bandwidth"`
}

func (a *app) plan(o *planFlags) error {
	if err := o.model.checkNumeric(); err != nil {
		return err
	}
	a.checkSwitches()
	f, err := o.model.file()
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := arch.Build(f)
	if err != nil {
		return err
	}
	name, t := targetOf(o.arch)
	if o.bandwidth == 0 {
		o.bandwidth = 1e9 * float64(machineOf(o.arch).StreamGB)
	}
	p, err := plan.New(g, t, o.options())
	if err != nil {
		return err
	}
	launches, err := p.Step(o.tokens, 1)
	if err != nil {
		return err
	}
	r := planReport{Model: o.model.name(), Arch: o.arch, Machine: name, Tokens: o.tokens, Bandwidth: o.bandwidth, Weights: p.WeightBytes()}
	for i := range launches {
		l := &launches[i]
		x := planned{Name: l.Name, Kernel: l.Variant.String(), Class: l.Variant.Class, Why: l.Why(), Grid: l.Grid, Threads: l.Variant.Threads, Shared: l.Shared,
			Content: l.Content, Streamed: l.Streamed, Micros: 1e6 * float64(l.Streamed) / o.bandwidth}
		if l.Weight != nil {
			x.Weight = l.Weight.Weight.Name
		}
		r.Launches = append(r.Launches, x)
		k := slices.IndexFunc(r.Census, func(c census) bool { return c.Kernel == x.Kernel })
		if k < 0 {
			k, r.Census = len(r.Census), append(r.Census, census{Kernel: x.Kernel})
		}
		c := &r.Census[k]
		c.Launches++
		c.Content += x.Content
		c.Streamed += x.Streamed
		c.Micros += x.Micros
		r.Content += x.Content
		r.Streamed += x.Streamed
	}
	slices.SortStableFunc(r.Census, func(x, y census) int {
		return cmp.Or(cmp.Compare(y.Streamed, x.Streamed), cmp.Compare(y.Launches, x.Launches))
	})
	r.Micros = 1e6 * float64(r.Streamed) / o.bandwidth
	r.PerSecond = 1e6 / r.Micros
	if math.IsInf(r.PerSecond, 0) {
		return errors.New("BUG: a step that reads no weights")
	}
	if o.json {
		return a.writeJSON(r)
	}
	rows := []string{"launch\tkernel\tgrid\tblock\tcontent\tstreamed\tus\twhy"}
	for _, l := range r.Launches {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%dx%dx%d\t%d\t%d\t%d\t%.2f\t%s", l.Name, l.Kernel, l.Grid[0], l.Grid[1], l.Grid[2], l.Threads, l.Content, l.Streamed, l.Micros, l.Why))
	}
	a.columns(rows...)
	fmt.Fprintln(a.stdout)
	rows = []string{"kernel\tlaunches\tcontent\tstreamed\tus"}
	for _, c := range r.Census {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%d\t%.2f", c.Kernel, c.Launches, c.Content, c.Streamed, c.Micros))
	}
	rows = append(rows, fmt.Sprintf("all\t%d\t%d\t%d\t%.2f", len(r.Launches), r.Content, r.Streamed, r.Micros))
	a.columns(rows...)
	fmt.Fprintf(a.stdout, "\n%s, sm_%d (%s), %d token(s): at %.3g bytes/s the weights alone allow %.1f steps/s; they take %s of device memory\n",
		r.Model, r.Arch, r.Machine, r.Tokens, r.Bandwidth, r.PerSecond, sizeText(r.Weights))
	return nil
}
