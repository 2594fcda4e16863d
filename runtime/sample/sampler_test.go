package sample

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var negInf = float32(math.Inf(-1))

// plain has every stage off and temperature 1: a draw from the softmax of the logits.
func plain() Params {
	p := Defaults()
	p.Seed, p.TopK, p.TopP, p.MinP, p.Temp = 7, 0, 1, 0, 1
	return p
}

func mustNew(t testing.TB, p Params) *Sampler {
	t.Helper()
	s, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSample(t testing.TB, s *Sampler, logits []float32) int32 {
	t.Helper()
	id, err := s.Sample(logits)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// left runs the chain once and returns the ids that it drew from, in rising order.
func left(t testing.TB, p Params, logits []float32, seen ...int32) []int32 {
	t.Helper()
	s := mustNew(t, p)
	for _, id := range seen {
		s.Accept(id)
	}
	mustSample(t, s, logits)
	var ids []int32
	for _, c := range s.Candidates() {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestShares(t *testing.T) {
	const draws = 10000
	all := []float64{0.6439, 0.2369, 0.0871, 0.0321}
	tests := []struct {
		topK int
		want []float64
	}{
		{0, all}, {-1, all}, {4, all}, {1000, all},
		{1, []float64{1, 0, 0, 0}},
		{2, []float64{0.7311, 0.2689, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint("top_k ", tt.topK), func(t *testing.T) {
			p := plain()
			p.TopK = tt.topK
			s := mustNew(t, p)
			var got [4]int
			for range draws {
				got[mustSample(t, s, []float32{3, 2, 1, 0})]++
			}
			var chi float64
			for id, share := range tt.want {
				want := share * draws
				if want == 0 {
					if got[id] != 0 {
						t.Errorf("id %d was drawn %d times, its share is 0", id, got[id])
					}
					continue
				}
				chi += (float64(got[id]) - want) * (float64(got[id]) - want) / want
			}
			if chi > 16.3 { // 3 degrees of freedom, p = 0.001
				t.Errorf("counts %v do not fit shares %v: chi-square %.1f", got, tt.want, chi)
			}
		})
	}
}

// TestUniform holds the draw to a flat distribution over many ids: chi-square with 255 degrees of freedom.
func TestUniform(t *testing.T) {
	const n, draws = 256, 256 * 400
	s := mustNew(t, plain())
	logits := make([]float32, n)
	var got [n]int
	for range draws {
		got[mustSample(t, s, logits)]++
	}
	var chi float64
	for _, c := range got {
		d := float64(c) - draws/n
		chi += d * d / (draws / n)
	}
	if chi < 182 || chi > 340 { // p = 0.0002 on either side
		t.Errorf("chi-square %.1f over 256 equal logits", chi)
	}
}

func TestTemperature(t *testing.T) {
	logits := []float32{1, 4, 4, 3}
	for _, temp := range []float64{0, math.Copysign(0, -1)} {
		for seed := range int64(50) {
			p := Defaults()
			p.Seed, p.Temp, p.Typical, p.XTCProbability = seed, temp, 0.2, 1
			if id := mustSample(t, mustNew(t, p), logits); id != 1 {
				t.Fatalf("temp %g seed %d drew %d, greedy is 1", temp, seed, id)
			}
		}
	}
	t.Run("tiny", func(t *testing.T) {
		p := Defaults()
		p.Temp, p.TopP, p.MinP = 1e-9, 1, 0
		for seed := range int64(50) {
			p.Seed = seed
			s := mustNew(t, p)
			if id := mustSample(t, s, []float32{1, 3e38, -3e38, 3}); id != 1 {
				t.Fatalf("drew %d, want 1", id)
			}
			for _, c := range s.Candidates() {
				if math.IsNaN(c.P) || math.IsInf(c.Logit, 0) {
					t.Fatalf("candidate %+v is not finite", c)
				}
			}
		}
	})
	t.Run("hot", func(t *testing.T) {
		p := plain()
		p.Temp = 2
		s := mustNew(t, p)
		mustSample(t, s, []float32{2, 0})
		want := 1 / (1 + math.Exp(-1))
		if got := s.Candidates()[0].P; math.Abs(got-want) > 1e-15 {
			t.Errorf("softmax of {2, 0} at temperature 2 gives %v, want %v", got, want)
		}
	})
}

func TestFilters(t *testing.T) {
	ids := func(n ...int32) []int32 { return n }
	four := []float32{3, 2, 1, 0} // p = 0.644, 0.237, 0.087, 0.032
	three := []float32{0, 5, 1}
	tests := []struct {
		name   string
		logits []float32
		set    func(*Params)
		want   []int32
	}{
		{"all off", four, func(p *Params) {}, ids(0, 1, 2, 3)},
		{"top_p 0", three, func(p *Params) { p.TopP = 0 }, ids(1)},
		{"top_p 1e-9", three, func(p *Params) { p.TopP = 1e-9 }, ids(1)},
		{"top_p 0 after top_k 2", three, func(p *Params) { p.TopP, p.TopK = 0, 2 }, ids(1)},
		{"top_p 0.64", four, func(p *Params) { p.TopP = 0.64 }, ids(0)},
		{"top_p 0.65", four, func(p *Params) { p.TopP = 0.65 }, ids(0, 1)},
		{"top_p 0.97", four, func(p *Params) { p.TopP = 0.97 }, ids(0, 1, 2, 3)},
		{"top_p reached to the bit", []float32{1, 1}, func(p *Params) { p.TopP = 0.5 }, ids(0)},
		{"top_p reached to the bit in a ranked set", []float32{1, 1, 0}, func(p *Params) {
			p.MinP, p.TopK, p.TopP, p.Samplers = 0.01, 2, 0.5, []string{MinP, TopK, TopP}
		}, ids(0)},
		{"typ_p of a ranked set leaves it unranked", []float32{3, 2.5, 2, 0, -9}, func(p *Params) { // 0.506, 0.307, 0.186
			p.MinP, p.TopK, p.Typical, p.XTCProbability, p.XTCThreshold = 0.001, 3, 0.9, 1, 0.25
			p.Samplers = []string{MinP, TopK, TypicalP, XTC}
		}, ids(1, 2)},
		{"top_p of three", four, func(p *Params) { p.TopK, p.TopP = 3, 0.9 }, ids(0, 1)}, // 0.665, 0.245 of three
		{"min_p 1", three, func(p *Params) { p.MinP = 1 }, ids(1)},
		{"min_p 1 keeps ties", []float32{5, 5, 4}, func(p *Params) { p.MinP = 1 }, ids(0, 1)},
		{"min_p 0.1", four, func(p *Params) { p.MinP = 0.1 }, ids(0, 1, 2)},
		{"min_p 0.2", four, func(p *Params) { p.MinP = 0.2 }, ids(0, 1)},
		{"min_p before temperature", four, func(p *Params) { p.MinP, p.Temp = 0.1, 100 }, ids(0, 1, 2)},
		{"temperature first, by order", four, func(p *Params) {
			p.MinP, p.Temp, p.Samplers = 0.1, 100, []string{Temperature, MinP}
		}, ids(0, 1, 2, 3)},
		{"a stage that is not in the order", four, func(p *Params) { p.MinP, p.Samplers = 0.1, []string{Temperature} }, ids(0, 1, 2, 3)},
		{"top_k 2 ties keep the lowest ids", []float32{1, 2, 2, 2}, func(p *Params) { p.TopK = 2 }, ids(1, 2)},
		{"top_k above the vocabulary", four, func(p *Params) { p.TopK = 1000 }, ids(0, 1, 2, 3)},
		{"top_k after another stage", four, func(p *Params) {
			p.MinP, p.TopK, p.Samplers = 0.1, 2, []string{MinP, TopK}
		}, ids(0, 1)},
		// Entropy 0.9475; surprises 0.44, 1.44, 2.44, 3.44: distances 0.507, 0.493, 1.49, 2.49.
		{"typ_p 0.2 takes the typical, not the best", four, func(p *Params) { p.Typical = 0.2 }, ids(1)},
		{"typ_p 0.5", four, func(p *Params) { p.Typical = 0.5 }, ids(0, 1)},
		{"typ_p 0.9", four, func(p *Params) { p.Typical = 0.9 }, ids(0, 1, 2)},
		{"typ_p 0", four, func(p *Params) { p.Typical = 0 }, ids(1)},
		// Mean 1.5, deviation 1.118.
		{"top_n_sigma 1", four, func(p *Params) { p.TopNSigma = 1 }, ids(0, 1)},
		{"top_n_sigma 2", four, func(p *Params) { p.TopNSigma = 2 }, ids(0, 1, 2)},
		{"top_n_sigma 0 is off", four, func(p *Params) { p.TopNSigma = 0 }, ids(0, 1, 2, 3)},
		{"xtc drops all above the threshold but the last", four, func(p *Params) { p.XTCProbability, p.XTCThreshold = 1, 0.08 }, ids(2, 3)},
		{"xtc with one above the threshold", four, func(p *Params) { p.XTCProbability, p.XTCThreshold = 1, 0.3 }, ids(0, 1, 2, 3)},
		{"xtc above one half", four, func(p *Params) { p.XTCProbability, p.XTCThreshold = 1, 0.51 }, ids(0, 1, 2, 3)},
		{"xtc with no chance", four, func(p *Params) { p.XTCProbability, p.XTCThreshold = 0, 0.01 }, ids(0, 1, 2, 3)},
		{"masked logits", []float32{negInf, 1, negInf, 0}, func(p *Params) {}, ids(1, 3)},
		{"masked logits under top_k", []float32{negInf, 1, negInf, 0}, func(p *Params) { p.TopK = 3 }, ids(1, 3)},
		{"forbidden", four, func(p *Params) { p.Forbidden = ids(0, 3) }, ids(1, 2)},
		{"bias of negative infinity", four, func(p *Params) { p.LogitBias = []Bias{{1, math.Inf(-1)}} }, ids(0, 2, 3)},
		{"biases add up", four, func(p *Params) { p.TopK, p.LogitBias = 1, []Bias{{3, 2}, {3, 2}} }, ids(3)},
		{"one logit", []float32{-1e30}, func(p *Params) { *p = Defaults() }, ids(0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plain()
			tt.set(&p)
			if diff := cmp.Diff(tt.want, left(t, p, tt.logits)); diff != "" {
				t.Error("candidates left (-want +got):\n" + diff)
			}
		})
	}
}

func TestPenalties(t *testing.T) {
	type seen = []int32
	tests := []struct {
		name string
		set  func(*Params)
		seen seen
		want []float64
	}{
		{"positive is divided, negative multiplied", func(p *Params) { p.RepeatPenalty = 1.5 }, seen{0, 1}, []float64{1.333333, -1.5, -2}},
		{"1 changes nothing", func(p *Params) { p.RepeatPenalty = 1 }, seen{0, 1}, []float64{2, -1, -2}},
		{"window 0", func(p *Params) { p.RepeatPenalty, p.RepeatLastN = 1.5, 0 }, seen{0, 1}, []float64{2, -1, -2}},
		{"window of all", func(p *Params) { p.RepeatPenalty, p.RepeatLastN = 1.5, -1 }, seen{0, 1}, []float64{1.333333, -1.5, -2}},
		{"window larger than the history", func(p *Params) { p.RepeatPenalty, p.RepeatLastN = 1.5, 1000 }, seen{0, 1}, []float64{1.333333, -1.5, -2}},
		{"window of one", func(p *Params) { p.RepeatPenalty, p.RepeatLastN = 1.5, 1 }, seen{0, 1}, []float64{2, -1.5, -2}},
		{"five sightings count as one", func(p *Params) { p.RepeatPenalty = 1.5 }, seen{0, 0, 0, 0, 0}, []float64{1.333333, -1, -2}},
		{"frequency counts each", func(p *Params) { p.FrequencyPenalty = 0.5 }, seen{0, 0, 0, 0, 0, 2}, []float64{-0.5, -1, -2.5}},
		{"frequency counts the window alone", func(p *Params) { p.FrequencyPenalty, p.RepeatLastN = 0.5, 2 }, seen{0, 0, 0, 1, 0}, []float64{1.5, -1.5, -2}},
		{"presence counts once", func(p *Params) { p.PresencePenalty = 0.5 }, seen{0, 0, 0, 0, 0, 2}, []float64{1.5, -1, -2.5}},
		{"all three", func(p *Params) { p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty = 2, 0.25, 0.5 }, seen{0, 0, 1}, []float64{0, -2.75, -2}},
		{"a reward", func(p *Params) { p.RepeatPenalty, p.PresencePenalty = 0.5, -1 }, seen{0, 1}, []float64{5, 0.5, -2}},
		{"ids outside these logits", func(p *Params) { p.RepeatPenalty = 1.5 }, seen{900, 0}, []float64{1.333333, -1, -2}},
		{"penalties after another stage", func(p *Params) {
			p.RepeatPenalty, p.TopK, p.Samplers = 1.5, 3, []string{TopK, Penalties}
		}, seen{0, 1}, []float64{1.333333, -1.5, -2}},
		{"penalties not in the order", func(p *Params) { p.RepeatPenalty, p.Samplers = 1.5, []string{TopK} }, seen{0, 1}, []float64{2, -1, -2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plain()
			tt.set(&p)
			s := mustNew(t, p)
			for _, id := range tt.seen {
				s.Accept(id)
			}
			logits := []float32{2, -1, -2}
			for round := range 2 { // the second finds the same: nothing is left in the logits or the counts
				mustSample(t, s, logits)
				got := make([]float64, 3)
				for _, c := range s.Candidates() {
					got[c.ID] = c.Logit
				}
				for id := range got {
					if math.Abs(got[id]-tt.want[id]) > 1e-5 {
						t.Errorf("round %d: logits %v, want %v", round, got, tt.want)
						break
					}
				}
			}
			if diff := cmp.Diff([]float32{2, -1, -2}, logits); diff != "" {
				t.Error("the caller's logits changed:\n" + diff)
			}
		})
	}
}

func TestWindowSlides(t *testing.T) {
	p := plain()
	p.PresencePenalty, p.RepeatLastN, p.Temp = 10, 3, 0
	s := mustNew(t, p)
	for i, want := range []int32{0, 1, 2, 3, 0, 1, 2, 3} {
		id := mustSample(t, s, []float32{4, 3, 2, 1})
		if id != want {
			t.Fatalf("step %d drew %d, want %d: a window of 3 lets an id come back after 3 others", i, id, want)
		}
		s.Accept(id)
	}
	s.Reset()
	if id := mustSample(t, s, []float32{4, 3, 2, 1}); id != 0 {
		t.Errorf("after Reset drew %d, want 0", id)
	}
}

func TestValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		flag, value string
		set         func(*Params)
	}{
		{"--seed", "-2", func(p *Params) { p.Seed = -2 }},
		{"--repeat-last-n", "-2", func(p *Params) { p.RepeatLastN = -2 }},
		{"--repeat-penalty", "0", func(p *Params) { p.RepeatPenalty = 0 }},
		{"--repeat-penalty", "-1", func(p *Params) { p.RepeatPenalty = -1 }},
		{"--repeat-penalty", "NaN", func(p *Params) { p.RepeatPenalty = nan }},
		{"--repeat-penalty", "+Inf", func(p *Params) { p.RepeatPenalty = inf }},
		{"--frequency-penalty", "NaN", func(p *Params) { p.FrequencyPenalty = nan }},
		{"--presence-penalty", "-Inf", func(p *Params) { p.PresencePenalty = -inf }},
		{"--top-nsigma", "-0.5", func(p *Params) { p.TopNSigma = -0.5 }},
		{"--top-nsigma", "NaN", func(p *Params) { p.TopNSigma = nan }},
		{"--top-k", "-2", func(p *Params) { p.TopK = -2 }},
		{"--typical", "1.5", func(p *Params) { p.Typical = 1.5 }},
		{"--top-p", "-0.1", func(p *Params) { p.TopP = -0.1 }},
		{"--top-p", "NaN", func(p *Params) { p.TopP = nan }},
		{"--min-p", "1.5", func(p *Params) { p.MinP = 1.5 }},
		{"--xtc-probability", "2", func(p *Params) { p.XTCProbability = 2 }},
		{"--xtc-threshold", "NaN", func(p *Params) { p.XTCThreshold = nan }},
		{"--temp", "-1", func(p *Params) { p.Temp = -1 }},
		{"--temp", "NaN", func(p *Params) { p.Temp = nan }},
		{"--temp", "+Inf", func(p *Params) { p.Temp = inf }},
		{"--logit-bias", "-3", func(p *Params) { p.LogitBias = []Bias{{-3, 1}} }},
		{"--logit-bias", "5+Inf", func(p *Params) { p.LogitBias = []Bias{{5, inf}} }},
		{"--logit-bias", "5+NaN", func(p *Params) { p.LogitBias = []Bias{{5, nan}} }},
		{"--samplers", `"mirostat"`, func(p *Params) { p.Samplers = []string{"mirostat"} }},
	}
	for _, tt := range tests {
		t.Run(tt.flag+" "+tt.value, func(t *testing.T) {
			p := Defaults()
			tt.set(&p)
			_, err := New(p)
			var pe *ParamError
			if !errors.As(err, &pe) {
				t.Fatalf("accepted, or no ParamError: %v", err)
			}
			if pe.Flag != tt.flag || pe.Value != tt.value || pe.Allowed == "" {
				t.Errorf("error %q does not name %s %s and what is allowed", err, tt.flag, tt.value)
			}
		})
	}
	if err := Defaults().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	p := Defaults()
	p.Temp, p.TopK = -1, -9
	if err := p.Validate(); !strings.Contains(err.Error(), "--temp -1") || !strings.Contains(err.Error(), "--top-k -9") {
		t.Errorf("%q does not name both faults", err)
	}
}

func TestParseSamplers(t *testing.T) {
	tests := []struct {
		text, err string
		want      []string
	}{
		{text: "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", want: defaultOrder},
		{text: "top-k; nucleus ;temp", want: []string{TopK, TopP, Temperature}},
		{text: "", want: []string{}},
		{text: "top_k;;temp", err: `--samplers "" is not allowed: names from penalties;`},
		{text: "mirostat", err: `--samplers "mirostat" is not allowed: names from penalties;`},
		{text: "top_k;top-k", err: `--samplers "top_k" is not allowed: each name once`},
	}
	for _, tt := range tests {
		got, err := ParseSamplers(tt.text)
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%q: error %v, want %s", tt.text, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", tt.text, err, diff)
		}
	}
}

func TestNotFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		for _, temp := range []float64{0, 1} {
			for _, topK := range []int{0, 2} {
				p := plain()
				p.Temp, p.TopK = temp, topK
				_, err := mustNew(t, p).Sample([]float32{0, 9, bad, 1})
				if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "token 2") {
					t.Errorf("logit %v at temp %g: %v", bad, temp, err)
				}
			}
		}
	}
}

