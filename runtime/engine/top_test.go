package engine

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/sample"
)

// topping is the CPU device with sessions that find up to 100 of the largest logits.
type topping struct{ device.Device }

type toppingModel struct{ device.Model }

type toppingSession struct{ device.Session }

func init() {
	device.Register("topping", func(string) (device.Device, error) {
		d, err := device.Open("cpu")
		return topping{d}, err
	})
}

func (d topping) Load(ctx context.Context, g *op.Graph, o device.LoadOptions) (device.Model, error) {
	m, err := d.Device.Load(ctx, g, o)
	return toppingModel{m}, err
}

func (m toppingModel) NewSession(o device.SessionOptions) (device.Session, error) {
	s, err := m.Model.NewSession(o)
	return toppingSession{s}, err
}

func (toppingSession) Tops(k int) bool { return k <= 100 }

func (s toppingSession) ForwardTop(ctx context.Context, tokens []int32, k int) (ids []int32, logits []float32, err error) {
	rows, err := s.Forward(ctx, tokens, device.LogitsLast)
	if err != nil {
		return nil, nil, err
	}
	for i := range rows[0] {
		ids = append(ids, int32(i))
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		if rows[0][a] > rows[0][b] {
			return -1
		}
		return 1
	})
	ids = ids[:k]
	for _, id := range ids {
		logits = append(logits, rows[0][id])
	}
	return ids, logits, nil
}

// TestLargestLogits: a device that finds the largest logits is asked for those that the sampler needs, where they are enough, and gives the
// same text; otherwise the result says why all were copied. Two end tokens are forbidden, which takes two more.
func TestLargestLogits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *sample.Params)
		top    int
		why    string
	}{
		"defaults":     {func(p *sample.Params) {}, 42, ""},
		"greedy":       {func(p *sample.Params) { p.Temp = 0 }, 3, ""},
		"penalties":    {func(p *sample.Params) { p.TopK, p.RepeatPenalty, p.RepeatLastN = 10, 1.2, 20 }, 32, ""},
		"no top_k":     {func(p *sample.Params) { p.TopK = 0 }, 0, "top_k is off"},
		"a wide top_k": {func(p *sample.Params) { p.TopK = 101 }, 0, "the device does not find the 103 largest"},
	} {
		p := sample.Defaults()
		p.Seed, p.Temp = 11, 3
		c.change(&p)
		var texts []string
		for _, on := range []string{"cpu", "topping"} {
			m := chain(t, nil, Options{Device: on})
			g, err := m.Generate(background, Request{Tokens: []int32{1, 2, 3}, MaxTokens: 30, IgnoreEnd: true, Params: &p})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for piece, err := range g.Pieces {
				if err != nil {
					t.Fatalf("%s on %s: %v", name, on, err)
				}
				text.WriteString(piece.Text)
			}
			texts = append(texts, text.String())
			r := g.Result()
			if on == "cpu" && (r.Top != 0 || r.WhyAll != "") || on == "topping" && (r.Top != c.top || r.WhyAll != c.why) {
				t.Errorf("%s on %s: the best %d, all because %q", name, on, r.Top, r.WhyAll)
			}
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: %q from all logits, %q from the largest", name, texts[0], texts[1])
		}
	}
}
