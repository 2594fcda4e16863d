package cpu

import (
	"os"
	"slices"
	"strings"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// features is what a CPU has that runs a level.
func features(level cpufeature.Level) kernel.Features {
	f := kernel.Features{}
	for _, l := range []cpufeature.Level{cpufeature.AVX2, cpufeature.AVX2VNNI, cpufeature.AVX512, cpufeature.AVX512VNNI, cpufeature.AVX512VBMI} {
		if level.Has(l) {
			f[l.String()] = true
		}
	}
	return f
}

// switchedOff reads the switches of the CPU's kernels.
func switchedOff() kernel.Switches {
	off := kernel.Switches{}
	for _, s := range gate.CPUSwitches {
		off[s.Name] = os.Getenv(s.Name) == "0"
	}
	return off
}

// gateOf is the gate of products with a format in a class; nil where there is none.
func gateOf(format string, class device.Precision) *kernel.Entry {
	i := slices.IndexFunc(gate.CPU, func(e *kernel.Entry) bool {
		return e.Op == "matmul" && e.Format == format && e.Class == string(class)
	})
	if i < 0 {
		return nil
	}
	return gate.CPU[i]
}

// query is the shape of a product with a weight, for one token.
func (m *model) query(w *op.Weight, layout kernel.Layout) kernel.Query {
	return kernel.Query{Rows: int64(w.Rows), Cols: int64(w.Cols), Tokens: 1, Weights: layout, Features: features(m.level), Off: m.off}
}

// choose asks a gate for the kernel of each number of rows and tokens that its variants take at once, for whole ones: the most
// first. None where the gate has no vector code for the query.
func choose(e *kernel.Entry, q kernel.Query) (chosen []*kernel.Variant) {
	if e == nil {
		return nil
	}
	var shapes [][2]int
	for _, s := range e.Steps {
		if n := [2]int{s.Variant.TokenTile, s.Variant.RowTile}; !slices.Contains(shapes, n) {
			shapes = append(shapes, n)
		}
	}
	slices.SortFunc(shapes, func(a, b [2]int) int { return slices.Compare(b[:], a[:]) })
	for _, n := range shapes {
		whole := q
		whole.Tokens, whole.Rows = int64(n[0]), int64(n[1])
		v := e.Choose(&whole, nil)
		if v != nil && [2]int{v.TokenTile, v.RowTile} == n && vector(v) {
			chosen = append(chosen, v)
		}
	}
	return chosen
}

// vector reports whether a variant needs vector instructions.
func vector(v *kernel.Variant) bool {
	return slices.ContainsFunc(v.Bounds, func(b kernel.Bound) bool { return b.Kind == kernel.Feature })
}

// refusal is why a gate has no vector code for a query: what it says of the variant that it would take first.
func refusal(e *kernel.Entry, q kernel.Query) (why string) {
	e.Choose(&q, func(v *kernel.Variant, reason string) {
		if why == "" && vector(v) && q.Tokens%int64(max(1, v.TokenTile)) == 0 {
			why = v.Name + ": " + reason
		}
	})
	return why
}

// tileKernels are the kernels of a weight that lies in tiles of a layout, those of most tokens first, and what they are called.
func (m *model) tileKernels(w *op.Weight, layout kernel.Layout) (kernels []tileKernel, names []string) {
	for _, v := range choose(gateOf(w.TypeName(), device.Q8), m.query(w, layout)) {
		run := tile.Kernel(v.Symbol)
		if run == nil || len(kernels) > 0 && kernels[len(kernels)-1].tokens == v.TokenTile {
			continue
		}
		kernels, names = append(kernels, tileKernel{v.TokenTile, run}), append(names, v.String())
	}
	return kernels, names
}

// plainKernels are the kernels of plain numbers, those of most tokens and rows first; the last takes one of each.
func (m *model) plainKernels(w *op.Weight) (kernels []plainKernel, names []string) {
	for _, v := range choose(gateOf(w.TypeName(), device.F32), m.query(w, "file")) {
		if run := tile.Plain(v.Symbol); run != nil {
			kernels, names = append(kernels, plainKernel{v.RowTile, v.TokenTile, run}), append(names, v.String())
		}
	}
	return kernels, names
}

// routeOf names the kernels of a product: the one for one token, and in why those for several.
func (m *model) routeOf(k *matrix, e *kernel.Entry, names []string, class device.Precision, why string) {
	if n := len(names); n > 0 {
		for i, name := range names[:n-1] {
			names[i] = name[strings.LastIndexByte(name, '/')+1:]
		}
		if n > 1 {
			why += "; several at once go to " + strings.Join(names[:n-1], ", ")
		}
		m.route(k, names[n-1], class, why)
		return
	}
	q := m.query(k.Weight, "file")
	name := "portable"
	if e != nil {
		if v := e.Choose(&q, nil); v != nil {
			name = v.String()
		}
		q.Weights = tile.Layout
		if class == device.F32 {
			q.Weights = "file"
		}
		if r := refusal(e, q); r != "" {
			why += "; no vector code: " + r
		}
	}
	m.route(k, name, class, why)
}
