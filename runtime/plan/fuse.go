package plan

import (
	"slices"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// A fusion is several operations of the graph that one kernel computes for one token. It is launched at the place of the last of them; what
// it reads is kept until then (Plan.Slots). A fusion is made only where the gate of its kernel admits the shape, and every rule has the
// operations one by one as its fallback: a switch that turns the kernel off brings them back.
type fusion struct {
	ops   []int // indices in the graph, ascending
	reads []op.Value
	add   func(s *step) error
}

func (f *fusion) at() int { return f.ops[len(f.ops)-1] }

// fuser finds the fusions of a graph.
type fuser struct {
	*Plan
	producer map[op.Value]int
	taken    map[int]*fusion // by operation
	found    []*fusion
}

// fuse finds the fusions of a decode step.
func (p *Plan) fuse() map[int]*fusion {
	f := &fuser{Plan: p, producer: map[op.Value]int{}, taken: map[int]*fusion{}}
	for i, x := range p.Graph.Ops {
		if v, ok := x.Writes(); ok {
			f.producer[v] = i
		}
	}
	for i, x := range p.Graph.Ops {
		switch x := x.(type) {
		case op.RMSNorm:
			if x.Group == p.Graph.Values[x.In].Width {
				f.products(x.Out, &x, i)
			}
		case op.Attend:
			f.attention(x, i)
		}
	}
	for i, x := range p.Graph.Ops {
		if m, ok := x.(op.MatMul); ok && f.taken[i] == nil {
			f.products(m.In, nil, -1)
		}
	}
	f.check()
	return f.taken
}

// take makes a fusion of operations.
func (f *fuser) take(ops []int, reads []op.Value, add func(s *step) error) *fusion {
	slices.Sort(ops)
	x := &fusion{ops: ops, reads: reads, add: add}
	for _, i := range ops {
		f.taken[i] = x
	}
	f.found = append(f.found, x)
	return x
}

// check drops fusions that the order of the list does not allow: whose results are read before they are launched, or whose operands come
// after. The decoders of this package have none.
func (f *fuser) check() {
	launched := func(i int) int {
		if x := f.taken[i]; x != nil {
			return x.at()
		}
		return i
	}
	for changed := true; changed; {
		changed = false
		for k := 0; k < len(f.found); k++ {
			x := f.found[k]
			ok := true
			for _, v := range x.reads {
				if i, made := f.producer[v]; made && launched(i) >= x.at() {
					ok = false
				}
			}
			for _, i := range x.ops {
				v, writes := f.Graph.Ops[i].Writes()
				if !writes {
					continue
				}
				for _, r := range f.readers[v] {
					if !slices.Contains(x.ops, r) && launched(r) <= x.at() {
						ok = false
					}
				}
			}
			if !ok {
				for _, i := range x.ops {
					delete(f.taken, i)
				}
				f.found = slices.Delete(f.found, k, k+1)
				changed = true
				k--
			}
		}
	}
}

// part is one product of a fusion.
type part struct {
	index int
	m     op.MatMul
	add   int // index of the Add that takes the product, or -1
}

// products fuses the products that read a Value, with the norm that makes it where there is one. Where one of several readers of a norm
// cannot be fused, none is, for the norm is then computed all the same.
func (f *fuser) products(in op.Value, norm *op.RMSNorm, normIndex int) {
	var parts []part
	for _, i := range f.readers[in] {
		m, ok := f.Graph.Ops[i].(op.MatMul)
		if !ok || f.taken[i] != nil {
			if norm != nil {
				return
			}
			continue
		}
		parts = append(parts, part{i, m, -1})
	}
	if len(parts) == 0 {
		return
	}
	x, w, eps := in, (*op.Weight)(nil), float32(0)
	if norm != nil {
		x, w, eps = norm.In, norm.Weight, norm.Eps
	}
	type launch struct {
		ops   []int
		reads []op.Value
		add   func(s *step) error
	}
	var launches []launch
	var plain []part
	for k := 0; k < len(parts); k++ {
		p := parts[k]
		if k+1 < len(parts) {
			if silu, j := f.gated(p, parts[k+1]); j >= 0 && f.admits("gate", p.m.Weight, p.m.Weight.Rows) {
				gate, up := p.m, parts[k+1].m
				if silu.Gate != gate.Out {
					gate, up = up, gate
				}
				launches = append(launches, launch{[]int{p.index, parts[k+1].index, j}, []op.Value{x}, func(s *step) error {
					return s.gate(silu, gate, up, x, w, eps)
				}})
				k++
				continue
			}
		}
		if !f.admits("project", p.m.Weight, p.m.Weight.Rows) {
			if norm != nil {
				return
			}
			continue
		}
		if a, j := f.added(p); j >= 0 {
			residual := a.A
			if residual == p.m.Out {
				residual = a.B
			}
			p.add = j
			launches = append(launches, launch{[]int{p.index, j}, []op.Value{x, residual}, func(s *step) error {
				return s.project([]part{p}, a.Out, residual, x, w, eps)
			}})
			continue
		}
		plain = append(plain, p)
	}
	for len(plain) > 0 {
		n, rows := 1, plain[0].m.Weight.Rows
		for n < min(len(plain), maxParts) && f.alike(plain[0].m.Weight, plain[n].m.Weight) && f.admits("project", plain[0].m.Weight, rows+plain[n].m.Weight.Rows) {
			rows += plain[n].m.Weight.Rows
			n++
		}
		together := plain[:n]
		var ops []int
		for _, p := range together {
			ops = append(ops, p.index)
		}
		launches = append(launches, launch{ops, []op.Value{x}, func(s *step) error { return s.project(together, together[0].m.Out, none, x, w, eps) }})
		plain = plain[n:]
	}
	for i, l := range launches {
		if norm != nil && i == 0 {
			l.ops = append(l.ops, normIndex) // computed nowhere else
		}
		f.take(l.ops, l.reads, l.add)
	}
}

// maxParts is the number of matrices that one launch of a projection takes.
const maxParts = 3

// none is no Value.
const none op.Value = -1

// alike reports whether two weights can be streamed by one launch.
func (f *fuser) alike(a, b *op.Weight) bool {
	return a.Type == b.Type && a.Cols == b.Cols && f.Weights[f.weight[a]].Layout == f.Weights[f.weight[b]].Layout
}

// admits reports whether a fused kernel computes products with a weight.
func (f *fuser) admits(name string, w *op.Weight, rows int) bool {
	if f.class(w) != "q8" {
		return false
	}
	v, _, _, err := f.pick(name, "q8", w, f.fusedQuery(w, rows))
	return err == nil && v != nil
}

func (p *Plan) fusedQuery(w *op.Weight, rows int) kernel.Query {
	q := p.productQuery(w, 1, p.Weights[p.weight[w]].Layout)
	q.Rows = int64(rows)
	return q
}

// gated is the SiLUMul that alone reads two products of like shape, or -1.
func (f *fuser) gated(a, b part) (op.SiLUMul, int) {
	if a.m.Bias != nil || b.m.Bias != nil || a.m.Weight.Rows != b.m.Weight.Rows || !f.alike(a.m.Weight, b.m.Weight) {
		return op.SiLUMul{}, -1
	}
	ra, rb := f.readers[a.m.Out], f.readers[b.m.Out]
	if len(ra) != 1 || len(rb) != 1 || ra[0] != rb[0] {
		return op.SiLUMul{}, -1
	}
	silu, ok := f.Graph.Ops[ra[0]].(op.SiLUMul)
	if !ok || silu.Gate == silu.Up {
		return op.SiLUMul{}, -1
	}
	return silu, ra[0]
}

// added is the Add that alone reads a product, or -1.
func (f *fuser) added(p part) (op.Add, int) {
	r := f.readers[p.m.Out]
	if len(r) != 1 {
		return op.Add{}, -1
	}
	a, ok := f.Graph.Ops[r[0]].(op.Add)
	if !ok || a.A == a.B || f.taken[r[0]] != nil {
		return op.Add{}, -1
	}
	return a, r[0]
}

// turned follows a Value back over its rotary embedding and the norm of its heads to the projection that made it.
func (f *fuser) turned(v op.Value, headDim int) (from op.Value, rope op.RoPE, norm *op.RMSNorm, ops []int) {
	i, made := f.producer[v]
	if !made || len(f.readers[v]) != 1 {
		return none, rope, nil, nil
	}
	rope, ok := f.Graph.Ops[i].(op.RoPE)
	if !ok || rope.HeadDim != headDim {
		return none, rope, nil, nil
	}
	from, ops = rope.In, []int{i}
	if j, made := f.producer[from]; made && len(f.readers[from]) == 1 {
		if n, ok := f.Graph.Ops[j].(op.RMSNorm); ok && n.Group == headDim {
			from, norm, ops = n.In, &n, append(ops, j)
		}
	}
	return from, rope, norm, ops
}

// attention fuses what stands between the projections of a layer's attention.
func (f *fuser) attention(a op.Attend, at int) {
	if f.Options.Off["MINFER_FUSE"] {
		return // whichever kernel it would be: the one on tensor cores has a switch that leaves the other
	}
	j := slices.IndexFunc(f.Graph.Ops, func(x op.Op) bool { kv, ok := x.(op.KVAppend); return ok && kv.Layer == a.Layer })
	if j < 0 || j > at {
		return
	}
	kv := f.Graph.Ops[j].(op.KVAppend)
	q, qRope, qNorm, qOps := f.turned(a.Q, a.KeyDim)
	k, kRope, kNorm, kOps := f.turned(kv.K, a.KeyDim)
	switch {
	case q == none || k == none || qRope.Rotary != kRope.Rotary:
		return
	case qNorm != nil && kNorm != nil && qNorm.Eps != kNorm.Eps:
		return
	}
	gates := findFormat("attend-step", "", f.kvFormat())
	if v, _, _, err := f.choose(gates, "attend-step", f.attendQuery(a)); err != nil || v == nil {
		return
	}
	f.take(append(append(qOps, kOps...), j, at), []op.Value{q, k, kv.V}, func(s *step) error {
		args := map[string]Arg{"q": value(q), "k": value(k), "v": value(kv.V), "q_norm": {}, "k_norm": {}, "keys": ref(Keys, a.Layer), "values": ref(Values, a.Layer),
			"positions": ref(Positions, 0), "sines": ref(Sines, s.rotary[qRope.Rotary]), "cosines": ref(Cosines, s.rotary[qRope.Rotary]),
			"partial": ref(Partial, 0), "arrivals": ref(Arrivals, 0), "out": value(a.Out), "kv_heads": integer(a.KVHeads), "group": integer(a.Heads / a.KVHeads),
			"head_dim": integer(a.KeyDim), "dims": integer(qRope.Rotary.Dims), "adjacent": integer(int(qRope.Rotary.Pairing)), "scale": {Float: a.Scale}, "eps": {}}
		if qNorm != nil {
			args["q_norm"], args["eps"] = s.weightRef(qNorm.Weight), Arg{Float: qNorm.Eps}
		}
		if kNorm != nil {
			args["k_norm"], args["eps"] = s.weightRef(kNorm.Weight), Arg{Float: kNorm.Eps}
		}
		return s.launch(s.Graph.Values[a.Out].Name, gates, "attend-step", s.attendQuery(a), nil, args)
	})
}

// attendQuery asks for as many shares as give each multiprocessor a block of attend-step, or two of attend-step-mma, which is for f16.
func (p *Plan) attendQuery(a op.Attend) kernel.Query {
	shares := p.Shares
	if p.Options.KVType != format.F16 {
		shares = min(shares, max(1, p.Target.SMs/a.KVHeads))
	}
	return kernel.Query{Heads: int64(a.Heads), KVHeads: int64(a.KVHeads), Group: int64(a.Heads / a.KVHeads), HeadDim: int64(a.KeyDim), Tokens: 1,
		Context: int64(p.Graph.Context), Shares: int64(shares), Weights: "file"}
}

func (p *Plan) kvFormat() string {
	info, _ := format.Lookup(p.Options.KVType)
	return info.Name
}

// gate launches a gated pair of products.
func (s *step) gate(silu op.SiLUMul, gate, up op.MatMul, x op.Value, norm *op.Weight, eps float32) error {
	w := &s.Weights[s.weight[gate.Weight]]
	if err := s.launch(s.Graph.Values[silu.Out].Name, find("gate", "q8", gate.Weight), "gate", s.fusedQuery(gate.Weight, gate.Weight.Rows), w, map[string]Arg{
		"w": s.weightRef(gate.Weight), "w_up": s.weightRef(up.Weight), "x": value(x), "norm": s.weightRef(norm), "y": value(silu.Out), "claims": ref(Arrivals, 0),
		"rows": integer(gate.Weight.Rows), "cols": integer(gate.Weight.Cols), "eps": {Float: eps}}); err != nil {
		return err
	}
	s.count(w, int64(gate.Weight.Rows))
	s.also(up.Weight)
	return nil
}

// project launches one to three products.
func (s *step) project(parts []part, out, residual, x op.Value, norm *op.Weight, eps float32) error {
	first := parts[0].m.Weight
	args := map[string]Arg{"x": value(x), "norm": s.weightRef(norm), "claims": ref(Arrivals, 0), "residual": {}, "cols": integer(first.Cols), "eps": {Float: eps}}
	if residual != none {
		args["residual"] = value(residual)
	}
	rows := 0
	for i := range maxParts {
		n := string(rune('0' + i))
		args["w"+n], args["bias"+n], args["y"+n], args["rows"+n] = Arg{}, Arg{}, Arg{}, integer(0)
		if i < len(parts) {
			m := parts[i].m
			args["w"+n], args["bias"+n], args["y"+n], args["rows"+n] = s.weightRef(m.Weight), s.weightRef(m.Bias), value(m.Out), integer(m.Weight.Rows)
			rows += m.Weight.Rows
		}
	}
	args["y0"] = value(out)
	w := &s.Weights[s.weight[first]]
	name := s.Graph.Values[out].Name
	for _, p := range parts[1:] {
		name += " + " + s.Graph.Values[p.m.Out].Name
	}
	if err := s.launch(name, find("project", "q8", first), "project", s.fusedQuery(first, rows), w, args); err != nil {
		return err
	}
	s.count(w, int64(first.Rows))
	for _, p := range parts[1:] {
		s.also(p.m.Weight)
	}
	return nil
}

// also notes a further weight that the last launch streams.
func (s *step) also(x *op.Weight) {
	l, w := &s.launches[len(s.launches)-1], &s.Weights[s.weight[x]]
	content, streamed := l.Content, l.Streamed
	s.count(w, int64(x.Rows))
	l.Content, l.Streamed = l.Content+content, l.Streamed+streamed
	l.Also = append(l.Also, w)
}
