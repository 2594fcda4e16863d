package emu_test

import (
	"testing"

	_ "github.com/minfer/minfer/runtime/device/cpu"
	"github.com/minfer/minfer/runtime/device/devicetest"
	_ "github.com/minfer/minfer/runtime/device/emu"
)

func TestGoldenModels(t *testing.T) { devicetest.Golden(t, "emu") }
