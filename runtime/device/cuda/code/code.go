// Package code decides where the code of a GPU's kernels comes from: native code, which an nvcc of this machine makes once for
// the very GPU, or PTX for an old architecture, which the CUDA driver compiles.
package code

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/cuda/ptx"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// ErrDriver: there is no CUDA driver, or it is too old.
var ErrDriver = errors.New("CUDA driver")

// ErrDevice: there is no such GPU, or there is no code for it.
var ErrDevice = errors.New("no usable GPU")

// Machine is a GPU and its driver, as far as the choice of code depends on them.
type Machine struct {
	Name   string      // "NVIDIA H200"
	Arch   int         // compute capability, major*10 + minor
	Driver ptx.Release // of CUDA, that the driver knows
}

// Compiler is what the choice of code needs of an nvcc.
type Compiler interface {
	String() string
	Release() ptx.Release
	Architectures(ctx context.Context) ([]int, error)
	Native(ctx context.Context, s nvcc.Source, arch int, defines ...string) ([]byte, error)
}

// Toolkit is the nvcc of this machine.
type Toolkit struct{ *nvcc.Compiler }

// Release implements Compiler.
func (t Toolkit) Release() ptx.Release { return ptx.Release{Major: t.Major, Minor: t.Minor} }

// bulkRelease is the first release of nvcc that compiles what kernels for sm_90 may use.
var bulkRelease = ptx.Release{Major: nvcc.BulkMajor}

// Codes is where the code of a machine's kernels comes from.
type Codes struct {
	Machine Machine
	archive *ptx.Archive
	native  Compiler // nil: PTX alone
	defines []string // given to nvcc
	Arch    int      // what gates may ask for: the architecture that kernels are compiled for
	Why     string   // where the code comes from, in words
}

// Choose decides how kernels are compiled for a machine: natively by an nvcc that knows its GPU and that its driver
// understands, else by the driver from the archive's PTX. It refuses a machine for which neither is possible. find is only
// called for a machine that is new enough.
func Choose(ctx context.Context, m Machine, archive *ptx.Archive, find func() (Compiler, error), defines []string) (*Codes, error) {
	if m.Arch < archive.Target {
		return nil, fmt.Errorf("%w: %s is of architecture sm_%d, and the kernels need sm_%d or later", ErrDevice, m.Name, m.Arch, archive.Target)
	}
	if need := archive.Version.Needs(); m.Driver.Less(need) {
		return nil, fmt.Errorf("%w: it knows CUDA %s, and the kernels (PTX %s) need CUDA %s or later: update the NVIDIA driver", ErrDriver, m.Driver, archive.Version, need)
	}
	c := &Codes{Machine: m, archive: archive, defines: defines, Arch: archive.Target}
	fallback := func(why error) (*Codes, error) {
		if len(defines) > 0 {
			return nil, fmt.Errorf("kernels with %v are compiled by nvcc alone: %w", defines, why)
		}
		c.Why = fmt.Sprintf("PTX %s for sm_%d, compiled by the driver: %v", archive.Version, archive.Target, why)
		return c, nil
	}
	native, err := find()
	if err != nil {
		return fallback(err)
	}
	if native.Release().Major > m.Driver.Major {
		return fallback(fmt.Errorf("%s makes code for CUDA %d, the driver knows CUDA %s", native, native.Release().Major, m.Driver))
	}
	known, err := native.Architectures(ctx)
	if err != nil {
		return fallback(err)
	}
	if !slices.Contains(known, m.Arch) {
		return fallback(fmt.Errorf("%s does not know sm_%d", native, m.Arch))
	}
	c.native, c.Arch = native, m.Arch
	c.Why = fmt.Sprintf("native code for sm_%d by %s", m.Arch, native)
	if m.Arch >= nvcc.BulkArch && native.Release().Less(bulkRelease) {
		// Kernels whose gates ask for sm_90 may not be there: to the gates this is the architecture before it.
		c.Arch = nvcc.BulkArch - 1
		c.Why += fmt.Sprintf(", without the kernels that need nvcc %s", bulkRelease)
	}
	return c, nil
}

// Native reports whether kernels are compiled by nvcc; else the driver compiles PTX.
func (c *Codes) Native() bool { return c.native != nil }

// Overlaps reports whether a launch may overlap its predecessor: the wait for it is in code for sm_90 alone, and PTX for an
// older architecture has none.
func (c *Codes) Overlaps(code gpu.Code) bool { return code.Native && code.Arch >= nvcc.BulkArch }

// Find returns the code of a unit: what the unit brings for this very GPU, native code by nvcc, PTX that the unit brings, or
// the archive's PTX of the same source.
func (c *Codes) Find(ctx context.Context, u gpu.Unit, headers map[string]string) (gpu.Code, error) {
	for _, code := range u.Codes {
		if code.Native && code.Arch == c.Machine.Arch {
			return code, nil
		}
	}
	source := nvcc.Source{Name: u.Name, Text: u.Source, Headers: headers}
	if c.native != nil {
		data, err := c.native.Native(ctx, source, c.Machine.Arch, c.defines...)
		if err != nil {
			return gpu.Code{}, err
		}
		return gpu.Code{Arch: c.Machine.Arch, Native: true, Data: data}, nil
	}
	for _, code := range u.Codes {
		if code.Native {
			continue
		}
		if err := c.compiles(u.Name, string(code.Data)); err != nil {
			return gpu.Code{}, err
		}
		return code, nil
	}
	text, err := c.archive.Find(u.Name, source.Digest())
	if err != nil {
		return gpu.Code{}, fmt.Errorf("%w; nor is there an nvcc that could compile it", err)
	}
	return gpu.Code{Arch: c.archive.Target, Data: []byte(text)}, nil
}

// compiles reports why the driver cannot compile a PTX text for this GPU; nil if it can be tried.
func (c *Codes) compiles(name, text string) error {
	m, err := ptx.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case c.Machine.Driver.Less(m.Version.Needs()):
		return fmt.Errorf("%w: %s is PTX %s, which needs CUDA %s; the driver knows CUDA %s: update it, or make the PTX with an older nvcc", ErrDriver, name, m.Version, m.Version.Needs(), c.Machine.Driver)
	case c.Machine.Arch < m.Target:
		return fmt.Errorf("%w: %s is PTX for sm_%d and later, %s is sm_%d", ErrDevice, name, m.Target, c.Machine.Name, c.Machine.Arch)
	}
	return nil
}
