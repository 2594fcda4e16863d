package emu_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/devicetest"
	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/kernel"
)

// A model whose weights allow it decodes by streaming kernels on a Hopper GPU and by the others on an older one; both give the logits of
// the CPU device, as near as the rounding of activations to 8 bits makes them.
func TestRoutesFollowTheArchitecture(t *testing.T) {
	for _, golden := range archtest.Goldens(t) {
		if golden.Name != "qwen2-tall-q4_K_M" && golden.Name != "llama-small-q4_K_M" {
			continue
		}
		f, err := gguf.Open(golden.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		g, err := arch.Build(f)
		if err != nil {
			t.Fatal(err)
		}
		want := devicetest.Steps(t, "cpu", g, device.LoadOptions{}, format.F16, golden.Tokens, golden.Peer.Tokens[:3])
		for _, c := range []struct {
			sm   int
			off  kernel.Switches
			want []string // families among the routes
		}{
			{80, nil, nil},
			{90, nil, []string{"project-ring-q8", "gate-ring-q8"}},
			{90, kernel.Switches{"MINFER_FUSE": true}, []string{"matvec-ring-q8"}},
		} {
			t.Run(fmt.Sprintf("%s/sm_%d/%v", golden.Name, c.sm, c.want), func(t *testing.T) {
				d := gpu.New("emu", func() (gpu.Driver, error) { return emu.Open(t.Context(), emu.Options{Arch: c.sm}) }, c.off)
				m, err := d.Load(t.Context(), g, device.LoadOptions{})
				if errors.Is(err, emu.ErrNoCompiler) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				families := map[string]bool{}
				for _, r := range m.Routes() {
					family, _, _ := strings.Cut(r.Kernel, "/")
					families[family] = true
				}
				for _, f := range []string{"matvec-ring-q8", "project-ring-q8", "gate-ring-q8"} {
					if families[f] != slices.Contains(c.want, f) {
						t.Errorf("routes through %v, want %v", families, c.want)
					}
				}
				s, err := m.NewSession(device.SessionOptions{Context: 64})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for i := range want {
					next := golden.Tokens
					if i > 0 {
						next = golden.Peer.Tokens[i-1 : i]
					}
					rows, err := s.Forward(t.Context(), next, device.LogitsLast)
					if err != nil {
						t.Fatal(err)
					}
					if apart, allowed := archtest.Distance(rows[0], want[i]), max(0.02, golden.ClassTolerance()); !(apart <= allowed) {
						t.Errorf("step %d: logits are %.4f from the CPU device's, allowed %.4f", i, apart, allowed)
					}
				}
			})
		}
	}
}
