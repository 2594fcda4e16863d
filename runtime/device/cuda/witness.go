//go:build cuda && linux && cgo

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// witness is a Driver whose kernels are compiled to count what they process.
type witness struct {
	*Driver
	space  gpu.CoverSpace
	counts gpu.Pointer // a u32 for each cell, and one more for those outside; 0 while nothing is counted
}

var _ gpu.Witness = (*witness)(nil)

// witnessSymbol is the struct MinferWitness that each unit has: two pointers and three 64-bit sizes.
const witnessSymbol = "minfer_witness"

// StartWitness implements gpu.Witness.
func (w *witness) StartWitness(space gpu.CoverSpace) error {
	if space.Rows <= 0 || space.Units <= 0 || space.Tokens <= 0 {
		return fmt.Errorf("cuda:%d: witness of %d rows, %d units and %d tokens: %w", w.index, space.Rows, space.Units, space.Tokens, gpu.ErrArgument)
	}
	if err := w.drop(); err != nil {
		return err
	}
	bytes := 4 * (space.Cells() + 1)
	p, err := w.Alloc(bytes)
	if err != nil {
		return err
	}
	w.space, w.counts = space, p
	if err := w.Fill(p, 0, bytes); err != nil {
		return err
	}
	return w.point(uint64(p), uint64(p)+uint64(4*space.Cells()), space)
}

// point writes where each unit counts.
func (w *witness) point(counts, outside uint64, space gpu.CoverSpace) error {
	data := make([]byte, 0, 40)
	for _, v := range []uint64{counts, outside, uint64(space.Rows), uint64(space.Units), uint64(space.Tokens)} {
		data = binary.LittleEndian.AppendUint64(data, v)
	}
	leave, err := w.enter("witness", false)
	if err != nil {
		return err
	}
	defer leave()
	for i := range w.units {
		p, bytes, err := w.units[i].module.Global(witnessSymbol)
		if err != nil {
			return w.fail("witness of "+w.units[i].name, err)
		}
		if bytes != int64(len(data)) {
			return fmt.Errorf("cuda:%d: %s of %s has %d bytes, not %d", w.index, witnessSymbol, w.units[i].name, bytes, len(data))
		}
		if err := cu.MemcpyHtoDAsync(p, unsafe.Pointer(&data[0]), bytes, w.stream); err != nil {
			return w.fail("witness of "+w.units[i].name, err)
		}
	}
	return w.waited("witness", w.stream.Synchronize())
}

// drop ends counting.
func (w *witness) drop() error {
	if w.counts == 0 {
		return nil
	}
	p := w.counts
	w.counts = 0
	return errors.Join(w.point(0, 0, gpu.CoverSpace{}), w.Free(p))
}

// StopWitness implements gpu.Witness. Which cells outside were counted is not known, only how often.
func (w *witness) StopWitness() (gpu.Coverage, error) {
	if w.counts == 0 {
		return gpu.Coverage{}, fmt.Errorf("cuda:%d: witness: nothing is being counted", w.index)
	}
	data := make([]byte, 4*(w.space.Cells()+1))
	if err := w.Download(data, w.counts); err != nil {
		return gpu.Coverage{}, err
	}
	return coverageOf(w.space, data), w.drop()
}
