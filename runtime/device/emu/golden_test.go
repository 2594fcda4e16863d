package emu_test

import (
	"context"
	"slices"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	_ "github.com/minfer/minfer/runtime/device/cpu"
	_ "github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// greedy runs a graph on a device: the logits of the first step, and the tokens of n.
func greedy(t *testing.T, name string, g *op.Graph, precision device.Precision, prompt []int32, n int) (first []float32, tokens []int32) {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Load(context.Background(), g, device.LoadOptions{Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: 64, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for next := prompt; len(tokens) < n; next = tokens[len(tokens)-1:] {
		rows, err := s.Forward(context.Background(), next, device.LogitsLast)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = slices.Clone(rows[0])
		}
		tokens = append(tokens, int32(slices.Index(rows[0], slices.Max(rows[0]))))
	}
	return first, tokens
}

// Every golden model through the GPU plan on the emulator: first-step logits as near the exact ones as the class of the
// arithmetic allows, and the CPU device's tokens for 8 steps.
func TestGoldenModels(t *testing.T) {
	for _, golden := range archtest.Goldens(t) {
		t.Run(golden.Name, func(t *testing.T) {
			f, err := gguf.Open(golden.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			g, err := arch.Build(f)
			if err != nil {
				t.Fatal(err)
			}
			exact, peer := golden.Exact.Logits[0], golden.Peer.Logits[0]
			first, tokens := greedy(t, "emu", g, device.Q8, golden.Tokens, 8)
			if have, allowed := archtest.Distance(first, exact), max(0.02, 1.5*archtest.Distance(peer, exact)); !(have <= allowed) {
				t.Errorf("q8 logits are %.4f from the exact ones, allowed %.4f", have, allowed)
			}
			if _, want := greedy(t, "cpu", g, device.Q8, golden.Tokens, 8); !slices.Equal(tokens, want) {
				t.Errorf("tokens %v, the CPU device's %v", tokens, want)
			}
			first, _ = greedy(t, "emu", g, device.F32, golden.Tokens, 1)
			if have := archtest.Distance(first, exact); !(have <= 0.02) {
				t.Errorf("f32 logits are %.4f from the exact ones, allowed 0.02", have)
			}
		})
	}
}