// TestPick: each candidate has its share of [0, 1), one without probability none, and what rounding leaves at the end
// is the last one's.
func TestPick(t *testing.T) {
	s := &Sampler{candidates: []Candidate{{P: 0, ID: 1}, {P: 0.25, ID: 2}, {P: 0, ID: 3}, {P: 0.5, ID: 4}, {P: 0.125, ID: 5}, {P: 0, ID: 6}}}
	for u, want := range map[float64]int32{0: 2, 0.2499: 2, 0.25: 4, 0.7499: 4, 0.75: 5, 0.9999: 5} {
		if got := s.pick(u); got != want {
			t.Errorf("%v picks %d, want %d", u, got, want)
		}
	}
}

func TestNoCandidate(t *testing.T) {
	for _, logits := range [][]float32{nil, {negInf, negInf, negInf}} {
		for _, temp := range []float64{0, 1} {
			for _, topK := range []int{0, 1, 40} {
				p := plain()
				p.Temp, p.TopK = temp, topK
				if id, err := mustNew(t, p).Sample(logits); !errors.Is(err, ErrNoCandidate) {
					t.Errorf("%v at temp %g, top_k %d: %d %v", logits, temp, topK, id, err)
				}
			}
		}
	}
}

func TestBiasOutsideVocabulary(t *testing.T) {
	for flag, p := range map[string]Params{
		"--logit-bias": {LogitBias: []Bias{{3, 1}}, RepeatPenalty: 1},
		"--ignore-eos": {Forbidden: []int32{3}, RepeatPenalty: 1},
	} {
		_, err := mustNew(t, p).Sample([]float32{0, 0, 0})
		if err == nil || !strings.HasPrefix(err.Error(), flag+" 3 is not allowed: a token id below the vocabulary's 3") {
			t.Errorf("%v", err)
		}
	}
}

