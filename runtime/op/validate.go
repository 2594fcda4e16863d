package op

import (
	"fmt"
	"math"
	"math/bits"
)

// Validate proves that the graph can be run: every Value is written once and before it is read, widths and rows of
// operands, weights and cache agree, every layer of the cache is filled once and before it is read, weights hold the
// bytes that their shape needs, and the logits come out as wide as the vocabulary. The error names the operation and
// both shapes. A device may rely on all of it.
func (g *Graph) Validate() error {
	if g.Vocab <= 0 || g.Context <= 0 {
		return fmt.Errorf("graph with vocab %d and context %d: both must be positive", g.Vocab, g.Context)
	}
	names := make(map[string]bool, len(g.Values))
	for _, info := range g.Values {
		if info.Name == "" || names[info.Name] {
			return fmt.Errorf("value name %q is empty or used twice", info.Name)
		}
		if info.Width <= 0 || info.Width > math.MaxInt32 {
			return fmt.Errorf("value %s has width %d", info.Name, info.Width)
		}
		names[info.Name] = true
	}
	c := &checker{g: g, written: make([]bool, len(g.Values)), filled: make([]bool, len(g.KV)), attended: make([]bool, len(g.KV))}
	for i, kv := range g.KV {
		if kv.KeyWidth <= 0 || kv.ValueWidth <= 0 {
			return fmt.Errorf("layer %d has cache widths %d and %d", i, kv.KeyWidth, kv.ValueWidth)
		}
	}
	for i, o := range g.Ops {
		if err := c.op(o); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, c.label(o), err)
		}
	}
	for v, ok := range c.written {
		if !ok {
			return fmt.Errorf("value %s is never written", g.Values[v].Name)
		}
	}
	for l := range g.KV {
		if !c.filled[l] || !c.attended[l] {
			return fmt.Errorf("layer %d: its cache is filled: %v, read: %v; both must be", l, c.filled[l], c.attended[l])
		}
	}
	if g.Logits < 0 || int(g.Logits) >= len(g.Values) {
		return fmt.Errorf("logits are the unknown value %d", int(g.Logits))
	}
	if l := g.Values[g.Logits]; l.Width != g.Vocab || l.Rows != PerWanted {
		return fmt.Errorf("logits %s must be [wanted, %d], one for each token of the vocabulary", g.operand(g.Logits), g.Vocab)
	}
	return nil
}

type checker struct {
	g        *Graph
	written  []bool
	filled   []bool
	attended []bool
}

// label names an operation whose operands may be unknown.
func (c *checker) label(o Op) string {
	if v, ok := o.Writes(); ok && v >= 0 && int(v) < len(c.g.Values) {
		return fmt.Sprintf("%s %s", Name(o), c.g.Values[v].Name)
	}
	return Name(o)
}

func (c *checker) op(o Op) error {
	for _, v := range o.Reads() {
		if v < 0 || int(v) >= len(c.g.Values) {
			return fmt.Errorf("reads the unknown value %d", int(v))
		}
		if !c.written[v] {
			return fmt.Errorf("reads %s before it is written", c.g.Values[v].Name)
		}
	}
	for _, w := range o.Weights() {
		if err := checkWeight(w); err != nil {
			return err
		}
	}
	out, writes := o.Writes()
	if writes {
		if out < 0 || int(out) >= len(c.g.Values) {
			return fmt.Errorf("writes the unknown value %d", int(out))
		}
		if c.written[out] {
			return fmt.Errorf("writes %s a second time", c.g.Values[out].Name)
		}
		c.written[out] = true
	}
	switch o := o.(type) {
	case Embed:
		if o.Table.Rows != c.g.Vocab {
			return fmt.Errorf("table %s for a vocabulary of %d", describeWeight(o.Table), c.g.Vocab)
		}
		return c.shape(o.Out, o.Table.Cols, PerToken)
	case RMSNorm:
		in := c.g.Values[o.In]
		if o.Group <= 0 || in.Width%o.Group != 0 {
			return fmt.Errorf("groups of %d do not divide %s", o.Group, c.g.operand(o.In))
		}
		if !(o.Eps >= 0) || math.IsInf(float64(o.Eps), 0) {
			return fmt.Errorf("epsilon %v is negative or not a number", o.Eps)
		}
		if err := vector(o.Weight, o.Group); err != nil {
			return err
		}
		return c.shape(o.Out, in.Width, in.Rows)
	case MatMul:
		in := c.g.Values[o.In]
		if o.Weight.Cols != in.Width {
			return fmt.Errorf("%s cannot multiply %s: %d columns against width %d", describeWeight(o.Weight), c.g.operand(o.In), o.Weight.Cols, in.Width)
		}
		if o.Bias != nil {
			if err := vector(o.Bias, o.Weight.Rows); err != nil {
				return err
			}
		}
		return c.shape(o.Out, o.Weight.Rows, in.Rows)
	case RoPE:
		in := c.g.Values[o.In]
		if o.HeadDim <= 0 || in.Width%o.HeadDim != 0 {
			return fmt.Errorf("heads of %d do not divide %s", o.HeadDim, c.g.operand(o.In))
		}
		if err := o.Rotary.Validate(o.HeadDim); err != nil {
			return err
		}
		if in.Rows != PerToken {
			return fmt.Errorf("%s has no positions: only per-token values have", c.g.operand(o.In))
		}
		return c.shape(o.Out, in.Width, in.Rows)
	case KVAppend:
		if o.Layer < 0 || o.Layer >= len(c.g.KV) {
			return fmt.Errorf("layer %d of %d", o.Layer, len(c.g.KV))
		}
		if c.filled[o.Layer] {
			return fmt.Errorf("layer %d is filled a second time", o.Layer)
		}
		c.filled[o.Layer] = true
		kv := c.g.KV[o.Layer]
		if err := c.shape(o.K, kv.KeyWidth, PerToken); err != nil {
			return err
		}
		return c.shape(o.V, kv.ValueWidth, PerToken)
	case Attend:
		return c.attend(o)
	case SiLUMul:
		return c.alike(o.Gate, o.Up, o.Out)
	case Add:
		return c.alike(o.A, o.B, o.Out)
	case Select:
		in := c.g.Values[o.In]
		if in.Rows != PerToken {
			return fmt.Errorf("%s is already restricted to wanted rows", c.g.operand(o.In))
		}
		return c.shape(o.Out, in.Width, PerWanted)
	}
	return fmt.Errorf("unknown operation %T", o)
}

