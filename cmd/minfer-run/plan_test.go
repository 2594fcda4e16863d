package main

import (
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/generated/machine"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/plan"
)

// pipelined is a variant as the generator derives it for two rounds of 256 threads, 32 elements each.
func pipelined(bounds ...kernel.Bound) *kernel.Variant {
	return &kernel.Variant{Family: "matvec-q8", Format: "q6_K", Name: "v2_pf", UnitElems: 32, Bounds: bounds}
}

// TestHold: the coverage of a row is judged from the variant's bounds alone, on both sides of each.
func TestHold(t *testing.T) {
	coverage := kernel.Bound{Kind: kernel.Max, Dim: "cols", Value: 16384, Source: "coverage", Chain: "256 threads * 2 rounds * 32 elements"}
	block := kernel.Bound{Kind: kernel.Multiple, Dim: "cols", Value: 256, Source: "block"}
	rows := kernel.Bound{Kind: kernel.Max, Dim: "rows", Value: 65535, Source: "grid"}
	least := kernel.Bound{Kind: kernel.Min, Dim: "cols", Value: 256, Source: "work"}
	for _, c := range []struct {
		name       string
		bounds     []kernel.Bound
		rows, cols int64
		units      int64
		ceiling    int64 // -1: none
		reason     string
	}{
		{"any width", []kernel.Bound{block}, 4, 18944, 592, -1, ""},
		{"the ceiling", []kernel.Bound{coverage, block}, 4, 16384, 512, 512, ""},
		{"a unit above", []kernel.Bound{coverage}, 4, 16416, 513, 512, "units 512..512 of 513 are not covered: cols <= 16384 (coverage: 256 threads * 2 rounds * 32 elements)"},
		{"the historical row", []kernel.Bound{coverage, block}, 4, 18944, 592, 512, "units 512..591 of 592 are not covered: "},
		{"part of a unit", []kernel.Bound{coverage}, 4, 16385, 513, 512, "units 512..512 of 513 are not covered: "},
		{"no whole block", []kernel.Bound{block}, 4, 300, 10, -1, "cols is 300, needed is cols % 256 == 0"},
		{"rows", []kernel.Bound{rows}, 65536, 256, 8, -1, "rows is 65536, needed is rows <= 65535"},
		{"the last row", []kernel.Bound{rows}, 65535, 256, 8, -1, ""},
		{"too few", []kernel.Bound{least}, 4, 128, 4, -1, "cols is 128, needed is cols >= 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hold(pipelined(c.bounds...), &kernel.Query{Rows: c.rows, Cols: c.cols, Tokens: 1})
			if got.Units != c.units || got.Covered != (c.reason == "") || !strings.HasPrefix(got.Reason, c.reason) {
				t.Errorf("%+v", got)
			}
			if ceiling := got.Ceiling; ceiling == nil && c.ceiling >= 0 || ceiling != nil && *ceiling != c.ceiling {
				t.Errorf("ceiling %v, want %d", ceiling, c.ceiling)
			}
		})
	}
}

// matrices is a graph of one product for each weight: what an audit looks at, without bytes.
func matrices(weights ...*op.Weight) *op.Graph {
	g := &op.Graph{Arch: "test", Vocab: 8, Context: 64}
	for _, w := range weights {
		in := g.NewValue("in", w.Cols, op.PerToken)
		g.MatMul(w.Name, in, w, nil)
	}
	return g
}

func weight(name string, t format.Type, rows, cols int) *op.Weight {
	return &op.Weight{Name: name, Type: t, Rows: rows, Cols: cols}
}

// TestAudit: the shapes of large models are covered, the row that was once not covered among them, and a matrix without
// a kernel does not hide the others.
func TestAudit(t *testing.T) {
	g := matrices(weight("ffn_down", format.Q6K, 3584, 18944), weight("odd", format.Q4K, 64, 300), weight("output", format.Q6K, 152064, 5120), weight("tall", format.Q4K, 5120, 13824))
	_, h200 := targetOf(90)
	all := auditMatrices(g, h200, plan.Options{Precision: "q8", KVType: format.F16})
	if len(all) != 4 {
		t.Fatalf("%d matrices", len(all))
	}
	for _, m := range all {
		if m.Name == "odd" {
			if m.Covered || m.Variant != "" || m.Units != nil || m.Reason == "" {
				t.Errorf("%+v", m)
			}
			continue
		}
		if !m.Covered || m.Variant == "" || m.Units == nil || m.Reason != "" || m.Ceiling != nil && *m.Units > *m.Ceiling {
			t.Errorf("%+v", m)
		}
	}
}

// A plan can be made for every machine that there is; where rings of shared memory do not fit, for the kernels without.
func TestEveryMachineHasAPlan(t *testing.T) {
	g := matrices(weight("q", format.Q4K, 3584, 3584), weight("ffn_down", format.Q6K, 3584, 18944))
	for _, m := range machine.All {
		name, target := targetOf(m.Arch)
		if name != m.Name || target != (plan.Target{Arch: m.Arch, SharedBytes: int64(m.SharedBytes), SMs: m.SMs}) {
			t.Errorf("%+v: %s %+v", m, name, target)
		}
		for _, x := range auditMatrices(g, target, plan.Options{Precision: "q8", KVType: format.F16}) {
			// The rings are made for the shared memory of an H200.
			if ring := strings.Contains(x.Variant, "ring"); !x.Covered || ring != (m.Name == "H200") {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}
