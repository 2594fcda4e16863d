package tune

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
)

// Routes is a file of specs/routes.
type Routes struct {
	Device string // of specs/devices
	Runs   []Run
}

// Run is what one run of a measurement found, and where it did.
type Run struct {
	Device, Date, Command string
	First                 []Win
}

// Win is a variant that was the fastest for a shape.
type Win struct {
	Shape
	Variant  string
	Settings []model.Setting
	Figure   string
	Geometry string // the fingerprint of what was measured
}

// Shape is what was measured: a family, a format and sizes.
type Shape struct {
	Kernel, Format string
	Sizes          []model.Size
}

// String is the shape in words; it tells shapes apart.
func (s Shape) String() string {
	text := s.Kernel
	if s.Format != "" {
		text += " of " + s.Format
	}
	for _, x := range sizes(s.Sizes) {
		text += fmt.Sprintf(" %s %d", x.Dim, x.Value)
	}
	return text
}

// order is that of sizes in a file.
var order = []model.Dim{model.Rows, model.Cols, model.Tokens, model.Heads, model.KVHeads, model.Group, model.HeadDim, model.Context}

func sizes(all []model.Size) []model.Size {
	return slices.SortedFunc(slices.Values(all), func(a, b model.Size) int {
		return cmp.Compare(slices.Index(order, a.Dim), slices.Index(order, b.Dim))
	})
}

// Parse reads a file of routes; what is wrong with it is a diag.List.
func Parse(file string, data []byte) (*Routes, error) {
	var diags diag.List
	s := spec.ParseRoutes(file, data, &diags)
	if err := diags.Err(); err != nil || s == nil {
		return nil, err
	}
	r := &Routes{Device: s.Routes.Value}
	for _, x := range s.Runs {
		run := Run{Device: x.Device.Value, Date: x.Date.Value, Command: x.Command.Value}
		for _, w := range x.First {
			win := Win{Shape: Shape{Kernel: w.Kernel.Value, Format: w.Format.Value}, Variant: w.Variant.Value, Figure: w.Figure.Value, Geometry: w.Geometry.Value}
			for _, e := range w.Shape.Entries {
				win.Sizes = append(win.Sizes, model.Size{Dim: model.Dim(e.Name.Value), Value: int64(e.Value.Value)})
			}
			for _, e := range w.Set.Entries {
				win.Settings = append(win.Settings, model.Setting{Name: e.Name.Value, Value: e.Value.Value})
			}
			run.First = append(run.First, win)
		}
		r.Runs = append(r.Runs, run)
	}
	return r, nil
}

// Measured is a shape that a run has measured, and the variants of the spec that took part: those that read weights which lie alike.
type Measured struct {
	Shape
	Variants []string
}

// Add puts a run into the file. What earlier runs say of what it has measured too is theirs no more.
func (r *Routes) Add(run Run, measured []Measured) {
	again := map[string][]string{}
	for _, m := range measured {
		again[m.String()] = append(again[m.String()], m.Variants...)
	}
	for i := range r.Runs {
		r.Runs[i].First = slices.DeleteFunc(slices.Clone(r.Runs[i].First), func(w Win) bool { return slices.Contains(again[w.Shape.String()], w.Variant) })
	}
	r.Runs = append(r.Runs, run)
	r.Runs = slices.DeleteFunc(r.Runs, func(x Run) bool { return len(x.First) == 0 })
}

// Check is what the generator finds wrong with the file beside the other specs: nil where gates can be made of both.
func Check(fsys fs.FS, r *Routes) error {
	set, diags, err := spec.Read(fsys)
	if err != nil {
		return err
	}
	set.Routes = slices.DeleteFunc(set.Routes, func(x *spec.Routes) bool { return x.Routes.Value == r.Device })
	if x := spec.ParseRoutes(path.Join(spec.Root, "routes", r.Device+".yaml"), []byte(r.Text()), &diags); x != nil {
		set.Routes = append(set.Routes, x)
	}
	c, pos, more := load.Load(set)
	diags.Add(more)
	if len(diags) == 0 {
		diags.Add(proof.Prove(c, pos))
	}
	return diags.Err()
}

// Text is the file. The order of the runs is kept, that of what they found is by shape.
func (r *Routes) Text() string {
	var b strings.Builder
	b.WriteString("# Written by minfer-gen tune: for which shapes a variant, or one with other values of its free parameters, was measured to be the fastest.\n# Delete a row, or the file, and the gate goes by its variants' own order again.\n")
	fmt.Fprintf(&b, "routes: %s\nruns:\n", r.Device)
	for _, run := range r.Runs {
		fmt.Fprintf(&b, "  - device: %s\n    date: %s\n    command: %s\n    first:\n", strconv.Quote(run.Device), strconv.Quote(run.Date), strconv.Quote(run.Command))
		for _, w := range slices.SortedFunc(slices.Values(run.First), func(x, y Win) int { return x.Shape.compare(y.Shape) }) {
			var parts []string
			add := func(key, value string) { parts = append(parts, key+": "+value) }
			add("kernel", w.Kernel)
			if w.Format != "" {
				add("format", w.Format)
			}
			add("variant", w.Variant)
			var set []string
			for _, s := range slices.SortedFunc(slices.Values(w.Settings), func(x, y model.Setting) int { return strings.Compare(x.Name, y.Name) }) {
				set = append(set, fmt.Sprintf("%s: %d", s.Name, s.Value))
			}
			if len(set) > 0 {
				add("set", "{"+strings.Join(set, ", ")+"}")
			}
			var shape []string
			for _, s := range sizes(w.Sizes) {
				shape = append(shape, fmt.Sprintf("%s: %d", s.Dim, s.Value))
			}
			add("shape", "{"+strings.Join(shape, ", ")+"}")
			add("figure", strconv.Quote(w.Figure))
			if w.Geometry != "" {
				add("geometry", strconv.Quote(w.Geometry))
			}
			fmt.Fprintf(&b, "      - {%s}\n", strings.Join(parts, ", "))
		}
	}
	return b.String()
}

func (s Shape) compare(t Shape) int {
	return cmp.Or(strings.Compare(s.Kernel, t.Kernel), strings.Compare(s.Format, t.Format), slices.CompareFunc(sizes(s.Sizes), sizes(t.Sizes), func(x, y model.Size) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Dim), slices.Index(order, y.Dim)), cmp.Compare(x.Value, y.Value))
	}))
}
