package kernel

// Geometry is how a kernel deals its work: what tests and reports know of it. Dispatch needs none of it; the bounds say it all.
type Geometry struct {
	Axes  []Axis
	Cover Cover
}

// Axis is one axis of a kernel's work.
type Axis struct {
	Name    string // "unit"
	Dim     string // the size that it runs over, "cols"
	Elems   int64  // of the dim, that one index stands for
	Period  int64  // indices that are dealt before the open digit advances; the ceiling where none is open
	Ceiling int64  // the largest extent; 0: every
	Share   bool   // Query.Shares blocks divide the axis into contiguous runs
}

// Cover is the axes that the numbers of MINFER_COVER count, the first of each most significant.
type Cover struct{ Row, Unit, Token []string }

// Extent is the number of indices that the query has.
func (a *Axis) Extent(q *Query) int64 { return (q.Dim(a.Dim) + a.Elems - 1) / a.Elems }

// Axis is the axis of that name.
func (g *Geometry) Axis(name string) *Axis {
	for i := range g.Axes {
		if g.Axes[i].Name == name {
			return &g.Axes[i]
		}
	}
	panic("BUG: no axis " + name)
}

// Over is the axes that run over a dim.
func (g *Geometry) Over(dim string) (axes []*Axis) {
	for i := range g.Axes {
		if g.Axes[i].Dim == dim {
			axes = append(axes, &g.Axes[i])
		}
	}
	return axes
}

// Cells is how many values each number of MINFER_COVER takes for a query.
func (g *Geometry) Cells(q *Query) (rows, units, tokens int64) {
	count := func(names []string) int64 {
		n := int64(1)
		for _, a := range names {
			n *= g.Axis(a).Extent(q)
		}
		return n
	}
	return count(g.Cover.Row), count(g.Cover.Unit), count(g.Cover.Token)
}
