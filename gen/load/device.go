package load

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// device resolves a device class.
func (l *loader) device(s *spec.Device) *model.Device {
	if s.Device.Set() {
		l.fileName(s.Device)
	}
	d := &model.Device{Name: s.Device.Value, Spec: s.At.File, Doc: s.Doc.Value, GPU: s.GPU.Value, SMs: s.SMs.Value, StreamGB: s.StreamGB.Value, Arch: s.Arch.Value, Warp: s.Warp.Value, Threads: s.Threads.Value,
		GridX: int64(s.GridX.Value), GridY: int64(s.GridY.Value), GridZ: int64(s.GridZ.Value),
		SharedStaticBytes: s.SharedStaticBytes.Value, SharedBytes: s.SharedBytes.Value, SharedPerSMBytes: s.SharedPerSMBytes.Value,
		RegistersPerSM: s.RegistersPerSM.Value, ThreadsPerSM: s.ThreadsPerSM.Value, BlocksPerSM: s.BlocksPerSM.Value}
	l.pos.set(d, "", s.At)
	return d
}

// devices resolves all device classes, by architecture.
func (l *loader) devices(set *spec.Set) (all []*model.Device) {
	for _, s := range set.Devices {
		if s.Faulty {
			continue
		}
		d := l.device(s)
		for _, other := range all {
			if other.Arch == d.Arch {
				l.diags.Addf(s.Arch.At, "architecture %d is already described by %s", d.Arch, other.Spec)
			}
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *model.Device) int { return cmp.Compare(a.Arch, b.Arch) })
	for _, d := range all {
		l.allows(d, all[0])
	}
	return all
}

// allows holds a device to what is taken for granted of it: gates are derived from the grids and warps of the least architecture, and a
// multiprocessor has room for the largest block.
func (l *loader) allows(d, base *model.Device) {
	type limit struct {
		key         string
		have, least int64
		of          string
	}
	of := fmt.Sprintf(" of %s, which gates go by on every device", base.Name)
	for _, x := range []limit{
		{"grid_x", d.GridX, base.GridX, of}, {"grid_y", d.GridY, base.GridY, of}, {"grid_z", d.GridZ, base.GridZ, of},
		{"shared_bytes", int64(d.SharedBytes), int64(d.SharedStaticBytes), ", its shared_static_bytes"},
		{"shared_per_sm_bytes", int64(d.SharedPerSMBytes), int64(d.SharedBytes), ", its shared_bytes"},
		{"threads_per_sm", int64(d.ThreadsPerSM), int64(d.Threads), ", its threads"},
	} {
		if x.have < x.least {
			l.diags.Addf(l.pos.At(d, ""), "%s is %d; at least %d is due, as many as the limit%s", x.key, x.have, x.least, x.of)
		}
	}
	if d.Warp != base.Warp {
		l.diags.Addf(l.pos.At(d, ""), "warp is %d; %d is due, that%s", d.Warp, base.Warp, of)
	}
}
