package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/arch/archtest"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// graphs of small models, by architecture: rounding their weights takes long.
var graphs = map[string]*op.Graph{}

func graph(t *testing.T, name string) *op.Graph {
	t.Helper()
	if g := graphs[name]; g != nil {
		return g
	}
	m := archtest.Small(name)
	m.Layers, m.Embd, m.FF, m.Heads, m.KV, m.HD, m.Quantize = 2, 256, 512, 4, 2, 64, format.Q4K
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	graphs[name] = g
	return g
}

func small(t *testing.T, name string, target Target, o Options) *Plan {
	t.Helper()
	o.Precision, o.KVType = device.Q8, format.F16
	p, err := New(graph(t, name), target, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func families(t *testing.T, p *Plan, tokens int) (names []string) {
	t.Helper()
	launches, err := p.Step(tokens, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range launches {
		names = append(names, l.Variant.Family)
	}
	return names
}

// A decode step on Hopper is five launches a layer, whatever surrounds its products; the switch brings single operations back.
func TestChain(t *testing.T) {
	layer := "project-ring-q8 attend-step-mma project-ring-q8 gate-ring-q8 project-ring-q8 "
	want := "embed " + strings.Repeat(layer, 2) + "project-ring-q8"
	for _, name := range []string{"llama", "qwen2", "qwen3"} {
		if have := strings.Join(families(t, small(t, name, hopper, Options{}), 1), " "); have != want {
			t.Errorf("%s: %s\nwant %s", name, have, want)
		}
		single := strings.Join(families(t, small(t, name, hopper, Options{Off: kernel.Switches{"MINFER_FUSE": true}}), 1), " ")
		if strings.Contains(single, "project") || strings.Contains(single, "step") || !strings.Contains(single, "matvec-ring-q8") {
			t.Errorf("%s with MINFER_FUSE=0: %s", name, single)
		}
		old := strings.Join(families(t, small(t, name, hopper, Options{Off: kernel.Switches{"MINFER_STEP_MMA": true}}), 1), " ")
		if old != strings.ReplaceAll(want, "attend-step-mma", "attend-step") {
			t.Errorf("%s with MINFER_STEP_MMA=0: %s", name, old)
		}
		if many := strings.Join(families(t, small(t, name, hopper, Options{}), 8), " "); strings.Contains(many, "project") {
			t.Errorf("%s: 8 tokens: %s", name, many)
		}
	}
}

// Values in another format than queries and keys, as q4_K_M has them in half of the layers, are a launch of their own; the two stay together.
func TestChainOfTwoFormats(t *testing.T) {
	g := *graph(t, "llama")
	g.Ops = slices.Clone(g.Ops)
	for i, x := range g.Ops {
		if m, ok := x.(op.MatMul); ok && strings.Contains(m.Weight.Name, "attn_v") {
			w := *m.Weight
			w.Type, m.Weight = format.Q6K, &w
			g.Ops[i] = m
		}
	}
	p, err := New(&g, hopper, Options{Precision: device.Q8, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	launches, err := p.Step(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, l := range launches[1:4] {
		have = append(have, fmt.Sprintf("%s/%s %d", l.Variant.Family, l.Variant.Format, 1+len(l.Also)))
	}
	if want := []string{"project-ring-q8/q4_K 2", "project-ring-q8/q6_K 1", "attend-step-mma/f16 1"}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}

// What a launch reads is in its slot when it comes, fused or not: slots are written and read as the launches go.
func TestSlotsHoldWhatIsRead(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3"} {
		for _, target := range []Target{ampere, hopper} {
			p := small(t, name, target, Options{})
			slots, of := p.Slots()
			for _, tokens := range []int{1, 3, 8, 64} {
				launches, err := p.Step(tokens, 1)
				if err != nil {
					t.Fatal(err)
				}
				holds := map[RefKind][]op.Value{Value: make([]op.Value, len(slots)), Codes: make([]op.Value, len(slots)), Halves: make([]op.Value, len(slots))}
				for _, at := range holds {
					for i := range at {
						at[i] = -1
					}
				}
				for _, l := range launches {
					where := fmt.Sprintf("%s sm_%d, %d tokens: %s by %s", name, target.Arch, tokens, l.Name, l.Variant)
					written := map[int]bool{}
					for k, a := range l.Args {
						at := holds[a.Ref]
						if at == nil {
							continue
						}
						v, slot := op.Value(a.Index), of[a.Index]
						if l.Variant.Args[k].Out {
							written[slot] = written[slot] || a.Ref == Value
							continue
						}
						if at[slot] != v {
							t.Fatalf("%s reads value %d, its slot holds %d", where, v, at[slot])
						}
					}
					for k, a := range l.Args {
						if a.Ref == Value && !l.Variant.Args[k].Out && written[of[a.Index]] {
							t.Fatalf("%s reads and writes slot %d", where, of[a.Index])
						}
					}
					for k, a := range l.Args {
						if at := holds[a.Ref]; at != nil && l.Variant.Args[k].Out {
							at[of[a.Index]] = op.Value(a.Index)
						}
					}
				}
				if have := holds[Value][of[p.Graph.Logits]]; have != p.Graph.Logits {
					t.Errorf("%s: the slot of the logits holds %d", name, have)
				}
			}
		}
	}
}

// Without what a fusion reads later than the list says, slots would be given away too early: the test above sees it.
func TestFusionsHoldTheirOperands(t *testing.T) {
	p := small(t, "qwen2", hopper, Options{})
	plain, of := p.Graph.Slots()
	_, held := p.Slots()
	same := true
	for i := range of {
		same = same && of[i] == held[i]
	}
	if same {
		t.Errorf("fusions hold nothing longer, in %d slots", len(plain))
	}
}
