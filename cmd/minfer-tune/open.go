package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// open gives the driver of a device: emu, or cuda[:N].
func open(ctx context.Context, name string) (gpu.Driver, error) {
	kind, arg, _ := strings.Cut(name, ":")
	switch {
	case name == "emu":
		return emu.Open(ctx, emu.Options{})
	case kind == "cuda":
		return openCUDA(ctx, arg)
	}
	return nil, fmt.Errorf("--device %s: kernels are tuned on cuda[:N] or emu", name)
}
