package devicetest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
)

// Steps runs a graph on a device, with a cache of a type, over a prompt and then the given tokens, and returns the logits after each.
func Steps(t testing.TB, name string, g *op.Graph, o device.LoadOptions, kv format.Type, prompt, tokens []int32) (logits [][]float32) {
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
	s, err := m.NewSession(device.SessionOptions{Context: min(g.Context, len(prompt)+len(tokens)+16), KVType: kv})
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

// Rounded says how far logits with a rounded cache are from the reference over keys and values rounded alike, from that over keys and
// values as they are, and how far these two are from each other: what rounding moves.
type Rounded struct{ Reference, Exact, Moved float64 }

// RoundedCache judges the logits after a golden model's prompt, and after each of the tokens that follow, with a cache in q8_0.
func RoundedCache(t testing.TB, golden archtest.Golden, g *op.Graph, tokens []int32, logits [][]float32) (all []Rounded) {
	t.Helper()
	ids := append(slices.Clone(golden.Tokens), tokens...)
	q8, exact := Reference(g, ids, device.F32, format.Q8_0), Reference(g, ids, device.F32, format.F32)
	apart := func(a, b []float64) (d float64) {
		for i := range a {
			d = max(d, math.Abs(a[i]-b[i]))
		}
		return d
	}
	for i, row := range logits {
		wide, at := make([]float64, len(row)), len(golden.Tokens)-1+i
		for k, x := range row {
			wide[k] = float64(x)
		}
		r := Rounded{apart(wide, q8[at]), apart(wide, exact[at]), apart(q8[at], exact[at])}
		t.Logf("cache in q8_0, step %d: %.5f from the reference over it, %.5f from that over exact numbers; rounding moves %.5f", i, r.Reference, r.Exact, r.Moved)
		all = append(all, r)
	}
	return all
}

func argmax(v []float32) int { return slices.Index(v, slices.Max(v)) }

// Golden runs every golden model on a device that goes through the GPU plan: first-step logits as near the exact ones as the
// class of the arithmetic allows, with the prompt on tensor cores and off them; and off them, in the CPU device's own class, over 8 steps
// that device's choice of token. The two add in different orders, and a sum that moves by its last bit can move an activation's 8-bit
// code by one; so where they choose apart, the two tokens must lie as near to each other as the two devices do. Packages of both devices
// must be imported.
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
			allowed := max(0.02, golden.ClassTolerance())
			have := Steps(t, name, g, device.LoadOptions{Precision: device.Q8}, format.F16, golden.Tokens, nil)
			if apart := archtest.Distance(have[0], exact); !(apart <= allowed) {
				t.Errorf("logits of a prompt on tensor cores are %.4f from the exact ones, allowed %.4f", apart, allowed)
			}
			t.Setenv("MINFER_WGMMA", "0")
			t.Setenv("MINFER_MMA", "0")
			have = Steps(t, name, g, device.LoadOptions{Precision: device.Q8}, format.F16, golden.Tokens, follow)
			if apart := archtest.Distance(have[0], exact); !(apart <= allowed) {
				t.Errorf("q8 logits are %.4f from the exact ones, allowed %.4f", apart, allowed)
			}
			for i, want := range Steps(t, "cpu", g, device.LoadOptions{Precision: device.Q8}, format.F16, golden.Tokens, follow) {
				apart := archtest.Distance(have[i], want)
				if !(apart <= allowed) {
					t.Errorf("step %d: logits are %.4f from the CPU device's, allowed %.4f", i, apart, allowed)
				}
				if a, b := argmax(have[i]), argmax(want); a != b && float64(want[b]-want[a]) > 2*apart {
					t.Errorf("step %d: token %d, the CPU device's is %d and leads by %.4f", i, a, b, want[b]-want[a])
				}
			}
			f32 := Steps(t, name, g, device.LoadOptions{Precision: device.F32}, format.F16, golden.Tokens, nil)
			if apart := archtest.Distance(f32[0], exact); !(apart <= 0.02) {
				t.Errorf("f32 logits are %.4f from the exact ones, allowed 0.02", apart)
			}
			steps := Steps(t, name, g, device.LoadOptions{Precision: device.F32}, format.Q8_0, golden.Tokens, follow)
			for i, apart := range RoundedCache(t, golden, g, follow, steps) {
				if !(apart.Reference <= 0.02) || !(apart.Exact <= 0.02+apart.Moved) {
					t.Errorf("step %d with a cache in q8_0: logits are %.4f from the reference over it, allowed 0.02, and %.4f from those over numbers that are not rounded, allowed %.4f",
						i, apart.Reference, apart.Exact, 0.02+apart.Moved)
				}
			}
		})
	}
}
