package plan

import (
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

var (
	ampere = Target{Arch: 80, SharedBytes: 163 << 10, SMs: 108}
	hopper = Target{Arch: 90, SharedBytes: 227 << 10, SMs: 132}
)

// built is the graph of a model.
func built(t *testing.T, m archtest.Model) *op.Graph {
	t.Helper()
	f, err := m.File()
	if err != nil {
		t.Fatal(err)
	}
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tall is a small model whose down projection is as wide as a 7B's, in q6_K: the shape of the fault that began it all.
func tall(t *testing.T, target Target) *Plan {
	t.Helper()
	m := archtest.Small("qwen2")
	m.Layers, m.Embd, m.FF, m.Quantize = 1, 256, 18944, format.Q6K
	g := built(t, m)
	p, err := New(g, target, Options{Precision: device.Q8, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A step whose logits nobody wants launches nothing past the cache of its last layer.
func TestNoLogitsWanted(t *testing.T) {
	p := tall(t, ampere)
	for _, tokens := range []int{1, 2, 7, 8, 512} {
		none, err := p.Step(tokens, 0)
		if err != nil {
			t.Fatalf("%d tokens: %v", tokens, err)
		}
		one, err := p.Step(tokens, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(none) == 0 || len(none) >= len(one) {
			t.Errorf("%d tokens: %d launches without logits, %d with", tokens, len(none), len(one))
		}
		for _, l := range none {
			if l.Name == "output" || strings.Contains(l.Name, "result") {
				t.Errorf("%d tokens: %s is computed for nobody", tokens, l.Name)
			}
		}
	}
}

// The 7B down projection of 18944 columns lands on a variant that covers its 592 units.
func TestDownProjection(t *testing.T) {
	for _, target := range []Target{ampere, hopper} {
		p := tall(t, target)
		launches, err := p.Step(1, 1)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, l := range launches {
			if l.Weight == nil || l.Weight.Weight.Cols != 18944 {
				continue
			}
			found = true
			for _, b := range l.Variant.Bounds {
				if b.Kind == kernel.Max && b.Dim == "cols" && b.Value < 18944 {
					t.Errorf("sm_%d: %s runs 18944 columns on %s, which ends at %d", target.Arch, l.Name, l.Variant, b.Value)
				}
			}
			if l.Content <= 0 || l.Streamed < l.Content {
				t.Errorf("%s streams %d bytes for %d of content", l.Name, l.Streamed, l.Content)
			}
		}
		if !found {
			t.Error("no down projection")
		}
	}
}

// The class of a product is the user's choice; left to measurements, it is what crossed over on the device's kind.
func TestCrossover(t *testing.T) {
	m := archtest.Small("qwen2")
	m.Layers, m.Embd, m.FF, m.Vocab, m.Quantize = 1, 1024, 4096, 1025, format.Q4K
	g := built(t, m)
	gb10 := Target{Arch: 121, SharedBytes: 99 << 10, SMs: 48}
	for _, c := range []struct {
		target    Target
		precision device.Precision
		want      map[string]bool // whether the product crosses over
	}{
		{hopper, device.Auto, map[string]bool{"ffn_gate": false, "ffn_up": false, "ffn_down": false, "output": false}},
		{ampere, device.Auto, map[string]bool{"ffn_gate": false, "ffn_up": false, "ffn_down": false, "output": false}},
		{gb10, device.Auto, map[string]bool{"ffn_gate": true, "ffn_up": true, "ffn_down": true, "output": true}},
		{hopper, device.Q8, map[string]bool{"ffn_gate": false, "ffn_up": false, "ffn_down": false, "output": false}},
		{hopper, device.F32, map[string]bool{"ffn_gate": false, "ffn_up": false, "ffn_down": false, "output": false}},
	} {
		p, err := New(g, c.target, Options{Precision: c.precision, KVType: format.F16})
		if err != nil {
			t.Fatal(err)
		}
		for _, tokens := range []int{1, 2, 64} {
			launches, err := p.Step(tokens, 1)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, l := range launches {
				for name, crosses := range c.want {
					if l.Weight == nil || strings.TrimPrefix(l.Weight.Weight.Name, "blk.0.") != name+".weight" {
						continue
					}
					seen++
					f32 := crosses || c.precision == device.F32
					if (l.Crossed != nil) != crosses || strings.Contains(l.Why(), "before class q8") != crosses || strings.Contains(l.Variant.Family, "f32") != f32 {
						t.Errorf("sm_%d, %s, %d tokens: %s runs on %s: %s", c.target.Arch, c.precision, tokens, l.Name, l.Variant, l.Why())
					}
				}
			}
			if seen < 2 {
				t.Errorf("sm_%d, %s, %d tokens: %d of the products are launches", c.target.Arch, c.precision, tokens, seen)
			}
		}
	}
}

// Products of many tokens go to tensor cores, their activations rounded to bf16 once for all that read them; those of few, of another
// class, and of whom asks for neither stay where they are.
func TestManyTokens(t *testing.T) {
	m := archtest.Small("qwen2")
	m.Embd, m.FF, m.HD, m.Vocab, m.Quantize = 256, 2304, 64, 97, format.Q4K
	g := built(t, m)
	for _, c := range []struct {
		target    Target
		precision device.Precision
		off       kernel.Switches
		tokens    int
		mma       bool
	}{
		{hopper, device.Q8, nil, tileTokens - 1, false},
		{hopper, device.Q8, nil, tileTokens, true},
		{hopper, device.Q8, nil, 512, true},
		{ampere, device.Q8, nil, 512, true},
		{hopper, device.F32, nil, 512, false},
		{hopper, device.Q8, kernel.Switches{"MINFER_WGMMA": true}, 512, true},
		{hopper, device.Q8, kernel.Switches{"MINFER_WGMMA": true, "MINFER_MMA": true}, 512, false},
		{Target{Arch: 90, SharedBytes: 48 << 10, SMs: 1}, device.Q8, nil, 512, false},
	} {
		p, err := New(g, c.target, Options{Precision: c.precision, KVType: format.F16, Off: c.off})
		if err != nil {
			t.Fatal(err)
		}
		launches, err := p.Step(c.tokens, 1)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := p.Variants()
		if err != nil {
			t.Fatal(err)
		}
		rounded, products := map[int]int{}, 0
		for _, l := range launches {
			if !slices.Contains(loaded, l.Variant) {
				t.Errorf("%+v: %s runs on %s, which is not loaded", c, l.Name, l.Variant)
			}
			if l.Variant.Family == "round-bf16" && (l.Args[0].Ref != Value || l.Args[1] != (Arg{Ref: Halves, Index: l.Args[0].Index})) {
				t.Errorf("%s: %+v", l.Name, l.Args)
			}
			for k, a := range l.Args {
				if a.Ref == Halves && l.Variant.Args[k].Out {
					rounded[a.Index]++
				}
			}
			if l.Name == "blk.0.attn" && (l.Variant.Family == "attend-mma") == c.off["MINFER_MMA"] { // of f32 class, for whatever precision
				t.Errorf("%+v: attention runs on %s: %s", c, l.Variant, l.Why())
			}
			if l.Weight == nil || !strings.HasPrefix(l.Weight.Weight.Name, "blk.0.") { // the last layer ends with the wanted token alone
				continue
			}
			products++
			if on := l.Variant.Class == "bf16"; on != c.mma {
				t.Errorf("%+v: %s runs on %s: %s", c, l.Name, l.Variant, l.Why())
			}
			if c.mma && (l.Args[1].Ref != Halves || rounded[l.Args[1].Index] != 1) {
				t.Errorf("%+v: %s reads %+v, rounded %v", c, l.Name, l.Args[1], rounded)
			}
			small := strings.HasSuffix(l.Variant.Name, "small")
			if c.mma && small != (c.tokens <= 64 || l.Weight.Weight.Rows <= 2048) {
				t.Errorf("%+v: %s of %d rows runs on %s", c, l.Name, l.Weight.Weight.Rows, l.Variant)
			}
		}
		if products != 7 || c.mma != (len(rounded) > 0) {
			t.Errorf("%+v: %d products, rounded %v", c, products, rounded)
		}
	}
}

// Norms and gates write what products on tensor cores read in bf16, so that attention's result alone is rounded by a launch of its own; as f32
// they write what something else reads too, and in a decode step nothing but f32.
func TestRoundedWhereItIsMade(t *testing.T) {
	for _, name := range []string{"qwen2", "qwen3"} {
		for _, target := range []Target{ampere, hopper} {
			p := small(t, name, target, Options{Off: kernel.Switches{"MINFER_FUSE": true, "MINFER_RING": true}})
			for _, c := range []struct {
				tokens, wanted int
				rounds, nulls  string
			}{
				// The last layer goes on with the wanted tokens.
				{512, 1, "blk.0.attn (bf16)", "blk.0.attn_norm blk.0.ffn_norm blk.0.ffn_act blk.1.attn_norm"},
				{512, 0, "blk.0.attn (bf16)", "blk.0.attn_norm blk.0.ffn_norm blk.0.ffn_act blk.1.attn_norm"},
				{512, 64, "blk.0.attn (bf16) blk.1.attn_wanted (bf16)", "blk.0.attn_norm blk.0.ffn_norm blk.0.ffn_act blk.1.attn_norm blk.1.ffn_norm blk.1.ffn_act output_norm"},
				{tileTokens - 1, 1, "", ""},
				{1, 1, "", ""},
			} {
				launches, err := p.Step(c.tokens, c.wanted)
				if err != nil {
					t.Fatal(err)
				}
				var rounds, nulls []string
				for _, l := range launches {
					if l.Variant.Family == "round-bf16" {
						rounds = append(rounds, l.Name)
					}
					if l.Variant.Family != "rmsnorm" && l.Variant.Family != "silu-mul" {
						continue
					}
					args := map[string]Arg{}
					for k, a := range l.Variant.Args {
						args[a.Name] = l.Args[k]
					}
					out, halves := args["out"], args["halves"]
					if out.Ref == None {
						nulls = append(nulls, l.Name)
					}
					if out.Ref == None && halves.Ref == None || halves.Ref != None && c.tokens < tileTokens {
						t.Errorf("%s sm_%d, %+v: %s writes %+v and %+v", name, target.Arch, c, l.Name, out, halves)
					}
				}
				if have := strings.Join(rounds, " "); have != c.rounds {
					t.Errorf("%s sm_%d, %+v: rounded are %s", name, target.Arch, c, have)
				}
				if have := strings.Join(nulls, " "); have != c.nulls {
					t.Errorf("%s sm_%d, %+v: not written as f32 are %s", name, target.Arch, c, have)
				}
			}
		}
	}
}

// The largest logit alone is reduced, several are sorted, and one run is left in the end.
func TestTop(t *testing.T) {
	p := tall(t, hopper)
	p.Graph.Vocab = 152064
	// Up to 64 the keys of 75 runs of 2048 logits fit one merge of 5120; more of 38 runs of 4096 do not fit one of 2048.
	for k, want := range map[int]string{1: "argmax/block, top-k-merge/sift", 2: "top-k/sift, top-k-merge/sift", 40: "top-k/sift, top-k-merge/sift", 64: "top-k/sift, top-k-merge/sift", 65: "top-k/block, top-k-merge/block, top-k-merge/block"} {
		launches, bytes, err := p.Top(k)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range launches {
			names = append(names, l.Variant.String())
		}
		if got := strings.Join(names, ", "); got != want || launches[len(launches)-1].Grid[0] != 1 || bytes < int64(KeyBytes*k)*38 {
			t.Errorf("the best %d: %s, %d bytes, want %s", k, got, bytes, want)
		}
	}
	for _, k := range []int{0, -1, 1025, 152065} {
		if _, _, err := p.Top(k); err == nil {
			t.Errorf("the best %d are found", k)
		}
	}
}

// Whatever is launched is among the variants that a device loads: steps of any number of tokens, and the largest logits of any number.
func TestVariantsHoldWhatIsLaunched(t *testing.T) {
	g := *graph(t, "llama")
	for _, vocab := range []int{1, g.Vocab, 152064} {
		p := small(t, "llama", hopper, Options{})
		wide := *p.Graph
		wide.Vocab = vocab
		p.Graph = &wide
		all, err := p.Variants()
		if err != nil {
			t.Fatal(err)
		}
		var launches []Launch
		for _, tokens := range []int{1, 2, 7, 8, 100} {
			step, err := p.Step(tokens, 1)
			if err != nil {
				t.Fatal(err)
			}
			launches = append(launches, step...)
		}
		for _, k := range []int{1, 2, 3, 40, 64, 65, 1024} {
			if k > vocab {
				continue
			}
			top, _, err := p.Top(k)
			if err != nil {
				t.Fatal(err)
			}
			launches = append(launches, top...)
		}
		for _, l := range launches {
			if !slices.Contains(all, l.Variant) {
				t.Errorf("vocabulary of %d: %s is launched by %s, which is not loaded", vocab, l.Name, l.Variant)
			}
		}
	}
}
