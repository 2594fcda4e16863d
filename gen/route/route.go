// Package route follows a gate's choice from the specs: which variants are tried, in which order, what each term says, and what
// would become of the work if a refused variant ran all the same. Generated gates make the same choice.
package route

import (
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/launch"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// Verdict is what became of one variant.
type Verdict struct {
	Variant   *model.Variant
	Geometry  *layout.Geometry
	Terms     []bound.Term
	Broken    *bound.Term  // the first term that refuses the shape, or nil
	Preferred bool         // a measured route, or no routes at all
	Route     *model.Route // the route that prefers it, or nil
	First     *model.First // what was measured to put it before all others, or nil
	Off       bool         // its switch is set to 0
	Chosen    bool
	Faults    []string // what a launch would do wrong
}

// Query is a shape, the architecture and the switches that are set to 0.
type Query struct {
	Shape bound.Shape
	Off   []string
}

// Choose judges every variant of a family for a format, in the order in which its gate tries them. At most one is chosen.
func Choose(c *model.Catalog, fam *model.Family, f *model.Format, q Query) []Verdict {
	verdicts := judge(c, fam, f, q)
	for i := range verdicts {
		w := &verdicts[i]
		w.Faults = launch.Faults(fam, w.Variant, f, w.Geometry, device(c, fam), q.Shape)
	}
	return verdicts
}

// Chosen is the variant that the gate chooses, or nil.
func Chosen(c *model.Catalog, fam *model.Family, f *model.Format, q Query) *model.Variant {
	verdicts := judge(c, fam, f, q)
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Chosen }); i >= 0 {
		return verdicts[i].Variant
	}
	return nil
}

// device is the class of GPUs that bounds are derived for; nil for the CPU.
func device(c *model.Catalog, fam *model.Family) *model.Device {
	if fam.CPU {
		return nil
	}
	return c.Base()
}

func judge(c *model.Catalog, fam *model.Family, f *model.Format, q Query) []Verdict {
	dev := device(c, fam)
	variants := slices.Clone(fam.VariantsFor(f))
	slices.Reverse(variants)
	verdicts := make([]Verdict, len(variants))
	for i, v := range variants {
		w := &verdicts[i]
		*w = Verdict{Variant: v, Geometry: v.Geometry(f), Terms: bound.Derive(fam, v, f, dev)}
		if ok, broken := bound.Admits(w.Terms, q.Shape); !ok {
			w.Broken = &broken
		}
		w.Off = v.Switch != "" && slices.Contains(q.Off, v.SwitchFor(f))
		routes := v.RoutesFor(f)
		w.Preferred = len(routes) == 0 && v.Base == nil
		for r := range routes {
			if prefers(&routes[r], q.Shape) {
				w.Preferred, w.Route = true, &routes[r]
				break
			}
		}
		for _, first := range v.FirstFor(f) {
			if first.Holds(q.Shape.Arch, q.Shape.Dims) && (v.Base == nil || admits(fam, v.Base, f, dev, q.Shape)) {
				w.First = first
				break
			}
		}
	}
	for rank := range 3 {
		for i := range verdicts {
			if w := &verdicts[i]; w.rank() == rank && !w.Off && w.Broken == nil {
				w.Chosen = true
				return verdicts
			}
		}
	}
	return verdicts
}

// rank is when the gate tries the variant, as kernel.Step has it.
func (v *Verdict) rank() int {
	switch {
	case v.First != nil:
		return 0
	case v.Variant.Base != nil:
		return -1
	case v.Preferred:
		return 1
	}
	return 2
}

func admits(fam *model.Family, v *model.Variant, f *model.Format, dev *model.Device, s bound.Shape) bool {
	ok, _ := bound.Admits(bound.Derive(fam, v, f, dev), s)
	return ok
}

func prefers(r *model.Route, s bound.Shape) bool {
	n := s.Dims[r.Dim]
	return (r.Arch == 0 || r.Arch == s.Arch) && (r.Above == 0 || n > r.Above) && (r.UpTo == 0 || n <= r.UpTo) && (r.Tokens == 0 || s.Dims[model.Tokens] > r.Tokens)
}

// Units is the number of indices of the axis that runs over cols, and its name; 0 where there is none.
func (v *Verdict) Units(fam *model.Family, s bound.Shape) (n int64, axis string) {
	for i := range v.Geometry.Axes {
		if d := &v.Geometry.Axes[i]; fam.Dims[d.Axis] == model.Cols {
			return (s.Dims[model.Cols] + int64(d.Elems) - 1) / int64(d.Elems), d.Axis
		}
	}
	return 0, ""
}

// Families lists the families of an op (all, if empty) that a format has, by name: those of GPUs.
func Families(c *model.Catalog, ops []string, f *model.Format) []*model.Family {
	return families(c.Families, ops, f)
}

// CPUFamilies lists those of the CPU.
func CPUFamilies(c *model.Catalog, ops []string, f *model.Format) []*model.Family {
	return families(c.CPU, ops, f)
}

func families(all []*model.Family, ops []string, f *model.Format) (found []*model.Family) {
	for _, fam := range all {
		if len(ops) > 0 && !slices.Contains(ops, fam.Op) {
			continue
		}
		if f == nil && len(fam.Formats) == 0 || f != nil && slices.Contains(fam.Formats, f) {
			found = append(found, fam)
		}
	}
	slices.SortFunc(found, func(a, b *model.Family) int { return strings.Compare(a.Name, b.Name) })
	return found
}
