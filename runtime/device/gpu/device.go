package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
)

// DefaultBatch is the number of tokens computed at a time where a session does not say: enough that the tiles of a 7B model's square
// matrices, 128 rows by 128 tokens, are about as many as a large GPU has multiprocessors.
const DefaultBatch = 512

// Device runs plans on a driver. It implements device.Device.
type Device struct {
	name string
	open func() (Driver, error)
	off  kernel.Switches
}

// New makes a device of the given name; open is called for each model that is loaded, which then owns the driver.
// off are the kernel variants that the environment turns off.
func New(name string, open func() (Driver, error), off kernel.Switches) *Device {
	return &Device{name, open, off}
}

// SwitchedOff reads the generated switches from the environment: a variable set to 0 turns its variants off.
func SwitchedOff() kernel.Switches {
	off := kernel.Switches{}
	for _, s := range gate.Switches {
		if os.Getenv(s.Name) == "0" {
			off[s.Name] = true
		}
	}
	return off
}

// NoGraph is the environment variable that, set to 1, turns the recording of launches off.
const NoGraph = "MINFER_NO_CUDA_GRAPH"

// Name implements device.Device.
func (d *Device) Name() string { return d.name }

// TargetOf is what a plan must know of a machine.
func TargetOf(i Info) plan.Target {
	return plan.Target{Arch: i.Arch, SharedBytes: int64(i.SharedOptInBytes), SMs: i.SMs}
}

// Load implements device.Device: it plans the graph, loads the kernels of the plan, holds their bounds against the gates', and
// uploads the weights, placed as the plan says.
func (d *Device) Load(ctx context.Context, g *op.Graph, o device.LoadOptions) (_ device.Model, err error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	precision, err := device.ParsePrecision(string(o.Precision))
	if err != nil {
		return nil, err
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("%s: %d threads, allowed are 0 and more", d.name, o.Threads)
	}
	driver, err := d.open()
	if err != nil {
		return nil, err
	}
	m := &model{device: d, driver: driver, graph: g, precision: precision, plans: map[format.Type]*plan.Plan{}, loaded: map[*kernel.Variant]bool{}}
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	p, err := m.plan(format.F16)
	if err != nil {
		return nil, err
	}
	info := driver.Info()
	if need := p.WeightBytes(); info.MemoryBytes > 0 && need > info.MemoryBytes {
		return nil, fmt.Errorf("%s: the weights take %d bytes, the device has %d", d.name, need, info.MemoryBytes)
	}
	if !o.Eager && os.Getenv(NoGraph) != "1" {
		m.grapher, _ = driver.(Grapher)
	}
	m.sharer, _ = driver.(Sharer)
	return m, m.upload(ctx, p, o.Progress)
}

// model implements device.Model.
type model struct {
	mu        sync.Mutex // of the driver
	device    *Device
	driver    Driver
	grapher   Grapher // nil: launches are not recorded
	sharer    Sharer  // nil: what a step is given and finds is copied
	graph     *op.Graph
	precision device.Precision
	plans     map[format.Type]*plan.Plan // by type of the cache
	weights   []Pointer                  // by Plan.Weights, alike in all plans
	loaded    map[*kernel.Variant]bool
	closed    bool
}

// plan is the plan for a type of cache; its kernels are loaded and their bounds checked.
func (m *model) plan(kv format.Type) (*plan.Plan, error) {
	if p := m.plans[kv]; p != nil {
		return p, nil
	}
	p, err := plan.New(m.graph, TargetOf(m.driver.Info()), plan.Options{Precision: m.precision, KVType: kv, Off: m.device.off})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.device.name, err)
	}
	variants, err := p.Variants()
	if err != nil {
		return nil, err
	}
	if err := m.load(variants); err != nil {
		return nil, fmt.Errorf("%s: %w", m.device.name, err)
	}
	m.plans[kv] = p
	return p, nil
}

// load loads those variants that are not there yet.
func (m *model) load(variants []*kernel.Variant) error {
	variants = slices.DeleteFunc(slices.Clone(variants), func(v *kernel.Variant) bool {
		had := m.loaded[v]
		m.loaded[v] = true
		return had
	})
	if len(variants) == 0 {
		return nil
	}
	err := LoadVariants(m.driver, variants)
	if err != nil {
		for _, v := range variants {
			delete(m.loaded, v)
		}
	}
	return err
}

// LoadVariants loads the kernels of variants and compares the bounds that each module exports with those of its gate: a kernel
// that was built from another spec is refused by name.
func LoadVariants(d Driver, variants []*kernel.Variant) error {
	return LoadSources(d, variants, nil)
}

// LoadSources is LoadVariants with sources, by name, that are not among the generated ones.
func LoadSources(d Driver, variants []*kernel.Variant, sources map[string]string) error {
	module, err := moduleOf(variants, sources)
	if err != nil {
		return err
	}
	if err := d.Load(module); err != nil {
		return err
	}
	for _, v := range variants {
		data, err := d.Symbol("minfer_bounds_" + v.Symbol)
		if err != nil {
			return fmt.Errorf("kernel %s: %w", v.Symbol, err)
		}
		if len(data) != 8*len(v.Bounds) {
			return fmt.Errorf("kernel %s exports %d bounds, its gate has %d: the kernel and the gate come from different specs, generate both anew", v.Symbol, len(data)/8, len(v.Bounds))
		}
		for i, b := range v.Bounds {
			if have := int64(binary.LittleEndian.Uint64(data[8*i:])); have != b.Value {
				return fmt.Errorf("kernel %s was built with %d where its gate has %s: they come from different specs, generate both anew", v.Symbol, have, b)
			}
		}
	}
	return nil
}