func TestHugeBias(t *testing.T) {
	p := plain()
	p.LogitBias = []Bias{{0, 1e300}, {1, -1e300}}
	s := mustNew(t, p)
	if id := mustSample(t, s, []float32{0, 0}); id != 0 {
		t.Errorf("drew %d under a bias of 1e300 on 0", id)
	}
}

// TestPinned holds the stream to its bytes: a seed gives the same tokens in every version and on every platform.
func TestPinned(t *testing.T) {
	s := mustNew(t, plain())
	var stream []uint64
	for range 3 {
		stream = append(stream, s.random.Uint64())
	}
	if diff := cmp.Diff(pinnedStream, stream); diff != "" {
		t.Error("the random stream of seed 7 changed:\n" + diff)
	}
	p := Defaults()
	p.Seed, p.RepeatPenalty, p.Typical, p.XTCProbability = 42, 1.1, 0.9, 0.3
	s = mustNew(t, p)
	logits := noise(1, 5000)
	var ids []int32
	for range 16 {
		id := mustSample(t, s, logits)
		s.Accept(id)
		ids = append(ids, id)
	}
	if diff := cmp.Diff(pinnedIDs, ids); diff != "" {
		t.Error("the tokens of seed 42 changed:\n" + diff)
	}
}

// noise is a fixed vector of logits, about normal with deviation 3, from integer arithmetic alone.
func noise(seed uint64, n int) []float32 {
	r := rand.NewPCG(seed, 99)
	logits := make([]float32, n)
	for i := range logits {
		var sum int64
		for range 8 {
			sum += int64(r.Uint64() >> 44) // 20 bits
		}
		logits[i] = float32(sum-4<<20) / (1 << 18)
	}
	return logits
}

