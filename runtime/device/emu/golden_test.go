package emu_test

import (
	"testing"

	"github.com/minfer/minfer/runtime/device"
	_ "github.com/minfer/minfer/runtime/device/cpu"
	"github.com/minfer/minfer/runtime/device/devicetest"
)

// TestDevice: kernels and plan on the emulator keep the contract of devices, as they do on a GPU.
func TestDevice(t *testing.T) {
	needCompiler(t)
	d, err := device.Open("emu")
	if err != nil {
		t.Fatal(err)
	}
	devicetest.Run(t, d, devicetest.Promises{})
}

func TestGoldenModels(t *testing.T) { devicetest.Golden(t, "emu") }
