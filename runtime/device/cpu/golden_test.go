package cpu

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/gguf"
)

// openGolden opens a session on a golden model.
func openGolden(t testing.TB, g archtest.Golden, o device.LoadOptions, kv format.Type) device.Session {
	t.Helper()
	f, err := gguf.Open(g.Path)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Device{}.Load(context.Background(), graph, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(device.SessionOptions{Context: 128, KVType: kv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); m.Close(); f.Close() })
	return s
}

// How far logits may be from the exact ones where activations are not rounded: the first is what models are held to, the
// second what is seen where the cache is f32 as well, with some room. A part of a row left out shows in the second.
const (
	exactTolerance = 0.02
	sumTolerance   = 1e-4
)

// TestGolden holds each golden model at each precision to llama.cpp's logits: every step of its greedy run, fed with
// llama.cpp's own tokens so that a near tie does not send the runs apart.
func TestGolden(t *testing.T) {
	for _, g := range archtest.Goldens(t) {
		for _, c := range []struct {
			precision device.Precision
			kv        format.Type
		}{{device.Q8, format.F32}, {device.F32, format.F32}, {device.Q8, format.F16}, {device.F32, format.F16}} {
			kv, _ := format.Lookup(c.kv)
			t.Run(g.Name+"/"+string(c.precision)+"/kv-"+kv.Name, func(t *testing.T) {
				tolerance := exactTolerance
				if c.precision == device.Q8 && !plain(g.Name) {
					tolerance = g.ClassTolerance()
				} else if c.kv == format.F32 {
					tolerance = sumTolerance
				}
				s := openGolden(t, g, device.LoadOptions{Precision: c.precision}, c.kv)
				next := g.Tokens
				for step := range g.Exact.Tokens {
					rows, err := s.Forward(context.Background(), next, device.LogitsLast)
					if err != nil {
						t.Fatal(err)
					}
					d := archtest.Distance(rows[0], g.Exact.Logits[step])
					if step == 0 {
						t.Logf("first step: %.5f of %.5f", d, tolerance)
						if !(d <= tolerance) {
							t.Errorf("first step: logits are %.5f from the exact ones, more than %.5f", d, tolerance)
						}
					} else if limit := stepTolerance(g, step, tolerance); !(d <= limit) {
						t.Errorf("step %d: logits are %.5f from the exact ones, more than %.5f", step, d, limit)
					}
					next = g.Exact.Tokens[step : step+1]
				}
			})
		}
	}
}

// TestGoldenRoundedCache: a cache in q8_0 gives what rounded keys and values give, and is as far from exact ones as rounding moves logits.
func TestGoldenRoundedCache(t *testing.T) {
	for _, g := range archtest.Goldens(t) {
		t.Run(g.Name, func(t *testing.T) {
			f, err := gguf.Open(g.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			graph, err := arch.Build(f)
			if err != nil {
				t.Fatal(err)
			}
			follow := g.Peer.Tokens[:7]
			steps := devicetest.Steps(t, "cpu", graph, device.LoadOptions{Precision: device.F32}, format.Q8_0, g.Tokens, follow)
			for i, apart := range devicetest.RoundedCache(t, g, graph, follow, steps) {
				if !(apart.Reference <= exactTolerance) || !(apart.Exact <= exactTolerance+apart.Moved) {
					t.Errorf("step %d: logits are %.5f from the reference over a rounded cache, allowed %g, and %.5f from those over exact numbers, allowed %.5f",
						i, apart.Reference, exactTolerance, apart.Exact, exactTolerance+apart.Moved)
				}
			}
		})
	}
}

// plain reports whether a golden model holds plain numbers alone.
func plain(name string) bool {
	for _, f := range []string{"-f32", "-f16", "-bf16"} {
		if strings.HasSuffix(name, f) {
			return true
		}
	}
	return false
}

// stepTolerance is that of a later step. Where llama.cpp's own run is still on the exact run's tokens its distance at
// that step counts if it is larger; a small difference in the cache grows from step to step.
func stepTolerance(g archtest.Golden, step int, first float64) float64 {
	limit := 2 * first
	for i := range step {
		if g.Peer.Tokens[i] != g.Exact.Tokens[i] {
			return math.Max(limit, 4*first)
		}
	}
	return math.Max(limit, 2*archtest.Distance(g.Exact.Logits[step], g.Peer.Logits[step]))
}
