package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// ErrNotFinite says that the logits hold NaN or positive infinity: the model's arithmetic failed, and any token drawn
// from them would be made up. Negative infinity is a mask and is allowed.
var ErrNotFinite = errors.New("the model's logits are not finite")

// ErrNoCandidate says that every token is masked.
var ErrNoCandidate = errors.New("every token is masked")

// Candidate is a token that the chain has left, its logit after the stages, and its probability among those left.
type Candidate struct {
	Logit float64
	P     float64
	ID    int32
}

// Sampler draws tokens. It is not safe for concurrent use; take one for each text.
type Sampler struct {
	params Params
	order  []string
	seed   int64
	random *rand.PCG

	window history

	vocab      int         // tokens of the vocabulary
	logits     []float32   // the caller's, with bias and penalties: of every token, or of those in ids
	ids        []int32     // rising
	sparse     bool        // logits are of ids
	candidates []Candidate // what the stages have left
	buffer     []Candidate // the memory behind candidates
	ranked     bool        // candidates are in the order of better
}

// New returns a sampler, or the error of [Params.Validate].
func New(p Params) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{params: p, order: p.Samplers, seed: p.Seed}
	if s.order == nil {
		s.order = defaultOrder
	}
	if s.seed < 0 {
		s.seed = int64(rand.Uint32()) // short enough to type back
	}
	if s.penalizes() {
		s.window.limit = p.RepeatLastN
	}
	s.random = rand.NewPCG(uint64(s.seed), 0)
	return s, nil
}

// Seed returns the seed in use: the one given, or the one chosen for -1.
func (s *Sampler) Seed() int64 { return s.seed }

// Reset forgets the accepted tokens and starts the random stream again.
func (s *Sampler) Reset() {
	s.window.reset()
	s.random.Seed(uint64(s.seed), 0)
}

// Accept tells the sampler that the text goes on with id, so that penalties can count it. Prompt tokens are accepted
// too, as llama.cpp does.
func (s *Sampler) Accept(id int32) {
	if s.window.limit != 0 {
		s.window.add(id)
	}
}

func (s *Sampler) penalizes() bool {
	p := &s.params
	return slices.Contains(s.order, Penalties) && p.RepeatLastN != 0 &&
		(p.RepeatPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0)
}

// Sample draws the next token from logits, shape [vocabulary], which it leaves as they are. It does not accept the
// token. Logits with NaN or positive infinity are [ErrNotFinite], with the first such id; logits with nothing but
// negative infinity are [ErrNoCandidate].
func (s *Sampler) Sample(logits []float32) (int32, error) {
	s.vocab, s.sparse = len(logits), false
	s.logits = append(s.logits[:0], logits...)
	return s.sample()
}

// Top is how many of the largest logits decide what Sample draws, for any logits: [Sampler.SampleTop] then needs those alone. Where all
// of them count, k is 0, and why says what makes them count.
//
// Bias, penalties and forbidden ids that only lower logits make room in the set for as many others as they can lower.
func (s *Sampler) Top() (k int, why string) {
	p := &s.params
	lowers := len(p.Forbidden) + len(p.LogitBias)
	for _, b := range p.LogitBias {
		if b.Value > 0 {
			return 0, fmt.Sprintf("--logit-bias raises token %d", b.ID)
		}
	}
	penalties, before := p.Temp == 0, ""
	if p.Temp == 0 {
		k = 1
	}
	for _, stage := range s.order {
		switch {
		case k > 0:
		case stage == Penalties:
			penalties = true
		case stage == TopK:
			k = min(max(0, p.TopK), math.MaxInt32)
		case before == "" && s.filterOf(stage) != nil:
			before = stage
		}
	}
	switch {
	case k == 0:
		return 0, "top_k is off"
	case before != "":
		return 0, before + " comes before top_k"
	case !penalties || !s.penalizes():
	case p.RepeatPenalty < 1 || p.FrequencyPenalty < 0 || p.PresencePenalty < 0:
		return 0, "penalties raise logits"
	case p.RepeatLastN < 0:
		return 0, "penalties count all tokens (--repeat-last-n -1)"
	default:
		lowers += p.RepeatLastN
	}
	return k + lowers, ""
}

// SampleTop is Sample of a vocabulary's logits of which the largest are given, at least [Sampler.Top] of them (or all), those of equal ones
// with the lowest ids: the same token, from the same candidates. They come in any order.
func (s *Sampler) SampleTop(ids []int32, logits []float32, vocab int) (int32, error) {
	s.vocab, s.sparse = vocab, true
	s.buffer = s.buffer[:0]
	for i, id := range ids {
		s.buffer = append(s.buffer, Candidate{Logit: float64(logits[i]), ID: id})
	}
	slices.SortFunc(s.buffer, func(a, b Candidate) int { return int(a.ID) - int(b.ID) })
	s.ids, s.logits = s.ids[:0], s.logits[:0]
	for _, c := range s.buffer {
		s.ids, s.logits = append(s.ids, c.ID), append(s.logits, float32(c.Logit))
	}
	return s.sample()
}

// id is the token that logit i is of.
func (s *Sampler) id(i int) int32 {
	if s.sparse {
		return s.ids[i]
	}
	return int32(i)
}

