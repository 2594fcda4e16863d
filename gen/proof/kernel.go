package proof

import (
	"fmt"
	"slices"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/cover"
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// Kernels proves every variant of every family: each index of each axis is processed exactly once for every shape that
// the derived bounds admit, stated ceilings are the derived ones, and no block asks more than a device gives.
func Kernels(c *model.Catalog, pos *load.Positions) diag.List {
	var diags diag.List
	for _, fam := range slices.Concat(c.Families, c.CPU) {
		formats := fam.Formats
		if len(formats) == 0 {
			formats = []*model.Format{nil}
		}
		seen := map[string]bool{}
		for _, v := range fam.Variants {
			report := func(part, format string, args ...any) {
				text := fmt.Sprintf("%s/%s: %s", fam.Name, v.Name, fmt.Sprintf(format, args...))
				if !seen[text] { // one for all formats that share the flaw
					seen[text] = true
					diags.Addf(pos.At(v, part), "%s", text)
				}
			}
			for _, f := range formats {
				if !slices.Contains(fam.VariantsFor(f), v) {
					continue
				}
				kernel(c, fam, v, f, report)
				for _, first := range v.FirstFor(f) {
					for _, text := range refusals(c, fam, v, f, first) {
						diags.Addf(pos.At(first, ""), "%s", text)
					}
				}
			}
			for _, other := range v.SameBits {
				if i := slices.IndexFunc(fam.Variants, func(x *model.Variant) bool { return x.Name == other }); i >= 0 && fam.Variants[i].Weights != v.Weights {
					report("", "same_bits: %s reads weights that lie as %s, %s reads %s; no shape is admitted to both", other, fam.Variants[i].Weights, v.Name, v.Weights)
				}
			}
		}
	}
	return diags
}

// Variant is what keeps one variant of a family from a proof for a format; nothing where it is proved.
func Variant(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) (flaws []string) {
	kernel(c, fam, v, f, func(_, format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) })
	return flaws
}

// refusals is why a variant, or the one of the spec that it comes from, cannot come first for a shape: its bounds refuse it.
func refusals(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format, first *model.First) (texts []string) {
	i := slices.IndexFunc(c.Devices, func(d *model.Device) bool { return d.Arch == first.Arch })
	shape := bound.Shape{Dims: map[model.Dim]int64{}, Arch: first.Arch, SharedBytes: int64(c.Devices[i].SharedBytes), Weights: v.Weights}
	for _, s := range first.Dims {
		shape.Dims[s.Dim] = s.Value
	}
	for _, x := range []*model.Variant{v, v.Base} {
		if x == nil {
			continue
		}
		for _, t := range bound.Derive(fam, x, f, c.Base()) {
			if _, known := shape.Dims[t.Dim]; (known || t.Dim == "") && t.Breaks(shape) {
				texts = append(texts, fmt.Sprintf("%s/%s is put first for %s, which it refuses: %s, needed %s", fam.Name, x.Name, first.Shape(), t.Have(shape), t))
			}
		}
	}
	return texts
}

func kernel(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format, report func(part, format string, args ...any)) {
	geo := v.Geometry(f)
	for _, flaw := range cover.Prove(geo) {
		report("", "%s", flaw)
	}
	for _, flaw := range slices.Concat(oneWriter(fam, geo, c.Base().Warp), fragments(fam, geo), inOctets(fam, geo, c.Base().Warp), queues(fam, geo), stages(fam, v, geo), found(fam, v, geo), wholeWarps(geo, c.Base().Warp)) {
		report("", "%s", flaw)
	}
	for i := range geo.Axes {
		d := &geo.Axes[i]
		if flaw := takenElems(fam, geo, d); flaw != "" {
			report("deal."+d.Axis, "%s", flaw)
		}
		// Units that straddle blocks would need a row of blocks to be a row of units.
		if f != nil && fam.Dims[d.Axis] == model.Cols && d.Elems > 1 && max(d.Elems, f.Elems)%min(d.Elems, f.Elems) != 0 {
			report("deal."+d.Axis, "a %s of %d elements and a block of %s of %d: one must divide the other", d.Axis, d.Elems, f.Name, f.Elems)
		}
	}
	for i := range geo.Axes {
		if f == nil || f.TileAs(v.Weights) == nil {
			break
		}
		// The body of a tile takes all of its rows, a unit at a time.
		d, t := &geo.Axes[i], f.TileAs(v.Weights)
		switch period, _ := geo.Period(d); {
		case fam.Dims[d.Axis] == model.Rows && period != t.Rows:
			report("", "the digits of %s reach %d rows; a tile of layout %s has %d", d.Axis, period, t.Name, t.Rows)
		case fam.Dims[d.Axis] == model.Cols && d.Elems != t.UnitElems:
			report("", "a %s is %d elements; those of layout %s are %d", d.Axis, d.Elems, t.Name, t.UnitElems)
		}
	}
	var dev *model.Device
	if !fam.CPU {
		dev = c.Base()
	}
	for _, dev := range c.Devices {
		if fam.CPU || !v.RunsOn(dev.Arch) {
			continue
		}
		if n := geo.Threads(); n > dev.Threads {
			report("", "a block has %d threads; %s allows %d", n, dev.Name, dev.Threads)
		}
		if n := v.Shared.FixedBytes; n > dev.SharedBytes || v.Shared.PerBytes == 0 && n > dev.SharedStaticBytes {
			report("", "a block has %d bytes of shared memory; %s allows %d, and %d of them statically", n, dev.Name, dev.SharedBytes, dev.SharedStaticBytes)
		}
	}
	if v.Shared.Tiles != nil {
		// On a device that allows less the gate refuses the variant.
		if t := lower.TilesOf(v, f); !slices.ContainsFunc(c.Devices, func(d *model.Device) bool { return v.RunsOn(d.Arch) && t.Bytes <= d.SharedBytes }) {
			report("", "the tiles of a block take %d bytes of shared memory (%s), more than any device allows", t.Bytes, t.Chain)
		}
	}
	if v.Shared.Ring != nil {
		if r := lower.RingOf(v, f); r.Stages < 2 {
			report("", "the ring of %s has %d stage at the widest row that the digits cover; two are due", f.Name, r.Stages)
		}
	}
	derived := map[model.Dim]int64{}
	for _, t := range bound.Derive(fam, v, f, dev) {
		if t.Kind == bound.Max && t.Source == bound.Coverage {
			derived[t.Dim] = t.Value
			if have, stated := v.Ceiling[t.Dim]; stated && int64(have) != t.Value {
				of := ""
				if f != nil {
					of = " for " + f.Name
				}
				report("ceiling."+string(t.Dim), "ceiling of %s is stated as %d, derived as %d%s (%s)", t.Dim, have, t.Value, of, t.Chain)
			}
		}
	}
	for dim, have := range v.Ceiling {
		if _, bounded := derived[dim]; !bounded {
			report("ceiling."+string(dim), "ceiling of %s is stated as %d, but the variant covers every size", dim, have)
		}
	}
}
