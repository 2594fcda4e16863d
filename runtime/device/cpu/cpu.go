// Package cpu runs graphs on the CPU with the kernels generated from the format specs, parallel over the rows of matrices
// and the heads and spans of attention by a fixed set of goroutines. The level of vector instructions is the best that the
// machine has, or the one that the environment variable MINFER_CPU names.
//
// Numerics. Products with a block-quantized weight take 8-bit activations (class q8) or f32 ones (class f32), as loaded;
// weights that are plain numbers (f32, f16, bf16) always take f32 activations. Sums within RMSNorm are float64. Softmax
// and the sums of attention are f32, online over blocks of positions; scores are summed dim by dim. Rotary angles are
// reduced in float64. Each number is computed by one worker in one order, so results are the same bits for any number of
// threads, any batch and any way of calling Forward. All but products with weights is the same at every level as well.
package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

func init() {
	device.Register("cpu", func(arg string) (device.Device, error) {
		if arg != "" {
			return nil, fmt.Errorf("device \"cpu:%s\": the cpu has no number, use \"cpu\" and a number of threads", arg)
		}
		return Device{}, nil
	})
}

// DefaultBatch is the number of tokens computed at a time where a session does not say.
const DefaultBatch = 256

// maxThreads bounds LoadOptions.Threads: a number beyond it is a slip, not a wish.
const maxThreads = 1024

// Device is the CPU.
type Device struct{}

// Name implements device.Device.
func (Device) Name() string { return "cpu" }

// Load implements device.Device. It reads the weights through once, so that a model that the system has to fetch from
// disk is there before the first token, and starts the worker goroutines.
func (Device) Load(ctx context.Context, g *op.Graph, o device.LoadOptions) (device.Model, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	precision, err := device.ParsePrecision(string(o.Precision))
	if err != nil {
		return nil, err
	}
	if precision == device.Auto {
		precision = device.Q8 // nothing was measured to come before it
	}
	threads := o.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads < 0 || threads > maxThreads {
		return nil, fmt.Errorf("%d threads are outside 1 to %d", o.Threads, maxThreads)
	}
	level, err := cpufeature.Active()
	if err != nil {
		return nil, err
	}
	m := &model{graph: g, level: level, off: switchedOff(), vec: vec.For(level), matrices: map[*op.Weight]*matrix{}, vectors: map[*op.Weight][]float32{}}
	m.slots, m.slotOf = g.Slots()
	m.unpacked, _ = m.plainKernels(&op.Weight{Type: format.F32, Rows: 1, Cols: 1})
	for _, o := range g.Ops {
		if err := m.prepare(o, precision); err != nil {
			return nil, err
		}
	}
	if err := m.ready(ctx, threads, o.Progress); err != nil {
		if m.arena != nil {
			release(m.arena)
		}
		return nil, err
	}
	var pins []int
	if o.Pin {
		pins = allowedCPUs()
	}
	m.pool = newPool(threads, pins)
	return m, nil
}

// ready has every weight in memory, in the layout that its kernels read.
func (m *model) ready(ctx context.Context, threads int, progress func(done, total int64)) error {
	total := m.graph.WeightBytes()
	done := total
	var asFile []*op.Weight
	for _, w := range m.graph.Weights() {
		if k := m.matrices[w]; k == nil || !k.laidOut {
			asFile = append(asFile, w)
			done -= int64(len(w.Data))
		}
	}
	err := m.interleave(ctx, threads, func(done int64) {
		if progress != nil && done < total {
			progress(done, total)
		}
	})
	if err != nil {
		return err
	}
	if len(asFile) == 0 && progress != nil {
		progress(total, total)
	}
	return touch(ctx, asFile, done, total, progress)
}

// touch reads a byte of every page of some weights; done bytes of the total are ready before.
func touch(ctx context.Context, weights []*op.Weight, done, total int64, progress func(done, total int64)) error {
	const stretch = 8 << 20
	page := os.Getpagesize()
	var sink byte
	for _, w := range weights {
		for lo := 0; lo < len(w.Data); lo += stretch {
			if err := ctx.Err(); err != nil {
				return err
			}
			hi := min(lo+stretch, len(w.Data))
			for i := lo; i < hi; i += page {
				sink ^= w.Data[i]
			}
			done += int64(hi - lo)
			if progress != nil {
				progress(done, total)
			}
		}
	}
	runtime.KeepAlive(sink)
	return nil
}

// model implements device.Model.
type model struct {
	graph    *op.Graph
	vec      *vec.Kernels
	slots    []op.Slot
	slotOf   []int
	matrices map[*op.Weight]*matrix   // of Embed and MatMul
	vectors  map[*op.Weight][]float32 // of RMSNorm and biases, dequantized
	routes   []device.Route
	pool     *pool
	level    cpufeature.Level
	off      kernel.Switches
	arena    []byte // that matrices are laid out in

	unpacked []plainKernel // of rows that are dequantized to f32
}

