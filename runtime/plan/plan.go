// Package plan turns a graph into kernel launches: for each operation it asks the generated gates which variant runs its
// shape, decides once how each weight lies in device memory, and says what every launch takes and moves. It owns no bound
// and knows no device: a plan can be printed without one, and every GPU-like device runs the same.
package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// Target is what a plan must know of a machine.
type Target struct {
	Arch        int   // compute capability * 10
	SharedBytes int64 // shared memory that a block may ask for
	SMs         int   // multiprocessors; decides how many shares attention is split into
}

// Options are the choices that hold for all launches.
type Options struct {
	Precision device.Precision
	KVType    format.Type
	Off       kernel.Switches
}

// RefKind says what an argument points to.
type RefKind int

// The kinds. Index counts weights of Plan.Weights, Values of the graph, layers, or rotaries of Plan.Rotaries.
const (
	None      RefKind = iota // a null pointer
	Weight                   // Plan.Weights[Index], placed
	Value                    // Value Index, [rows, width] of f32
	Codes                    // Value Index in blocks of 8-bit activations
	Halves                   // Value Index rounded to bf16
	Keys                     // cache of layer Index
	Values                   // cache of layer Index
	IDs                      // token ids, i32
	Positions                // position of each token, i32
	Wanted                   // row of each wanted token, i32
	Sines                    // of Plan.Rotaries[Index], [context, pairs]
	Cosines                  // the same
	Partial                  // partial results of split attention
	Arrivals                 // counters of blocks, zero between launches: one for each key/value head; the first serves as the queue of rows, too
	Best                     // keys of the best logits of each run; launches write 0 and 1 in turn
	Found                    // keys of the best of all
)

// Arg is one argument of a launch: a pointer, or a number of its kernel's type.
type Arg struct {
	Ref   RefKind
	Index int
	Int   int64
	Float float32
}

// Launch is one kernel launch.
type Launch struct {
	Name     string // of the Value that it computes
	Variant  *kernel.Variant
	Query    kernel.Query
	Grid     [3]uint32
	Shared   uint32 // dynamic bytes
	Args     []Arg
	Weight   *Placed           // that it streams, or nil
	Also     []*Placed         // further weights that it streams
	Streamed int64             // bytes of weights that it reads
	Content  int64             // those of them that carry content: without padding
	Skipped  []Skip            // variants that the gate tried first
	Crossed  *kernel.Crossover // what put its numeric class before another, or nil
	// Dependent: the kernel waits for its predecessor itself, and may start before that one ends.
	Dependent bool
}

// Skip is a variant that a gate passed over.
type Skip struct {
	Variant *kernel.Variant
	Reason  string
}

// WidthError says that a layer's heads have keys and values of unlike widths, which no attention kernel takes.
type WidthError struct{ Layer, KeyElems, ValueElems int }

func (e *WidthError) Error() string {
	return fmt.Sprintf("layer %d: keys of %d elements and values of %d; the attention kernels need both alike", e.Layer, e.KeyElems, e.ValueElems)
}

// Placed is a weight and how it lies in device memory. Vectors are f32 whatever the file has.
type Placed struct {
	Weight    *op.Weight
	Layout    kernel.Layout
	Placement kernel.Placement
	Vector    bool
	Bytes     int64 // in device memory

	blocks int // of a row
}

// Blocks is the number of blocks of a row of a matrix.
func (p *Placed) Blocks() int { return p.blocks }

// Plan is a graph whose every operation has a kernel.
type Plan struct {
	Graph    *op.Graph
	Target   Target
	Options  Options
	Weights  []Placed
	Rotaries []*op.Rotary
	Shares   int // of the context, for decode attention

	weight map[*op.Weight]int
	rotary map[*op.Rotary]int
	fused  map[int]*fusion // by operation: of one token

	readers map[op.Value][]int // operations, by what they read
}

// prefillTokens is the number of tokens from which attention goes over the keys once for a tile of tokens.
const prefillTokens = 8

// tileTokens is the number of tokens from which products of 8-bit class go to tensor cores, where a kernel covers the matrix: tiles of
// fewer would be mostly empty. Weights and activations are bf16 there, which lies nearer to the exact product than 8 bits do.
const tileTokens = 32

// Shares is into how many shares the context is split for each head of the cache: two blocks on each multiprocessor, 32 shares at most.
func Shares(sms, kvHeads int) int { return min(32, max(1, (2*sms+kvHeads-1)/kvHeads)) }