func (c *checker) attend(o Attend) error {
	switch {
	case o.Layer < 0 || o.Layer >= len(c.g.KV):
		return fmt.Errorf("layer %d of %d", o.Layer, len(c.g.KV))
	case !c.filled[o.Layer]:
		return fmt.Errorf("reads the cache of layer %d before it is filled", o.Layer)
	case o.Heads <= 0 || o.KVHeads <= 0 || o.Heads%o.KVHeads != 0:
		return fmt.Errorf("%d query heads cannot share %d key/value heads", o.Heads, o.KVHeads)
	case o.KeyDim <= 0 || o.ValueDim <= 0:
		return fmt.Errorf("head widths %d and %d", o.KeyDim, o.ValueDim)
	case !(o.Scale > 0) || math.IsInf(float64(o.Scale), 0):
		return fmt.Errorf("scale %v is not a positive number", o.Scale)
	}
	c.attended[o.Layer] = true
	if kv := c.g.KV[o.Layer]; kv.KeyWidth != o.KVHeads*o.KeyDim || kv.ValueWidth != o.KVHeads*o.ValueDim {
		return fmt.Errorf("cache widths %d and %d of layer %d are not %d heads of %d and %d", kv.KeyWidth, kv.ValueWidth, o.Layer, o.KVHeads, o.KeyDim, o.ValueDim)
	}
	if err := c.shape(o.Q, o.Heads*o.KeyDim, PerToken); err != nil {
		return err
	}
	return c.shape(o.Out, o.Heads*o.ValueDim, PerToken)
}

func (c *checker) shape(v Value, width int, rows Rows) error {
	if info := c.g.Values[v]; info.Width != width || info.Rows != rows {
		return fmt.Errorf("%s should be [%s, %d]", c.g.operand(v), rows, width)
	}
	return nil
}

func (c *checker) alike(a, b, out Value) error {
	x, y := c.g.Values[a], c.g.Values[b]
	if x.Width != y.Width || x.Rows != y.Rows {
		return fmt.Errorf("%s and %s differ in shape", c.g.operand(a), c.g.operand(b))
	}
	return c.shape(out, x.Width, x.Rows)
}

func vector(w *Weight, elems int) error {
	if w.Rows != 1 || w.Cols != elems {
		return fmt.Errorf("%s should be [1, %d]", describeWeight(w), elems)
	}
	return nil
}

func checkWeight(w *Weight) error {
	if w == nil {
		return fmt.Errorf("a weight is missing")
	}
	if w.Name == "" || w.Rows <= 0 || w.Cols <= 0 || w.Rows > math.MaxInt32 || w.Cols > math.MaxInt32 {
		return fmt.Errorf("weight %s: name and shape must be there, each dimension from 1 to %d", describeWeight(w), math.MaxInt32)
	}
	row, err := w.rowBytes()
	if err != nil {
		return err
	}
	if hi, need := bits.Mul64(uint64(row), uint64(w.Rows)); hi != 0 || need != uint64(len(w.Data)) {
		return fmt.Errorf("%s holds %d bytes, its shape needs %d rows of %d", describeWeight(w), len(w.Data), w.Rows, row)
	}
	return nil
}
