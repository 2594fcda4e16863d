package op

import (
	"fmt"
	"strings"
)

// String lists the graph, one operation a line: what it writes, its name, operands and weights.
func (g *Graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q: %d layers, vocab %d, trained context %d\n", g.Arch, g.Name, len(g.KV), g.Vocab, g.Context)
	for _, o := range g.Ops {
		fmt.Fprintln(&b, g.describe(o))
	}
	fmt.Fprintf(&b, "logits: %s\n", g.operand(g.Logits))
	return b.String()
}

// describe is one line of String.
func (g *Graph) describe(o Op) string {
	args := make([]string, 0, 4)
	for _, v := range o.Reads() {
		args = append(args, g.operand(v))
	}
	for _, w := range o.Weights() {
		args = append(args, describeWeight(w))
	}
	switch o := o.(type) {
	case RMSNorm:
		args = append(args, fmt.Sprintf("group %d", o.Group), fmt.Sprintf("eps %g", o.Eps))
	case RoPE:
		args = append(args, fmt.Sprintf("head %d", o.HeadDim))
		if o.Rotary != nil {
			args = append(args, o.Rotary.String())
		}
	case KVAppend:
		args = append(args, fmt.Sprintf("layer %d", o.Layer))
	case Attend:
		args = append(args, fmt.Sprintf("layer %d", o.Layer), fmt.Sprintf("heads %d/%d of %d/%d", o.Heads, o.KVHeads, o.KeyDim, o.ValueDim), fmt.Sprintf("scale %g", o.Scale))
	}
	line := Name(o) + " " + strings.Join(args, ", ")
	if v, ok := o.Writes(); ok {
		line = g.operand(v) + " = " + line
	}
	return line
}

// Name is the operation's name in listings: "matmul".
func Name(o Op) string {
	switch o.(type) {
	case Embed:
		return "embed"
	case RMSNorm:
		return "rmsnorm"
	case MatMul:
		return "matmul"
	case RoPE:
		return "rope"
	case KVAppend:
		return "kvappend"
	case Attend:
		return "attend"
	case SiLUMul:
		return "silumul"
	case Add:
		return "add"
	case Select:
		return "select"
	}
	panic(fmt.Sprintf("BUG: no name for operation %T", o))
}

func (g *Graph) operand(v Value) string {
	if v < 0 || int(v) >= len(g.Values) {
		return fmt.Sprintf("unknown value %d", int(v))
	}
	info := g.Values[v]
	return fmt.Sprintf("%s[%s, %d]", info.Name, info.Rows, info.Width)
}

func describeWeight(w *Weight) string {
	if w == nil {
		return "no weight"
	}
	return fmt.Sprintf("%s %s [%d, %d]", w.Name, w.TypeName(), w.Rows, w.Cols)
}

func (r *Rotary) String() string {
	s := fmt.Sprintf("%s %d, base %g", r.Pairing, r.Dims, r.Base)
	if r.Divisors != nil {
		s += ", divided by frequency"
	}
	switch r.Scaling {
	case ScaleLinear:
		s += fmt.Sprintf(", linear %g", r.Factor)
	case ScaleYaRN:
		s += fmt.Sprintf(", yarn %g from %d (ext %g, beta %g..%g)", r.Factor, r.OriginalContext, r.ExtFactor, r.BetaFast, r.BetaSlow)
	}
	if r.AttnFactor != 1 {
		s += fmt.Sprintf(", attention factor %g", r.AttnFactor)
	}
	return s
}
