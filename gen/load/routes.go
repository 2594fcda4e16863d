package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// routes puts what was measured into the families: where a variant comes first, and variants of the spec with other values of their free
// parameters where those do. The order of files, runs and rows makes no difference.
func (l *loader) routes(set *spec.Set, families []*model.Family, devices []*model.Device) {
	for _, s := range set.Routes {
		if s.Routes.Set() {
			l.fileName(s.Routes)
		}
		if s.Faulty {
			continue
		}
		i := slices.IndexFunc(devices, func(d *model.Device) bool { return d.Name == s.Routes.Value })
		if i < 0 {
			var names []string
			for _, d := range devices {
				names = append(names, d.Name)
			}
			l.diags.Addf(s.Routes.At, "no device is called %s%s; the devices are %s", s.Routes.Value, diag.Meant(s.Routes.Value, names), strings.Join(names, ", "))
			continue
		}
		for _, run := range s.Runs {
			if _, err := time.Parse(time.DateOnly, run.Date.Value); err != nil {
				l.diags.Addf(run.Date.At, "date: there is no day %s", run.Date.Value)
			}
			for _, w := range run.First {
				l.win(families, devices[i].Arch, run, w)
			}
		}
	}
	for _, fam := range families {
		// Those of the spec come first, in its order.
		slices.SortStableFunc(fam.Variants, func(a, b *model.Variant) int {
			if a.Base == nil || b.Base == nil {
				return cmp.Compare(derived(a), derived(b))
			}
			return cmp.Compare(a.Name, b.Name)
		})
		for _, v := range fam.Variants {
			if v.Base != nil {
				slices.Sort(v.Formats)
			}
			slices.SortFunc(v.First, func(a, b *model.First) int {
				return cmp.Or(cmp.Compare(a.Format, b.Format), cmp.Compare(a.Arch, b.Arch), slices.CompareFunc(a.Dims, b.Dims, func(x, y model.Size) int {
					return cmp.Or(cmp.Compare(x.Dim, y.Dim), cmp.Compare(x.Value, y.Value))
				}))
			})
		}
	}
}

func derived(v *model.Variant) int {
	if v.Base != nil {
		return 1
	}
	return 0
}

// win resolves one row of routes. All that is wrong with a row is said at once; but of a family that there is not, nothing more is known.
func (l *loader) win(families []*model.Family, arch int, run spec.Run, w spec.Win) {
	i := slices.IndexFunc(families, func(f *model.Family) bool { return f.Name == w.Kernel.Value && !f.CPU })
	if i < 0 {
		var names []string
		for _, f := range families {
			if !f.CPU {
				names = append(names, f.Name)
			}
		}
		l.diags.Addf(w.Kernel.At, "no kernel family of GPUs is called %s%s; there are %s", w.Kernel.Value, diag.Meant(w.Kernel.Value, names), strings.Join(names, ", "))
		return
	}
	fam, before := families[i], len(l.diags)
	var f *model.Format
	for _, x := range fam.Formats {
		if x.Name == w.Format.Value {
			f = x
		}
	}
	switch {
	case w.Format.Set() && f == nil:
		var names []string
		for _, x := range fam.Formats {
			names = append(names, x.Name)
		}
		l.diags.Addf(w.Format.At, "%s is no format of %s%s; its formats are %s", w.Format.Value, fam.Name, diag.Meant(w.Format.Value, names), strings.Join(names, ", "))
	case f == nil && len(fam.Formats) > 0:
		l.diags.Addf(w.At, "key format is missing; %s has formats", fam.Name)
	}
	var names []string
	var v *model.Variant
	for _, x := range fam.VariantsFor(f) { // of any format, where the row's is none
		if x.Base != nil {
			continue
		}
		names = append(names, x.Name)
		if x.Name == w.Variant.Value {
			v = x
		}
	}
	var settings []model.Setting
	if v == nil {
		l.diags.Addf(w.Variant.At, "%s has no variant %s%s for the format; there are %s", fam.Name, w.Variant.Value, diag.Meant(w.Variant.Value, names), strings.Join(names, ", "))
	} else {
		settings = l.settings(v, w.Set)
	}
	first := &model.First{Format: w.Format.Value, Arch: arch, Geometry: w.Geometry.Value, Why: provenance(spec.Provenance{Figure: w.Figure, Device: run.Device, Date: run.Date, Command: run.Command})}
	sizes, list := sizesOf(fam)
	for _, e := range w.Shape.Entries {
		if !slices.Contains(sizes, model.Dim(e.Name.Value)) {
			l.diags.Addf(e.Name.At, "shape: %s has no size %s; the sizes are %s", fam.Name, e.Name.Value, list)
		}
		first.Dims = append(first.Dims, model.Size{Dim: model.Dim(e.Name.Value), Value: int64(e.Value.Value)})
	}
	if len(l.diags) > before {
		return
	}
	slices.SortFunc(first.Dims, func(x, y model.Size) int { return cmp.Compare(x.Dim, y.Dim) })
	for _, x := range fam.Variants {
		for _, other := range x.First {
			if x.Weights == v.Weights && other.Format == first.Format && other.Arch == arch && meet(other.Dims, first.Dims) {
				l.diags.Addf(w.Shape.At, "shape: %s already says what comes first for %s", l.pos.At(other, ""), first.Shape())
				return
			}
		}
	}
	l.pos.set(first, "", w.At)
	l.pos.set(first, "geometry", w.Geometry.At)
	if len(settings) > 0 {
		if v = l.tuned(fam, v, settings, w); v == nil {
			return
		}
		if f != nil && !slices.Contains(v.Formats, f.Name) {
			v.Formats = append(v.Formats, f.Name)
		}
	}
	v.First = append(v.First, first)
}

