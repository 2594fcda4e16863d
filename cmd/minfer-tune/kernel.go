package main

import (
	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/runtime/kernel"
)

// What a generated gate says of a variant, made from the model as the gate is: a candidate has no gate yet. A test holds the two against
// each other for every variant that there is.

// entryOf is a gate with one variant.
func entryOf(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) *kernel.Entry {
	x := variantOf(c, fam, v, f)
	return &kernel.Entry{Op: fam.Op, Family: fam.Name, Format: x.Format, Class: fam.Class, Steps: []kernel.Step{{Variant: x, Refuse: refuser(bound.Derive(fam, v, f, c.Base()))}}}
}

// variantOf is the variant as launches need it. Its source is a file of its own.
func variantOf(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) *kernel.Variant {
	geo, terms := v.Geometry(f), bound.Derive(fam, v, f, c.Base())
	x := &kernel.Variant{Family: fam.Name, Name: v.Name, Symbol: model.Symbol(fam, f, v), Source: model.Symbol(fam, f, v) + ".cu", Class: fam.Class, Weights: kernel.Layout(v.Weights),
		Arch: max(v.Arch, c.Base().Arch), Threads: uint32(geo.Threads()), Awaits: fam.Awaits, Switch: v.SwitchFor(f)}
	if f != nil {
		x.Format = f.Name
	}
	for _, d := range geo.Axes {
		if fam.Dims[d.Axis] == model.Cols {
			x.UnitElems = d.Elems
			break
		}
	}
	for _, a := range fam.Args {
		x.Args = append(x.Args, kernel.Arg{Name: a.Name, Type: a.Type, Out: a.Out})
	}
	for _, t := range terms {
		b := kernel.Bound{Kind: kernel.Kind(t.Kind), Dim: string(t.Dim), Value: t.Value, Layout: kernel.Layout(t.Layout), Feature: t.Feature, Source: string(t.Source), Chain: t.Chain}
		if t.Kind == bound.Shared {
			b.Value, b.Per, b.Elems, b.Least = t.Fixed, t.Per, t.Elems, t.Least
		}
		x.Bounds = append(x.Bounds, b)
	}
	x.Grid = gridOf(fam, geo)
	x.Shared = func(q *kernel.Query) uint32 {
		for _, t := range terms {
			if t.Kind == bound.Shared {
				return uint32(t.SharedBytes(q.Dim(string(t.Dim))))
			}
		}
		return 0
	}
	return x
}

// gridOf is the launch grid: each grid digit takes as many values as its axis needs.
func gridOf(fam *model.Family, geo *layout.Geometry) func(*kernel.Query) [3]uint32 {
	return func(q *kernel.Query) [3]uint32 {
		grid := [3]uint32{1, 1, 1}
		for i, p := range geo.Digits {
			if !p.Place.Grid() {
				continue
			}
			n := &grid[map[layout.Place]int{layout.GridX: 0, layout.GridY: 1, layout.GridZ: 2}[p.Place]]
			for _, d := range geo.Axes {
				switch {
				case d.Share == i:
					*n = uint32(q.Shares)
				case d.Stride[i] == 0:
				case p.Radix != layout.Any:
					*n = uint32(p.Radix)
				default:
					each := int64(d.Stride[i] * d.Elems)
					*n = uint32((q.Dim(string(fam.Dims[d.Axis])) + each - 1) / each)
				}
			}
		}
		return grid
	}
}

// refuser is the gate's function of the same terms.
func refuser(terms []bound.Term) func(*kernel.Query) int {
	return func(q *kernel.Query) int {
		s := shapeOf(q)
		for i, t := range terms {
			if t.Breaks(s) {
				return i
			}
		}
		return -1
	}
}

// shapeOf is a query in the generator's words.
func shapeOf(q *kernel.Query) bound.Shape {
	s := bound.Shape{Dims: map[model.Dim]int64{}, Arch: q.Arch, SharedBytes: q.SharedBytes, Weights: model.WeightLayout(q.Weights)}
	for _, d := range model.Dims {
		s.Dims[d] = q.Dim(string(d))
	}
	return s
}

// geometryOf is what conformance knows of a variant beside its gate.
func geometryOf(fam *model.Family, v *model.Variant, f *model.Format) kernel.Geometry {
	g := kernel.Geometry{Cover: kernel.Cover{Row: fam.Cover.Row, Unit: fam.Cover.Unit, Token: fam.Cover.Token}}
	geo := v.Geometry(f)
	for i := range geo.Axes {
		d := &geo.Axes[i]
		period, _ := geo.Period(d)
		a := kernel.Axis{Name: d.Axis, Dim: string(fam.Dims[d.Axis]), Elems: int64(d.Elems), Period: int64(period), Share: d.Share >= 0}
		if ceiling, bounded := geo.Ceiling(d); bounded && !a.Share {
			a.Ceiling = int64(ceiling)
		}
		g.Axes = append(g.Axes, a)
	}
	return g
}
