// Package conform judges the emitted kernels: every variant of every format of every family in package gate runs through a
// gpu.Driver on an edge suite derived from its gate's bounds and its geometry, and is held against plain float64 Go that goes over all
// of the work by its own loops. Weights are read by generated/cpu, whose own judge is ggml; nothing here shares code with a kernel.
//
// The judges, each of which can turn a kernel red on its own:
//   - gate: both sides of every bound of every variant; what is refused is never launched;
//   - fault: the launch fails. Inputs end at the end of their allocations;
//   - canary: bytes around an output, or between its rows, changed; or an input did;
//   - value: an element is left as the NaN that outputs are filled with, or too far from the reference;
//   - witness: a cell of the work was processed not once but never, twice, or outside;
//   - bits: a variant differs from one that it is declared to equal bit for bit.
//
// The table that the suite runs over is generated (package generated/conform), so a new variant or format is judged with no edit here.
// A new operation needs its reference in operations.
package conform

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// Options choose what is run and on what.
type Options struct {
	// Open gives a driver; one is opened for each gate, and closed after it.
	Open func() (gpu.Driver, error)
	// Match leaves out variants for which it is false; nil runs all.
	Match func(v *kernel.Variant) bool
	// Brief leaves out the sizes that take long: tens of thousands of rows or tokens.
	Brief bool
}

// Run judges the kernels, each gate in a subtest of its family, and prints what was covered.
func Run(t *testing.T, o Options) {
	families := map[string][]*kernel.Entry{}
	var names []string
	for _, e := range gate.All {
		if families[e.Family] == nil {
			names = append(names, e.Family)
		}
		families[e.Family] = append(families[e.Family], e)
	}
	var mu sync.Mutex
	var total Report
	start := time.Now()
	t.Cleanup(func() { t.Logf("%s in %.1f s", total, time.Since(start).Seconds()) })
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, e := range families[name] {
				subjects := Subjects(e, o)
				if len(subjects) == 0 {
					continue
				}
				format := e.Format
				if format == "" {
					format = "-"
				}
				t.Run(format, func(t *testing.T) {
					t.Parallel()
					report, err := judge(e, subjects, o)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range report.Failures {
						t.Error(f)
					}
					t.Log(report)
					mu.Lock()
					defer mu.Unlock()
					total.add(report)
				})
			}
		})
	}
}

// judge runs the subjects of one gate on a driver of their own.
func judge(e *kernel.Entry, subjects []*Subject, o Options) (total Report, err error) {
	d, err := o.Open()
	if err != nil {
		return total, err
	}
	defer d.Close()
	var variants []*kernel.Variant
	for _, s := range e.Steps {
		if runsOn(s.Variant, d.Info().Arch) {
			variants = append(variants, s.Variant)
		}
	}
	if err := gpu.LoadVariants(d, variants); err != nil {
		return total, err
	}
	for _, s := range subjects {
		if !runsOn(s.Variant, d.Info().Arch) {
			continue
		}
		r, err := s.Judge(d)
		if err != nil {
			return total, err
		}
		total.add(r)
	}
	return total, nil
}

// runsOn reports whether devices of an architecture have the kernel: its code may be for another alone.
func runsOn(v *kernel.Variant, arch int) bool {
	other := func(b kernel.Bound) bool { return b.Kind == kernel.Only && b.Value != int64(arch) }
	return v.Arch <= arch && !slices.ContainsFunc(v.Bounds, other)
}

// Judge runs the suite, without the sizes that take long, of a variant that is in no gate: of what would be an entry with it alone, whose
// kernel is loaded.
func Judge(d gpu.Driver, e *kernel.Entry, g kernel.Geometry) (Report, error) {
	s := subject(e, 0)
	s.Geometry = g
	return s.Judge(d)
}

// Failure is one thing that a kernel did wrong.
type Failure struct {
	Kernel, Job string
	Judge       string // gate, fault, canary, value, witness or bits
	Text        string
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.Kernel, f.Job, f.Judge, f.Text)
}

// Report is what was run.
type Report struct {
	Variants, Launches, Refusals int
	Cells                        int64   // counted by the witness
	Worst                        float64 // largest error over its tolerance
	WorstAt                      string
	Failures                     []Failure
}

func (r *Report) add(s Report) {
	r.Variants += s.Variants
	r.Launches += s.Launches
	r.Refusals += s.Refusals
	r.Cells += s.Cells
	if s.Worst > r.Worst {
		r.Worst, r.WorstAt = s.Worst, s.WorstAt
	}
	r.Failures = append(r.Failures, s.Failures...)
}

func (r Report) String() string {
	return fmt.Sprintf("%d variants, %d launches, %d refusals, %d cells witnessed, worst error %.2f of its tolerance (%s)", r.Variants, r.Launches, r.Refusals, r.Cells, r.Worst, r.WorstAt)
}

// Subject is a variant under judgement.
type Subject struct {
	Entry    *kernel.Entry
	Variant  *kernel.Variant
	Geometry kernel.Geometry
	Info     format.Info // of its format; zero without one
	cheap    bool        // the one of its family that runs the sizes that take long
	step     *kernel.Step
	grain    map[string]int64
	shared   int64 // bytes that a block of the device may ask for
	patience int   // failures after which the rest of the suite is left
}

// Subjects lists the variants of a gate that the options choose.
func Subjects(e *kernel.Entry, o Options) (all []*Subject) {
	for i := range e.Steps {
		v := e.Steps[i].Variant
		if o.Match != nil && !o.Match(v) {
			continue
		}
		s := subject(e, i)
		s.cheap = !o.Brief && e == cheapest(e.Family)
		all = append(all, s)
	}
	slices.Reverse(all) // the reference first
	return all
}

