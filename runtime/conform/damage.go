package conform

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// damage is a change of one line of a kernel that stays inside its memory and ends: on a GPU a kernel that does not loses the device.
type damage struct {
	variant string // its full name
	what    string
	was, is string
}

var damages = []damage{
	{"matvec-q8/q6_K/v2_pf", "the last unit of the second round left out", "  if (u1 < units) {", "  if (u1 < units - 1) {"},
	{"matvec-q8/q6_K/v2", "all warps but one left out of a sum", "block_sum<8>(acc)", "warp_sum(acc)"},
	{"matvec-q8/q4_K/v2", "the last unit of a row left out", "if (u >= units) break;", "if (u >= units - 1) break;"},
	{"matvec-f32/f16/rows2", "a warp's lanes not added up", "warp_sum(acc[slot])", "acc[slot]"},
	{"matmul-q8/q8_0/t8", "the last token of a tile left out", "if (t >= tokens) break;", "if (t >= tokens || slot == 7) break;"},
	{"attend-split/f16/d128_g8", "the last position of a share left out", "if (j >= position_hi) break;", "if (j >= position_hi - 1) break;"},
	{"rmsnorm/block", "the mean over one element too many", "/ (float)cols", "/ (float)(cols + 1)"},
	{"quantize-a8/warp", "scales a bit too large", "127", "126"},
	{"matvec-ring-q8/q4_K/c4", "half of the columns not added up", "step < 8 * merged", "step < 4 * merged"},
}

// RunDamaged damages kernels and wants the suite to notice: what finds nothing wrong on a device may look at nothing there. Kernels that the
// device has no code for are left.
func RunDamaged(t *testing.T, open func() (gpu.Driver, error)) {
	for _, x := range damages {
		t.Run(strings.ReplaceAll(x.variant, "/", "-"), func(t *testing.T) {
			d, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			s, err := subjectNamed(x.variant)
			if err != nil {
				t.Fatal(err)
			}
			if !runsOn(s.Variant, d.Info().Arch) {
				t.Skipf("it needs code for sm_%d, this device has that for sm_%d", s.Variant.Arch, d.Info().Arch)
			}
			data, err := fs.ReadFile(cuda.Sources, s.Variant.Source)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(data), x.was, x.is)
			if text == string(data) {
				t.Fatalf("%s has no %q to be damaged", s.Variant.Source, x.was)
			}
			if err := gpu.LoadSources(d, []*kernel.Variant{s.Variant}, map[string]string{s.Variant.Source: text}); err != nil {
				t.Fatal(err)
			}
			s.patience = 1
			r, err := s.Judge(d)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Errorf("%s: nothing is noticed in %d launches", x.what, r.Launches)
				return
			}
			t.Logf("%s: %s", x.what, r.Failures[0])
		})
	}
}

// subjectNamed is a variant by its full name.
func subjectNamed(name string) (*Subject, error) {
	for _, e := range gate.All {
		for _, s := range Subjects(e, Options{Brief: true}) {
			if s.Variant.String() == name {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no variant is called %s", name)
}