// matrix is a weight with the kernels that read it.
type matrix struct {
	*op.Weight
	rowBytes   int
	dequantize func(dst []float32, src []byte)
	dotQ8      func(w, x []byte) float32 // nil in class f32
	tiles      *tiles                    // nil where the file's rows are multiplied as they are
	plain      []plainKernel             // of plain numbers; none where there is no vector code
	names      []string                  // of the vector kernels

	laidOut bool   // in memory of its own: tiles, or plain numbers
	data    []byte // 64-byte aligned
}

// rows is the rows from lo to hi-1 as the file has them: tiles leave them there.
func (m *matrix) rows(lo, hi int) []byte {
	from := m.Data
	if m.laidOut && m.tiles == nil {
		from = m.data
	}
	return from[lo*m.rowBytes : hi*m.rowBytes : hi*m.rowBytes]
}

func (m *matrix) row(r int) []byte { return m.rows(r, r+1) }

// dotF32 is the product of two rows of f32.
var dotF32 = func() func(w []byte, x []float32) float32 {
	k, ok := kernels.For(format.F32)
	if !ok || k.DotF32 == nil {
		panic("BUG: no generated kernel for f32")
	}
	return k.DotF32
}()

// prepare picks the kernels for the weights of an operation.
func (m *model) prepare(o op.Op, precision device.Precision) error {
	switch o := o.(type) {
	case op.Embed:
		k, err := m.matrix(o.Table, device.F32)
		if err != nil {
			return err
		}
		m.route(k, "dequantize", device.F32, "rows are gathered, nothing is multiplied")
	case op.MatMul:
		k, err := m.matrix(o.Weight, precision)
		if err != nil {
			return err
		}
		plain := gateOf(k.TypeName(), device.F32)
		switch {
		case k.dotQ8 != nil:
			why := "activations are rounded to 8 bits, once for each input"
			if k.tiles != nil {
				why = fmt.Sprintf("rows lie in tiles of %d, ", tile.Rows) + why
			}
			m.routeOf(k, gateOf(k.TypeName(), device.Q8), k.names, device.Q8, why)
		case plain != nil:
			k.plain, k.names = m.plainKernels(o.Weight)
			k.laidOut = len(k.plain) > 0 && !m.off[gate.CPUSwitches[0].Name]
			m.routeOf(k, plain, k.names, device.F32, "the weight is plain numbers: f32 activations, at either precision")
		case precision == device.Q8:
			m.route(k, "dequantize, dot-f32", device.F32, "no kernel takes the format with 8-bit activations: f32 ones, at either precision")
		default:
			m.route(k, "dequantize, dot-f32", device.F32, "f32 activations were asked for")
		}
		if o.Bias != nil {
			return m.vector(o.Bias)
		}
	case op.RMSNorm:
		return m.vector(o.Weight)
	case op.RoPE, op.KVAppend, op.Attend, op.SiLUMul, op.Add, op.Select:
	default:
		return fmt.Errorf("the cpu device does not know the operation %s", op.Name(o))
	}
	return nil
}

// matrix finds the kernels of a weight; a table that serves both ends of a model gets those of both.
func (m *model) matrix(w *op.Weight, precision device.Precision) (*matrix, error) {
	k, ok := kernels.For(w.Type)
	if !ok || k.Dequantize == nil {
		return nil, fmt.Errorf("%s: the cpu device has no kernel for %s", w.Name, w.TypeName())
	}
	known := m.matrices[w]
	if known == nil {
		known = &matrix{Weight: w, rowBytes: w.RowBytes(), dequantize: k.Dequantize}
		m.matrices[w] = known
	}
	if precision == device.Q8 && k.DotQ8 != nil {
		if w.Cols%kernels.ActivationBlockElems != 0 {
			return nil, fmt.Errorf("%s %s [%d, %d]: rows are not whole blocks of %d activations; load with f32 precision",
				w.Name, w.TypeName(), w.Rows, w.Cols, kernels.ActivationBlockElems)
		}
		known.dotQ8 = k.DotQ8
		if known.tiles == nil {
			known.tiles, known.names = m.newTiles(w)
			known.laidOut = known.tiles != nil
		}
	}
	return known, nil
}

func (m *model) vector(w *op.Weight) error {
	k, ok := kernels.For(w.Type)
	if !ok || k.Dequantize == nil {
		return fmt.Errorf("%s: the cpu device has no kernel for %s", w.Name, w.TypeName())
	}
	if m.vectors[w] == nil {
		v := make([]float32, w.Cols)
		k.Dequantize(v, w.Data)
		m.vectors[w] = v
	}
	return nil
}

func (m *model) route(k *matrix, kernel string, class device.Precision, why string) {
	m.routes = append(m.routes, device.Route{Weight: k.Name, Format: k.TypeName(), Rows: k.Rows, Cols: k.Cols,
		Kernel: kernel, Class: string(class), Why: why})
}

// Routes implements device.Model.
func (m *model) Routes() []device.Route { return m.routes }

// Close implements device.Model.
func (m *model) Close() error {
	if m.pool == nil {
		return errors.New("model closed twice")
	}
	m.pool.end()
	m.pool = nil
	if m.arena == nil {
		return nil
	}
	arena := m.arena
	m.arena = nil
	return release(arena)
}