// subject is the variant of step i of a gate.
func subject(e *kernel.Entry, i int) *Subject {
	v := e.Steps[i].Variant
	s := &Subject{Entry: e, Variant: v, Geometry: conform.Kernels[v.Symbol], step: &e.Steps[i], patience: maxFailures, grain: map[string]int64{}}
	s.Info, _ = format.ByName(e.Format)
	for _, b := range v.Bounds {
		if b.Kind == kernel.Multiple {
			s.grain[b.Dim] = lcm(s.grainOf(b.Dim), b.Value)
		}
	}
	return s
}

// cheapest is the gate of a family whose format has the smallest blocks.
func cheapest(family string) (best *kernel.Entry) {
	size := func(e *kernel.Entry) int {
		i, _ := format.ByName(e.Format)
		return i.BlockBytes * 32 / max(1, i.BlockElems) * max(32, i.BlockElems)
	}
	for _, e := range gate.All {
		if e.Family == family && (best == nil || size(e) < size(best)) {
			best = e
		}
	}
	return best
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// grainOf is the step in which the admitted sizes of a dim lie.
func (s *Subject) grainOf(dim string) int64 { return max(1, s.grain[dim]) }

// whole is the least size of a dim that is admitted by its grain and not below n.
func (s *Subject) whole(dim string, n int64) int64 {
	g := s.grainOf(dim)
	return (n + g - 1) / g * g
}

// maxFailures of one variant are told; the rest of its suite is then left.
const maxFailures = 5

// Judge runs the variant's suite. The kernels of its gate must be loaded. The error is of the suite, not of the kernel.
func (s *Subject) Judge(d gpu.Driver) (Report, error) {
	r := Report{Variants: 1}
	if len(s.Geometry.Axes) == 0 {
		return r, fmt.Errorf("%s has no case in generated/conform: generate anew", s.Variant)
	}
	jobs, ok := operations[s.Entry.Op]
	if !ok {
		return r, fmt.Errorf("%s: operation %s has no reference in package conform", s.Variant, s.Entry.Op)
	}
	s.shared = int64(d.Info().SharedOptInBytes)
	b := &bench{driver: d, subject: s, report: &r}
	b.gate()
	for j := range jobs(s) {
		if s.refusal(&j.query) >= 0 {
			return r, fmt.Errorf("%s: the suite asks for %s, which the gate refuses: %s", s.Variant, j.name, s.Variant.Bounds[s.refusal(&j.query)])
		}
		b.run(j)
		if len(r.Failures) >= s.patience {
			break
		}
	}
	return r, nil
}

// refusal is the first bound that a query breaks, or -1. Every launch of the suite asks it first.
func (s *Subject) refusal(q *kernel.Query) int { return s.step.Refuse(q) }

// query is the least query that the variant admits.
func (s *Subject) query() kernel.Query {
	q := kernel.Query{Shares: 1, Arch: s.Variant.Arch, Weights: s.Variant.Weights, SharedBytes: s.shared}
	for _, b := range s.Variant.Bounds {
		if b.Kind == kernel.Min {
			setDim(&q, b.Dim, b.Value)
		}
	}
	return q
}

func setDim(q *kernel.Query, dim string, n int64) {
	switch dim {
	case "rows":
		q.Rows = n
	case "cols":
		q.Cols = n
	case "tokens":
		q.Tokens = n
	case "heads":
		q.Heads = n
	case "kv_heads":
		q.KVHeads = n
	case "head_dim":
		q.HeadDim = n
	case "context":
		q.Context = n
	case "group":
		q.Group = n
	case "shares":
		q.Shares = n
	case "kept":
		q.Kept = n
	default:
		panic("BUG: no dim " + dim)
	}
}

// with is the query with a dim changed.
func with(q kernel.Query, dim string, n int64) kernel.Query {
	setDim(&q, dim, n)
	return q
}

// operations make the suite of a variant, by the operation of its gate.
var operations = map[string]func(*Subject) iter.Seq[*job]{
	"add":            addJobs,
	"attend":         attendJobs,
	"attend-combine": combineJobs,
	"attend-prefill": prefillJobs,
	"attend-step":    stepJobs,
	"embed":          embedJobs,
	"gate":           fusedJobs,
	"kv-append":      appendJobs,
	"matmul":         matmulJobs,
	"matmul-tile":    matmulJobs,
	"project":        fusedJobs,
	"quantize":       quantizeJobs,
	"rmsnorm":        rmsnormJobs,
	"rope":           ropeJobs,
	"round":          roundJobs,
	"select":         selectJobs,
	"silu-mul":       siluJobs,
	"top-k":          topJobs,
	"top-k-merge":    mergeJobs,
}

// edges lists sizes of a dim at, below and above what its axes turn on: a unit, a period and two, the ceiling. All are admitted, and none is
// above most.
func (s *Subject) edges(dim string, most int64) (sizes []int64) {
	g := s.grainOf(dim)
	base := s.query()
	add := func(n int64) {
		n -= n % g
		q := with(base, dim, n)
		if n > 0 && n <= most && s.refusal(&q) < 0 {
			sizes = append(sizes, n)
		}
	}
	for k := int64(1); k <= 3; k++ {
		add(k * g)
	}
	for _, a := range s.Geometry.Over(dim) {
		add(a.Elems)
		add(a.Elems + g)
		for k := int64(1); k <= 2; k++ {
			for _, n := range []int64{-g, 0, g} {
				add(k*a.Period*a.Elems + n)
			}
		}
		add(3*a.Period*a.Elems + a.Elems)
		if a.Ceiling > 0 {
			add(a.Ceiling * a.Elems)
			add(a.Ceiling*a.Elems - g)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// debug prints each job as it runs.
var debug = os.Getenv("MINFER_CONFORM_DEBUG") != ""