// Stale names the figures of routes that were measured when the variant dealt otherwise than it does now. They are no faults: they put a variant
// first as they did, but nobody has measured that it is.
func Stale(c *model.Catalog, pos *Positions) (diags diag.List) {
	for _, fam := range c.Families {
		for _, v := range fam.Variants {
			for _, first := range v.First {
				var f *model.Format
				if i := slices.IndexFunc(fam.Formats, func(f *model.Format) bool { return f.Name == first.Format }); i >= 0 {
					f = fam.Formats[i]
				}
				if now := v.Fingerprint(f); first.Geometry != "" && first.Geometry != now {
					diags.Addf(pos.At(first, "geometry"), "%s/%s deals otherwise than when it was measured (geometry %s, now %s); tune again, or delete the row", fam.Name, v.Name, first.Geometry, now)
				}
			}
		}
	}
	return diags
}

// sizesOf is what preferences may depend on: the sizes of a family, without how its work is shared out. The text lists them.
func sizesOf(fam *model.Family) (sizes []model.Dim, text string) {
	sizes = slices.Sorted(maps.Values(fam.Dims))
	sizes = slices.DeleteFunc(slices.Compact(sizes), func(d model.Dim) bool { return d == model.ShareOf })
	return sizes, strings.Trim(fmt.Sprint(sizes), "[]")
}

// settings resolves the values of a row, each of which the spec of the variant lists.
func (l *loader) settings(v *model.Variant, set spec.Map[spec.Int]) (all []model.Setting) {
	for _, e := range set.Entries {
		i := slices.IndexFunc(v.Free, func(p model.Free) bool { return p.Name == e.Name.Value })
		switch {
		case i < 0:
			l.diags.Addf(e.Name.At, "set: %s is no free parameter of variant %s; the spec of the kernel lists them under free", e.Name.Value, v.Name)
		case !slices.Contains(v.Free[i].Values, e.Value.Value):
			l.diags.Addf(e.Value.At, "set: %s is %d; the spec of the kernel allows %s", e.Name.Value, e.Value.Value, numbers(v.Free[i].Values))
		case v.Value(e.Name.Value) != e.Value.Value:
			all = append(all, model.Setting{Name: e.Name.Value, Value: e.Value.Value})
		}
	}
	return all
}

// tuned is the family's variant with other values, made when it is first asked for.
func (l *loader) tuned(fam *model.Family, base *model.Variant, settings []model.Setting, w spec.Win) *model.Variant {
	v := base.With(settings)
	for _, x := range fam.Variants {
		if x.Name != v.Name {
			continue
		}
		if x.Base == base {
			return x
		}
		l.diags.Addf(w.Variant.At, "%s with these values would be called %s, as another variant of the spec is", base.Name, v.Name)
		return nil
	}
	v.Formats = nil
	l.pos.set(v, "", w.At)
	fam.Variants = append(fam.Variants, v)
	return v
}

// meet reports whether some shape has all of these sizes.
func meet(a, b []model.Size) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Dim == y.Dim && x.Value != y.Value {
				return false
			}
		}
	}
	return true
}
