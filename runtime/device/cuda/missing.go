//go:build !(cuda && linux && cgo)

package cuda

import (
	"fmt"
	"runtime"

	"github.com/minfer/minfer/runtime/device"
)

// Missing says how to get a build with GPUs.
func Missing() string {
	if runtime.GOOS != "linux" {
		return fmt.Sprintf("GPUs are supported on Linux, this is %s", runtime.GOOS)
	}
	return "build it with CGO_ENABLED=1 go build -tags cuda ./cmd/minfer-run (docs/kernels.md has what that needs)"
}

func init() { device.RegisterMissing("cuda", Missing()) }

// List lists the GPUs of this machine: none in this build, and an entry that says why.
func List() []Seen {
	return []Seen{{Name: "cuda", Text: "NVIDIA GPUs", Err: fmt.Errorf("not in this build: %s", Missing())}}
}
