//go:build cuda && linux && cgo

package cuda

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/cu"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cuda/code"
	"github.com/minfer/minfer/runtime/device/cuda/libcuda"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// A program with this package starts without a driver: it is not linked with it.
func TestNoLinkToDriver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(l, "libcuda.so") }) {
		t.Errorf("linked with %v: a call is missing in libcuda/symbols.h", libraries)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") && len(s.Name) > 2 && s.Name[2] >= 'A' && s.Name[2] <= 'Z' {
			t.Errorf("%s is missing in libcuda/symbols.h", s.Name)
		}
	}
}

// What a machine lacks is named when the device is opened.
func TestOpenNamesWhatIsMissing(t *testing.T) {
	list := List()
	if len(list) == 0 {
		t.Fatal("the list is empty")
	}
	if list[0].Err == nil {
		if _, err := device.Open("cuda:999"); !errors.Is(err, code.ErrDevice) || !strings.Contains(err.Error(), "cuda:999") {
			t.Errorf("a GPU that is not there: %v", err)
		}
		t.Skip("this machine has a GPU")
	}
	_, err := device.Open("cuda")
	if !errors.Is(err, code.ErrDriver) && !errors.Is(err, code.ErrDevice) {
		t.Errorf("opened without a GPU: %v", err)
	}
	t.Log(err)
	if _, err := device.Open("cuda:x"); err == nil || !strings.Contains(err.Error(), "cuda:x") {
		t.Errorf("a number that is none: %v", err)
	}
}

// Without any driver the program still starts, and says so. The test runs itself where libcuda.so.1 is hidden.
func TestNoDriver(t *testing.T) {
	if os.Getenv("MINFER_TEST_NO_DRIVER") == "1" {
		var none *libcuda.NoDriverError
		if err := libcuda.Load(); !errors.As(err, &none) {
			t.Skipf("the driver cannot be hidden here: %v", err)
		}
		_, err := device.Open("cuda")
		if !errors.Is(err, code.ErrDriver) || !strings.Contains(err.Error(), "install the NVIDIA driver") {
			t.Errorf("without a driver: %v", err)
		}
		return
	}
	// A file of that name that is no library stands before the real one.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoDriver$", "-test.v")
	cmd.Env = append(os.Environ(), "MINFER_TEST_NO_DRIVER=1", "LD_LIBRARY_PATH="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The driver's results keep their name and meaning, whichever package they come from.
func TestErrors(t *testing.T) {
	d := &Driver{found: found{index: 1}}
	err := d.fail("allocation of 9 bytes", cu.OutOfMemory)
	if !errors.Is(err, gpu.ErrMemory) || !errors.Is(err, libcuda.OutOfMemory) || !strings.HasPrefix(err.Error(), "cuda:1: allocation of 9 bytes: out of memory") {
		t.Errorf("%v", err)
	}
	if d.lost != nil {
		t.Error("the device is lost for want of memory")
	}
	launch := gpu.Launch{Kernel: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}}
	d.launched, d.last = 1, launch
	err = d.waited("wait", cu.IllegalAddress)
	var le *gpu.LaunchError
	if !errors.Is(err, gpu.ErrFault) || !errors.As(err, &le) || le.Launch.Kernel != "k" || !strings.Contains(err.Error(), launch.Shape()) {
		t.Errorf("the fault of a single launch: %v", err)
	}
	if _, err := d.enter("wait", true); !errors.Is(err, gpu.ErrLost) || !errors.Is(err, gpu.ErrFault) {
		t.Errorf("after a fault: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing a lost device: %v", err)
	}
	d = &Driver{}
	d.launched, d.last = 7, launch
	if err := d.waited("wait", libcuda.LaunchFailed); !errors.Is(err, gpu.ErrFault) || !strings.Contains(err.Error(), "one of 7 launches") || !strings.Contains(err.Error(), "MINFER_SYNC_LAUNCHES") {
		t.Errorf("the fault of one of several launches: %v", err)
	}
	d = &Driver{recording: true}
	if _, err := d.enter("upload", false); err == nil || !strings.Contains(err.Error(), "while launches are recorded") {
		t.Errorf("an upload while recording: %v", err)
	}
	if _, err := (&Driver{closed: true}).enter("wait", false); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("after Close: %v", err)
	}
}

// Every result that is taken apart has the number that the driver gives it.
func TestResults(t *testing.T) {
	for r, number := range map[libcuda.Result]int{libcuda.OutOfMemory: 2, libcuda.NoDevice: 100, libcuda.InvalidPTX: 218, libcuda.UnsupportedPTX: 222,
		libcuda.NotFound: 500, libcuda.IllegalAddress: 700, libcuda.LaunchFailed: 719} {
		if int(r) != number {
			t.Errorf("%d, want %d", int(r), number)
		}
	}
	if result(cu.NotFound) != libcuda.NotFound || result(nil) != nil {
		t.Error("results of gorgonia.org/cu are not recognized")
	}
	other := errors.New("other")
	if result(other) != other {
		t.Error("another error is changed")
	}
}
