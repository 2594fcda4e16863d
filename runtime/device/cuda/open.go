//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"gorgonia.org/cu"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cuda/code"
	"github.com/minfer/minfer/runtime/device/cuda/libcuda"
	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/device/cuda/ptx"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// Options adjust Open; the zero value is good.
type Options struct {
	Log     func(string) // told what is being compiled, and why kernels are not native; may be nil
	Witness bool         // compile kernels with the coverage witness: the driver is then a gpu.Witness. Needs nvcc
	Marks   bool         // compile kernels to log the moments that they mark: the driver is then a gpu.Marker. Needs nvcc
	Sync    bool         // wait after every launch, so that the error of its work names it
	PTX     bool         // use the archive's PTX even where nvcc is there
	Lanes   bool         // compile kernels whose lanes each arrive at an mbarrier, for a checker of races. Needs nvcc
}

func init() {
	device.Register("cuda", func(arg string) (device.Device, error) {
		index, err := parseIndex(arg)
		if err != nil {
			return nil, err
		}
		o := Options{Log: announce, Sync: os.Getenv("MINFER_SYNC_LAUNCHES") == "1"}
		if _, err := probe(context.Background(), index, o); err != nil {
			return nil, err // before any model is read
		}
		open := func() (gpu.Driver, error) { return Open(context.Background(), index, o) }
		return gpu.New(fmt.Sprintf("cuda:%d", index), open, gpu.SwitchedOff()), nil
	})
}

// announce prints each message once.
func announce(message string) {
	if _, said := announced.LoadOrStore(message, true); !said {
		fmt.Fprintln(os.Stderr, "minfer: "+message)
	}
}

var announced sync.Map

// load opens the CUDA driver and says which CUDA it knows.
func load() (ptx.Release, error) {
	err := libcuda.Load()
	var none *libcuda.NoDriverError
	switch {
	case errors.As(err, &none):
		return ptx.Release{}, fmt.Errorf("%w: there is none (%s): install the NVIDIA driver", code.ErrDriver, none.Reason)
	case errors.Is(err, libcuda.NoDevice):
		return ptx.Release{}, fmt.Errorf("%w: the driver sees none (%w)", code.ErrDevice, err)
	case err != nil:
		return ptx.Release{}, fmt.Errorf("%w: it does not start: %w", code.ErrDriver, err)
	}
	return ptx.ReleaseOf(cu.Version()), nil
}

// found is a GPU that kernels can be run on.
type found struct {
	index  int
	device cu.Device
	codes  *code.Codes
	info   gpu.Info
}

// probe looks at a GPU and decides how kernels are compiled for it. It creates no context.
func probe(ctx context.Context, index int, o Options) (*found, error) {
	release, err := load()
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", index, err)
	}
	count, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: number of GPUs: %w", index, result(err))
	}
	if index >= count {
		return nil, fmt.Errorf("cuda:%d: %w: GPUs 0 to %d are seen (CUDA_VISIBLE_DEVICES=%q)", index, code.ErrDevice, count-1, os.Getenv("CUDA_VISIBLE_DEVICES"))
	}
	f := &found{index: index}
	if f.device, err = cu.GetDevice(index); err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", index, result(err))
	}
	name, err := f.device.Name()
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: its name: %w", index, result(err))
	}
	attribute := func(a cu.DeviceAttribute) (n int) {
		if err == nil {
			n, err = f.device.Attribute(a)
		}
		return n
	}
	arch := 10*attribute(cu.ComputeCapabilityMajor) + attribute(cu.ComputeCapabilityMinor)
	f.info = gpu.Info{
		SMs: attribute(cu.MultiprocessorCount), WarpSize: attribute(cu.WarpSize), MaxThreads: attribute(cu.MaxThreadsPerBlock),
		SharedBytes: attribute(cu.MaxSharedMemoryPerBlock), SharedOptInBytes: attribute(libcuda.SharedOptIn),
		MaxBlock: [3]uint32{uint32(attribute(cu.MaxBlockDimX)), uint32(attribute(cu.MaxBlockDimY)), uint32(attribute(cu.MaxBlockDimZ))},
		MaxGrid:  [3]uint32{uint32(attribute(cu.MaxGridDimX)), uint32(attribute(cu.MaxGridDimY)), uint32(attribute(cu.MaxGridDimZ))},
	}
	if err == nil {
		f.info.MemoryBytes, err = f.device.TotalMem()
	}
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: its attributes: %w", index, result(err))
	}
	archive, err := ptx.Embedded()
	if err != nil {
		return nil, err
	}
	var defines []string
	if o.Witness {
		defines = append(defines, "MINFER_WITNESS")
	}
	if o.Marks {
		defines = append(defines, "MINFER_MARKS")
	}
	if o.Lanes {
		defines = append(defines, "MINFER_LANES_ARRIVE")
	}
	f.codes, err = code.Choose(ctx, code.Machine{Name: name, Arch: arch, Driver: release}, archive, func() (code.Compiler, error) {
		if o.PTX {
			return nil, errors.New("it was asked for")
		}
		c, err := nvcc.Find(ctx, nvcc.Options{Log: o.Log})
		if err != nil {
			return nil, err
		}
		return code.Toolkit{Compiler: c}, nil
	}, defines)
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", index, err)
	}
	f.info.Name, f.info.Arch = name, f.codes.Arch
	return f, nil
}

// List lists the GPUs of this machine.
func List() []Seen {
	if _, err := load(); err != nil {
		return []Seen{{Name: "cuda", Text: "NVIDIA GPUs", Err: err}}
	}
	count, err := cu.NumDevices()
	if err != nil {
		return []Seen{{Name: "cuda", Text: "NVIDIA GPUs", Err: result(err)}}
	}
	var all []Seen
	for i := range count {
		s := Seen{Name: fmt.Sprintf("cuda:%d", i)}
		if f, err := probe(context.Background(), i, Options{}); err != nil {
			s.Text, s.Err = "NVIDIA GPU", err
		} else {
			s.Text = fmt.Sprintf("%s, sm_%d, %d SMs, %.1f GiB, driver of CUDA %s; %s",
				f.info.Name, f.codes.Machine.Arch, f.info.SMs, float64(f.info.MemoryBytes)/(1<<30), f.codes.Machine.Driver, f.codes.Why)
		}
		all = append(all, s)
	}
	return all
}
