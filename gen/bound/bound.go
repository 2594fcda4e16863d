// Package bound derives what a kernel may be asked to do. Every limit of a gate and every assertion in a kernel
// is a Term made here, from the geometry, the format and the launch, with its derivation in words;
// nobody writes one by hand.
package bound

import (
	"fmt"
	"math"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// Kind is how a term compares.
type Kind string

// The kinds.
const (
	Max      Kind = "max"      // dim <= Value
	Min      Kind = "min"      // dim >= Value
	Multiple Kind = "multiple" // dim % Value == 0
	Arch     Kind = "arch"     // device architecture >= Value
	Only     Kind = "only"     // device architecture == Value
	Weights  Kind = "weights"  // weight layout == Layout, whose blocks take Value bytes
	Feature  Kind = "feature"  // the CPU has the vector instructions called Feature
	Shared   Kind = "shared"   // max(Least, Fixed + Per*ceil(dim/Elems)) <= shared memory of a block
)

// Source says which fact a term comes from.
type Source string

// The sources.
const (
	Coverage Source = "coverage" // what the digits reach
	Grid     Source = "grid"     // what a launch may ask
	Index    Source = "index"    // 32-bit indices inside the kernel
	Unit     Source = "unit"     // a unit is whole
	Block    Source = "block"    // a row is whole blocks of the format
	Memory   Source = "memory"   // shared memory
	Code     Source = "code"     // the architecture, or the instructions, that the code is for
	Layout   Source = "layout"   // where the weights lie
	Work     Source = "work"     // nothing to do is not a launch
)

// Term is one condition of a gate.
type Term struct {
	Kind    Kind
	Source  Source
	Dim     model.Dim
	Value   int64
	Factors []int64 // whose product Value is; none when it is no product
	Chain   string  // "256 threads * 2 rounds * 32 elements"
	Layout  model.WeightLayout
	Feature string
	Fixed   int64 // of Shared
	Per     int64
	Elems   int64
	Least   int64
}

// Name is the term's name in generated code: "MaxCols", "ColsMultiple", ...
func (t Term) Name() string {
	d := Camel(string(t.Dim))
	switch t.Kind {
	case Max:
		return "Max" + d
	case Min:
		return "Min" + d
	case Multiple:
		return d + "Multiple"
	case Arch:
		return "MinArch"
	case Only:
		return "Arch"
	case Shared:
		return "SharedBytes"
	case Feature:
		return "Needs" + Camel(t.Feature)
	}
	return "BlockBytes"
}

// Camel turns kv_heads into KvHeads.
func Camel(s string) string {
	var b strings.Builder
	for _, p := range strings.FieldsFunc(s, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		b.WriteString(strings.ToUpper(p[:1]) + p[1:])
	}
	return b.String()
}

// String is the condition and its derivation.
func (t Term) String() string {
	switch t.Kind {
	case Max:
		return fmt.Sprintf("%s <= %d (%s: %s)", t.Dim, t.Value, t.Source, t.Chain)
	case Min:
		return fmt.Sprintf("%s >= %d (%s: %s)", t.Dim, t.Value, t.Source, t.Chain)
	case Multiple:
		return fmt.Sprintf("%s %% %d == 0 (%s: %s)", t.Dim, t.Value, t.Source, t.Chain)
	case Arch:
		return fmt.Sprintf("arch >= sm_%d (%s)", t.Value, t.Chain)
	case Only:
		return fmt.Sprintf("arch == sm_%d (%s)", t.Value, t.Chain)
	case Feature:
		return fmt.Sprintf("cpu has %s (%s)", t.Feature, t.Chain)
	case Shared:
		if t.Per == 0 {
			return fmt.Sprintf("%d bytes of shared memory (%s)", t.Fixed, t.Chain)
		}
		return fmt.Sprintf("%d + %d*ceil(%s/%d) bytes of shared memory%s (%s)", t.Fixed, t.Per, t.Dim, t.Elems, atLeast(t.Least), t.Chain)
	}
	return fmt.Sprintf("weights %s (%s)", t.Layout, t.Chain)
}

func atLeast(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", at least %d", n)
}

