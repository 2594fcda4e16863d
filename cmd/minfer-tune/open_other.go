//go:build !(cuda && linux && cgo)

package main

import (
	"context"
	"errors"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// openCUDA says how to get a build that sees GPUs.
func openCUDA(context.Context, string) (gpu.Driver, error) {
	return nil, errors.New("--device cuda: this build sees no GPU; on Linux it is go run -tags cuda ./cmd/minfer-gen tune (docs/kernels.md has what that needs)")
}