func TestSeed(t *testing.T) {
	run := func(seed int64) (int64, []int32) {
		p := Defaults()
		p.Seed, p.Temp = seed, 2
		s := mustNew(t, p)
		var ids []int32
		for range 20 {
			ids = append(ids, mustSample(t, s, noise(3, 300)))
		}
		s.Reset()
		for i := range ids {
			if id := mustSample(t, s, noise(3, 300)); id != ids[i] {
				t.Fatalf("after Reset step %d drew %d, before %d", i, id, ids[i])
			}
		}
		return s.Seed(), ids
	}
	chosen, ids := run(-1)
	if chosen < 0 || chosen > math.MaxUint32 {
		t.Errorf("chosen seed %d", chosen)
	}
	again, same := run(chosen)
	if again != chosen || !slices.Equal(ids, same) {
		t.Errorf("the reported seed %d does not give the text again", chosen)
	}
	if _, other := run(chosen + 1); slices.Equal(ids, other) {
		t.Error("another seed gives the same text")
	}
}

// exactExp is exp(x) to 150 bits: Taylor's series of x/2^64, squared 64 times. package math rounds too, and differently on each machine,
// so that it is no judge of a last place.
func exactExp(x float64) *big.Float {
	const prec, halvings = 256, 64
	num := func(v float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(v) }
	reduced := num(x)
	reduced.SetMantExp(reduced, -halvings)
	sum, term := num(1), num(1)
	for i := 1; i <= 8; i++ {
		term.Mul(term, reduced).Quo(term, num(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestMath holds exp and log to 1 unit in the last place of the exact value, and pins their bits.
func TestMath(t *testing.T) {
	// off is the distance from the exact value in units of the last place.
	off := func(got float64, want *big.Float) float64 {
		unit := math.Nextafter(math.Abs(got), math.Inf(1)) - math.Abs(got)
		d := new(big.Float).SetPrec(256).SetFloat64(got)
		n, _ := d.Sub(d, want).Quo(d, big.NewFloat(unit)).Float64()
		return math.Abs(n)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-750, 0).Draw(t, "x")
		if d := off(exp(x), exactExp(x)); d >= 1 {
			t.Errorf("exp(%v) is %v units off", x, d)
		}
		// log(y) = l + log(y/exp(l)), and y/exp(l) is so near 1 that log(1+d) = d.
		y := rapid.Float64Range(1e-300, 1e300).Draw(t, "y")
		l := math.Log(y)
		d := new(big.Float).SetPrec(256).SetFloat64(y)
		d.Quo(d, exactExp(l)).Sub(d, big.NewFloat(1))
		if d := off(log(y), d.Add(d, big.NewFloat(l))); d >= 1 {
			t.Errorf("log(%v) is %v units off", y, d)
		}
	})
	if exp(0) != 1 || exp(-1e9) != 0 || exp(math.Inf(-1)) != 0 || !math.IsNaN(exp(math.NaN())) {
		t.Error("exp at its ends")
	}
	if log(1) != 0 || !math.IsInf(log(0), -1) || !math.IsNaN(log(-1)) {
		t.Error("log at its ends")
	}
	h := uint64(14695981039346656037)
	r := rand.NewPCG(5, 5)
	for range 1000 {
		x := float64(r.Uint64()>>11) * 0x1p-53
		for _, y := range []float64{exp(-40 * x), log(x)} {
			h = (h ^ math.Float64bits(y)) * 1099511628211
		}
	}
	if h != pinnedMath {
		t.Errorf("the bits of exp and log changed: %#x, want %#x", h, uint64(pinnedMath))
	}
}

func TestSampleDoesNotAllocate(t *testing.T) {
	logits := noise(2, 30000)
	for name, set := range map[string]func(*Params){
		"defaults": func(p *Params) {},
		"greedy":   func(p *Params) { p.Temp = 0 },
		"all stages, no top_k": func(p *Params) {
			p.TopK, p.Typical, p.TopNSigma, p.XTCProbability = 0, 0.9, 3, 0.5
			p.RepeatPenalty, p.FrequencyPenalty = 1.1, 0.1
			p.LogitBias, p.Forbidden = []Bias{{1, 1}}, []int32{2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := Defaults()
			p.Seed = 1
			set(&p)
			s := mustNew(t, p)
			step := func() { s.Accept(mustSample(t, s, logits)) }
			for id := range int32(100) {
				s.Accept(29999 - id)
			}
			step()
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%v allocations a token", n)
			}
		})
	}
}

func genLogits(t *rapid.T) []float32 {
	value := rapid.OneOf(
		rapid.Float32Range(-30, 30),
		rapid.SampledFrom([]float32{0, 1, 1, 2, negInf, -math.MaxFloat32, math.MaxFloat32, math.SmallestNonzeroFloat32}),
	)
	logits := rapid.SliceOfN(value, 1, 60).Draw(t, "logits")
	for _, l := range logits {
		if l != negInf {
			return logits
		}
	}
	logits[0] = 0
	return logits
}

func genParams(t *rapid.T) Params {
	unit := func(name string) float64 { return rapid.Float64Range(0, 1).Draw(t, name) }
	p := Params{
		Seed:             rapid.Int64Range(0, 1<<40).Draw(t, "seed"),
		RepeatLastN:      rapid.IntRange(-1, 6).Draw(t, "repeat_last_n"),
		RepeatPenalty:    rapid.OneOf(rapid.Float64Range(0.1, 3), rapid.SampledFrom([]float64{1e-300, 1e300})).Draw(t, "repeat_penalty"),
		FrequencyPenalty: rapid.OneOf(rapid.Float64Range(-2, 2), rapid.SampledFrom([]float64{-math.MaxFloat64, math.MaxFloat64})).Draw(t, "frequency"),
		PresencePenalty:  rapid.OneOf(rapid.Float64Range(-2, 2), rapid.SampledFrom([]float64{-math.MaxFloat64, math.MaxFloat64})).Draw(t, "presence"),
		TopNSigma:        rapid.Float64Range(0, 4).Draw(t, "top_n_sigma"),
		TopK:             rapid.IntRange(-1, 70).Draw(t, "top_k"),
		Typical:          unit("typical"), TopP: unit("top_p"), MinP: unit("min_p"),
		XTCProbability: unit("xtc_probability"), XTCThreshold: unit("xtc_threshold"),
		Temp: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-12, 5), rapid.Just(1e300), rapid.Just(5e-324)).Draw(t, "temp"),
	}
	p.Samplers = rapid.Permutation(defaultOrder).Draw(t, "order")[:rapid.IntRange(0, len(defaultOrder)).Draw(t, "stages")]
	return p
}

