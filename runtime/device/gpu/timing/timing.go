// Package timing times single kernels: how fast each variant of a family streams a matrix that is in no cache.
package timing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/plan"
)

// Options say how it is timed; the zero value is good for a GPU.
type Options struct {
	PoolBytes int64 // of copies of the matrix that launches rotate over: beyond what any cache holds
	Launches  int   // at most, in one recording
	Replays   int   // of the recording; the median counts
}

// Case is one matrix product or attention, of one token unless it says otherwise.
type Case struct {
	Name       string // "7B gate"
	Family     string // "matvec-ring-q8"
	Format     string
	Rows, Cols int64 // of one matrix; families of pairs take two
	Tokens     int64 // 0: one
	// Of attention: heads of 128 elements, and the positions before the first token.
	KVHeads, Group, Depth int64
}

// headDim is the width of a head.
const headDim = 128

// Rate is the time of one variant.
type Rate struct {
	Case      Case
	Variant   *kernel.Variant
	Bytes     int64 // streamed by a launch
	Micros    float64
	Dependent bool // launches may overlap
	Err       error
}

// GBs is the rate in 10^9 bytes a second.
func (r Rate) GBs() float64 { return float64(r.Bytes) / r.Micros * 1e-3 }

func (r Rate) String() string {
	if r.Err != nil {
		return fmt.Sprintf("%-12s %-34s %v", r.Case.Name, r.Case.Family+"/"+r.Case.Format, r.Err)
	}
	how := "one by one"
	if r.Dependent {
		how = "overlapping"
	}
	s := fmt.Sprintf("%-12s %-34s %-11s %8.2f us %6.0f GB/s", r.Case.Name, r.Variant, how, r.Micros, r.GBs())
	if r.Case.Tokens > 1 {
		s += fmt.Sprintf(" %6.1f TFLOP/s", r.TFLOPs())
	}
	return s
}

// TFLOPs is the rate in 10^12 operations a second, a product and its addition being two. Attention has as many as its tokens have positions.
func (r Rate) TFLOPs() float64 {
	c := r.Case
	products := c.Rows * c.Cols * c.Tokens
	if c.KVHeads > 0 {
		products = 2 * headDim * c.KVHeads * c.Group * c.Tokens * (2*c.Depth + c.Tokens + 1) / 2
	}
	return 2 * float64(products) / r.Micros * 1e-6
}

// Shapes are the products of a decode step of Qwen2.5 7B and 14B, of the families that take them.
func Shapes() (cases []Case) {
	for _, m := range []struct {
		name                   string
		embd, ff, qkv, rounded int64
		kvHeads, group         int64
	}{{"7B", 3584, 18944, 4608, 152064, 4, 7}, {"14B", 5120, 13824, 7168, 152064, 8, 5}} {
		for _, f := range []string{"q4_K", "q6_K"} {
			for _, family := range []string{"matvec-q8", "matvec-ring-q8", "project-ring-q8"} {
				cases = append(cases, Case{Name: m.name + " down", Family: family, Format: f, Rows: m.embd, Cols: m.ff})
				if f == "q6_K" {
					cases = append(cases, Case{Name: m.name + " head", Family: family, Format: f, Rows: m.rounded, Cols: m.embd})
					continue
				}
				for _, w := range []Case{{Name: " qkv", Rows: m.qkv}, {Name: " o", Rows: m.embd}, {Name: " gate+up", Rows: 2 * m.ff}} {
					cases = append(cases, Case{Name: m.name + w.Name, Family: family, Format: f, Rows: w.Rows, Cols: m.embd})
				}
			}
		}
		cases = append(cases, Case{Name: m.name + " gate+up", Family: "gate-ring-q8", Format: "q4_K", Rows: m.ff, Cols: m.embd})
		for _, depth := range []int64{0, 128, 512, 3254} {
			for _, k := range []struct{ family, format string }{{"attend-step-mma", "f16"}, {"attend-step", "f16"}, {"attend-step", "q8_0"}} {
				cases = append(cases, Case{Name: fmt.Sprintf("%s at %d", m.name, depth), Family: k.family, Format: k.format, KVHeads: m.kvHeads, Group: m.group, Depth: depth})
			}
		}
	}
	return cases
}

