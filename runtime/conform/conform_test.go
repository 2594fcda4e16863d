package conform

import (
	"errors"
	"testing"

	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// open is the emulator, on one thread for each gate that runs at a time; without a C++ compiler the test is skipped.
func open(t testing.TB) func() (gpu.Driver, error) {
	t.Helper()
	d, err := emu.Open(t.Context(), emu.Options{Threads: 1})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	return func() (gpu.Driver, error) { return emu.Open(t.Context(), emu.Options{Threads: 1}) }
}

func TestKernels(t *testing.T) {
	Run(t, Options{Open: open(t), Brief: testing.Short()})
}

// Kernels that are damaged in one line, as make check-gpu damages them on a GPU.
func TestDamagedKernels(t *testing.T) { RunDamaged(t, open(t)) }

// Every kernel of every gate has a case in the generated table and its operation a reference, and the table has nothing else: a new row or
// format cannot escape the suite.
func TestEveryKernelHasACase(t *testing.T) {
	n := 0
	for _, e := range gate.All {
		if operations[e.Op] == nil {
			t.Errorf("operation %s of %s has no reference", e.Op, e.Family)
		}
		for _, s := range e.Steps {
			n++
			g, ok := conform.Kernels[s.Variant.Symbol]
			if !ok {
				t.Errorf("%s has no case", s.Variant)
				continue
			}
			for _, b := range s.Variant.Bounds {
				if b.Dim != "" && len(g.Over(b.Dim)) == 0 {
					t.Errorf("%s is bounded in %s, over which no axis of its case runs", s.Variant, b.Dim)
				}
			}
			if len(g.Cover.Unit) == 0 {
				t.Errorf("%s has no unit for the witness", s.Variant)
			}
		}
		if e.Format != "" {
			if _, ok := conform.Floats[e.Format]; !ok && gate.Placements[e.Format]["padded"].BlockBytes > 0 {
				t.Errorf("nothing says where blocks of %s hold scales", e.Format)
			}
		}
	}
	if n != len(conform.Kernels) {
		t.Errorf("there are %d cases for %d kernels", len(conform.Kernels), n)
	}
}
