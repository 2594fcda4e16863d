// Package launch is the slow judge of gates: it launches a shape on paper, digit by digit, and says what would go wrong. It
// knows neither bounds nor ceilings nor gates, so that it can find them wrong: the grid is counted against the device's,
// the largest index is formed and measured, every axis is walked and its dropped and repeated indices listed.
package launch

import (
	"fmt"
	"math"
	"slices"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/cover"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// walked is the largest extent that is walked index by index. Beyond it, an axis with an open digit is walked over the
// last few of its periods, which repeat.
const walked = 1 << 13

// Faults lists what goes wrong when the variant is launched on the shape; none when it computes all of it, once.
// g is the geometry that the kernel has.
func Faults(fam *model.Family, v *model.Variant, f *model.Format, g *layout.Geometry, dev *model.Device, s bound.Shape) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if fam.CPU {
		for _, x := range v.Features {
			if !slices.Contains(s.Features, x) {
				fault("the code is for %s, which this CPU does not run", x)
			}
		}
	} else if need := max(v.Arch, dev.Arch); s.Arch < need {
		fault("the code is for sm_%d, the device is sm_%d", need, s.Arch)
	} else if v.Only && s.Arch != need {
		fault("the code is for sm_%d alone, the device is sm_%d", need, s.Arch)
	}
	if f != nil {
		if s.Weights != v.Weights {
			fault("the kernel reads %s weights, they lie as %s", v.Weights, s.Weights)
		}
		if n := s.Dims[fam.Along()]; f.Elems > 1 && n%int64(f.Elems) != 0 {
			fault("%s of %d are no whole number of %s blocks of %d", fam.Along(), n, f.Name, f.Elems)
		}
	}
	for i := range g.Axes {
		axis(fam, v, g, &g.Axes[i], dev, s, fault)
	}
	if sh := v.Shared; sh.PerBytes > 0 {
		d := g.Axis(sh.Axis)
		n := (s.Dims[fam.Dims[sh.Axis]] + int64(d.Elems) - 1) / int64(d.Elems)
		if bytes := int64(sh.FixedBytes) + int64(sh.PerBytes)*n; bytes > s.SharedBytes {
			fault("a block asks for %d bytes of shared memory of %d", bytes, s.SharedBytes)
		}
	}
	if v.Shared.Tiles != nil {
		if bytes := int64(lower.TilesOf(v, f).Bytes); bytes > s.SharedBytes {
			fault("a block asks for %d bytes of shared memory of %d", bytes, s.SharedBytes)
		}
	}
	if v.Shared.Ring != nil {
		r := lower.RingOf(v, f)
		if bytes := r.Bytes(s.Dims[model.Cols] / int64(f.Elems)); bytes > s.SharedBytes {
			fault("a block asks for %d bytes of shared memory of %d", bytes, s.SharedBytes)
		}
	}
	return faults
}

func axis(fam *model.Family, v *model.Variant, g *layout.Geometry, d *layout.Dealing, dev *model.Device, s bound.Shape, fault func(string, ...any)) {
	dim := fam.Dims[d.Axis]
	n := s.Dims[dim]
	if n < 1 {
		fault("%s is %d", dim, n)
		return
	}
	deal := dealOf(v, d.Axis)
	if deal.Multiple > 0 && n%int64(deal.Multiple) != 0 {
		fault("%d %s leave %d for threads that work on %d together", n, dim, n%int64(deal.Multiple), deal.Multiple)
	}
	elems := int64(d.Elems)
	if n%elems != 0 && !deal.Partial {
		fault("the last %d of %d %s are no whole %s of %d", n%elems, n, dim, d.Axis, elems)
	}
	if n > math.MaxInt32 && !fam.CPU {
		fault("%s %d does not fit its 32-bit argument", dim, n)
	}
	extent := (n + elems - 1) / elems
	var last int64 // the largest index formed
	open := false
	for i, p := range g.Digits {
		stride := int64(d.Stride[i])
		if stride == 0 {
			continue
		}
		radix := int64(p.Radix)
		if p.Radix == layout.Any {
			open = true
			radix = (extent + stride - 1) / stride
			if p.Place == layout.Loop {
				radix++ // the iteration that finds the end
				last += lookahead(extent, stride)
				continue
			}
		}
		if p.Place.Grid() {
			if limit := gridLimit(dev, p.Place); radix > limit {
				fault("%s needs %d blocks, the device allows %d", p.Place, radix, limit)
			}
		}
		last += stride * (radix - 1)
	}
	if d.Share < 0 && open && !fam.CPU && lastFormed(g, d, extent, last) > math.MaxInt32 {
		fault("an index of %s reaches %d, past 32 bits", d.Axis, lastFormed(g, d, extent, last))
	}
	if d.Share >= 0 && extent > math.MaxInt32-int64(period(g, d))+1 {
		fault("an index of %s passes 32 bits", d.Axis)
	}
	walk := extent
	if walk > walked {
		if !open {
			walk = min(walk, 4*walked)
		} else {
			p := int64(period(g, d))
			walk = 2*p + extent%p
		}
	}
	if walk > 8*walked {
		return // wider than a proof's reach: the period argument of package cover stands alone
	}
	shares := max(1, int(s.Dims[model.ShareOf]))
	dropped, repeated := cover.Audit(g, d, int(walk), shares)
	if dropped != nil {
		fault("%ss %s of %d are processed by no thread (%.2f %%)", d.Axis, dropped, extent, 100*float64(dropped.Len())/float64(walk))
	}
	if repeated != nil {
		fault("%ss %s of %d are processed more than once", d.Axis, repeated, extent)
	}
}

// lookahead is the stride of a loop times the number of its last iteration.
func lookahead(extent, stride int64) int64 { return (extent - 1) / stride * stride }

// lastFormed is the largest index that any thread forms: a loop goes on while its index is inside, so it forms one that lies a
// stride past the last index of the axis.
func lastFormed(g *layout.Geometry, d *layout.Dealing, extent, last int64) int64 {
	for i, p := range g.Digits {
		if d.Stride[i] != 0 && p.Radix == layout.Any && p.Place == layout.Loop {
			return extent - 1 + int64(d.Stride[i])
		}
	}
	return last
}

func period(g *layout.Geometry, d *layout.Dealing) int {
	p, _ := g.Period(d)
	return max(1, p)
}

func gridLimit(dev *model.Device, p layout.Place) int64 {
	switch p {
	case layout.GridX:
		return dev.GridX
	case layout.GridY:
		return dev.GridY
	}
	return dev.GridZ
}

func dealOf(v *model.Variant, axis string) *model.Deal {
	for i := range v.Deal {
		if v.Deal[i].Axis == axis {
			return &v.Deal[i]
		}
	}
	panic("BUG: no axis " + axis)
}
