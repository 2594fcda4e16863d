package emu_test

import (
	"errors"
	"testing"

	"github.com/minfer/minfer/runtime/device"
	_ "github.com/minfer/minfer/runtime/device/cpu"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/device/emu"
)

// TestDevice: kernels and plan on the emulator keep the contract of devices, as they do on a GPU.
func TestDevice(t *testing.T) {
	switch driver, err := emu.Open(t.Context(), emu.Options{}); {
	case errors.Is(err, emu.ErrNoCompiler):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	default:
		driver.Close()
	}
	d, err := device.Open("emu")
	if err != nil {
		t.Fatal(err)
	}
	devicetest.Run(t, d, devicetest.Promises{})
}

func TestGoldenModels(t *testing.T) { devicetest.Golden(t, "emu") }