// moduleOf is the sources of variants.
func moduleOf(variants []*kernel.Variant, sources map[string]string) (Module, error) {
	m := Module{Name: "minfer", Headers: map[string]string{}}
	entries, err := cuda.Sources.ReadDir(".")
	if err != nil {
		return m, err
	}
	for _, e := range entries {
		if ext := path.Ext(e.Name()); ext == ".cuh" {
			text, err := cuda.Sources.ReadFile(e.Name())
			if err != nil {
				return m, err
			}
			m.Headers[e.Name()] = string(text)
		}
	}
	units := map[string]*Unit{}
	var names []string
	for _, v := range variants {
		u := units[v.Source]
		if u == nil {
			text, own := sources[v.Source]
			if !own {
				data, err := cuda.Sources.ReadFile(v.Source)
				if err != nil {
					return m, fmt.Errorf("kernel %s: %w", v.Symbol, err)
				}
				text = string(data)
			}
			u = &Unit{Name: v.Source, Source: text}
			units[v.Source] = u
			names = append(names, v.Source)
		}
		u.Kernels = append(u.Kernels, v.Symbol)
	}
	slices.Sort(names)
	for _, n := range names {
		m.Units = append(m.Units, *units[n])
	}
	return m, nil
}

// stagingBytes is how much of a weight is placed and uploaded at a time.
const stagingBytes = 8 << 20

// upload puts the weights into device memory.
func (m *model) upload(ctx context.Context, p *plan.Plan, progress func(done, total int64)) error {
	total, done := p.WeightBytes(), int64(0)
	var staging []byte
	stage := func(bytes int) ([]byte, error) {
		staging = slices.Grow(staging[:0], bytes)[:bytes]
		return staging, nil
	}
	if s, ok := m.driver.(Stager); ok {
		stage = s.Stage
	}
	for i := range p.Weights {
		w := &p.Weights[i]
		to, err := m.driver.Alloc(w.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Weight.Name, err)
		}
		m.weights = append(m.weights, to)
		if w.Vector {
			k, ok := cpu.For(w.Weight.Type)
			if !ok {
				return fmt.Errorf("%s has type %s, which cannot be read", w.Weight.Name, w.Weight.TypeName())
			}
			v := make([]float32, w.Weight.Rows*w.Weight.Cols)
			k.Dequantize(v, w.Weight.Data)
			if err := m.driver.Upload(to, floatBytes(v)); err != nil {
				return fmt.Errorf("%s: %w", w.Weight.Name, err)
			}
			done += w.Bytes
			continue
		}
		place, blocks := w.Placement, w.Blocks()
		row, fileRow := place.RowBytes(blocks), blocks*place.FileBlockBytes
		per := max(1, stagingBytes/row)
		for at := 0; at < w.Weight.Rows; at += per {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(per, w.Weight.Rows-at)
			placed, err := stage(n * row)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Weight.Name, err)
			}
			packRows(placed, w.Weight.Data[at*fileRow:(at+n)*fileRow], place, blocks, n)
			if err := m.driver.Upload(to+Pointer(at*row), placed); err != nil {
				return fmt.Errorf("%s: %w", w.Weight.Name, err)
			}
			done += int64(len(placed))
			if progress != nil {
				progress(done, total)
			}
		}
	}
	if progress != nil {
		progress(total, total)
	}
	return nil
}

// packRows lays rows of blocks out as a placement says, several at a time: one thread alone does not fill the link to a GPU.
func packRows(dst, src []byte, place kernel.Placement, blocks, rows int) {
	row, fileRow := place.RowBytes(blocks), blocks*place.FileBlockBytes
	parts := min(rows, runtime.GOMAXPROCS(0), max(1, len(dst)/packBytes))
	var wait sync.WaitGroup
	for i := range parts {
		from, to := rows*i/parts, rows*(i+1)/parts
		pack := func() { place.Pack(dst[from*row:to*row], src[from*fileRow:to*fileRow], blocks) }
		if i == parts-1 {
			pack()
		} else {
			wait.Go(pack)
		}
	}
	wait.Wait()
}

// packBytes is the least that is worth a thread.
const packBytes = 256 << 10

// Place lays blocks of a file out as a placement of blocks says; padding is zero.
func Place(dst, src []byte, p kernel.Placement) {
	if p.Planes != nil {
		panic("BUG: planes need to know their row")
	}
	p.Pack(dst, src, len(src)/p.FileBlockBytes)
}

func floatBytes(v []float32) []byte {
	b := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

// Routes implements device.Model.
func (m *model) Routes() []device.Route {
	launches, err := m.plans[format.F16].Step(1, 1)
	if err != nil {
		return nil
	}
	var routes []device.Route
	for _, l := range launches {
		if l.Weight == nil || l.Variant.Family == "embed" {
			continue
		}
		for _, placed := range append([]*plan.Placed{l.Weight}, l.Also...) {
			w := placed.Weight
			routes = append(routes, device.Route{Weight: w.Name, Format: w.TypeName(), Rows: w.Rows, Cols: w.Cols, Kernel: l.Variant.String(), Class: l.Variant.Class, Why: l.Why()})
		}
	}
	return routes
}

// Close implements device.Model.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	return m.release()
}

func (m *model) release() error {
	m.closed = true
	return m.driver.Close()
}

var errClosed = errors.New("model is closed")