// Prefill is the products and the attention of 512 tokens of Qwen2.5 7B and 14B, on tensor cores and without.
func Prefill() (cases []Case) {
	for _, m := range []struct {
		name                         string
		embd, kv, ff, kvHeads, group int64
	}{{"7B prefill", 3584, 512, 18944, 4, 7}, {"14B prefill", 5120, 1024, 13824, 8, 5}} {
		for _, f := range []string{"q4_K", "q6_K"} {
			for _, family := range []string{"matmul-wgmma", "matmul-bf16", "matmul-q8"} {
				for _, w := range []Case{{Name: " kv", Rows: m.kv, Cols: m.embd}, {Name: " qo", Rows: m.embd, Cols: m.embd}, {Name: " gate", Rows: m.ff, Cols: m.embd}, {Name: " down", Rows: m.embd, Cols: m.ff}} {
					w.Name, w.Family, w.Format, w.Tokens = m.name+w.Name, family, f, 512
					cases = append(cases, w)
				}
			}
		}
		for _, depth := range []int64{0, 3072} {
			for _, family := range []string{"attend-mma", "attend-prefill"} {
				cases = append(cases, Case{Name: fmt.Sprintf("%s at %d", m.name, depth), Family: family, Format: "f16", KVHeads: m.kvHeads, Group: m.group, Depth: depth, Tokens: 512})
			}
		}
	}
	return cases
}

// Crossover lists sizes on either side of where one family of products may overtake another: those with f32 activations, and
// those with 8-bit ones, whose quantizer is a launch of its own.
func Crossover() (cases []Case) {
	for _, f := range []string{"q4_K", "q6_K"} {
		for _, cols := range []int64{1024, 3584, 5120, 18944} {
			for _, rows := range []int64{256, 512, 1024, 2048, 4096, 8192, 32768} {
				for _, family := range []string{"matvec-f32", "matvec-q8", "matvec-ring-q8"} {
					cases = append(cases, Case{Name: "crossover", Family: family, Format: f, Rows: rows, Cols: cols})
				}
			}
		}
	}
	return cases
}

// layouts are tried in this order: the first that some variant reads is timed.
var layouts = []kernel.Layout{"lanes", "planes", "padded", "file"}

// Timer times kernels on a driver, out of one pool of memory.
type Timer struct {
	driver  gpu.Driver
	options Options
	pool    gpu.Pointer
	room    int64 // bytes of the pool
}

// New fills a pool on a driver. What the weights in it are makes no difference in time.
func New(d gpu.Driver, o Options) (*Timer, error) {
	t := &Timer{driver: d, options: o}
	return t, t.grow(o.PoolBytes)
}

