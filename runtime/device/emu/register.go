package emu

import (
	"context"
	"fmt"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/gpu"
)

func init() {
	device.Register("emu", func(arg string) (device.Device, error) {
		if arg != "" {
			return nil, fmt.Errorf("device \"emu:%s\": the emulator has no number, use \"emu\"", arg)
		}
		return gpu.New("emu", func() (gpu.Driver, error) { return Open(context.Background(), Options{}) }, gpu.SwitchedOff()), nil
	})
}