// New plans a valid graph. An operation without a kernel is refused with each variant's reason.
func New(g *op.Graph, t Target, o Options) (*Plan, error) {
	p := &Plan{Graph: g, Target: t, Options: o, weight: map[*op.Weight]int{}, rotary: map[*op.Rotary]int{}, readers: map[op.Value][]int{}}
	kvHeads := 1
	for i, x := range g.Ops {
		for _, v := range x.Reads() {
			p.readers[v] = append(p.readers[v], i)
		}
		if a, ok := x.(op.Attend); ok {
			kvHeads = a.KVHeads
			if a.KeyDim != a.ValueDim {
				return nil, &WidthError{a.Layer, a.KeyDim, a.ValueDim}
			}
		}
		if r, ok := x.(op.RoPE); ok {
			if _, known := p.rotary[r.Rotary]; !known {
				p.rotary[r.Rotary] = len(p.Rotaries)
				p.Rotaries = append(p.Rotaries, r.Rotary)
			}
		}
	}
	p.Shares = Shares(t.SMs, kvHeads)
	for _, w := range g.Weights() {
		placed, err := p.place(w)
		if err != nil {
			return nil, err
		}
		p.weight[w] = len(p.Weights)
		p.Weights = append(p.Weights, placed)
	}
	p.fused = p.fuse()
	// Both shapes of a step must have kernels before any weight is uploaded.
	for _, tokens := range []int{1, prefillTokens} {
		if _, err := p.Step(tokens, 1); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// layouts are the layouts that a weight may have, the preferred first.
var layouts = []kernel.Layout{"lanes", "planes", "padded", "file"}

// place chooses the layout of a weight: the first that every use of it has a kernel for.
func (p *Plan) place(w *op.Weight) (Placed, error) {
	matrix := false
	for _, x := range p.Graph.Ops {
		switch x := x.(type) {
		case op.Embed:
			matrix = matrix || x.Table == w
		case op.MatMul:
			matrix = matrix || x.Weight == w
		}
	}
	if !matrix {
		return Placed{Weight: w, Vector: true, Bytes: 4 * int64(w.Rows) * int64(w.Cols)}, nil
	}
	info, ok := format.Lookup(w.Type)
	if !ok {
		return Placed{}, fmt.Errorf("%s has the unknown type %d", w.Name, w.Type)
	}
	var refused error
	for _, l := range layouts {
		place, ok := gate.Placements[info.Name][l]
		if !ok {
			continue
		}
		if refused = p.usable(w, l); refused == nil {
			placed := Placed{Weight: w, Layout: l, Placement: place, blocks: w.Cols / info.BlockElems}
			placed.Bytes = int64(w.Rows) * int64(place.RowBytes(placed.blocks))
			return placed, nil
		}
	}
	if refused == nil {
		refused = fmt.Errorf("no kernel reads format %s", info.Name)
	}
	return Placed{}, fmt.Errorf("%s [%d, %d]: %w", w.Name, w.Rows, w.Cols, refused)
}

// usable reports whether every operation on the weight has a kernel for the layout, for one token and for several.
func (p *Plan) usable(w *op.Weight, l kernel.Layout) error {
	for _, x := range p.Graph.Ops {
		for _, tokens := range []int{1, prefillTokens} {
			var err error
			switch x := x.(type) {
			case op.Embed:
				if x.Table == w {
					_, _, _, err = p.pick("embed", "", w, kernel.Query{Cols: int64(w.Cols), Tokens: int64(tokens), Weights: l})
				}
			case op.MatMul:
				if x.Weight == w {
					_, _, _, err = p.matmul(w, tokens, l)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// class is the numeric class of products with a weight.
func (p *Plan) class(w *op.Weight) string {
	info, _ := format.Lookup(w.Type)
	if p.Options.Precision == device.F32 || info.BlockElems == 1 || p.crossover(w) != nil {
		return string(device.F32)
	}
	return string(device.Q8)
}

// crossover is what puts f32 activations before 8-bit ones in products with a weight, where the class is left to measurements. It is
// asked for one token and holds for any number, so that a weight has one class.
func (p *Plan) crossover(w *op.Weight) *kernel.Crossover {
	if p.Options.Precision != device.Auto {
		return nil
	}
	q := p.productQuery(w, 1, "")
	q.Arch = p.Target.Arch
	for _, e := range find("matmul", string(device.F32), w) {
		if x := e.Overtakes(string(device.Q8), &q); x != nil {
			return x
		}
	}
	return nil
}

// matmul picks the kernel of a product for a number of tokens.
func (p *Plan) matmul(w *op.Weight, tokens int, l kernel.Layout) (*kernel.Variant, kernel.Query, []Skip, error) {
	return p.choose(p.productGates(w, tokens), "matmul", p.productQuery(w, tokens, l))
}

// productGates is the gates of a product with a weight, in the order in which they are asked: several tokens share each decoded unit, many
// go to tensor cores.
func (p *Plan) productGates(w *op.Weight, tokens int) []*kernel.Entry {
	class := p.class(w)
	if tokens > 1 {
		tile := find("matmul-tile", class, w)
		if tokens >= tileTokens && class == string(device.Q8) {
			tile = append(find("matmul-tile", "bf16", w), tile...)
		}
		if len(tile) > 0 {
			return tile
		}
	}
	return find("matmul", class, w)
}

// productQuery is what the gates are asked. Kernels that share the rows out give every multiprocessor a run of them.
func (p *Plan) productQuery(w *op.Weight, tokens int, l kernel.Layout) kernel.Query {
	return kernel.Query{Rows: int64(w.Rows), Cols: int64(w.Cols), Tokens: int64(tokens), Weights: l, Shares: int64(max(1, p.Target.SMs))}
}

// find is the gates of an op for a class (any, if empty) and the format of a weight (none, if nil).
func find(name, class string, w *op.Weight) []*kernel.Entry {
	f := ""
	if w != nil {
		info, _ := format.Lookup(w.Type)
		f = info.Name
	}
	return findFormat(name, class, f)
}

func findFormat(name, class, f string) (found []*kernel.Entry) {
	for _, e := range gate.All {
		if e.Op == name && e.Format == f && (class == "" || e.Class == class) {
			found = append(found, e)
		}
	}
	return found
}

func (p *Plan) pick(name, class string, w *op.Weight, q kernel.Query) (*kernel.Variant, kernel.Query, []Skip, error) {
	return p.choose(find(name, class, w), name, q)
}

// choose asks gates, with the machine filled in: the first that admits the query has it.
func (p *Plan) choose(gates []*kernel.Entry, name string, q kernel.Query) (*kernel.Variant, kernel.Query, []Skip, error) {
	q.Arch, q.SharedBytes, q.Off = p.Target.Arch, p.Target.SharedBytes, p.Options.Off
	if len(gates) == 0 {
		return nil, q, nil, fmt.Errorf("no kernel computes %s of this format", name)
	}
	var skipped []Skip
	var refused error
	for _, e := range gates {
		v := e.Choose(&q, func(v *kernel.Variant, reason string) {
			if reason != "" {
				skipped = append(skipped, Skip{v, reason})
			}
		})
		if v != nil {
			return v, q, skipped, nil
		}
		_, err := e.Pick(&q)
		refused = errors.Join(refused, err)
	}
	return nil, q, nil, refused
}

// Slots assigns a buffer to each Value, as Graph.Slots does: good for a step of any number of tokens, fused or not.
func (p *Plan) Slots() (slots []op.Slot, of []int) {
	until := map[op.Value]int{}
	hold := func(v op.Value, i int) { until[v] = max(until[v], i) }
	for _, f := range p.fused {
		for _, v := range f.reads {
			hold(v, f.at())
		}
	}
	// A step of one token reads what it would select in its place.
	for k := len(p.Graph.Ops) - 1; k >= 0; k-- {
		sel, ok := p.Graph.Ops[k].(op.Select)
		if !ok {
			continue
		}
		for i, x := range p.Graph.Ops {
			for _, v := range x.Reads() {
				if v == sel.Out {
					hold(sel.In, i)
				}
			}
		}
		hold(sel.In, until[sel.Out])
	}
	return p.Graph.SlotsHolding(until)
}

// WeightBytes is the device memory of all weights.
func (p *Plan) WeightBytes() int64 {
	var n int64
	for _, w := range p.Weights {
		n += w.Bytes
	}
	return n
}

// Variants lists the kernels of the plan, each once: those of a decode step, of a prompt's chunk, of the few tokens between, and those that
// find the largest logits.
func (p *Plan) Variants() ([]*kernel.Variant, error) {
	var all []*kernel.Variant
	add := func(launches []Launch) {
		for _, l := range launches {
			if !slices.Contains(all, l.Variant) {
				all = append(all, l.Variant)
			}
		}
	}
	for _, tokens := range []int{1, 2, prefillTokens, tileTokens} {
		launches, err := p.Step(tokens, 1)
		if err != nil {
			return nil, err
		}
		add(launches)
		if tokens == tileTokens {
			add(p.alternatives(launches))
		}
	}
	for _, k := range []int{1, min(2, p.Graph.Vocab)} { // one is found by a kernel of its own, more by others
		launches, _, err := p.Top(k)
		if err != nil {
			return nil, err
		}
		add(launches)
		add(p.alternatives(launches)) // which of them comes first turns on the number
	}
	return all, nil
}

// alternatives is launches by the other variants that their gates admit: which comes first may turn on the number of tokens.
func (p *Plan) alternatives(launches []Launch) (all []Launch) {
	for _, l := range launches {
		for _, e := range gate.All {
			if e.Family != l.Variant.Family || e.Format != l.Variant.Format {
				continue
			}
			for i := range e.Steps {
				if v := e.Steps[i].Variant; e.Steps[i].Refuse(&l.Query) < 0 && !p.Options.Off[v.Switch] {
					all = append(all, Launch{Variant: v, Query: l.Query})
				}
			}
		}
	}
	return all
}

// Why says how the launch came to its kernel.
func (l *Launch) Why() string {
	s := "first choice"
	if first := l.Variant.Measured(&l.Query); first != nil {
		s = "the fastest here: " + first.Why
	}
	for i, k := range l.Skipped {
		if i == 0 && s == "first choice" {
			s = ""
		} else {
			s += "; "
		}
		s += "not " + k.Variant.Name + ": " + k.Reason
	}
	if l.Crossed != nil {
		s += "; before class " + l.Crossed.Class + ": " + l.Crossed.Why
	}
	return s
}
