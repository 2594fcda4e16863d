package conform

import (
	"errors"
	"strings"

	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// gate judges both sides of every bound: a query that differs from an admitted one in the bound's dim alone is refused for that very
// bound, with its derivation as the reason; and the largest admitted size of each dim is a launch that the machine allows.
func (b *bench) gate() {
	s := b.subject
	base := s.query()
	if i := s.refusal(&base); i >= 0 {
		b.fail("gate", "the least shape", "it is refused: %s", s.Variant.Bounds[i])
		return
	}
	info := b.driver.Info()
	for i, bound := range s.Variant.Bounds {
		in, out := base, base
		g := s.grainOf(bound.Dim)
		switch bound.Kind {
		case kernel.Max:
			in, out = with(base, bound.Dim, bound.Value), with(base, bound.Dim, bound.Value+g)
		case kernel.Min:
			in, out = with(base, bound.Dim, bound.Value), with(base, bound.Dim, bound.Value-g)
		case kernel.Multiple:
			in, out = with(base, bound.Dim, 3*g), with(base, bound.Dim, 3*g+g/bound.Value)
			if n := base.Dim(bound.Dim); g == bound.Value {
				out = with(base, bound.Dim, n+1)
			}
			if s.refusal(&in) >= 0 {
				in = base
			}
		case kernel.Arch:
			in.Arch, out.Arch = int(bound.Value), int(bound.Value)-1
		case kernel.Only:
			in.Arch, out.Arch = int(bound.Value), int(bound.Value)+1
		case kernel.Weights:
			out.Weights = "another"
		case kernel.Shared:
			need := bound.SharedBytes(base.Dim(bound.Dim))
			in.SharedBytes, out.SharedBytes = need, need-1
		default:
			b.fail("gate", bound.String(), "the suite knows no bound of kind %s", bound.Kind)
		}
		if have := s.refusal(&in); have >= 0 {
			b.fail("gate", bound.String(), "the admitted side is refused: %s", s.Variant.Bounds[have])
		}
		if have := s.refusal(&out); have != i {
			b.fail("gate", bound.String(), "the side beyond is not refused for it but for bound %d", have)
		}
		b.report.Refusals++
		reason := ""
		alone := *s.Variant
		alone.Base = "" // by itself, wherever it runs in its gate
		kernel.Choose(&out, func(_ *kernel.Variant, why string) { reason = why }, []kernel.Step{{Variant: &alone, Refuse: s.step.Refuse}})
		if !strings.Contains(reason, bound.Chain) {
			b.fail("gate", bound.String(), "the reason of the refusal, %q, does not give the derivation", reason)
		}
		if bound.Kind == kernel.Max {
			l := gpu.Launch{Kernel: s.Variant.Symbol, Grid: s.Variant.Grid(&in), Block: [3]uint32{s.Variant.Threads, 1, 1}, SharedBytes: s.Variant.Shared(&in)}
			if err := l.Check(info); err != nil {
				b.fail("gate", bound.String(), "the largest admitted size cannot be launched: %v", err)
			}
		}
	}
	// The block that the gate launches is the one the kernel was compiled for.
	if info.Emulated {
		l := gpu.Launch{Kernel: s.Variant.Symbol, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{s.Variant.Threads + 1, 1, 1}}
		if err := b.driver.Launch(l); !errors.Is(err, gpu.ErrLimit) {
			b.fail("gate", "launch bound", "a block of one thread more than %d gives %v", s.Variant.Threads, err)
		}
	}
}
