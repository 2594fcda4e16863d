package conform_test

import (
	"errors"
	"os"
	"testing"

	"github.com/minfer/minfer/runtime/conform"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// open is the emulator, on one thread for each gate that runs at a time; without a C++ compiler the test is skipped.
func open(t testing.TB) func() (gpu.Driver, error) {
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
	conform.Run(t, conform.Options{Open: open(t), Brief: testing.Short() || os.Getenv("MINFER_BRIEF") != ""})
}
