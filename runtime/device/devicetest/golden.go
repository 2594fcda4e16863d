package devicetest

import (
	"context"
	"slices"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Steps runs a graph on a device over a prompt and then the given tokens, and returns the logits after each.
func Steps(t testing.TB, name string, g *op.Graph, o device.LoadOptions, prompt, tokens []int32) (logits [][]float32) {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Load(context.Background(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: min(g.Context, len(prompt)+len(tokens)+16), KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := -1; i < len(tokens); i++ {
		next := prompt
		if i >= 0 {
			next = tokens[i : i+1]
		}
		rows, err := s.Forward(context.Background(), next, device.LogitsLast)
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, slices.Clone(rows[0]))
	}
	return logits
}

func argmax(v []float32) int { return slices.Index(v, slices.Max(v)) }

// Golden runs every golden model on a device that goes through the GPU plan: first-step logits as near the exact ones as the
// class of the arithmetic allows, and over 8 steps the CPU device's choice of token. The two add in different orders, and a sum
// that moves by its last bit can move an activation's 8-bit code by one; so where they choose apart, the two tokens must lie as
// near to each other as the two devices do. Packages of both devices must be imported.
func Golden(t *testing.T, name string) {
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
			exact := golden.Exact.Logits[0]
			follow := golden.Peer.Tokens[:7]
			have := Steps(t, name, g, device.LoadOptions{Precision: device.Q8}, golden.Tokens, follow)
			if apart, allowed := archtest.Distance(have[0], exact), max(0.02, golden.ClassTolerance()); !(apart <= allowed) {
				t.Errorf("q8 logits are %.4f from the exact ones, allowed %.4f", apart, allowed)
			}
			for i, want := range Steps(t, "cpu", g, device.LoadOptions{Precision: device.Q8}, golden.Tokens, follow) {
				apart := archtest.Distance(have[i], want)
				if allowed := max(0.02, golden.ClassTolerance()); !(apart <= allowed) {
					t.Errorf("step %d: logits are %.4f from the CPU device's, allowed %.4f", i, apart, allowed)
				}
				if a, b := argmax(have[i]), argmax(want); a != b && float64(want[b]-want[a]) > 2*apart {
					t.Errorf("step %d: token %d, the CPU device's is %d and leads by %.4f", i, a, b, want[b]-want[a])
				}
			}
			f32 := Steps(t, name, g, device.LoadOptions{Precision: device.F32}, golden.Tokens, nil)
			if apart := archtest.Distance(f32[0], exact); !(apart <= 0.02) {
				t.Errorf("f32 logits are %.4f from the exact ones, allowed 0.02", apart)
			}
		})
	}
}