// TestAnySettings: whatever the settings and finite logits, a token that is not masked is drawn, the probabilities of
// what is left are a distribution, and the same seed draws the same token.
func TestAnySettings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, logits := genParams(t), genLogits(t)
		seen := rapid.SliceOfN(rapid.Int32Range(0, 80), 0, 12).Draw(t, "seen")
		var first int32
		for round := range 2 {
			s, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range seen {
				s.Accept(id)
			}
			id, err := s.Sample(logits)
			if err != nil {
				t.Fatal(err)
			}
			if logits[id] == negInf {
				t.Fatalf("drew the masked token %d", id)
			}
			var sum float64
			for _, c := range s.Candidates() {
				if !(c.P >= 0 && c.P <= 1) {
					t.Fatalf("candidate %+v", c)
				}
				sum += c.P
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("probabilities add up to %v", sum)
			}
			if round == 0 {
				first = id
			} else if id != first {
				t.Fatalf("drew %d, then %d", first, id)
			}
		}
	})
}

// best are the k largest logits, of equal ones those of the lowest ids, shuffled.
func best(logits []float32, k int, seed uint64) (ids []int32, values []float32) {
	all := make([]int32, len(logits))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	ids = all[:min(k, len(all))]
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		values = append(values, logits[id])
	}
	return ids, values
}

