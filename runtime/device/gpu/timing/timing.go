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
			cases = append(cases, Case{Name: fmt.Sprintf("%s at %d", m.name, depth), Family: "attend-step", Format: "f16", KVHeads: m.kvHeads, Group: m.group, Depth: depth})
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
			for _, family := range []string{"matmul-bf16", "matmul-q8"} {
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
		q.Shares = max(1, min(32, q.Shares/c.KVHeads))
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
	b := bench{Timer: t, variant: v, query: q}
	defer b.free()
	if err := b.prepare(c); err != nil {
		return fail(err)
	}
	var rates []Rate
	for _, dependent := range []bool{false, true} {
		if dependent && !v.Awaits {
			continue
		}
		micros, err := b.time(dependent)
		rates = append(rates, Rate{Case: c, Variant: v, Bytes: b.bytes, Micros: micros, Dependent: dependent, Err: err})
	}
	return rates
}

// bench is one variant on its memory.
type bench struct {
	*Timer
	variant *kernel.Variant
	query   kernel.Query
	bytes   int64       // of weights that a launch streams; the pool has copies of them
	copies  int64       // in the pool
	stride  int64       // from one copy to the next
	half    int64       // from a matrix to the one that it is paired with, in a copy
	scratch gpu.Pointer // activations and outputs
	turns   int64       // in scratch: sines and cosines
	partial int64       // in scratch: partial results, then counters

	positions gpu.Pointer
	owned     []gpu.Pointer // to free
}

func (b *bench) alloc(bytes int64) (p gpu.Pointer, err error) {
	if p, err = b.driver.Alloc(bytes); err == nil {
		b.owned = append(b.owned, p)
	}
	return p, err
}

func (b *bench) free() {
	for _, p := range b.owned {
		b.driver.Free(p)
	}
}

// takes reports whether the kernel has an argument.
func (b *bench) takes(name string) bool {
	return slices.ContainsFunc(b.variant.Args, func(a kernel.Arg) bool { return a.Name == name })
}

func (b *bench) prepare(c Case) (err error) {
	info, _ := format.ByName(c.Format)
	place := gate.Placements[c.Format][b.variant.Weights]
	matrix := c.Rows * int64(place.RowBytes(int(c.Cols)/info.BlockElems)) // 0 of attention
	b.bytes, b.half = matrix, (matrix+255)/256*256
	b.stride = b.half
	if b.takes("w_up") {
		b.bytes, b.stride = 2*matrix, 2*b.half
	}
	scratch := 8 * (c.Rows + c.Cols) * b.query.Tokens
	if c.KVHeads > 0 {
		// A copy is the keys and the values of a context.
		b.bytes = 2 * c.Depth * c.KVHeads * headDim * 2
		if c.Tokens > 0 {
			b.bytes = 2 * b.query.Context * c.KVHeads * headDim * 2
		}
		b.half = b.query.Context * c.KVHeads * headDim * 2
		b.stride = 2 * b.half
		heads := c.KVHeads * c.Group
		b.turns = 4 * 2 * headDim * heads * b.query.Tokens // after queries and outputs: sines and cosines of one position at the depth
		b.partial = b.turns + 4*headDim*b.query.Context
		scratch = b.partial + 4*heads*b.query.Shares*(headDim+2) + 4*c.KVHeads
	}
	b.copies = max(1, b.options.PoolBytes/b.stride)
	if err := b.grow(b.copies * b.stride); err != nil {
		return err
	}
	if b.scratch, err = b.alloc(scratch); err != nil {
		return err
	}
	var positions []byte
	for i := range b.query.Tokens {
		positions = binary.LittleEndian.AppendUint32(positions, uint32(c.Depth+i))
	}
	if b.positions, err = b.alloc(int64(len(positions))); err != nil {
		return err
	}
	return errors.Join(b.driver.Fill(b.scratch, 0, scratch), b.driver.Upload(b.positions, positions))
}

