// Package op is the vocabulary in which an architecture says what a model computes: a Graph is a list of typed
// operations over Values, and a device runs it.
//
// A Value is an activation buffer [rows, Width] of f32, row-major, one row per token (or per token whose logits are
// wanted). Each Value is written by one operation, before it is read: the list is in a valid order, and what may share
// memory or be fused follows from it (see Graph.Slots). Positions are data that a session holds; nothing in a Graph
// depends on them, on the number of tokens or on the length of the context, so one Graph serves prompt and decode alike.
package op

import (
	"fmt"

	"github.com/minfer/minfer/generated/format"
)

// Value names an activation buffer: an index into Graph.Values.
type Value int

// Rows says how many rows a Value has.
type Rows uint8

// The row sets.
const (
	PerToken  Rows = iota // one row for each token of the step
	PerWanted             // one row for each token whose logits are wanted
)

func (r Rows) String() string {
	if r == PerWanted {
		return "wanted"
	}
	return "tokens"
}

// ValueInfo describes one Value.
type ValueInfo struct {
	Name  string // unique in the graph, for messages and traces: "blk.3.ffn_down"
	Width int    // elements of a row
	Rows  Rows
}

// Weight is a matrix [Rows, Cols] as the file stores it: Rows rows of Cols elements, each a whole number of blocks of
// Type, one after the other. A vector has one row. Data is the mapped file and must not be written.
type Weight struct {
	Name       string
	Type       format.Type
	Rows, Cols int
	Data       []byte
}

// RowBytes is the size of a row. It panics on a weight that Graph.Validate would refuse.
func (w *Weight) RowBytes() int {
	n, err := w.rowBytes()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return n
}

func (w *Weight) rowBytes() (int, error) {
	info, ok := format.Lookup(w.Type)
	if !ok {
		return 0, fmt.Errorf("%s has the unknown type %d", w.Name, w.Type)
	}
	n, err := info.RowBytes(w.Cols)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", w.Name, err)
	}
	return n, nil
}

// TypeName is the format's name, or its number where the format is unknown.
func (w *Weight) TypeName() string {
	if info, ok := format.Lookup(w.Type); ok {
		return info.Name
	}
	return fmt.Sprintf("type %d", w.Type)
}

// Op is one operation. The set is closed: a device switches over the types below and refuses any other.
type Op interface {
	// Reads lists the Values that the operation reads.
	Reads() []Value
	// Writes is the Value that it writes; false for KVAppend, which writes the cache.
	Writes() (Value, bool)
	// Weights lists the weights that it reads.
	Weights() []*Weight

	sealed()
}

// Embed gathers rows of the token table: Out[t] = Table[token[t]], dequantized.
type Embed struct {
	Table *Weight // [vocab, width]
	Out   Value
}

// RMSNorm scales each group of Group adjacent elements to a root mean square of 1 and multiplies by the weight:
// Out[t,g,i] = In[t,g,i] / sqrt(mean over j of In[t,g,j]^2 + Eps) * Weight[i].
// Group is the width of the row, or that of a head for norms of queries and keys.
type RMSNorm struct {
	In, Out Value
	Weight  *Weight // [1, Group]
	Group   int
	Eps     float32
}

// MatMul is Out[t,m] = sum over k of Weight[m,k] * In[t,k], plus Bias[m] where there is one.
type MatMul struct {
	In, Out Value
	Weight  *Weight // [rows, cols]
	Bias    *Weight // [1, rows], or nil
}

// RoPE turns the pairs of each head of HeadDim elements by an angle that grows with the token's position; elements
// past Rotary.Dims pass through.
type RoPE struct {
	In, Out Value
	HeadDim int
	Rotary  *Rotary // shared by all layers that turn alike
}

// KVAppend puts the keys and values of the step's tokens at the end of the cache of its layer.
type KVAppend struct {
	Layer int
	K, V  Value
}

// Attend is causal attention over the cache of its layer, which already holds the step's tokens. Query head h reads
// key and value head h / (Heads/KVHeads). For the token at position p:
// Out[h] = sum over j <= p of softmax_j(Scale * Q[h]·K[j]) * V[j].
type Attend struct {
	Layer            int
	Q, Out           Value
	Heads, KVHeads   int
	KeyDim, ValueDim int // widths of one head
	Scale            float32
}

// SiLUMul is Out = Gate * sigmoid(Gate) * Up, element by element.
type SiLUMul struct {
	Gate, Up, Out Value
}

// Add is Out = A + B, element by element.
type Add struct {
	A, B, Out Value
}

// Select keeps the rows whose logits are wanted: it makes a PerWanted Value of a PerToken one. What follows it is
// computed for those rows alone.
type Select struct {
	In, Out Value
}

// Reads implements Op.
func (Embed) Reads() []Value { return nil }

// Reads implements Op.
func (o RMSNorm) Reads() []Value { return []Value{o.In} }

// Reads implements Op.
func (o MatMul) Reads() []Value { return []Value{o.In} }

// Reads implements Op.
func (o RoPE) Reads() []Value { return []Value{o.In} }

// Reads implements Op.
func (o KVAppend) Reads() []Value { return []Value{o.K, o.V} }

// Reads implements Op.
func (o Attend) Reads() []Value { return []Value{o.Q} }

// Reads implements Op.
func (o SiLUMul) Reads() []Value { return []Value{o.Gate, o.Up} }

// Reads implements Op.
func (o Add) Reads() []Value { return []Value{o.A, o.B} }

// Reads implements Op.
func (o Select) Reads() []Value { return []Value{o.In} }

// Writes implements Op.
func (o Embed) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o RMSNorm) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o MatMul) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o RoPE) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (KVAppend) Writes() (Value, bool) { return 0, false }

// Writes implements Op.
func (o Attend) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o SiLUMul) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o Add) Writes() (Value, bool) { return o.Out, true }

// Writes implements Op.
func (o Select) Writes() (Value, bool) { return o.Out, true }

// Weights implements Op.
func (o Embed) Weights() []*Weight { return []*Weight{o.Table} }

// Weights implements Op.
func (o RMSNorm) Weights() []*Weight { return []*Weight{o.Weight} }

// Weights implements Op.
func (o MatMul) Weights() []*Weight {
	if o.Bias == nil {
		return []*Weight{o.Weight}
	}
	return []*Weight{o.Weight, o.Bias}
}

// Weights implements Op.
func (RoPE) Weights() []*Weight { return nil }

// Weights implements Op.
func (KVAppend) Weights() []*Weight { return nil }

// Weights implements Op.
func (Attend) Weights() []*Weight { return nil }

// Weights implements Op.
func (SiLUMul) Weights() []*Weight { return nil }

// Weights implements Op.
func (Add) Weights() []*Weight { return nil }

// Weights implements Op.
func (Select) Weights() []*Weight { return nil }

func (Embed) sealed()    {}
func (RMSNorm) sealed()  {}
func (MatMul) sealed()   {}
func (RoPE) sealed()     {}
func (KVAppend) sealed() {}
func (Attend) sealed()   {}
func (SiLUMul) sealed()  {}
func (Add) sealed()      {}
func (Select) sealed()   {}
