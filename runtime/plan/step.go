package plan

import (
	"fmt"

	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// Step lists the launches that compute a number of tokens, of which the logits of wanted are wanted. Where the tokens stand in
// the context is data: the same launches serve every position.
func (p *Plan) Step(tokens, wanted int) ([]Launch, error) {
	s := &step{Plan: p, tokens: tokens, wanted: wanted, rounded: map[Arg]bool{}, selected: map[op.Value]op.Value{}}
	for i, x := range p.Graph.Ops {
		if out, ok := x.Writes(); ok && s.rows(out) == 0 {
			continue // it serves logits, and none are wanted
		}
		f := p.fused[i]
		var err error
		switch {
		case tokens != 1 || f == nil:
			err = s.add(x)
		case f.at() == i:
			err = f.add(s)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range s.launches {
		for k, a := range s.launches[i].Args {
			if in, ok := s.selected[op.Value(a.Index)]; ok && (a.Ref == Value || a.Ref == Codes || a.Ref == Halves) {
				s.launches[i].Args[k].Index = int(in)
			}
		}
	}
	return s.launches, nil
}

// step collects the launches of one step.
type step struct {
	*Plan
	tokens, wanted int
	after          bool // other launches come before these
	launches       []Launch
	rounded        map[Arg]bool          // Codes and Halves that are there
	selected       map[op.Value]op.Value // Values whose one row is that of another
}

func (s *step) rows(v op.Value) int {
	if s.Graph.Values[v].Rows == op.PerWanted {
		return s.wanted
	}
	return s.tokens
}

func (s *step) width(v op.Value) int { return s.Graph.Values[v].Width }

// launch adds a launch of the chosen variant; args are bound by name to the kernel's.
func (s *step) launch(name string, gates []*kernel.Entry, what string, q kernel.Query, w *Placed, args map[string]Arg) error {
	v, q, skipped, err := s.choose(gates, what, q)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l := Launch{Name: name, Variant: v, Query: q, Grid: v.Grid(&q), Shared: v.Shared(&q), Weight: w, Skipped: skipped,
		Dependent: v.Awaits && s.Target.Arch >= overlapArch && (s.after || len(s.launches) > 0)}
	for _, a := range v.Args {
		arg, ok := args[a.Name]
		if !ok {
			panic(fmt.Sprintf("BUG: %s: kernel %s takes %s, which the plan does not bind", name, v, a.Name))
		}
		l.Args = append(l.Args, arg)
	}
	s.launches = append(s.launches, l)
	return nil
}

// overlapArch is the least architecture whose launches can overlap their predecessors.
const overlapArch = 90

func ref(k RefKind, i int) Arg { return Arg{Ref: k, Index: i} }
func integer(n int) Arg        { return Arg{Int: int64(n)} }

func value(v op.Value) Arg { return ref(Value, int(v)) }

func (s *step) weightRef(w *op.Weight) Arg {
	if w == nil {
		return Arg{}
	}
	return ref(Weight, s.weight[w])
}

func (s *step) add(x op.Op) error {
	if v, ok := x.Writes(); ok && s.rows(v) == 0 {
		return nil // no logits are wanted
	}
	switch x := x.(type) {
	case op.Embed:
		w := &s.Weights[s.weight[x.Table]]
		q := kernel.Query{Cols: int64(x.Table.Cols), Tokens: int64(s.tokens), Weights: w.Layout}
		err := s.launch(s.Graph.Values[x.Out].Name, find("embed", "", x.Table), "embed", q, w,
			map[string]Arg{"w": s.weightRef(x.Table), "ids": ref(IDs, 0), "out": value(x.Out), "cols": integer(x.Table.Cols)})
		if err == nil {
			s.count(w, int64(s.tokens))
		}
		return err
	case op.RMSNorm:
		rows := s.rows(x.In) * s.width(x.In) / x.Group
		out, halves, err := s.outputs(x.Out)
		if err != nil {
			return err
		}
		return s.launch(s.Graph.Values[x.Out].Name, findFormat("rmsnorm", "", ""), "rmsnorm", kernel.Query{Rows: int64(rows), Cols: int64(x.Group)}, nil,
			map[string]Arg{"x": value(x.In), "w": s.weightRef(x.Weight), "out": out, "halves": halves, "cols": integer(x.Group), "eps": {Float: x.Eps}})
	case op.MatMul:
		return s.product(x)
	case op.RoPE:
		heads := s.width(x.In) / x.HeadDim
		return s.launch(s.Graph.Values[x.Out].Name, findFormat("rope", "", ""), "rope",
			kernel.Query{Tokens: int64(s.tokens), Heads: int64(heads), HeadDim: int64(x.HeadDim)}, nil,
			map[string]Arg{"x": value(x.In), "out": value(x.Out), "positions": ref(Positions, 0), "sines": ref(Sines, s.rotary[x.Rotary]), "cosines": ref(Cosines, s.rotary[x.Rotary]),
				"heads": integer(heads), "head_dim": integer(x.HeadDim), "dims": integer(x.Rotary.Dims), "adjacent": integer(int(x.Rotary.Pairing))})
	case op.KVAppend:
		for _, part := range []struct {
			v    op.Value
			kind RefKind
		}{{x.K, Keys}, {x.V, Values}} {
			if err := s.launch(s.Graph.Values[part.v].Name, findFormat("kv-append", "", s.kvFormat()), "kv-append",
				kernel.Query{Tokens: int64(s.tokens), Cols: int64(s.width(part.v)), Weights: "file"}, nil,
				map[string]Arg{"x": value(part.v), "cache": ref(part.kind, x.Layer), "positions": ref(Positions, 0), "cols": integer(s.width(part.v))}); err != nil {
				return err
			}
		}
		return nil
	case op.Attend:
		return s.attend(x)
	case op.SiLUMul:
		n := s.rows(x.Out) * s.width(x.Out)
		out, halves, err := s.outputs(x.Out)
		if err != nil {
			return err
		}
		return s.launch(s.Graph.Values[x.Out].Name, findFormat("silu-mul", "", ""), "silu-mul", kernel.Query{Cols: int64(n)}, nil,
			map[string]Arg{"gate": value(x.Gate), "up": value(x.Up), "out": out, "halves": halves, "cols": integer(n)})
	case op.Add:
		n := s.rows(x.Out) * s.width(x.Out)
		return s.launch(s.Graph.Values[x.Out].Name, findFormat("add", "", ""), "add", kernel.Query{Cols: int64(n)}, nil,
			map[string]Arg{"a": value(x.A), "b": value(x.B), "out": value(x.Out), "cols": integer(n)})
	case op.Select:
		if s.tokens == 1 && s.wanted == 1 && x.Out != s.Graph.Logits { // the only row, which its readers find where it is
			in := x.In
			if from, ok := s.selected[in]; ok {
				in = from
			}
			s.selected[x.Out] = in
			return nil
		}
		return s.launch(s.Graph.Values[x.Out].Name, findFormat("select", "", ""), "select", kernel.Query{Rows: int64(s.wanted), Cols: int64(s.width(x.In))}, nil,
			map[string]Arg{"x": value(x.In), "index": ref(Wanted, 0), "out": value(x.Out), "cols": integer(s.width(x.In))})
	}
	return fmt.Errorf("no kernel computes %T", x)
}

// count notes the bytes that the last launch reads of n rows of a weight.
func (s *step) count(w *Placed, rows int64) {
	l := &s.launches[len(s.launches)-1]
	l.Content = rows * int64(w.Blocks()*w.Placement.FileBlockBytes)
	l.Streamed = rows * int64(w.Placement.RowBytes(w.Blocks()))
}

// outputs is what a kernel writes that makes a Value and can round it to bf16 as well: the rounded one where products read it, which is then there
// for them without a launch, and the Value itself unless they alone read it.
func (s *step) outputs(v op.Value) (out, halves Arg, err error) {
	plain := v == s.Graph.Logits
	for _, i := range s.readers[v] {
		x := s.Graph.Ops[i]
		if made, ok := x.Writes(); ok && s.rows(made) == 0 {
			continue // it serves logits, and none are wanted
		}
		m, ok := x.(op.MatMul)
		if !ok {
			plain = true
			continue
		}
		k, err := s.productKernel(m)
		switch {
		case err != nil:
			return out, halves, err
		case k.Class == "bf16":
			halves = ref(Halves, int(v))
			s.rounded[halves] = true
		default:
			plain = true
		}
	}
	if plain || halves.Ref == None {
		out = value(v)
	}
	return out, halves, nil
}

// productKernel is the kernel that a product is computed by.
func (s *step) productKernel(x op.MatMul) (*kernel.Variant, error) {
	v, _, _, err := s.matmul(x.Weight, s.rows(x.In), s.Weights[s.weight[x.Weight]].Layout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Graph.Values[x.Out].Name, err)
	}
	return v, nil
}

// product launches a matrix product, after the rounding of its activations where the class of its kernel takes them so.
func (s *step) product(x op.MatMul) error {
	tokens := s.rows(x.In)
	w := &s.Weights[s.weight[x.Weight]]
	v, err := s.productKernel(x)
	if err != nil {
		return err
	}
	in := value(x.In)
	switch v.Class {
	case "q8":
		in = ref(Codes, int(x.In))
		err = s.round(in, "quantize", " (8-bit)", kernel.Query{Cols: int64(x.Weight.Cols), Tokens: int64(tokens)})
	case "bf16":
		in = ref(Halves, int(x.In))
		err = s.round(in, "round", " (bf16)", kernel.Query{Cols: int64(x.Weight.Cols) * int64(tokens)})
	}
	if err != nil {
		return err
	}
	if err := s.launch(s.Graph.Values[x.Out].Name, s.productGates(x.Weight, tokens), "matmul", s.productQuery(x.Weight, tokens, w.Layout), w, map[string]Arg{
		"w": s.weightRef(x.Weight), "x": in, "bias": s.weightRef(x.Bias), "y": value(x.Out), "rows": integer(x.Weight.Rows), "cols": integer(x.Weight.Cols),
		"tokens": integer(tokens), "y_stride": integer(x.Weight.Rows), "claims": ref(Arrivals, 0)}); err != nil {
		return err
	}
	s.count(w, int64(x.Weight.Rows))
	s.launches[len(s.launches)-1].Crossed = s.crossover(x.Weight)
	return nil
}

// round makes rounded activations, once for all products that read them.
func (s *step) round(out Arg, what, suffix string, q kernel.Query) error {
	if s.rounded[out] {
		return nil
	}
	s.rounded[out] = true
	v := op.Value(out.Index)
	return s.launch(s.Graph.Values[v].Name+suffix, findFormat(what, "", ""), what, q, nil,
		map[string]Arg{"x": value(v), "out": out, "cols": integer(int(q.Cols))})
}

// attend launches attention: split over the context for few tokens, a tile of tokens at a time for many.
func (s *step) attend(x op.Attend) error {
	name := s.Graph.Values[x.Out].Name
	args := map[string]Arg{"q": value(x.Q), "k": ref(Keys, x.Layer), "v": ref(Values, x.Layer), "positions": ref(Positions, 0), "out": value(x.Out),
		"partial": ref(Partial, 0), "tokens": integer(s.tokens), "heads": integer(x.Heads), "kv_heads": integer(x.KVHeads),
		"group": integer(x.Heads / x.KVHeads), "head_dim": integer(x.KeyDim), "shares": integer(s.Shares), "scale": {Float: x.Scale}}
	q := kernel.Query{Heads: int64(x.Heads), KVHeads: int64(x.KVHeads), Group: int64(x.Heads / x.KVHeads), HeadDim: int64(x.KeyDim),
		Tokens: int64(s.tokens), Context: int64(s.Graph.Context), Shares: int64(s.Shares), Weights: "file"}
	if s.tokens >= prefillTokens {
		return s.launch(name, findFormat("attend-prefill", "", s.kvFormat()), "attend-prefill", q, nil, args)
	}
	if err := s.launch(name+" (shares)", findFormat("attend", "", s.kvFormat()), "attend", q, nil, args); err != nil {
		return err
	}
	return s.launch(name, findFormat("attend-combine", "", ""), "attend-combine", q, nil, args)
}

// PartialBytes is the memory that split attention needs for its partial results.
func (p *Plan) PartialBytes() int64 {
	var most int64
	for _, x := range p.Graph.Ops {
		if a, ok := x.(op.Attend); ok {
			most = max(most, int64(prefillTokens-1)*int64(a.Heads)*int64(p.Shares)*int64(a.ValueDim+2)*4)
		}
	}
	return most
}

// ArrivalBytes is the memory of the counters that blocks announce themselves with; it must be zero at first.
func (p *Plan) ArrivalBytes() int {
	most := 1
	for _, x := range p.Graph.Ops {
		if a, ok := x.(op.Attend); ok {
			most = max(most, a.KVHeads)
		}
	}
	return 4 * most
}
