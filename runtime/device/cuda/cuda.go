// Package cuda is a gpu.Driver on an NVIDIA GPU, through gorgonia.org/cu and the CUDA driver. It is there in a build with
// -tags cuda on Linux (docs/kernels.md); in other builds the device's name says how to get it.
//
// Kernels come as native code, built once by nvcc and cached where there is an nvcc, else as PTX for an old architecture, which
// the driver compiles. Which of the two, and why, is said when the device is opened. What a machine lacks is named before a
// model is read; nothing falls back to another device.
package cuda

import (
	"fmt"
	"strconv"
)

// Seen is a GPU as List finds it.
type Seen struct {
	Name string // that opens it: "cuda:0"
	Text string // what it is, and where its kernels' code comes from
	Err  error  // why it cannot be used; nil if it can
}

// parseIndex reads the number of a GPU, which follows "cuda:"; the empty string is 0.
func parseIndex(arg string) (int, error) {
	if arg == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(arg, 10, 15)
	if err != nil {
		return 0, fmt.Errorf("device \"cuda:%s\": %q is not the number of a GPU, which counts from 0", arg, arg)
	}
	return int(n), nil
}
