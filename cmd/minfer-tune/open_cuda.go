//go:build cuda && linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// openCUDA opens a GPU whose kernels nvcc compiles: candidates are in no archive.
func openCUDA(ctx context.Context, arg string) (gpu.Driver, error) {
	index := 0
	if arg != "" {
		var err error
		if index, err = strconv.Atoi(arg); err != nil || index < 0 {
			return nil, fmt.Errorf("--device cuda:%s: a GPU has a number, from 0", arg)
		}
	}
	d, err := cuda.Open(ctx, index, cuda.Options{})
	if err != nil {
		return nil, err
	}
	if x, ok := d.(*cuda.Driver); ok && !x.Native() {
		return nil, errors.Join(fmt.Errorf("--device cuda:%d: candidates are compiled by nvcc, and there is none for this GPU: %s", index, x.Code()), d.Close())
	}
	return d, nil
}