// TestTop: as many of the largest logits as a sampler says decide all that it draws: the same tokens from the same candidates, to the bit.
func TestTop(t *testing.T) {
	sparse := 0
	rapid.Check(t, func(t *rapid.T) {
		p, logits := genParams(t), genLogits(t)
		if rapid.Bool().Draw(t, "lowering") {
			p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty = 1+p.RepeatPenalty, math.Abs(p.FrequencyPenalty), math.Abs(p.PresencePenalty)
			p.RepeatLastN, p.TopK = max(0, p.RepeatLastN), rapid.IntRange(1, 9).Draw(t, "small top_k")
			p.Samplers = []string{Penalties, TopK, rapid.SampledFrom([]string{TypicalP, TopP, MinP, TopNSigma}).Draw(t, "then"), Temperature, XTC}
			p.XTCProbability = rapid.Float64Range(0, 1).Draw(t, "xtc")
		}
		for range rapid.IntRange(0, 3).Draw(t, "biases") {
			p.LogitBias = append(p.LogitBias, Bias{rapid.Int32Range(0, int32(len(logits)-1)).Draw(t, "id"), rapid.Float64Range(-9, 0).Draw(t, "bias")})
		}
		if len(logits) > 1 {
			p.Forbidden = rapid.SliceOfN(rapid.Int32Range(0, int32(len(logits)-1)), 0, 2).Draw(t, "forbidden")
		}
		whole, err := New(p)
		few, err2 := New(p)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		k, why := few.Top()
		if (k == 0) != (why != "") {
			t.Fatalf("k %d, why %q", k, why)
		}
		if k == 0 {
			return
		}
		sparse++
		for round := range 4 {
			want, wantErr := whole.Sample(logits)
			ids, values := best(logits, k, uint64(round))
			got, err := few.SampleTop(ids, values, len(logits))
			if got != want || (err == nil) != (wantErr == nil) || !slices.Equal(few.Candidates(), whole.Candidates()) {
				t.Fatalf("of %d logits %v the best %d give %d (%v) from %v; all give %d (%v) from %v", len(logits), logits, k, got, err, few.Candidates(), want, wantErr, whole.Candidates())
			}
			if err != nil {
				return
			}
			whole.Accept(want)
			few.Accept(want)
		}
	})
	if sparse == 0 {
		t.Error("no draw had settings for which a few logits suffice")
	}
}

