package archtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Golden is a model with what llama.cpp computes on it.
type Golden struct {
	Name   string // "qwen2-small-q4_K_M"
	Path   string
	Prompt string
	Tokens []int32 // of the prompt
	Vocab  int
	Exact  Steps // the weights dequantized, f32 throughout
	Peer   Steps // the weights as they are, with llama.cpp's rounding of activations
}

// Steps is a greedy run.
type Steps struct {
	Tokens []int32
	Logits [][]float32 // by step
}

// ClassTolerance is how far first-step logits may be from the exact ones when activations are rounded to 8 bits: 1.5
// times llama.cpp's own largest distance.
func (g Golden) ClassTolerance() float64 { return 1.5 * Distance(g.Exact.Logits[0], g.Peer.Logits[0]) }

// Distance is the largest absolute difference. It is NaN where a number is.
func Distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var d float64
	for i := range a {
		d = max(d, math.Abs(float64(a[i])-float64(b[i])))
	}
	return d
}

// Goldens reads the models in .golden at the root of the repository, sorted by name. The test is skipped where the
// folder is absent.
func Goldens(t testing.TB) []Golden {
	t.Helper()
	dir := filepath.Join(Root(t), ".golden")
	paths, err := filepath.Glob(filepath.Join(dir, "*.exact.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("no golden models: %s holds none; CI has them made", dir)
	}
	slices.Sort(paths)
	var all []Golden
	for _, p := range paths {
		base := strings.TrimSuffix(p, ".exact.json")
		g := Golden{Name: filepath.Base(base), Path: base + ".gguf"}
		for _, run := range []struct {
			kind string
			into *Steps
		}{{"exact", &g.Exact}, {"llamacpp", &g.Peer}} {
			if err := g.read(base+"."+run.kind, run.into); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, g)
	}
	return all
}

func (g *Golden) read(base string, s *Steps) error {
	text, err := os.ReadFile(base + ".json")
	if err != nil {
		return err
	}
	var j struct {
		Prompt string  `json:"prompt"`
		Vocab  int     `json:"n_vocab"`
		Tokens []int32 `json:"prompt_tokens"`
		Greedy []int32 `json:"greedy_tokens"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return fmt.Errorf("%s.json: %w", base, err)
	}
	data, err := os.ReadFile(base + ".f32")
	if err != nil {
		return err
	}
	if len(data) != 4*j.Vocab*len(j.Greedy) || len(data) == 0 {
		return fmt.Errorf("%s.f32: %d bytes for %d steps of %d", base, len(data), len(j.Greedy), j.Vocab)
	}
	g.Prompt, g.Vocab, g.Tokens, s.Tokens = j.Prompt, j.Vocab, j.Tokens, j.Greedy
	for step := range j.Greedy {
		l := make([]float32, j.Vocab)
		for i := range l {
			l[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*(step*j.Vocab+i):]))
		}
		s.Logits = append(s.Logits, l)
	}
	return nil
}

// Root is the root of the repository, found from the test's folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		t.Fatal("no go.mod above the test's folder")
	}
}
