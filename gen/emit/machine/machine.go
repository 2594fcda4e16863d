// Package machine emits what is known of GPUs that are not there, as a Go table.
package machine

import (
	"bytes"
	"fmt"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// Emitter emits package machine.
type Emitter struct{}

// Name implements emit.Emitter.
func (Emitter) Name() string { return "machine" }

const head = `
// Package machine holds what is known of the classes of GPUs that kernels are made for, each by one GPU of it.
package machine

// Machine is a GPU.
type Machine struct {
	Class       string // of specs/devices, "sm90"
	Name        string // "H200"
	Arch        int    // compute capability * 10
	SMs         int    // multiprocessors
	SharedBytes int    // shared memory that a block may ask for
	StreamGB    int    // 10^9 bytes that its memory streams in a second
}

// Of is the machine of an architecture.
func Of(arch int) (Machine, bool) {
	for _, m := range All {
		if m.Arch == arch {
			return m, true
		}
	}
	return Machine{}, false
}

// All lists them by architecture.
var All = []Machine{
`

// Emit implements emit.Emitter.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	if len(c.Devices) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString(emit.Marker("specs/devices") + head)
	for _, d := range c.Devices {
		fmt.Fprintf(&b, "{Class: %q, Name: %q, Arch: %d, SMs: %d, SharedBytes: %d, StreamGB: %d},\n", d.Name, d.GPU, d.Arch, d.SMs, d.SharedBytes, d.StreamGB)
	}
	b.WriteString("}\n")
	file, err := emit.GoFile("machine/machine.go", b.Bytes())
	if err != nil {
		return nil, err
	}
	return []emit.File{file}, nil
}