// TestTopIsTight: with one logit fewer than Top says there is a draw that comes out otherwise, whatever lowers logits.
func TestTopIsTight(t *testing.T) {
	logits := []float32{9, 8, 7, 6, 5, 4, 3, 2, 1}
	for name, c := range map[string]struct {
		change func(p *Params)
		seen   []int32
		want   int
	}{
		"greedy":    {func(p *Params) { p.Temp = 0 }, nil, 1},
		"top_k":     {func(p *Params) { p.TopK = 3 }, nil, 3},
		"forbidden": {func(p *Params) { p.Temp, p.Forbidden = 0, []int32{0, 1} }, nil, 3},
		"bias":      {func(p *Params) { p.TopK, p.LogitBias = 2, []Bias{{0, -20}, {1, math.Inf(-1)}} }, nil, 4},
		"penalties": {func(p *Params) { p.TopK, p.RepeatLastN, p.PresencePenalty = 2, 3, 100 }, []int32{0, 1, 2}, 5},
	} {
		p := Defaults()
		p.Seed, p.Samplers = 1, []string{Penalties, TopK, Temperature}
		c.change(&p)
		draw := func(short int) []Candidate {
			s := mustNew(t, p)
			for _, id := range c.seen {
				s.Accept(id)
			}
			k, _ := s.Top()
			if k != c.want {
				t.Fatalf("%s: the best %d are asked for, want %d", name, k, c.want)
			}
			ids, values := best(logits, k-short, 1)
			if _, err := s.SampleTop(ids, values, len(logits)); err != nil && short == 0 {
				t.Fatalf("%s: %v", name, err)
			}
			return slices.Clone(s.Candidates())
		}
		if slices.Equal(draw(0), draw(1)) {
			t.Errorf("%s: one logit fewer gives the same candidates", name)
		}
	}
}

// TestTopSaysWhy: settings under which all logits count name what makes them.
func TestTopSaysWhy(t *testing.T) {
	for want, change := range map[string]func(p *Params){
		"top_k is off":                    func(p *Params) { p.TopK = 0 },
		"min_p comes before top_k":        func(p *Params) { p.Samplers = []string{Penalties, MinP, TopK} },
		"top_n_sigma comes before top_k":  func(p *Params) { p.TopNSigma = 1 },
		"--logit-bias raises token 7":     func(p *Params) { p.LogitBias = []Bias{{7, 0.5}} },
		"penalties raise logits":          func(p *Params) { p.RepeatPenalty = 0.9 },
		"penalties count all tokens (--r": func(p *Params) { p.RepeatPenalty, p.RepeatLastN = 1.1, -1 },
	} {
		p := Defaults()
		change(&p)
		if k, why := mustNew(t, p).Top(); k != 0 || !strings.HasPrefix(why, want) {
			t.Errorf("k %d, why %q, want %q", k, why, want)
		}
	}
	if k, why := mustNew(t, Defaults()).Top(); k != 40 || why != "" {
		t.Errorf("by default: k %d, why %q", k, why)
	}
}

