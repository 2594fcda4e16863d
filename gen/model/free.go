package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
)

// Free is a free parameter of a variant: a digit, an option of its template or, of a ring, its stages. Coverage is proved for whatever
// value it has; which is fastest is measured.
type Free struct {
	Name   string
	Values []int // ascending
}

// StagesParameter is the free parameter that bounds the stages of a ring.
const StagesParameter = "stages"

// Setting is a value of a free parameter.
type Setting struct {
	Name  string
	Value int
}

// First is a shape for which a variant was measured to be the fastest: it comes before all others there. It never widens a bound.
type First struct {
	Format string // "" in a family without
	Arch   int
	Dims   []Size // by dim; a dim that is not in it may be any
	Why    string // figure, device, date, command
	// Geometry is the fingerprint of the variant when it was measured; "" where the row does not say.
	Geometry string
}

// Size is a size of a shape.
type Size struct {
	Dim   Dim
	Value int64
}

// Fingerprint tells apart what a variant may be for a format: how it deals, what its template switches on, what lies in shared memory. A figure
// that was measured of one says nothing of another.
func (v *Variant) Fingerprint(f *Format) string {
	var b strings.Builder
	g := v.Geometry(f)
	for _, d := range g.Digits {
		fmt.Fprintf(&b, "digit %s %s %d\n", d.Name, d.Place, d.Radix)
	}
	for _, a := range g.Axes {
		fmt.Fprintf(&b, "axis %s %d %v %d %t\n", a.Axis, a.Elems, a.Stride, a.Share, a.Queue)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Options)) {
		fmt.Fprintf(&b, "option %s %d\n", name, v.Options[name])
	}
	fmt.Fprintf(&b, "helpers %d weights %s shared %d %s %d\n", v.Helpers, v.Weights, v.Shared.FixedBytes, v.Shared.Axis, v.Shared.PerBytes)
	if r := v.Shared.Ring; r != nil {
		fmt.Fprintf(&b, "ring %v %s %d %d %d %d\n", r.Rows, r.Sums, r.Matrices, r.UnitBytes, r.MaxStages, r.LeastBytes)
	}
	if t := v.Shared.Tiles; t != nil {
		fmt.Fprintf(&b, "tiles %v %d %d %d\n", t.Axes, t.Stages, t.RowBytes, t.AlignBytes)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:4])
}

// Holds reports whether a shape is meant.
func (f *First) Holds(arch int, dims map[Dim]int64) bool {
	return arch == f.Arch && !slices.ContainsFunc(f.Dims, func(s Size) bool { return dims[s.Dim] != s.Value })
}

// Shape is the shape in words: "rows 3584, cols 18944".
func (f *First) Shape() string {
	var parts []string
	for _, s := range f.Dims {
		parts = append(parts, fmt.Sprintf("%s %d", s.Dim, s.Value))
	}
	return strings.Join(parts, ", ")
}

// FirstFor is where the variant comes first for a format.
func (v *Variant) FirstFor(f *Format) []*First {
	name := ""
	if f != nil {
		name = f.Name
	}
	return slices.DeleteFunc(slices.Clone(v.First), func(x *First) bool { return x.Format != name })
}

// Value is the present value of a free parameter.
func (v *Variant) Value(name string) int {
	for _, d := range v.Digits {
		if d.Name == name {
			return d.Radix
		}
	}
	if name == StagesParameter && v.Shared.Ring != nil {
		return v.Shared.Ring.MaxStages
	}
	return v.Options[name]
}

// Settings is every combination of values of the free parameters but the variant's own, each without what it leaves as it is.
func (v *Variant) Settings() (all [][]Setting) {
	all = [][]Setting{nil}
	for _, p := range v.Free {
		own := v.Value(p.Name)
		var next [][]Setting
		for _, s := range all {
			next = append(next, s)
			for _, x := range p.Values {
				if x != own {
					next = append(next, append(slices.Clone(s), Setting{p.Name, x}))
				}
			}
		}
		all = next
	}
	return all[1:]
}

// With is the variant with other values of free parameters, under a name of its own. What is claimed of the variant (the same bits as
// another, a ceiling, routes) is not claimed of it.
func (v *Variant) With(set []Setting) *Variant {
	set = slices.SortedFunc(slices.Values(set), func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	w := *v
	w.Base, w.SameBits, w.Ceiling, w.Routes, w.First, w.Free = v, nil, nil, nil, nil, nil
	w.Digits, w.Options = slices.Clone(v.Digits), map[string]int{}
	for name, x := range v.Options {
		w.Options[name] = x
	}
	for _, s := range set {
		w.Name += fmt.Sprintf("_%s%d", s.Name, s.Value)
		w.Doc = strings.TrimSuffix(w.Doc, ".") + fmt.Sprintf("; %s %d.", s.Name, s.Value)
		i := slices.IndexFunc(w.Digits, func(d layout.PlacedDigit) bool { return d.Name == s.Name })
		switch {
		case i >= 0:
			w.Digits[i].Radix = s.Value
		case s.Name == StagesParameter && v.Shared.Ring != nil:
			ring := *v.Shared.Ring
			ring.MaxStages = s.Value
			w.Shared.Ring = &ring
		default:
			w.Options[s.Name] = s.Value
		}
	}
	w.Deal = slices.Clone(v.Deal)
	for i := range w.Deal {
		w.Deal[i].deal(w.Digits)
	}
	return &w
}