// SharedBytes is what a Shared term asks for n of its dim.
func (t Term) SharedBytes(n int64) int64 {
	return max(t.Least, t.Fixed+t.Per*((n+t.Elems-1)/t.Elems))
}

// along is what a dim along which blocks lie is the length of.
var along = map[model.Dim]string{model.Cols: "a row", model.HeadDim: "a head"}

// maxIndex is the largest index a kernel may form in 32 bits.
const maxIndex = math.MaxInt32

// Derive lists the terms that admit a shape to the variant on a device class, which a family of the CPU has no use for, in a fixed
// order. At most one term per kind and dim survives: the tightest, the others being implied.
func Derive(fam *model.Family, v *model.Variant, f *model.Format, dev *model.Device) []Term {
	var terms []Term
	add := func(t Term) {
		for i, have := range terms {
			if have.Kind != t.Kind || have.Dim != t.Dim || t.Kind == Feature {
				continue
			}
			switch t.Kind {
			case Max:
				if t.Value < have.Value {
					terms[i] = t
				}
				return
			case Multiple:
				if have.Value%t.Value == 0 {
					return
				}
				if t.Value%have.Value == 0 {
					terms[i] = t
					return
				}
			case Min:
				return
			}
		}
		terms = append(terms, t)
	}
	if fam.CPU {
		for _, x := range v.Features {
			add(Term{Kind: Feature, Source: Code, Feature: x, Value: 1, Chain: "the body uses these instructions"})
		}
	} else {
		arch := max(v.Arch, dev.Arch)
		chain := "the baseline that every kernel is compiled for"
		if v.Arch > dev.Arch {
			chain = "the body uses instructions of this architecture"
		}
		kind := Arch
		if v.Only {
			kind, chain = Only, "the body uses instructions that no other architecture has"
		}
		add(Term{Kind: kind, Source: Code, Value: int64(arch), Chain: chain})
	}
	if f != nil {
		why, blockBytes := "the body reads the file's blocks as they are", 0
		switch t := f.TileAs(v.Weights); {
		case t != nil:
			why = fmt.Sprintf("the body reads %d rows side by side", t.Rows)
			blockBytes = t.Stored.Bytes
		case f.StoredAs(v.Weights) != nil:
			why = "the body reads the codes where that layout puts them"
		case v.Weights != model.LayoutFile:
			why = "the body's wide loads need blocks on 16-byte addresses"
		}
		if blockBytes == 0 {
			blockBytes = lower.Place(f, v.Weights).BlockBytes
		}
		add(Term{Kind: Weights, Source: Layout, Layout: v.Weights, Value: int64(blockBytes), Chain: why})
	}
	if f != nil && f.Elems > 1 {
		add(Term{Kind: Multiple, Source: Block, Dim: fam.Along(), Value: int64(f.Elems), Chain: along[fam.Along()] + " is whole " + f.Name + " blocks"})
	}
	g := v.Geometry(f)
	for i := range g.Axes {
		axis(g, &g.Axes[i], fam, v, dev, add)
	}
	if s := v.Shared; s.PerBytes > 0 {
		d := g.Axis(s.Axis)
		add(Term{Kind: Shared, Source: Memory, Dim: fam.Dims[s.Axis], Fixed: int64(s.FixedBytes), Per: int64(s.PerBytes), Elems: int64(d.Elems),
			Chain: fmt.Sprintf("%d bytes and %d for each %s", s.FixedBytes, s.PerBytes, s.Axis)})
	}
	if v.Shared.Ring != nil {
		r := lower.RingOf(v, f)
		add(Term{Kind: Shared, Source: Memory, Dim: model.Cols, Fixed: int64(r.Fixed), Per: int64(r.Per), Elems: int64(f.Elems), Least: int64(r.Least), Chain: r.Chain})
	}
	if s := v.Shared.Tiles; s != nil {
		t := lower.TilesOf(v, f)
		add(Term{Kind: Shared, Source: Memory, Dim: fam.Dims[s.Axes[0]], Fixed: int64(t.Bytes), Elems: 1, Chain: t.Chain})
	}
	round(terms)
	return terms
}