// grow makes the pool hold at least so many bytes.
func (t *Timer) grow(bytes int64) (err error) {
	if bytes <= t.room {
		return nil
	}
	if err := t.driver.Free(t.pool); err != nil {
		return err
	}
	if t.pool, err = t.driver.Alloc(bytes); err != nil {
		return err
	}
	t.room = bytes
	chunk := make([]byte, min(bytes, 16<<20))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range chunk {
		chunk[i] = byte(r.Uint32())
	}
	for at := int64(0); at < bytes; at += int64(len(chunk)) {
		n := min(int64(len(chunk)), bytes-at)
		if err := t.driver.Upload(t.pool+gpu.Pointer(at), chunk[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Time times the variant that the case's gate chooses, launches one by one and, where its body allows it, overlapping.
func (t *Timer) Time(c Case) []Rate {
	d := t.driver
	fail := func(err error) []Rate { return []Rate{{Case: c, Err: err}} }
	i := slices.IndexFunc(gate.All, func(e *kernel.Entry) bool { return e.Family == c.Family && e.Format == c.Format })
	if i < 0 {
		return fail(fmt.Errorf("no family %s has format %s", c.Family, c.Format))
	}
	info := d.Info()
	q := kernel.Query{Rows: c.Rows, Cols: c.Cols, Tokens: max(1, c.Tokens), Shares: int64(info.SMs), Arch: info.Arch, SharedBytes: int64(info.SharedOptInBytes)}
	if c.KVHeads > 0 {
		q.KVHeads, q.Group, q.Heads, q.HeadDim, q.Context = c.KVHeads, c.Group, c.KVHeads*c.Group, headDim, c.Depth+q.Tokens
		q.Shares = int64(plan.Shares(info.SMs, int(c.KVHeads)))
	}
	var v *kernel.Variant
	var err error
	for _, l := range layouts {
		q.Weights = l
		if v, err = gate.All[i].Pick(&q); v != nil {
			break
		}
	}
	if v == nil {
		return fail(err)
	}
	if err := gpu.LoadVariants(d, []*kernel.Variant{v}); err != nil {
		return fail(err)
	}
	var rates []Rate
	for _, dependent := range []bool{false, true} {
		if dependent && !v.Awaits {
			continue
		}
		b, err := t.Bench(v, q, c.Depth, dependent)
		if err != nil {
			return fail(err)
		}
		micros, err := b.median(t.options.Replays)
		b.Close()
		rates = append(rates, Rate{Case: c, Variant: v, Bytes: b.Bytes, Micros: micros, Dependent: dependent, Err: err})
	}
	return rates
}

// Bench is one variant on its memory: launches over copies of its matrix, recorded once where the driver can.
type Bench struct {
	Bytes int64 // of weights, or of keys and values, that a launch streams; the pool has copies of them

	timer   *Timer
	variant *kernel.Variant
	query   kernel.Query
	run     func() error
	n       int64       // launches of a run
	copies  int64       // in the pool
	stride  int64       // from one copy to the next
	half    int64       // from a matrix to the one that it is paired with, in a copy
	scratch gpu.Pointer // activations and outputs
	out     int64       // in scratch: outputs
	turns   int64       // in scratch: sines and cosines
	partial int64       // in scratch: partial results, then counters

	positions gpu.Pointer
	counter   gpu.Pointer // zero between launches
	graph     gpu.Graph
	owned     []gpu.Pointer // to free
}

// Bench prepares a variant, whose kernel is loaded, for a query that its gate admits. depth is the positions before the first token, of attention. It
// must be closed before another is made for a larger matrix.
func (t *Timer) Bench(v *kernel.Variant, q kernel.Query, depth int64, dependent bool) (*Bench, error) {
	b := &Bench{timer: t, variant: v, query: q}
	if err := b.prepare(depth); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.n = max(8, min(int64(t.options.Launches), b.copies))
	b.run = func() error {
		for i := range b.n {
			if err := t.driver.Launch(b.launch(i, dependent && i > 0)); err != nil {
				return err
			}
		}
		return nil
	}
	if g, ok := t.driver.(gpu.Grapher); ok {
		graph, err := g.Capture(b.run)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		b.graph, b.run = graph, graph.Replay
	}
	return b, nil
}

// Once is the time of a launch in one run of them, in microseconds. The first run warms up.
func (b *Bench) Once() (float64, error) {
	if err := b.timer.driver.Sync(); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := b.run(); err != nil {
		return 0, err
	}
	if err := b.timer.driver.Sync(); err != nil {
		return 0, err
	}
	return float64(time.Since(start).Nanoseconds()) / 1e3 / float64(b.n), nil
}

// median is that of some runs, after one that warms up.
func (b *Bench) median(runs int) (float64, error) {
	var all []float64
	for range 1 + max(1, runs) {
		micros, err := b.Once()
		if err != nil {
			return 0, err
		}
		all = append(all, micros)
	}
	all = all[1:]
	slices.Sort(all)
	return all[len(all)/2], nil
}

// Close frees what the bench has beside the pool.
func (b *Bench) Close() error {
	var err error
	if b.graph != nil {
		err = b.graph.Close()
	}
	for _, p := range b.owned {
		err = errors.Join(err, b.timer.driver.Free(p))
	}
	b.graph, b.owned = nil, nil
	return err
}

func (b *Bench) alloc(bytes int64) (p gpu.Pointer, err error) {
	if p, err = b.timer.driver.Alloc(bytes); err == nil {
		b.owned = append(b.owned, p)
	}
	return p, err
}

// takes reports whether the kernel has an argument.
func (b *Bench) takes(name string) bool {
	return slices.ContainsFunc(b.variant.Args, func(a kernel.Arg) bool { return a.Name == name })
}

func (b *Bench) prepare(depth int64) (err error) {
	q, d := &b.query, b.timer.driver
	info, ok := format.ByName(b.variant.Format)
	if !ok || q.KVHeads == 0 && !b.takes("w") && !b.takes("w0") {
		return fmt.Errorf("%s streams no matrix and no cache, so there is no way to time it", b.variant)
	}
	tokens := max(1, q.Tokens)
	var scratch int64
	if q.KVHeads > 0 {
		// A copy is the keys and the values of a context.
		row := q.KVHeads * q.HeadDim / int64(info.BlockElems) * int64(info.BlockBytes)
		b.Bytes, b.half = 2*(depth+tokens-1)*row, ((depth+tokens)*row+255)/256*256
		b.stride = 2 * b.half
		heads := q.KVHeads * q.Group
		b.out = 4 * tokens * q.HeadDim * heads
		b.turns = 2 * b.out // after queries and outputs: sines and cosines of each position
		b.partial = b.turns + 4*q.HeadDim*(depth+tokens)
		scratch = b.partial + 4*tokens*heads*q.Shares*(q.HeadDim+2) + 4*q.KVHeads
	} else {
		place := gate.Placements[b.variant.Format][b.variant.Weights]
		matrix := q.Rows * int64(place.RowBytes(int(q.Cols)/info.BlockElems))
		b.Bytes, b.half = matrix, (matrix+255)/256*256
		b.stride = b.half
		if b.takes("w_up") {
			b.Bytes, b.stride = 2*matrix, 2*b.half
		}
		b.out = 8 * tokens * q.Cols
		scratch = b.out + 8*tokens*q.Rows
	}
	b.copies = max(1, b.timer.options.PoolBytes/b.stride)
	if err := b.timer.grow(b.copies * b.stride); err != nil {
		return err
	}
	if b.scratch, err = b.alloc(scratch); err != nil {
		return err
	}
	if b.positions, err = b.alloc(4 * tokens); err != nil {
		return err
	}
	var positions []byte
	for i := range tokens {
		positions = binary.LittleEndian.AppendUint32(positions, uint32(depth+i))
	}
	if b.counter, err = b.alloc(4); err != nil {
		return err
	}
	return errors.Join(d.Fill(b.scratch, 0, scratch), d.Fill(b.counter, 0, 4), d.Upload(b.positions, positions))
}

// launch is the launch on copy i.
func (b *Bench) launch(i int64, dependent bool) gpu.Launch {
	q, v := &b.query, b.variant
	l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(q), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(q), Dependent: dependent}
	w := b.timer.pool + gpu.Pointer(i%b.copies*b.stride)
	at := func(offset int64) gpu.Arg { return gpu.PointerArg(b.scratch + gpu.Pointer(offset)) }
	args := map[string]gpu.Arg{
		"w": gpu.PointerArg(w), "w0": gpu.PointerArg(w), "w_up": gpu.PointerArg(w + gpu.Pointer(b.half)), "x": at(0), "norm": at(0), "y": at(b.out), "y0": at(b.out),
		"rows": gpu.I32(int32(q.Rows)), "rows0": gpu.I32(int32(q.Rows)), "rows1": gpu.I32(0), "rows2": gpu.I32(0), "cols": gpu.I32(int32(q.Cols)),
		"tokens": gpu.I32(int32(q.Tokens)), "y_stride": gpu.I64(q.Rows), "eps": gpu.F32(1e-6),
		"q": at(0), "k": at(0), "v": at(0), "out": at(b.out), "keys": gpu.PointerArg(w), "values": gpu.PointerArg(w + gpu.Pointer(b.half)),
		"positions": gpu.PointerArg(b.positions), "sines": at(b.turns), "cosines": at(b.turns), "partial": at(b.partial),
		"arrivals": at(b.partial + 4*q.KVHeads*q.Group*q.Shares*(q.HeadDim+2)), "heads": gpu.I32(int32(q.Heads)), "kv_heads": gpu.I32(int32(q.KVHeads)), "group": gpu.I32(int32(q.Group)),
		"head_dim": gpu.I32(int32(q.HeadDim)), "dims": gpu.I32(int32(q.HeadDim)), "adjacent": gpu.I32(0), "scale": gpu.F32(0.0883883), "claims": gpu.PointerArg(b.counter),
	}
	if !b.takes("keys") { // the cache itself
		args["k"], args["v"] = args["keys"], args["values"]
	}
	for _, a := range v.Args {
		arg, ok := args[a.Name]
		if !ok {
			arg = gpu.PointerArg(0)
		}
		l.Args = append(l.Args, arg)
	}
	return l
}
