// Package mutate judges the judges: it damages gates and geometries, one fact at a time, and reports what notices. A gate is
// held against package launch, which knows no bound, at the edges of every bound: what the gate admits must compute all of
// its work once, and what it refuses must have something wrong with it.
package mutate

import (
	"fmt"
	"slices"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/cover"
	"github.com/minfer/minfer/gen/launch"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// Mutant is one damaged fact and what became of it.
type Mutant struct {
	Kernel string // "matvec-q8/q6_K/v2_pf"
	Change string // "MaxCols dropped"
	Killer string // what noticed, and how; "" when nothing did
}

// subject is a kernel under judgement.
type subject struct {
	fam    *model.Family
	v      *model.Variant
	f      *model.Format
	dev    *model.Device
	geo    *layout.Geometry
	terms  []bound.Term
	shapes []bound.Shape
	faults []string // of each shape, joined; "" when it is right
}

// All damages every kernel of the catalog. The second result is the disagreements of undamaged gates with the judge: none, or
// the mutants mean nothing.
func All(c *model.Catalog) (mutants []Mutant, wrong []string) {
	for _, fam := range slices.Concat(c.Families, c.CPU) {
		formats := fam.Formats
		if len(formats) == 0 {
			formats = []*model.Format{nil}
		}
		for _, f := range formats {
			for _, v := range fam.VariantsFor(f) {
				s := newSubject(c, fam, v, f)
				if text := s.disagree(s.terms, s.geo); text != "" {
					wrong = append(wrong, s.name()+": "+text)
					continue
				}
				mutants = append(mutants, s.gates()...)
				mutants = append(mutants, s.geometries()...)
			}
		}
	}
	return append(mutants, Historical(c)...), wrong
}

func newSubject(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) *subject {
	s := &subject{fam: fam, v: v, f: f, geo: v.Geometry(f)}
	if !fam.CPU {
		s.dev = c.Base()
	}
	s.terms = bound.Derive(fam, v, f, s.dev)
	s.shapes = s.edges(c)
	for _, shape := range s.shapes {
		text := ""
		for _, x := range launch.Faults(fam, v, f, s.geo, s.dev, shape) {
			text += x + "; "
		}
		s.faults = append(s.faults, text)
	}
	return s
}

func (s *subject) name() string {
	n := s.fam.Name
	if s.f != nil {
		n += "/" + s.f.Name
	}
	return n + "/" + s.v.Name
}

// edges is a small admitted shape, and from it each dim moved to either side of each of its limits.
func (s *subject) edges(c *model.Catalog) (shapes []bound.Shape) {
	base := bound.Shape{Dims: map[model.Dim]int64{model.ShareOf: 3}, Weights: s.v.Weights, Features: s.v.Features}
	if s.dev != nil {
		base.Arch, base.SharedBytes = max(s.v.Arch, s.dev.Arch), int64(s.dev.SharedBytes)
	}
	if ring := s.v.Shared.Ring; ring != nil {
		base.SharedBytes = 4 * int64(ring.RoomBytes) // so that each bound is met alone; the edges of shared memory are below
	}
	if s.v.Shared.Tiles != nil {
		base.SharedBytes = max(base.SharedBytes, int64(lower.TilesOf(s.v, s.f).Bytes)) // the least device may not have room for them
	}
	for _, d := range s.fam.Dims {
		base.Dims[d] = bound.Grain(s.terms, d)
	}
	shapes = append(shapes, base)
	for _, t := range s.terms {
		switch t.Kind {
		case bound.Arch, bound.Only:
			for _, a := range []int64{t.Value - 10, t.Value, t.Value + 10} {
				x := base
				x.Arch = int(a)
				shapes = append(shapes, x)
			}
		case bound.Feature:
			x := base
			x.Features = slices.DeleteFunc(slices.Clone(base.Features), func(f string) bool { return f == t.Feature })
			shapes = append(shapes, x)
		case bound.Weights:
			for _, l := range []model.WeightLayout{model.LayoutFile, model.LayoutPadded, model.LayoutPlanes, "lanes", "rows32", "rows32index"} {
				x := base
				x.Weights = l
				shapes = append(shapes, x)
			}
		case bound.Shared:
			g := bound.Grain(s.terms, t.Dim)
			if t.Per > 0 {
				fits := (base.SharedBytes - t.Fixed) / t.Per * t.Elems / g * g
				for _, n := range []int64{fits, fits + g} {
					shapes = append(shapes, base.With(t.Dim, n))
				}
			}
			// A device with just enough, and one with a byte less, for a narrow row and for the widest.
			for _, n := range []int64{g, s.widest(t.Dim)} {
				x := base.With(t.Dim, n)
				for _, less := range []int64{0, 1} {
					x.SharedBytes = t.SharedBytes(n) - less
					shapes = append(shapes, x)
				}
			}
		default:
			g := bound.Grain(s.terms, t.Dim)
			for _, n := range []int64{0, 1, t.Value - g, t.Value, t.Value + g, t.Value / 2, t.Value + 1, 2 * t.Value, 3 * t.Value, 2*g + 1, 5 * g} {
				if n >= 0 {
					shapes = append(shapes, base.With(t.Dim, n))
				}
			}
		}
	}
	return shapes
}

// widest is the largest size of a dim that the digits cover, or a small one where they cover every size.
func (s *subject) widest(d model.Dim) int64 {
	for _, t := range s.terms {
		if t.Kind == bound.Max && t.Source == bound.Coverage && t.Dim == d {
			return t.Value
		}
	}
	return 64 * bound.Grain(s.terms, d)
}

// disagree finds a shape on which the terms and the judge differ.
func (s *subject) disagree(terms []bound.Term, g *layout.Geometry) string {
	for i, shape := range s.shapes {
		faults := s.faults[i]
		if g != s.geo {
			faults = ""
			for _, x := range launch.Faults(s.fam, s.v, s.f, g, s.dev, shape) {
				faults += x + "; "
			}
		}
		ok, broken := bound.Admits(terms, shape)
		if ok && faults != "" {
			return fmt.Sprintf("the gate admits %s, where %s", say(s.fam, shape), faults[:len(faults)-2])
		}
		if !ok && faults == "" {
			return fmt.Sprintf("the gate refuses %s for %s, where nothing is wrong", say(s.fam, shape), broken)
		}
	}
	return ""
}

func say(fam *model.Family, s bound.Shape) string {
	var dims []model.Dim
	for _, d := range fam.Dims {
		dims = append(dims, d)
	}
	slices.Sort(dims)
	text := fmt.Sprintf("sm_%d", s.Arch)
	if fam.CPU {
		text = fmt.Sprintf("cpu %v", s.Features)
	}
	for _, d := range slices.Compact(dims) {
		text += fmt.Sprintf(" %s %d", d, s.Dims[d])
	}
	if s.Weights != "" {
		text += " weights " + string(s.Weights)
	}
	return text
}

// gates drops every term, and moves it by one unit either way.
func (s *subject) gates() (mutants []Mutant) {
	try := func(change string, terms []bound.Term) {
		mutants = append(mutants, Mutant{s.name(), change, s.disagree(terms, s.geo)})
	}
	for i, t := range s.terms {
		without := append(slices.Clone(s.terms[:i]), s.terms[i+1:]...)
		try(t.Name()+" dropped", without)
		if t.Kind == bound.Weights || t.Kind == bound.Feature {
			continue // there is nothing to move
		}
		step := map[bound.Kind]int64{bound.Arch: 10, bound.Only: 10, bound.Multiple: 1, bound.Shared: t.Per}[t.Kind]
		if step == 0 {
			step = bound.Grain(s.terms, t.Dim)
		}
		for _, by := range []int64{-step, step} {
			moved := slices.Clone(s.terms)
			if t.Kind == bound.Shared {
				moved[i].Fixed += by * int64(max(1, bound.Grain(s.terms, t.Dim)/t.Elems))
			} else {
				moved[i].Value += by
			}
			if t.Kind == bound.Shared && t.Least > 0 {
				least := slices.Clone(s.terms)
				least[i].Least += by
				try(fmt.Sprintf("%s moved by %+d at the least", t.Name(), by), least)
			}
			if moved[i].Kind == bound.Multiple && moved[i].Value < 1 {
				continue
			}
			if n := s.widest(t.Dim); t.Kind == bound.Shared && max(t.SharedBytes(n), moved[i].SharedBytes(n)) == t.Least {
				continue // at every width the least is what counts, so that nothing has changed
			}
			try(fmt.Sprintf("%s moved by %+d", t.Name(), by), moved)
		}
	}
	return mutants
}

// geometries changes every stride and radix of the kernel under an unchanged gate.
func (s *subject) geometries() (mutants []Mutant) {
	try := func(change string, g *layout.Geometry) {
		killer := ""
		if flaws := cover.Prove(g); len(flaws) > 0 {
			killer = "the proof: " + flaws[0].String()
		} else if text := s.disagree(s.terms, g); text != "" {
			killer = text
		}
		mutants = append(mutants, Mutant{s.name(), change, killer})
	}
	for a := range s.geo.Axes {
		d := &s.geo.Axes[a]
		for i, p := range s.geo.Digits {
			if d.Stride[i] == 0 || p.Radix == 1 {
				continue
			}
			for _, by := range []int{-1, 1} {
				g := clone(s.geo)
				g.Axes[a].Stride[i] += by
				try(fmt.Sprintf("stride of %s in %s moved by %+d", p.Name, d.Axis, by), g)
			}
			if p.Radix != layout.Any {
				// One more reaches no further size where sizes are whole blocks of more elements; so many do.
				more := max(1, int(bound.Grain(s.terms, s.fam.Dims[d.Axis]))/(d.Stride[i]*d.Elems))
				for _, by := range []int{-1, more} {
					g := clone(s.geo)
					if g.Digits[i].Radix += by; g.Digits[i].Radix > 0 {
						try(fmt.Sprintf("radix of %s moved by %+d", p.Name, by), g)
					}
				}
			}
		}
	}
	return mutants
}

func clone(g *layout.Geometry) *layout.Geometry {
	out := &layout.Geometry{Digits: slices.Clone(g.Digits), Axes: slices.Clone(g.Axes), Helpers: g.Helpers}
	for i := range out.Axes {
		out.Axes[i].Stride = slices.Clone(g.Axes[i].Stride)
	}
	return out
}

// Historical is the gate of the fault that this project was born of: the pipelined q6_K kernel behind a lower bound alone, asked
// for the 3584 x 18944 down projection of a 7B model.
func Historical(c *model.Catalog) []Mutant {
	for _, fam := range c.Families {
		if fam.Name != "matvec-q8" {
			continue
		}
		for _, f := range fam.Formats {
			for _, v := range fam.Variants {
				if f.Name != "q6_K" || v.Name != "v2_pf" {
					continue
				}
				m := Mutant{Kernel: "matvec-q8/q6_K/v2_pf", Change: "the historical gate: cols > 8192 alone"}
				shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: 3584, model.Cols: 18944, model.Tokens: 1}, Arch: c.Base().Arch, SharedBytes: int64(c.Base().SharedBytes), Weights: v.Weights}
				if faults := launch.Faults(fam, v, f, v.Geometry(f), c.Base(), shape); len(faults) > 0 {
					m.Killer = fmt.Sprintf("the gate admits 3584x18944, where %s", faults[0])
				}
				return []Mutant{m}
			}
		}
	}
	return nil
}