// axis adds the terms of one axis.
func axis(g *layout.Geometry, d *layout.Dealing, fam *model.Family, v *model.Variant, dev *model.Device, add func(Term)) {
	elems, dim := int64(d.Elems), fam.Dims[d.Axis]
	add(Term{Kind: Min, Source: Work, Dim: dim, Value: 1, Chain: "an empty axis is no launch"})
	if elems > 1 && !deal(v, d.Axis).Partial {
		add(Term{Kind: Multiple, Source: Unit, Dim: dim, Value: elems, Chain: fmt.Sprintf("a %s is %d elements", d.Axis, elems)})
	}
	if n := deal(v, d.Axis).Multiple; n > 0 {
		add(Term{Kind: Multiple, Source: Unit, Dim: dim, Value: int64(n), Chain: fmt.Sprintf("threads work on %d elements together", n)})
	}
	if c, bounded := g.Ceiling(d); bounded && d.Share < 0 {
		add(Term{Kind: Max, Source: Coverage, Dim: dim, Value: int64(c) * elems, Factors: factors(g.Factors(d), elems), Chain: g.Chain(d)})
	}
	if fam.CPU {
		return // there is no grid, and indices have 64 bits
	}
	for i, p := range g.Digits {
		if !d.Uses(i) || !p.Place.Grid() || p.Radix != layout.Any || d.Share == i {
			continue
		}
		limit := map[layout.Place]int64{layout.GridX: dev.GridX, layout.GridY: dev.GridY, layout.GridZ: dev.GridZ}[p.Place]
		add(Term{Kind: Max, Source: Grid, Dim: dim, Value: limit * int64(d.Stride[i]) * elems, Factors: []int64{limit, int64(d.Stride[i]), elems},
			Chain: join(fmt.Sprintf("%d blocks in %s", limit, p.Place), per(int64(d.Stride[i]), d.Axis+"s a block"), per(elems, "elements"))})
	}
	if extent, chain := maxExtent(g, d); extent > 0 {
		value := int64(maxIndex)
		if extent <= value/elems {
			value = extent * elems
		} else {
			chain = fmt.Sprintf("%d, the largest 32-bit argument", value)
		}
		add(Term{Kind: Max, Source: Index, Dim: dim, Value: value, Chain: chain})
	}
}

// maxExtent is the largest extent of an axis whose indices all fit 32 bits; 0 when its ceiling sees to that. A loop forms one
// index past the extent before it ends, a grid axis fills its last block.
func maxExtent(g *layout.Geometry, d *layout.Dealing) (extent int64, chain string) {
	period, digit := g.Period(d)
	switch p := int64(period); {
	case digit < 0 && d.Share < 0:
		return 0, ""
	case digit >= 0 && g.Digits[digit].Place.Grid():
		return (maxIndex + 1) / p * p, fmt.Sprintf("whole periods of %d %ss in the 32-bit indices", p, d.Axis)
	default:
		return maxIndex - p + 1, fmt.Sprintf("%d, the largest 32-bit index, less the period of %d %ss that a loop looks ahead", maxIndex, p, d.Axis)
	}
}

// round makes the limits of each dim whole: a Max is rounded down to the dim's multiple and a Min up to it, so that every
// limit is a size that the gate admits.
func round(terms []Term) {
	grain := map[model.Dim]int64{}
	for _, t := range terms {
		if t.Kind == Multiple {
			grain[t.Dim] = lcm(max(1, grain[t.Dim]), t.Value)
		}
	}
	for i := range terms {
		t, g := &terms[i], grain[terms[i].Dim]
		if g <= 1 {
			continue
		}
		switch {
		case t.Kind == Max && t.Value%g != 0:
			t.Value -= t.Value % g
			t.Factors = nil
			t.Chain += fmt.Sprintf(", in whole %ds", g)
		case t.Kind == Min && t.Value%g != 0:
			t.Value += g - t.Value%g
			t.Chain = fmt.Sprintf("at least one whole %d", g)
		}
	}
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

func deal(v *model.Variant, axis string) *model.Deal {
	for i := range v.Deal {
		if v.Deal[i].Axis == axis {
			return &v.Deal[i]
		}
	}
	panic("BUG: no axis " + axis)
}

func per(n int64, what string) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func join(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " * ")
}

// factors appends elems to a product; no product stays none.
func factors(product []int64, elems int64) []int64 {
	if product == nil {
		return nil
	}
	return append(product, elems)
}