// TestFiltersKeepTheBest: every filter but typ_p and xtc, which exist to drop it, keeps the best candidate.
func TestFiltersKeepTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, logits := genParams(t), genLogits(t)
		p.Temp, p.RepeatLastN = 1, 0
		p.Samplers = slices.DeleteFunc(p.Samplers, func(s string) bool { return s == TypicalP || s == XTC })
		best := 0
		for id, l := range logits {
			if l > logits[best] {
				best = id
			}
		}
		s, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sample(logits); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Candidates() {
			if c.ID == int32(best) {
				return
			}
		}
		t.Fatalf("the best token %d is not among %v", best, s.Candidates())
	})
}

// TestAgainstSorting compares top_k and top_p with the textbook: sort everything, then cut.
func TestAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := genLogits(t)
		p := plain()
		p.TopK = rapid.IntRange(0, 70).Draw(t, "top_k")
		p.TopP = rapid.Float64Range(0, 1).Draw(t, "top_p")

		var want []Candidate
		for id, l := range logits {
			if l != negInf {
				want = append(want, Candidate{ID: int32(id), Logit: float64(l)})
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return want[i].Logit > want[j].Logit })
		if p.TopK > 0 {
			want = want[:min(p.TopK, len(want))]
		}
		var total, sum float64
		for _, c := range want {
			total += math.Exp(c.Logit - want[0].Logit)
		}
		keep := 0
		for keep < len(want) && (keep == 0 || sum < p.TopP*total) {
			sum += math.Exp(want[keep].Logit - want[0].Logit)
			if math.Abs(sum-p.TopP*total) < 1e-9*total {
				t.Skip("the bound falls on a sum, to rounding")
			}
			keep++
		}
		s, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sample(logits); err != nil {
			t.Fatal(err)
		}
		var got, ids []int32
		for _, c := range s.Candidates() {
			got = append(got, c.ID)
		}
		for _, c := range want[:keep] {
			ids = append(ids, c.ID)
		}
		slices.Sort(got)
		slices.Sort(ids)
		if !slices.Equal(got, ids) {
			t.Fatalf("left %v, want %v", got, ids)
		}
	})
}

// FuzzSample: no bytes, read as settings and logits, make the sampler panic or draw a masked token.
func FuzzSample(f *testing.F) {
	f.Add(uint64(1), 0.8, 40, 0.95, 0.05, 1.0, 1.1, "top_k;top_p;temperature", []byte{0, 0, 128, 63, 0, 0, 0, 64})
	f.Add(uint64(2), 0.0, -1, 1.0, 0.0, 0.5, 1.0, "", []byte{0, 0, 128, 255, 0, 0, 192, 127})
	f.Add(uint64(3), 1e-300, 1, 0.0, 1.0, 0.0, 0.5, "typ_p;xtc", []byte{255, 255, 127, 127, 255, 255, 127, 255})
	f.Fuzz(func(t *testing.T, seed uint64, temp float64, topK int, topP, minP, typical, repeat float64, order string, data []byte) {
		p := Params{
			Seed: int64(seed >> 1), Temp: temp, TopK: topK, TopP: topP, MinP: minP, Typical: typical, RepeatPenalty: repeat,
			RepeatLastN: 4, XTCProbability: 0.5, XTCThreshold: 0.1,
		}
		var err error
		if p.Samplers, err = ParseSamplers(order); err != nil {
			return
		}
		s, err := New(p)
		if err != nil {
			return
		}
		logits := make([]float32, len(data)/4)
		for i := range logits {
			logits[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		for range 3 {
			id, err := s.Sample(logits)
			if err != nil {
				if !errors.Is(err, ErrNotFinite) && !errors.Is(err, ErrNoCandidate) {
					t.Fatal(err)
				}
				return
			}
			if logits[id] == negInf {
				t.Fatalf("drew the masked token %d", id)
			}
			s.Accept(id)
		}
	})
}

func BenchmarkSample(b *testing.B) {
	logits := noise(1, 152064)
	flat := make([]float32, len(logits))
	rising := make([]float32, len(logits))
	for i := range rising {
		rising[i] = float32(i) / 1e4
	}
	for _, bb := range []struct {
		name   string
		logits []float32
		set    func(*Params)
	}{
		{"greedy", logits, func(p *Params) { p.Temp = 0 }},
		{"defaults", logits, func(p *Params) {}},
		{"defaults/rising", rising, func(p *Params) {}},
		{"repeat_penalty", logits, func(p *Params) { p.RepeatPenalty = 1.1 }},
		{"no_top_k", logits, func(p *Params) { p.TopK = 0 }},
		{"no_top_k/flat", flat, func(p *Params) { p.TopK = 0 }},
		{"typical_alone", logits, func(p *Params) { p.TopK, p.TopP, p.MinP, p.Typical = 0, 1, 0, 0.9 }},
		{"temperature_alone", logits, func(p *Params) { p.TopK, p.TopP, p.MinP = 0, 1, 0 }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := Defaults()
			p.Seed = 1
			bb.set(&p)
			s := mustNew(b, p)
			b.ReportAllocs()
			for b.Loop() {
				id, err := s.Sample(bb.logits)
				if err != nil {
					b.Fatal(err)
				}
				s.Accept(id)
			}
		})
	}
}