// launch is the launch on copy i.
func (b *bench) launch(i int64, dependent bool) gpu.Launch {
	q, v := &b.query, b.variant
	l := gpu.Launch{Kernel: v.Symbol, Grid: v.Grid(q), Block: [3]uint32{v.Threads, 1, 1}, SharedBytes: v.Shared(q), Dependent: dependent}
	w := b.pool + gpu.Pointer(i%b.copies*b.stride)
	for _, a := range v.Args {
		switch a.Name {
		case "w", "w0":
			l.Args = append(l.Args, gpu.PointerArg(w))
		case "w_up":
			l.Args = append(l.Args, gpu.PointerArg(w+gpu.Pointer(b.half)))
		case "x", "norm":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch))
		case "y", "y0":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch+gpu.Pointer(8*q.Cols*q.Tokens)))
		case "rows", "rows0":
			l.Args = append(l.Args, gpu.I32(int32(q.Rows)))
		case "cols":
			l.Args = append(l.Args, gpu.I32(int32(q.Cols)))
		case "tokens":
			l.Args = append(l.Args, gpu.I32(int32(q.Tokens)))
		case "y_stride":
			l.Args = append(l.Args, gpu.I64(q.Rows))
		case "eps":
			l.Args = append(l.Args, gpu.F32(1e-6))
		case "rows1", "rows2", "adjacent":
			l.Args = append(l.Args, gpu.I32(0))
		case "q":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch))
		case "keys", "values", "k", "v": // k and v are of the cache, or, where keys and values are, of the token alone
			p := w
			if a.Name == "values" || a.Name == "v" {
				p += gpu.Pointer(b.half)
			}
			if len(a.Name) == 1 && b.takes("keys") {
				p = b.scratch
			}
			l.Args = append(l.Args, gpu.PointerArg(p))
		case "out":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch+gpu.Pointer(4*headDim*q.Heads*q.Tokens)))
		case "positions":
			l.Args = append(l.Args, gpu.PointerArg(b.positions))
		case "sines", "cosines":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch+gpu.Pointer(b.turns)))
		case "partial":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch+gpu.Pointer(b.partial)))
		case "arrivals":
			l.Args = append(l.Args, gpu.PointerArg(b.scratch+gpu.Pointer(b.partial+4*q.Heads*q.Shares*(headDim+2))))
		case "heads":
			l.Args = append(l.Args, gpu.I32(int32(q.Heads)))
		case "kv_heads":
			l.Args = append(l.Args, gpu.I32(int32(q.KVHeads)))
		case "group":
			l.Args = append(l.Args, gpu.I32(int32(q.Group)))
		case "head_dim", "dims":
			l.Args = append(l.Args, gpu.I32(headDim))
		case "scale":
			l.Args = append(l.Args, gpu.F32(0.0883883))
		default:
			l.Args = append(l.Args, gpu.PointerArg(0))
		}
	}
	return l
}

// time is the median over the replays of the time of a launch, in microseconds.
func (b *bench) time(dependent bool) (float64, error) {
	n := max(8, min(int64(b.options.Launches), b.copies))
	record := func() error {
		for i := range n {
			if err := b.driver.Launch(b.launch(i, dependent && i > 0)); err != nil {
				return err
			}
		}
		return nil
	}
	run := record
	if g, ok := b.driver.(gpu.Grapher); ok {
		graph, err := g.Capture(record)
		if err != nil {
			return 0, err
		}
		defer graph.Close()
		run = graph.Replay
	}
	var all []float64
	for range 1 + max(1, b.options.Replays) {
		if err := b.driver.Sync(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if err := b.driver.Sync(); err != nil {
			return 0, err
		}
		all = append(all, float64(time.Since(start).Nanoseconds())/1e3/float64(n))
	}
	all = all[1:] // the first warms up
	slices.Sort(all)
	return all[len(all)/2], nil
}
