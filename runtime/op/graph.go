package op

import "github.com/minfer/minfer/generated/format"

// KV is the shape of one layer of the cache: the elements that a token leaves there.
type KV struct {
	KeyWidth, ValueWidth int
}

// Graph is what a model computes for a step of any number of tokens: from token ids, and the cache that earlier
// steps left, to the logits of the wanted tokens.
type Graph struct {
	Arch    string // "qwen2"
	Name    string // general.name of the file; may be empty
	Vocab   int    // rows of the token table, width of the logits
	Context int    // tokens that the model was trained for
	KV      []KV   // by layer
	Values  []ValueInfo
	Ops     []Op
	Logits  Value
	Notes   []string // what the file declares that has no effect here, a sentence each
	// Release, if not nil, takes back bytes of weights that a device has no need of for now, because it keeps a copy. They
	// stay readable: the memory goes to whoever needs it, and comes back from the file. Several goroutines may call it.
	Release func(data []byte)
}

// NewValue adds a Value.
func (g *Graph) NewValue(name string, width int, rows Rows) Value {
	g.Values = append(g.Values, ValueInfo{name, width, rows})
	return Value(len(g.Values) - 1)
}

// like adds a Value with the rows of v. An unknown v is left for Validate to name.
func (g *Graph) like(v Value, name string, width int) Value {
	rows := PerToken
	if v >= 0 && int(v) < len(g.Values) {
		rows = g.Values[v].Rows
	}
	return g.NewValue(name, width, rows)
}

func (g *Graph) width(v Value) int {
	if v < 0 || int(v) >= len(g.Values) {
		return 0
	}
	return g.Values[v].Width
}

// The methods below append one operation each and return the Value that it writes, which gets the given name and the
// shape that follows from the operands. They check nothing: Validate does, once, over the whole graph.

// Embed appends an Embed.
func (g *Graph) Embed(name string, table *Weight) Value {
	out := g.NewValue(name, table.Cols, PerToken)
	g.Ops = append(g.Ops, Embed{table, out})
	return out
}

// RMSNorm appends an RMSNorm over groups as wide as the weight.
func (g *Graph) RMSNorm(name string, in Value, w *Weight, eps float32) Value {
	out := g.like(in, name, g.width(in))
	g.Ops = append(g.Ops, RMSNorm{In: in, Out: out, Weight: w, Group: w.Cols, Eps: eps})
	return out
}

// MatMul appends a MatMul; bias may be nil.
func (g *Graph) MatMul(name string, in Value, w, bias *Weight) Value {
	out := g.like(in, name, w.Rows)
	g.Ops = append(g.Ops, MatMul{In: in, Out: out, Weight: w, Bias: bias})
	return out
}

// RoPE appends a RoPE.
func (g *Graph) RoPE(name string, in Value, headDim int, r *Rotary) Value {
	out := g.like(in, name, g.width(in))
	g.Ops = append(g.Ops, RoPE{In: in, Out: out, HeadDim: headDim, Rotary: r})
	return out
}

// KVAppend appends a KVAppend.
func (g *Graph) KVAppend(layer int, k, v Value) {
	g.Ops = append(g.Ops, KVAppend{layer, k, v})
}

// Attend appends an Attend; a.Out is chosen here.
func (g *Graph) Attend(name string, a Attend) Value {
	a.Out = g.like(a.Q, name, a.Heads*a.ValueDim)
	g.Ops = append(g.Ops, a)
	return a.Out
}

// SiLUMul appends a SiLUMul.
func (g *Graph) SiLUMul(name string, gate, up Value) Value {
	out := g.like(gate, name, g.width(gate))
	g.Ops = append(g.Ops, SiLUMul{gate, up, out})
	return out
}

// Add appends an Add.
func (g *Graph) Add(name string, a, b Value) Value {
	out := g.like(a, name, g.width(a))
	g.Ops = append(g.Ops, Add{a, b, out})
	return out
}

// Select appends a Select.
func (g *Graph) Select(name string, in Value) Value {
	out := g.NewValue(name, g.width(in), PerWanted)
	g.Ops = append(g.Ops, Select{in, out})
	return out
}

// Weights lists the weights in the order of their first use, each once: a tied table is listed once.
func (g *Graph) Weights() []*Weight {
	var all []*Weight
	seen := map[*Weight]bool{}
	for _, o := range g.Ops {
		for _, w := range o.Weights() {
			if !seen[w] {
				seen[w] = true
				all = append(all, w)
			}
		}
	}
	return all
}

// WeightBytes is the size of all weights.
func (g *Graph) WeightBytes() int64 {
	var n int64
	for _, w := range g.Weights() {
		n += int64(len(w.Data))
	}
	return n
}

// KVElems is the number of elements that a token leaves in the cache, over all layers.
func (g *Graph) KVElems() int {
	n := 0
	for _, kv := range g.KV {
		n += kv.KeyWidth + kv.ValueWidth
	}
	return n
}

// KVBytes is what a token's keys and values take in a type, over all layers. Heads are whole blocks of it.
func (g *Graph) KVBytes(t format.Type) int64 {
	info, _ := format.Lookup(t)
	return int64(g.KVElems()) / int64(info.BlockElems) * int64(info.BlockBytes)
}