// at is the index of a token's logit, where it is among those given.
func (s *Sampler) at(id int32) (i int, ok bool) {
	if s.sparse {
		return slices.BinarySearch(s.ids, id)
	}
	return int(id), int(id) < len(s.logits)
}

// sample draws from s.logits.
func (s *Sampler) sample() (int32, error) {
	p := &s.params
	for i, l := range s.logits {
		if !(l <= math.MaxFloat32) { // NaN and +Inf
			return 0, fmt.Errorf("%w: token %d has %g", ErrNotFinite, s.id(i), l)
		}
	}
	if err := s.mask(); err != nil {
		return 0, err
	}
	s.candidates, s.ranked = nil, false
	if p.Temp == 0 {
		return s.greedy()
	}
	for _, stage := range s.order {
		if err := s.run(stage); err != nil {
			return 0, err
		}
	}
	if err := s.materialize(); err != nil {
		return 0, err
	}
	return s.draw(), nil
}

// Candidates returns what the last [Sampler.Sample] drew from, in no promised order; valid until the next one. Greedy
// sampling leaves the one token it chose.
func (s *Sampler) Candidates() []Candidate { return s.candidates }

// mask applies forbidden ids and logit bias to s.logits.
func (s *Sampler) mask() error {
	outside := func(flag string, id int32) error {
		return &ParamError{Flag: flag, Value: fmt.Sprint(id), Allowed: fmt.Sprintf("a token id below the vocabulary's %d", s.vocab)}
	}
	for _, id := range s.params.Forbidden {
		if id < 0 || int(id) >= s.vocab {
			return outside("--ignore-eos", id)
		}
		if i, ok := s.at(id); ok {
			s.logits[i] = float32(math.Inf(-1))
		}
	}
	for _, b := range s.params.LogitBias {
		if int(b.ID) >= s.vocab {
			return outside("--logit-bias", b.ID)
		}
		if i, ok := s.at(b.ID); ok {
			s.logits[i] = finite32(float64(s.logits[i]) + b.Value)
		}
	}
	return nil
}

// finite32 rounds to float32 and keeps large values finite: a bias may push a logit past what float32 holds.
func finite32(x float64) float32 {
	if x > math.MaxFloat32 {
		return math.MaxFloat32
	}
	if x < -math.MaxFloat32 && !math.IsInf(x, -1) {
		return -math.MaxFloat32
	}
	return float32(x)
}

// greedy returns the lowest id of the largest logit after penalties.
func (s *Sampler) greedy() (int32, error) {
	if slices.Contains(s.order, Penalties) {
		s.penalize()
	}
	best := int32(-1)
	top := float32(math.Inf(-1))
	for i, l := range s.logits {
		if l > top {
			best, top = s.id(i), l
		}
	}
	if best < 0 {
		return 0, ErrNoCandidate
	}
	s.buffer = append(s.buffer[:0], Candidate{Logit: float64(top), P: 1, ID: best})
	s.candidates = s.buffer
	return best, nil
}

// run applies one stage. A stage whose setting is off does nothing, and costs nothing.
func (s *Sampler) run(stage string) error {
	p := &s.params
	switch stage {
	case Penalties:
		if s.candidates == nil {
			s.penalize()
		} else {
			s.penalizeCandidates()
		}
		return nil
	case TopK:
		if p.TopK <= 0 {
			return nil
		}
		if s.candidates == nil {
			return s.selectTop(p.TopK)
		}
		if p.TopK < len(s.candidates) {
			s.rank()
			s.candidates = s.candidates[:p.TopK]
		}
		return nil
	}

	apply := s.filterOf(stage)
	if apply == nil {
		return nil
	}
	if err := s.materialize(); err != nil {
		return err
	}
	apply(s)
	return nil
}

// filterOf is what a stage does to candidates; nil where its setting is off.
func (s *Sampler) filterOf(stage string) func(*Sampler) {
	p := &s.params
	switch stage {
	case Dry:
	case TopNSigma:
		if p.TopNSigma > 0 {
			return (*Sampler).topNSigma
		}
	case TypicalP:
		if p.Typical < 1 {
			return (*Sampler).typical
		}
	case TopP:
		if p.TopP < 1 {
			return (*Sampler).topP
		}
	case MinP:
		if p.MinP > 0 {
			return (*Sampler).minP
		}
	case XTC:
		if p.XTCProbability > 0 && p.XTCThreshold <= 0.5 {
			return (*Sampler).xtc
		}
	case Temperature:
		if p.Temp != 1 {
			return (*Sampler).heat
		}
	default:
		panic("BUG: stage " + stage + " passed Validate")
	}
	return nil
}

// uniform returns the next number in [0, 1) of the random stream.
func (s *Sampler) uniform() float64 {
	return float64(s.random.Uint64()>>11) * 0x1p-53
}

// draw picks a candidate by its probability.
func (s *Sampler) draw() int32 {
	s.softmax()
	return s.pick(s.uniform())
}

// pick returns the candidate whose share of [0, 1) holds u.
func (s *Sampler) pick(u float64) int32 {
	var sum float64
	last := -1
	for i := range s.candidates {
		c := &s.candidates[i]
		if c.P == 0 {
			continue
		}
		last = i
		sum += c.P
		if u < sum {
			break
		}
	}
	// Rounding may leave the sum just below u at the end: then it is the last candidate that has a probability.
	return s.candidates[last].ID
}
