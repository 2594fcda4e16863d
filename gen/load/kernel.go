package load

import (
	"cmp"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// CPUFeatures are the sets of vector instructions that bodies may need, as package cpufeature calls them.
var CPUFeatures = []string{"avx2", "avx2vnni", "avx512", "avx512vnni", "avx512vbmi"}

// dims are the names of the sizes of a shape.
var dims = func() (names []string) {
	for _, d := range model.Dims {
		names = append(names, string(d))
	}
	return names
}()

// families resolves all kernel families, by name.
func (l *loader) families(set *spec.Set, formats []*model.Format, devices []*model.Device) (all []*model.Family) {
	if len(set.Devices) == 0 && slices.ContainsFunc(set.Kernels, func(s *spec.Kernel) bool { return s.Target.Value != "cpu" }) {
		l.diags.Addf(diag.Pos{File: path.Join(spec.Root, "devices")}, "no device is described; the gates of kernels are derived from the limits of one")
		return nil
	}
	seen := map[string]diag.Pos{}
	for _, s := range set.Kernels {
		if first, twice := seen[s.Kernel.Value]; twice && s.Kernel.Set() {
			l.diags.Addf(s.Kernel.At, "kernel %s is already declared at %s", s.Kernel.Value, first)
		}
		seen[s.Kernel.Value] = s.Kernel.At
		if s.Faulty {
			continue // what it leaves unset would only be named again
		}
		before := len(l.diags)
		b := &kernelLoader{loader: l, spec: s, family: &model.Family{}, formats: formats, devices: devices}
		b.load()
		if len(l.diags) == before {
			all = append(all, b.family)
		}
	}
	slices.SortFunc(all, func(a, b *model.Family) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range set.Kernels {
		if !s.Over.Set() {
			continue
		}
		same := func(f *spec.Kernel) bool {
			return f.Kernel.Value == s.Over.Value && f.Op.Value == s.Op.Value && f.Class.Value == s.Class.Value && !f.Over.Set()
		}
		if !slices.ContainsFunc(set.Kernels, same) {
			l.diags.Addf(s.Over.At, "over: %s is no family of op %s and class %s (that comes before no other itself)", s.Over.Value, s.Op.Value, s.Class.Value)
		}
	}
	return all
}

type kernelLoader struct {
	*loader
	spec    *spec.Kernel
	family  *model.Family
	body    *model.Body
	options map[string]int // of the family, which decide what arguments the body takes
	formats []*model.Format
	devices []*model.Device
}

func (b *kernelLoader) load() {
	s, f := b.spec, b.family
	if s.Kernel.Set() {
		b.fileName(s.Kernel)
	}
	f.Name, f.Spec, f.Digest, f.Doc = s.Kernel.Value, s.At.File, s.Digest, strings.TrimSpace(s.Doc.Value)
	f.Op, f.Class, f.Template = s.Op.Value, s.Class.Value, s.Template.Value
	f.CPU = s.Target.Value == "cpu"
	if b.body = model.BodyOf(f.Template); b.body == nil || b.body.CPU != f.CPU {
		names, target := model.BodyNames(f.CPU), "GPUs"
		if f.CPU {
			target = "the CPU"
		}
		b.diags.Addf(s.Template.At, "template: no body of %s is called %s%s; there are %s (gen/model/body.go lists them)", target, f.Template, diag.Meant(f.Template, names), strings.Join(names, ", "))
		b.body = &model.Body{}
	} else if s.Class.Set() && f.Class != b.body.Class() {
		b.diags.Addf(s.Class.At, "class: body %s is of class %s, not %s", f.Template, b.body.Class(), f.Class)
	}
	b.options = map[string]int{}
	for _, o := range s.Options.Entries {
		b.options[o.Name.Value] = o.Value.Value
	}
	b.pos.set(f, "", s.At)
	b.pickFormats()
	f.Over, f.Awaits = s.Over.Value, s.Awaits.Value
	f.Dims = map[string]model.Dim{}
	for _, e := range s.Dims.Entries {
		if !slices.Contains(dims, e.Value.Value) {
			b.diags.Addf(e.Value.At, "dims.%s: no size is called %s%s; the sizes are %s", e.Name.Value, e.Value.Value, diag.Meant(e.Value.Value, dims), strings.Join(dims, ", "))
			continue
		}
		f.Dims[e.Name.Value] = model.Dim(e.Value.Value)
		if !s.Deal.Set() || slices.Contains(s.Deal.Names(), e.Name.Value) {
			continue
		}
		b.diags.Addf(e.Name.At, "axis %s is dealt nowhere: its work would never be done; add it to deal", e.Name.Value)
	}
	b.args()
	digits := map[string]bool{}
	for _, d := range s.Digits {
		if digits[d.Name.Value] {
			b.diags.Addf(d.Name.At, "digit %s is declared twice", d.Name.Value)
		}
		digits[d.Name.Value] = true
		b.pos.set(f, "digits."+d.Name.Value, d.Name.At)
		switch place := layout.Place(d.Place.Value); {
		case f.CPU && (place.Grid() || place == layout.Thread):
			b.diags.Addf(d.Place.At, "digit %s: a CPU has no %s; allowed: lane, slot, loop", d.Name.Value, place)
		case !f.CPU && place == layout.Lane:
			b.diags.Addf(d.Place.At, "digit %s: a thread of a GPU has no lanes; allowed: grid.x, grid.y, grid.z, thread, loop, slot", d.Name.Value)
		case d.Open.Value && d.Radix.Set():
			b.diags.Addf(d.Open.At, "digit %s has a radix and is open; one of the two is due", d.Name.Value)
		case !d.Open.Value && !d.Radix.Set():
			b.diags.Addf(d.At, "digit %s has no radix; give one, or say open: true for as many values as the shape needs", d.Name.Value)
		}
	}
	if c := s.Cover; c != nil {
		seen := map[string]bool{}
		axes := func(list []spec.Text) (names []string) {
			for _, t := range list {
				if !slices.Contains(s.Deal.Names(), t.Value) {
					b.diags.Addf(t.At, "cover: no axis is called %s%s; the axes are %s", t.Value, diag.Meant(t.Value, s.Deal.Names()), strings.Join(s.Deal.Names(), ", "))
				} else if seen[t.Value] {
					b.diags.Addf(t.At, "cover: axis %s is given twice", t.Value)
				}
				seen[t.Value] = true
				names = append(names, t.Value)
			}
			return names
		}
		f.Cover = model.Cover{Row: axes(c.Row), Unit: axes(c.Unit), Token: axes(c.Token)}
	}
	variants := s.Variants.Names()
	for _, e := range s.Variants.Entries {
		b.variant(e, variants)
	}
	b.counted()
	for _, x := range s.Crossovers {
		b.crossover(x)
	}
}

// counted holds the axes that are counted against those that are dealt: of one that is left out, the coverage witness would not see that its
// work is done. An axis of a single index needs no count.
func (b *kernelLoader) counted() {
	f := b.family
	counts := slices.Concat(f.Cover.Row, f.Cover.Unit, f.Cover.Token)
	for _, e := range b.spec.Deal.Entries {
		axis, none := e.Name.Value, slices.Contains(b.body.Uncounted, e.Name.Value)
		switch counted := slices.Contains(counts, axis); {
		case counted && none:
			b.diags.Addf(b.spec.Cover.At, "cover: body %s does not count axis %s; leave it out", f.Template, axis)
		case !counted && !none && b.body.Args != nil && slices.ContainsFunc(f.Variants, func(v *model.Variant) bool { return v.Deals(axis) }):
			b.diags.Addf(b.spec.Cover.At, "cover: axis %s is dealt and not counted, so that nobody would see its work missing; add it (only a body of which gen/model/body.go says so leaves an axis uncounted)", axis)
		}
	}
}

// args resolves the arguments and holds them against those that the body takes.
func (b *kernelLoader) args() {
	takes := b.body.Takes(b.options)
	var names, texts []string
	for _, a := range takes {
		names, texts = append(names, a.Name), append(texts, a.String())
	}
	template, given := b.family.Template, map[string]bool{}
	for _, a := range b.spec.Args {
		name, i := a.Name.Value, slices.Index(names, a.Name.Value)
		switch {
		case given[name]:
			b.diags.Addf(a.Name.At, "argument %s is given twice", name)
		case b.body.Args == nil: // there is no such body, which has been said
		case i < 0:
			b.diags.Addf(a.Name.At, "body %s takes no argument %s%s; it takes %s", template, name, diag.Meant(name, names), strings.Join(texts, ", "))
		case !slices.Contains(takes[i].Types, a.Type.Value):
			b.diags.Addf(a.Type.At, "argument %s is %s; body %s takes %s", name, a.Type.Value, template, takes[i])
		case a.Out.Value != takes[i].Out:
			b.diags.Addf(cmp.Or(a.Out.At, a.Name.At), "argument %s has out: %t; body %s takes %s", name, a.Out.Value, template, takes[i])
		}
		given[name] = true
		b.family.Args = append(b.family.Args, model.Arg{Name: name, Type: a.Type.Value, Out: a.Out.Value, Doc: a.Doc.Value})
	}
	for _, a := range takes {
		if !given[a.Name] {
			b.diags.Addf(b.spec.Args[0].At, "args: body %s takes %s, which is missing", template, a)
		}
	}
}

// pickFormats resolves the list of formats.
func (b *kernelLoader) pickFormats() {
	match := func(word string, f *model.Format) bool {
		switch word {
		case "blocks":
			return f.InFile() && !f.Plain()
		case "weights":
			return f.InFile() && f.Name != "f64" && !strings.HasPrefix(f.Name, "i") || f.InFile() && strings.HasPrefix(f.Name, "iq")
		}
		return f.Name == word
	}
	var known []string
	for _, f := range b.formats {
		known = append(known, f.Name)
	}
	find := func(list []spec.Text) map[*model.Format]bool {
		found := map[*model.Format]bool{}
		for _, t := range list {
			n := len(found)
			for _, f := range b.formats {
				if match(t.Value, f) {
					found[f] = true
				}
			}
			if len(found) == n {
				b.diags.Addf(t.At, "formats: %s names no further format%s; allowed: blocks, weights, %s", t.Value, diag.Meant(t.Value, known), strings.Join(known, ", "))
			}
		}
		return found
	}
	in, out := find(b.spec.Formats), find(b.spec.Except)
	for _, f := range b.formats {
		if in[f] && !out[f] {
			b.family.Formats = append(b.family.Formats, f)
		}
	}
}

func (b *kernelLoader) variant(e spec.Entry[spec.KernelVariant], variants []string) {
	s, v := e.Value, &model.Variant{Name: e.Name.Value, Doc: strings.TrimSpace(e.Value.Doc.Value), Weights: model.LayoutFile, Arch: e.Value.Arch.Or(0), Only: e.Value.Only.Value, Helpers: b.spec.Helpers.Or(0), Switch: e.Value.Switch.Value}
	b.pos.set(v, "", e.Name.At)
	for _, t := range s.Features {
		v.Features = append(v.Features, t.Value)
		if !b.family.CPU {
			b.diags.Addf(t.At, "variant %s: features are of a CPU; arch says what a GPU needs", v.Name)
		} else if !slices.Contains(CPUFeatures, t.Value) {
			b.diags.Addf(t.At, "variant %s: no feature is called %s%s; allowed: %s", v.Name, t.Value, diag.Meant(t.Value, CPUFeatures), strings.Join(CPUFeatures, ", "))
		}
	}
	if b.family.CPU && (s.Arch.Set() || s.Only.Value || s.Shared != nil || b.spec.Shared != nil || b.spec.Helpers.Set() || b.spec.Awaits.Set()) {
		b.diags.Addf(e.Name.At, "variant %s: a CPU has no arch, shared memory, helpers or launches that await each other; features says what the body needs", v.Name)
	} else if s.Only.Value && !s.Arch.Set() {
		b.diags.Addf(s.Only.At, "variant %s: only: true is of the arch, and there is none; give one, or leave only out", v.Name)
	}
	if s.Weights.Set() {
		v.Weights = model.WeightLayout(s.Weights.Value)
		if len(b.family.Formats) == 0 {
			b.diags.Addf(s.Weights.At, "variant %s asks how weights lie, but the family has no formats", v.Name)
		}
		if len(b.family.Formats) > 0 && !slices.ContainsFunc(b.family.Formats, func(f *model.Format) bool { return f.Has(v.Weights) }) {
			b.diags.Addf(s.Weights.At, "variant %s: no format of the family has a layout %s%s; there are %s", v.Name, v.Weights,
				diag.Meant(string(v.Weights), layoutNames(b.family.Formats)), strings.Join(layoutNames(b.family.Formats), ", "))
		}
	}
	if strings.Contains(v.Switch, "{format}") && len(b.family.Formats) == 0 {
		b.diags.Addf(s.Switch.At, "variant %s: {format} stands for a format's name, but the family has no formats", v.Name)
	}
	for _, t := range s.Formats {
		if !slices.ContainsFunc(b.family.Formats, func(f *model.Format) bool { return f.Name == t.Value }) {
			b.diags.Addf(t.At, "variant %s: %s is no format of the family", v.Name, t.Value)
		}
		v.Formats = append(v.Formats, t.Value)
	}
	for _, d := range b.spec.Digits {
		radix := d.Radix.Or(layout.Any)
		v.Digits = append(v.Digits, layout.PlacedDigit{Name: d.Name.Value, Place: layout.Place(d.Place.Value), Radix: radix})
	}
	for _, r := range s.Radix.Entries {
		i := slices.IndexFunc(v.Digits, func(d layout.PlacedDigit) bool { return d.Name == r.Name.Value })
		switch {
		case i < 0:
			b.diags.Addf(r.Name.At, "variant %s: no digit is called %s%s; the digits are %s", v.Name, r.Name.Value, diag.Meant(r.Name.Value, digitNames(v.Digits)), strings.Join(digitNames(v.Digits), ", "))
		case r.Value.Value < 1:
			b.diags.Addf(r.Value.At, "variant %s: digit %s has radix %d; allowed: at least 1", v.Name, r.Name.Value, r.Value.Value)
		default:
			v.Digits[i].Radix = r.Value.Value
		}
	}
	for _, name := range s.Deal.Names() {
		if !slices.Contains(b.spec.Deal.Names(), name) {
			b.diags.Addf(s.Deal.At, "variant %s deals axis %s, which the family does not have; its axes are %s", v.Name, name, strings.Join(b.spec.Deal.Names(), ", "))
		}
	}
	for _, d := range b.spec.Deal.Entries {
		for _, own := range s.Deal.Entries {
			if own.Name.Value == d.Name.Value {
				d = own
			}
		}
		if _, known := b.family.Dims[d.Name.Value]; !known {
			b.diags.Addf(d.Name.At, "deal: axis %s has no size; add it to dims", d.Name.Value)
			continue
		}
		v.Deal = append(v.Deal, b.deal(v, d))
	}
	slices.SortFunc(v.Deal, func(x, y model.Deal) int { return cmp.Compare(x.Axis, y.Axis) })
	shared := b.spec.Shared
	if s.Shared != nil {
		shared = s.Shared
	}
	if shared != nil {
		v.Shared = model.Shared{FixedBytes: shared.Fixed.Or(0), Axis: shared.Axis.Value, PerBytes: shared.Per.Or(0)}
		if shared.Per.Set() != shared.Axis.Set() {
			b.diags.Addf(shared.At, "shared: per_bytes and axis go together")
		} else if shared.Axis.Set() && !slices.Contains(b.spec.Deal.Names(), shared.Axis.Value) {
			b.diags.Addf(shared.Axis.At, "shared: no axis is called %s; the axes are %s", shared.Axis.Value, strings.Join(b.spec.Deal.Names(), ", "))
		}
		if shared.Ring != nil {
			v.Shared.Ring = b.ring(v, shared.Ring)
		}
		if shared.Tiles != nil {
			v.Shared.Tiles = b.tiles(shared.Tiles)
		}
		if given := count(shared.Ring != nil, shared.Tiles != nil, shared.Per.Set() || shared.Fixed.Set()); given > 1 {
			b.diags.Addf(shared.At, "shared: one of ring, tiles, and fixed_bytes with per_bytes leaves no room for another; give one")
		}
	}
	v.Options = map[string]int{}
	for _, list := range []spec.Map[spec.Int]{b.spec.Options, s.Options} {
		for _, o := range list.Entries {
			if b.option(v, o.Name, o.Value) {
				v.Options[o.Name.Value] = o.Value.Value
			}
		}
	}
	b.free(v, s)
	for _, t := range s.SameBits {
		if !slices.Contains(variants, t.Value) || t.Value == v.Name {
			b.diags.Addf(t.At, "same_bits: %s is no other variant; the variants are %s", t.Value, strings.Join(variants, ", "))
		}
		v.SameBits = append(v.SameBits, t.Value)
	}
	v.Ceiling = map[model.Dim]int{}
	for _, c := range s.Ceiling.Entries {
		if !slices.Contains(dims, c.Name.Value) {
			b.diags.Addf(c.Name.At, "ceiling: no size is called %s; the sizes are %s", c.Name.Value, strings.Join(dims, ", "))
		}
		v.Ceiling[model.Dim(c.Name.Value)] = c.Value.Value
		b.pos.set(v, "ceiling."+c.Name.Value, c.Value.At)
	}
	for _, r := range s.Routes {
		b.route(v, r)
	}
	b.family.Variants = append(b.family.Variants, v)
}

// option reports whether the family's template has an option and it may have this value; it says so if not.
func (b *kernelLoader) option(v *model.Variant, name spec.Text, value spec.Int) bool {
	template, names := b.family.Template, b.body.OptionNames()
	o := b.body.Option(name.Value)
	switch {
	case b.body.Args == nil: // there is no such body, which has been said
		return false
	case o == nil && len(names) == 0:
		b.diags.Addf(name.At, "template %s has no options, so none is called %s", template, name.Value)
		return false
	case o == nil:
		b.diags.Addf(name.At, "template %s has no option %s%s; allowed: %s", template, name.Value, diag.Meant(name.Value, names), strings.Join(names, ", "))
		return false
	case !slices.Contains(o.Values, value.Value):
		b.diags.Addf(value.At, "option %s of template %s is %d; allowed: %s", name.Value, template, value.Value, numbers(o.Values))
		return false
	}
	if value.Value != 0 && slices.ContainsFunc(v.Digits, func(d layout.PlacedDigit) bool { return d.Name == o.Closed && d.Radix == layout.Any }) {
		b.diags.Addf(value.At, "option %s of template %s needs a radix for digit %s, which is open in variant %s", name.Value, template, o.Closed, v.Name)
		return false
	}
	with := maps.Clone(b.options)
	with[name.Value] = value.Value
	if !reflect.DeepEqual(b.body.Takes(with), b.body.Takes(b.options)) {
		b.diags.Addf(value.At, "option %s decides which arguments body %s takes, so it has one value in all variants; allowed: %d", name.Value, template, b.options[name.Value])
		return false
	}
	return true
}

func numbers(values []int) string {
	var text []string
	for _, n := range values {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ", ")
}

// free resolves the free parameters of a variant: its own lists, or those of the family. Every value is one that the parameter may have by
// itself; which of them go together, the proof says of each candidate.
func (b *kernelLoader) free(v *model.Variant, s spec.KernelVariant) {
	list := b.spec.Free
	if s.Free.Set() {
		list = s.Free
	}
	for _, e := range list.Entries {
		name := e.Name.Value
		i := slices.IndexFunc(v.Digits, func(d layout.PlacedDigit) bool { return d.Name == name })
		p := model.Free{Name: name}
		var least, most int
		what := ""
		switch {
		case i >= 0 && v.Digits[i].Place.Grid():
			b.diags.Addf(e.Name.At, "free: digit %s is on %s, where the shape says how many blocks there are; allowed: digits of threads, lanes, loops and slots", name, v.Digits[i].Place)
			continue
		case i >= 0:
			what = "values of a digit"
			least, most = spec.Range[spec.KernelDigit]("radix")
			if v.Digits[i].Place == layout.Thread {
				what, most = "threads of a block", b.threads(v)
			}
		case name == model.StagesParameter && v.Shared.Ring != nil:
			what = "stages of a ring"
			least, most = spec.Range[spec.KernelRing]("stages")
		case b.body.Option(name) == nil:
			names := append(digitNames(v.Digits), b.body.OptionNames()...)
			if v.Shared.Ring != nil {
				names = append(names, model.StagesParameter)
			}
			if b.body.Args != nil {
				b.diags.Addf(e.Name.At, "free: no digit or option is called %s%s; there are %s", name, diag.Meant(name, names), strings.Join(names, ", "))
			}
			continue
		}
		for _, x := range e.Value {
			switch {
			case what == "" && !b.option(v, e.Name, x):
				continue
			case what != "" && (x.Value < least || x.Value > most):
				b.diags.Addf(x.At, "free: %s is %d; allowed: %d to %d %s", name, x.Value, least, most, what)
				continue
			}
			p.Values = append(p.Values, x.Value)
		}
		slices.Sort(p.Values)
		p.Values = slices.Compact(p.Values)
		v.Free = append(v.Free, p)
	}
	slices.SortFunc(v.Free, func(x, y model.Free) int { return cmp.Compare(x.Name, y.Name) })
}

// threads is how many threads a block may have on some device that the variant is for.
func (b *kernelLoader) threads(v *model.Variant) (most int) {
	for _, d := range b.devices {
		if d.Arch >= v.Arch {
			most = max(most, d.Threads)
		}
	}
	return most
}

func layoutNames(formats []*model.Format) []string {
	names := []string{string(model.LayoutFile), string(model.LayoutPadded)}
	for _, f := range formats {
		for _, l := range f.Layouts {
			names = append(names, string(l.Weights))
		}
		for _, t := range f.Tiles {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ring resolves the shared memory of a streaming kernel.
func (b *kernelLoader) ring(v *model.Variant, s *spec.KernelRing) *model.Ring {
	r := &model.Ring{Sums: s.Sums.Value, MaxStages: s.Stages.Value, Matrices: s.Matrices.Or(1), UnitBytes: s.Unit.Or(0), LeastBytes: s.Least.Or(0)}
	for _, t := range append(slices.Clone(s.Rows), s.Sums) {
		i := slices.IndexFunc(v.Digits, func(d layout.PlacedDigit) bool { return d.Name == t.Value })
		if i < 0 || v.Digits[i].Radix == layout.Any {
			b.diags.Addf(t.At, "shared.ring: %s is no digit with a radix%s; the digits are %s", t.Value, diag.Meant(t.Value, digitNames(v.Digits)), strings.Join(digitNames(v.Digits), ", "))
		}
	}
	for _, t := range s.Rows {
		r.Rows = append(r.Rows, t.Value)
	}
	// The first device that the variant is for, not the least room of all later ones: a GPU of a later architecture with little shared memory
	// would shrink the rings of the ones that they are made for. Its gate refuses what does not fit there.
	if i := slices.IndexFunc(b.devices, func(d *model.Device) bool { return d.Arch >= v.Arch }); i >= 0 {
		r.RoomBytes = b.devices[i].SharedBytes
	}
	return r
}

// tiles resolves the shared memory of a kernel that multiplies tiles.
func (b *kernelLoader) tiles(s *spec.KernelTiles) *model.Tiles {
	t := &model.Tiles{Stages: s.Stages.Value, RowBytes: s.RowBytes.Value, AlignBytes: s.Align.Or(0)}
	if n := t.AlignBytes; n&(n-1) != 0 {
		b.diags.Addf(s.Align.At, "shared.tiles: align_bytes is %d; allowed: powers of two", n)
	}
	for _, a := range s.Axes {
		if !slices.Contains(b.spec.Deal.Names(), a.Value) {
			b.diags.Addf(a.At, "shared.tiles: no axis is called %s%s; the axes are %s", a.Value, diag.Meant(a.Value, b.spec.Deal.Names()), strings.Join(b.spec.Deal.Names(), ", "))
		}
		t.Axes = append(t.Axes, a.Value)
	}
	return t
}

// count is how many of the conditions hold.
func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func digitNames(digits []layout.PlacedDigit) []string {
	var names []string
	for _, d := range digits {
		names = append(names, d.Name)
	}
	return names
}

// deal resolves the dealing of an axis to strides.
func (b *kernelLoader) deal(v *model.Variant, e spec.Entry[spec.KernelDeal]) model.Deal {
	s, axis := e.Value, e.Name.Value
	b.pos.set(v, "deal."+axis, e.Name.At)
	d := model.Deal{Axis: axis, Elems: s.Elems.Or(1), Partial: s.Partial.Value, Multiple: s.Multiple.Or(0), Stride: map[string]int{}, Share: s.Share.Value, Queue: s.Queue.Value}
	known := func(t spec.Text) *layout.PlacedDigit {
		for i := range v.Digits {
			if v.Digits[i].Name == t.Value {
				return &v.Digits[i]
			}
		}
		b.diags.Addf(t.At, "deal.%s: no digit is called %s%s; the digits are %s", axis, t.Value, diag.Meant(t.Value, digitNames(v.Digits)), strings.Join(digitNames(v.Digits), ", "))
		return nil
	}
	if (len(s.Over) > 0) == s.Stride.Set() && !s.Share.Set() {
		b.diags.Addf(e.Name.At, "deal.%s: one of over and stride is due", axis)
	}
	stride := 1
	for i, t := range s.Over {
		p := known(t)
		switch {
		case p == nil:
			return d
		case p.Radix == layout.Any && i < len(s.Over)-1:
			b.diags.Addf(t.At, "deal.%s: digit %s is open in variant %s, so nothing can come after it; put it last", axis, t.Value, v.Name)
			return d
		}
		if d.Stride[t.Value] != 0 {
			b.diags.Addf(t.At, "deal.%s: digit %s is given twice", axis, t.Value)
		}
		d.Stride[t.Value] = stride
		stride *= p.Radix
		d.Over = append(d.Over, t.Value)
	}
	for _, x := range s.Stride.Entries {
		if known(x.Name) != nil {
			d.Stride[x.Name.Value] = x.Value.Value
		}
	}
	if s.Share.Set() {
		if p := known(s.Share); p != nil && (!p.Place.Grid() || p.Radix != layout.Any) {
			b.diags.Addf(s.Share.At, "deal.%s: digit %s cannot share the axis; an open digit of the grid can", axis, s.Share.Value)
		}
	}
	if s.Queue.Value && !s.Share.Set() {
		b.diags.Addf(s.Queue.At, "deal.%s: a queue is what blocks turn to after their share, and there is no share", axis)
	}
	if s.ElemsOf.Set() {
		d.ByFmt = map[string]int{}
		for _, x := range s.ElemsOf.Entries {
			if !slices.ContainsFunc(b.family.Formats, func(f *model.Format) bool { return f.Name == x.Name.Value }) {
				b.diags.Addf(x.Name.At, "deal.%s.elems_of: %s is no format of the family", axis, x.Name.Value)
			}
			d.ByFmt[x.Name.Value] = x.Value.Value
		}
	}
	return d
}

func (b *kernelLoader) route(v *model.Variant, s spec.KernelRoute) {
	r := model.Route{Arch: s.Arch.Or(0), Dim: model.Dim(s.Dim.Value), Above: int64(s.Above.Or(0)), UpTo: int64(s.UpTo.Or(0)), Tokens: int64(s.Tokens.Or(0))}
	if (s.Above.Set() || s.UpTo.Set()) != s.Dim.Set() {
		b.diags.Addf(s.At, "routes: above and up_to need the dim that they compare")
	}
	if s.Above.Set() && s.UpTo.Set() && r.Above >= r.UpTo {
		b.diags.Addf(s.UpTo.At, "routes: up_to is %d, and nothing lies above %d up to there", r.UpTo, r.Above)
	}
	sizes, list := sizesOf(b.family)
	if s.Dim.Set() && !slices.Contains(sizes, r.Dim) {
		b.diags.Addf(s.Dim.At, "routes: the family has no size %s; the sizes are %s", r.Dim, list)
	}
	if s.Tokens.Set() && !slices.Contains(sizes, model.Tokens) {
		b.diags.Addf(s.Tokens.At, "routes: tokens_above, but the family has no size tokens; the sizes are %s", list)
	}
	r.Formats = b.formatsOf("routes", s.Formats)
	r.Why = provenance(s.Provenance)
	v.Routes = append(v.Routes, r)
}

func (b *kernelLoader) crossover(s spec.KernelCrossover) {
	if !s.Rows.Set() && !s.Cols.Set() && !s.Elems.Set() {
		b.diags.Addf(s.At, "crossovers: no size is bounded; give rows_above, cols_up_to or elems_up_to")
	}
	if s.Class.Value == b.family.Class {
		b.diags.Addf(s.Class.At, "crossovers: %s is the family's own class; variants of one class are ordered by routes", s.Class.Value)
	}
	b.family.Crossovers = append(b.family.Crossovers, model.Crossover{Class: s.Class.Value, Formats: b.formatsOf("crossovers", s.Formats), Arch: s.Arch.Value,
		RowsAbove: int64(s.Rows.Or(0)), ColsUpTo: int64(s.Cols.Or(0)), ElemsUpTo: int64(s.Elems.Or(0)), Why: provenance(s.Provenance)})
}

// formatsOf is the names of a list, each a format of the family.
func (b *kernelLoader) formatsOf(key string, list []spec.Text) (names []string) {
	for _, t := range list {
		if !slices.ContainsFunc(b.family.Formats, func(f *model.Format) bool { return f.Name == t.Value }) {
			b.diags.Addf(t.At, "%s: %s is no format of the family", key, t.Value)
		}
		names = append(names, t.Value)
	}
	return names
}

// provenance is where a measured preference comes from.
func provenance(p spec.Provenance) string {
	return strings.Join([]string{p.Figure.Value, p.Device.Value, p.Date.Value, p.Command.Value}, "; ")
}
