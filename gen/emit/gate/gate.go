// Package gate emits the dispatch gates: for each kernel family and format the variants' constants, the condition
// that refuses a query, the measured preferences and the launch. All of it follows from gen/bound and the geometry.
package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/layout"
	place "github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

const kernelPath = "github.com/minfer/minfer/runtime/kernel"

// Emitter emits package gate.
type Emitter struct{}

// Name implements emit.Emitter.
func (Emitter) Name() string { return "gate" }

// Emit implements emit.Emitter.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	var files []emit.File
	var entries []instance
	for _, fam := range c.Families {
		for _, f := range Formats(fam) {
			in := instance{fam, f, c.Base()}
			entries = append(entries, in)
			file, err := in.emit()
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	var ofCPU []instance
	for _, fam := range c.CPU {
		for _, f := range Formats(fam) {
			in := instance{fam, f, nil}
			ofCPU = append(ofCPU, in)
			file, err := in.emit()
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	slices.SortStableFunc(entries, func(a, b instance) int { return cmp.Compare(a.rank(), b.rank()) })
	table, err := emitTable(c, entries, ofCPU)
	if err != nil {
		return nil, err
	}
	places, err := emitPlacements(c)
	if err != nil {
		return nil, err
	}
	return append(files, table, places), nil
}

// Formats is the formats that a family is emitted for; one nil where it has no weights.
func Formats(fam *model.Family) []*model.Format {
	if len(fam.Formats) == 0 {
		return []*model.Format{nil}
	}
	return fam.Formats
}

// instance is a family for one format.
type instance struct {
	fam *model.Family
	f   *model.Format
	dev *model.Device
}

// rank orders the gates: by family, one that comes over another right before it.
func (in instance) rank() string {
	if in.fam.Over != "" {
		return in.fam.Over
	}
	return in.fam.Name + " "
}

// name is the Go name of the instance, "MatvecQ8Q6K".
func (in instance) name() string {
	n := bound.Camel(in.fam.Name)
	if in.f != nil {
		n += emit.GoName(in.f.Name)
	}
	return n
}

func (in instance) variant(v *model.Variant) string { return lower(in.name() + bound.Camel(v.Name)) }

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (in instance) emit() (emit.File, error) {
	g := jen.NewFile("gate")
	g.HeaderComment(strings.TrimSpace(emit.Marker(in.fam.Spec)))
	title := in.fam.Name
	if in.f != nil {
		title += " of " + in.f.Name
	}
	g.Comment(fmt.Sprintf("%s: %s", title, oneLine(in.fam.Doc)))
	for _, v := range in.fam.VariantsFor(in.f) {
		in.emitVariant(g, v)
	}
	steps := slices.Clone(in.fam.VariantsFor(in.f))
	slices.Reverse(steps)
	g.Commentf("%s is the gate: variants in the order in which they are tried.", in.name())
	entry := jen.Dict{
		jen.Id("Op"): jen.Lit(in.fam.Op), jen.Id("Family"): jen.Lit(in.fam.Name), jen.Id("Format"): jen.Lit(formatName(in.f)), jen.Id("Class"): jen.Lit(in.fam.Class),
		jen.Id("Steps"): jen.Index().Qual(kernelPath, "Step").ValuesFunc(func(s *jen.Group) {
			for _, v := range steps {
				d := jen.Dict{jen.Id("Variant"): jen.Op("&").Id(in.variant(v)), jen.Id("Refuse"): jen.Id("refuse" + upper(in.variant(v)))}
				if len(v.RoutesFor(in.f)) > 0 {
					d[jen.Id("Prefer")] = jen.Id("prefer" + upper(in.variant(v)))
				}
				s.Values(d)
			}
		}),
	}
	if all := in.fam.CrossoversFor(in.f); len(all) > 0 {
		entry[jen.Id("Crossovers")] = jen.Index().Qual(kernelPath, "Crossover").ValuesFunc(func(s *jen.Group) {
			for _, x := range all {
				s.Values(jen.Dict{jen.Id("Class"): jen.Lit(x.Class), jen.Id("Why"): jen.Lit(oneLine(x.Why)),
					jen.Id("When"): jen.Func().Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Bool().Block(jen.Return(crosses(x)))})
			}
		})
	}
	g.Var().Id(in.name()).Op("=").Qual(kernelPath, "Entry").Values(entry)
	return render(g, FileName(in.fam, in.f))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func formatName(f *model.Format) string {
	if f == nil {
		return ""
	}
	return f.Name
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// FileName is the base name of the instance's gate.
func FileName(fam *model.Family, f *model.Format) string {
	n := "gate/" + strings.ReplaceAll(fam.Name, "-", "_")
	if f != nil {
		n += "_" + f.Name
	}
	return n + "_gate.go"
}

func render(g *jen.File, path string) (emit.File, error) {
	var b bytes.Buffer
	if err := g.Render(&b); err != nil {
		return emit.File{}, fmt.Errorf("%s: %w", path, err)
	}
	return emit.GoFile(path, b.Bytes())
}

// emitVariant writes the constants, the variant and its functions.
func (in instance) emitVariant(g *jen.File, v *model.Variant) {
	terms, name := bound.Derive(in.fam, v, in.f, in.dev), in.variant(v)
	geo := v.Geometry(in.f)
	for i := range geo.Axes {
		d := &geo.Axes[i]
		g.Commentf("%s index of %s/%s: %s.", d.Axis, in.fam.Name, v.Name, geo.Index(d, func(p layout.PlacedDigit) string { return p.Name }))
	}
	g.Const().DefsFunc(func(c *jen.Group) {
		for _, t := range terms {
			switch t.Kind {
			case bound.Shared:
				c.Commentf("%s: %s: %s.", t.Source, t.Dim, t.Chain)
				c.Id(name + t.Name() + "Fixed").Op("=").Lit(int(t.Fixed))
				if t.Per > 0 {
					c.Id(name + t.Name() + "Per").Op("=").Lit(int(t.Per))
				}
				if t.Least > 0 {
					c.Id(name + t.Name() + "Least").Op("=").Lit(int(t.Least))
				}
			default:
				c.Commentf("%s: %s.", t.Source, t.Chain)
				c.Id(name + t.Name()).Op("=").Add(value(t))
			}
		}
	})
	variant := jen.Dict{
		jen.Id("Family"): jen.Lit(in.fam.Name), jen.Id("Format"): jen.Lit(formatName(in.f)), jen.Id("Name"): jen.Lit(v.Name),
		jen.Id("Symbol"):    jen.Lit(model.Symbol(in.fam, in.f, v)),
		jen.Id("Class"):     jen.Lit(in.fam.Class),
		jen.Id("Weights"):   jen.Lit(string(v.Weights)),
		jen.Id("UnitElems"): jen.Lit(in.unitElems(geo)),
		jen.Id("Switch"):    jen.Lit(v.SwitchFor(in.f)),
		jen.Id("SameBits"):  stringList(v.SameBits),
		jen.Id("Args"):      jen.Id(argsName(in.fam)),
		jen.Id("Bounds"): jen.Index().Qual(kernelPath, "Bound").ValuesFunc(func(b *jen.Group) {
			for _, t := range terms {
				b.Line().Add(boundLiteral(name, t))
			}
			b.Line()
		}),
	}
	if v.Base != nil {
		variant[jen.Id("Base")] = jen.Lit(v.Base.Name)
	}
	if all := v.FirstFor(in.f); len(all) > 0 {
		variant[jen.Id("First")] = jen.Index().Qual(kernelPath, "First").ValuesFunc(func(s *jen.Group) {
			for _, x := range all {
				cond := jen.Id("q").Dot("Arch").Op("==").Lit(x.Arch)
				for _, d := range x.Dims {
					cond.Op("&&").Id("q").Dot(dim(d.Dim)).Op("==").Lit(int(d.Value))
				}
				if v.Base != nil { // nothing is admitted that the variant of the spec refuses
					cond.Op("&&").Id("refuse" + upper(in.variant(v.Base))).Call(jen.Id("q")).Op("<").Lit(0)
				}
				s.Line().Values(jen.Dict{jen.Id("Why"): jen.Lit(oneLine(x.Why)),
					jen.Id("When"): jen.Func().Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Bool().Block(jen.Return(cond))})
			}
			s.Line()
		})
	}
	if in.fam.CPU {
		variant[jen.Id("RowTile")], variant[jen.Id("TokenTile")] = jen.Lit(in.period(geo, model.Rows)), jen.Lit(in.period(geo, model.Tokens))
	} else {
		variant[jen.Id("Source")] = jen.Lit(model.SourceFile(in.fam, in.f))
		variant[jen.Id("Arch")], variant[jen.Id("Threads")] = jen.Lit(max(v.Arch, in.dev.Arch)), jen.Lit(geo.Threads())
		variant[jen.Id("Awaits")] = jen.Lit(in.fam.Awaits)
		variant[jen.Id("Grid")] = jen.Func().Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Index(jen.Lit(3)).Uint32().Block(jen.Return(jen.Index(jen.Lit(3)).Uint32().ValuesFunc(in.grid(geo))))
		variant[jen.Id("Shared")] = jen.Func().Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Uint32().Block(jen.Return(in.shared(name, terms)))
	}
	g.Var().Id(name).Op("=").Qual(kernelPath, "Variant").Values(variant)
	g.Func().Id("refuse"+upper(name)).Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Int().Block(
		jen.Switch().BlockFunc(func(s *jen.Group) {
			for i, t := range terms {
				s.Case(broken(name, t)).Block(jen.Return(jen.Lit(i)))
			}
		}),
		jen.Return(jen.Lit(-1)))
	if routes := v.RoutesFor(in.f); len(routes) > 0 {
		g.Func().Id("prefer" + upper(name)).Params(jen.Id("q").Op("*").Qual(kernelPath, "Query")).Bool().BlockFunc(func(b *jen.Group) {
			for _, r := range routes {
				b.Commentf("Measured: %s.", oneLine(r.Why))
				b.If(prefer(r)).Block(jen.Return(jen.True()))
			}
			b.Return(jen.False())
		})
	}
}

// period is how many indices of the axis that runs over a dim the variant takes at once.
func (in instance) period(geo *layout.Geometry, dim model.Dim) int {
	for i := range geo.Axes {
		if in.fam.Dims[geo.Axes[i].Axis] == dim {
			n, _ := geo.Period(&geo.Axes[i])
			return n
		}
	}
	return 0
}

// unitElems is the number of columns that one index of their axis stands for, or 0.
func (in instance) unitElems(geo *layout.Geometry) int {
	for _, d := range geo.Axes {
		if in.fam.Dims[d.Axis] == "cols" {
			return d.Elems
		}
	}
	return 0
}

func argsName(fam *model.Family) string { return lower(bound.Camel(fam.Name)) + "Args" }

func stringList(s []string) jen.Code {
	if len(s) == 0 {
		return jen.Nil()
	}
	return jen.Index().String().ValuesFunc(func(g *jen.Group) {
		for _, x := range s {
			g.Lit(x)
		}
	})
}

// value writes a bound as the product that its chain derives, where it is one.
func value(t bound.Term) jen.Code {
	if len(t.Factors) == 0 {
		return jen.Lit(int(t.Value))
	}
	product := jen.Empty()
	for i, f := range t.Factors {
		if i > 0 {
			product = product.Op("*")
		}
		product = product.Lit(int(f))
	}
	return product
}

func dim(d model.Dim) string {
	if d == model.KVHeads {
		return "KVHeads"
	}
	return bound.Camel(string(d))
}

func boundLiteral(name string, t bound.Term) jen.Code {
	key := func(k string) *jen.Statement { return jen.Id(k).Op(":") }
	parts := []jen.Code{key("Kind").Qual(kernelPath, upper(string(t.Kind)))}
	if t.Dim != "" {
		parts = append(parts, key("Dim").Lit(string(t.Dim)))
	}
	switch t.Kind {
	case bound.Feature:
		parts = append(parts, key("Feature").Lit(t.Feature), key("Value").Id(name+t.Name()))
	case bound.Weights:
		parts = append(parts, key("Layout").Lit(string(t.Layout)), key("Value").Id(name+t.Name()))
	case bound.Shared:
		parts = append(parts, key("Elems").Lit(int(t.Elems)), key("Value").Id(name+t.Name()+"Fixed"))
		if t.Per > 0 {
			parts = append(parts, key("Per").Id(name+t.Name()+"Per"))
		}
		if t.Least > 0 {
			parts = append(parts, key("Least").Id(name+t.Name()+"Least"))
		}
	default:
		parts = append(parts, key("Value").Id(name+t.Name()))
	}
	return jen.Values(append(parts, key("Source").Lit(string(t.Source)), key("Chain").Lit(t.Chain))...)
}

// broken is the condition under which a query breaks the term.
func broken(name string, t bound.Term) jen.Code {
	field, limit := jen.Id("q").Dot(dim(t.Dim)), jen.Id(name+t.Name())
	switch t.Kind {
	case bound.Max:
		return field.Op(">").Add(limit)
	case bound.Min:
		return field.Op("<").Add(limit)
	case bound.Multiple:
		return field.Op("%").Add(limit).Op("!=").Lit(0)
	case bound.Arch:
		return jen.Id("q").Dot("Arch").Op("<").Add(limit)
	case bound.Only:
		return jen.Id("q").Dot("Arch").Op("!=").Add(limit)
	case bound.Feature:
		return jen.Op("!").Id("q").Dot("Features").Index(jen.Lit(t.Feature))
	case bound.Shared:
		return sharedBytes(name, t).Op(">").Id("q").Dot("SharedBytes")
	}
	return jen.Id("q").Dot("Weights").Op("!=").Lit(string(t.Layout))
}

// ceilDiv is ceil(e / n).
func ceilDiv(e *jen.Statement, n int64) *jen.Statement {
	if n == 1 {
		return e
	}
	return jen.Parens(jen.Parens(e.Op("+").Lit(int(n - 1))).Op("/").Lit(int(n)))
}

// crosses is the condition under which a crossover holds.
func crosses(x model.Crossover) jen.Code {
	field := func(name string) *jen.Statement { return jen.Id("q").Dot(name) }
	c := field("Arch").Op("==").Lit(x.Arch)
	if x.RowsAbove > 0 {
		c.Op("&&").Add(field("Rows")).Op(">").Lit(int(x.RowsAbove))
	}
	if x.ColsUpTo > 0 {
		c.Op("&&").Add(field("Cols")).Op("<=").Lit(int(x.ColsUpTo))
	}
	if x.ElemsUpTo > 0 {
		c.Op("&&").Add(field("Rows")).Op("*").Add(field("Cols")).Op("<=").Lit(int(x.ElemsUpTo))
	}
	return c
}

func prefer(r model.Route) jen.Code {
	cond := jen.Empty()
	add := func(c jen.Code) {
		if len(*cond) > 1 {
			cond = cond.Op("&&")
		}
		cond = cond.Add(c)
	}
	if r.Arch > 0 {
		add(jen.Id("q").Dot("Arch").Op("==").Lit(r.Arch))
	}
	if r.Above > 0 {
		add(jen.Id("q").Dot(dim(r.Dim)).Op(">").Lit(int(r.Above)))
	}
	if r.UpTo > 0 {
		add(jen.Id("q").Dot(dim(r.Dim)).Op("<=").Lit(int(r.UpTo)))
	}
	if r.Tokens > 0 {
		add(jen.Id("q").Dot(dim(model.Tokens)).Op(">").Lit(int(r.Tokens)))
	}
	if len(*cond) <= 1 {
		return jen.True()
	}
	return cond
}

// grid is the launch grid: each grid digit takes as many values as its axis needs.
func (in instance) grid(geo *layout.Geometry) func(*jen.Group) {
	return func(g *jen.Group) {
		for _, place := range []layout.Place{layout.GridX, layout.GridY, layout.GridZ} {
			size := jen.Lit(1)
			for i, p := range geo.Digits {
				if p.Place != place {
					continue
				}
				for a := range geo.Axes {
					d := &geo.Axes[a]
					switch {
					case d.Share == i:
						size = jen.Uint32().Call(jen.Id("q").Dot("Shares"))
					case d.Stride[i] == 0:
					case p.Radix != layout.Any:
						size = jen.Lit(p.Radix)
					default:
						size = jen.Uint32().Call(ceilDiv(jen.Id("q").Dot(dim(in.fam.Dims[d.Axis])), int64(d.Stride[i]*d.Elems)))
					}
				}
			}
			g.Add(size)
		}
	}
}

// shared is the dynamic shared memory of a launch.
func (in instance) shared(name string, terms []bound.Term) jen.Code {
	for _, t := range terms {
		if t.Kind == bound.Shared {
			return jen.Uint32().Call(sharedBytes(name, t))
		}
	}
	return jen.Lit(0)
}

// sharedBytes is what a Shared term asks for.
func sharedBytes(name string, t bound.Term) *jen.Statement {
	bytes := jen.Id(name + t.Name() + "Fixed")
	if t.Per > 0 {
		bytes.Op("+").Id(name + t.Name() + "Per").Op("*").Add(ceilDiv(jen.Id("q").Dot(dim(t.Dim)), t.Elems))
	}
	if t.Least == 0 {
		return bytes
	}
	return jen.Id("max").Call(jen.Id(name+t.Name()+"Least"), bytes)
}

// emitTable writes the list of all gates and of the switches.
func emitTable(c *model.Catalog, all, ofCPU []instance) (emit.File, error) {
	g := jen.NewFile("gate")
	g.HeaderComment(strings.TrimSpace(emit.Marker("specs/kernels")))
	g.PackageComment("// Package gate holds the dispatch gates: for an op, a format and a shape each names exactly one kernel variant, or\n// refuses with the reason. Every bound is a constant that the generator derived from the kernel's geometry, the format, the\n// launch or the architecture; the kernels carry the same constants, and nothing outside them can be launched.")
	for _, fam := range slices.Concat(c.Families, c.CPU) {
		g.Commentf("%s are the arguments of %s, in order.", argsName(fam), fam.Name)
		g.Var().Id(argsName(fam)).Op("=").Index().Qual(kernelPath, "Arg").ValuesFunc(func(v *jen.Group) {
			for _, a := range fam.Args {
				fields := []jen.Code{jen.Id("Name").Op(":").Lit(a.Name), jen.Id("Type").Op(":").Lit(a.Type)}
				if a.Out {
					fields = append(fields, jen.Id("Out").Op(":").True())
				}
				v.Line().Values(fields...)
			}
			v.Line()
		})
	}
	g.Comment("All lists the gates by family and format; of families that serve the same op in the same class, the one to be asked first\n// comes first.")
	g.Var().Id("All").Op("=").Index().Op("*").Qual(kernelPath, "Entry").ValuesFunc(func(v *jen.Group) {
		for _, in := range all {
			v.Line().Op("&").Id(in.name())
		}
		v.Line()
	})
	g.Comment("CPU lists the gates of the CPU's kernels likewise.")
	g.Var().Id("CPU").Op("=").Index().Op("*").Qual(kernelPath, "Entry").ValuesFunc(func(v *jen.Group) {
		for _, in := range ofCPU {
			v.Line().Op("&").Id(in.name())
		}
		v.Line()
	})
	g.Comment("Switch is an environment variable; set to 0 it turns the variants off.")
	g.Type().Id("Switch").Struct(jen.Id("Name").String(), jen.Id("Variants").Index().String())
	by := map[string][]string{}
	for _, in := range all {
		for _, v := range in.fam.VariantsFor(in.f) {
			if s := v.SwitchFor(in.f); s != "" {
				by[s] = append(by[s], strings.Trim(strings.ReplaceAll(in.fam.Name+"/"+formatName(in.f)+"/"+v.Name, "//", "/"), "/"))
			}
		}
	}
	of := map[string][]string{}
	for _, in := range ofCPU {
		for _, v := range in.fam.VariantsFor(in.f) {
			if s := v.SwitchFor(in.f); s != "" && !slices.Contains(of[s], in.fam.Name) {
				of[s] = append(of[s], in.fam.Name)
			}
		}
	}
	switches(g, "Switches", "lists the switches by name.", by)
	switches(g, "CPUSwitches", "lists those of the CPU's kernels by name, with the families that have such variants.", of)
	return render(g, "gate/gate.go")
}

// switches writes a list of switches by name.
func switches(g *jen.File, name, doc string, by map[string][]string) {
	g.Commentf("%s %s", name, doc)
	g.Var().Id(name).Op("=").Index().Id("Switch").ValuesFunc(func(v *jen.Group) {
		var names []string
		for n := range by {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			v.Line().Values(jen.Lit(n), jen.Index().String().ValuesFunc(func(l *jen.Group) {
				for _, x := range by[n] {
					l.Lit(x)
				}
			}))
		}
		v.Line()
	})
}

// placement is the fields of a kernel.Placement.
func placement(f *model.Format, p place.Placement) []jen.Code {
	fields := []jen.Code{jen.Id("BlockBytes").Op(":").Lit(p.BlockBytes), jen.Id("FileBlockBytes").Op(":").Lit(f.Bytes)}
	if p.Planes {
		fields = append(fields, jen.Id("Planes").Op(":").Index().Int().ValuesFunc(func(v *jen.Group) {
			for _, x := range p.Fields() {
				v.Lit(x.Bits() / 8)
			}
		}))
	}
	return append(fields, jen.Id("Moves").Op(":").Index().Qual(kernelPath, "Move").ValuesFunc(func(v *jen.Group) {
		for _, m := range p.Moves(f) {
			v.Values(jen.Id("From").Op(":").Lit(m.From), jen.Id("To").Op(":").Lit(m.To), jen.Id("Bits").Op(":").Lit(m.Bits), jen.Id("Count").Op(":").Lit(m.Count))
		}
	}))
}

// emitPlacements writes where the fields of each format's blocks lie under each layout that some kernel reads.
func emitPlacements(c *model.Catalog) (emit.File, error) {
	used := map[*model.Format]map[model.WeightLayout]bool{}
	for _, fam := range c.Families {
		for _, f := range fam.Formats {
			for _, v := range fam.VariantsFor(f) {
				if used[f] == nil {
					used[f] = map[model.WeightLayout]bool{}
				}
				used[f][v.Weights] = true
			}
		}
	}
	g := jen.NewFile("gate")
	g.HeaderComment(strings.TrimSpace(emit.Marker("specs")))
	g.Comment("Placements says, by format and layout, where the fields of a block lie: what an upload repacks.")
	g.Var().Id("Placements").Op("=").Map(jen.String()).Map(jen.Qual(kernelPath, "Layout")).Qual(kernelPath, "Placement").ValuesFunc(func(v *jen.Group) {
		for _, f := range c.Formats {
			var layouts []string
			for l := range used[f] {
				layouts = append(layouts, string(l))
			}
			if len(layouts) == 0 {
				continue
			}
			slices.Sort(layouts)
			v.Line().Lit(f.Name).Op(":").ValuesFunc(func(m *jen.Group) {
				for _, l := range layouts {
					m.Line().Lit(l).Op(":").Values(placement(f, place.Place(f, model.WeightLayout(l)))...)
				}
				m.Line()
			})
		}
		v.Line()
	})
	return render(g, "gate/placements.go")
}
