package sample

import (
	"math"
	"slices"
)

// clamp bounds a logit to a size whose sums and squares over any vocabulary stay finite. What it moves has no
// probability, or all of it.
func clamp(x float64) float64 {
	const limit = 1e100
	return max(-limit, min(limit, x))
}

// better is the ranking: the larger logit first, and of equal ones the lower id.
func better(a, b Candidate) int {
	switch {
	case a.Logit > b.Logit:
		return -1
	case a.Logit < b.Logit:
		return 1
	}
	return int(a.ID) - int(b.ID)
}

// materialize makes candidates of all unmasked logits, in the order of their ids, unless a stage has already.
func (s *Sampler) materialize() error {
	if s.candidates != nil {
		return nil
	}
	s.buffer = slices.Grow(s.buffer[:0], len(s.logits))
	for i, l := range s.logits {
		if !math.IsInf(float64(l), -1) {
			s.buffer = append(s.buffer, Candidate{Logit: float64(l), ID: s.id(i)})
		}
	}
	if len(s.buffer) == 0 {
		return ErrNoCandidate
	}
	s.candidates = s.buffer
	return nil
}

// selectTop makes candidates of the k largest logits, ranked: one pass with a heap whose root is the worst of those kept. Ids
// come in rising order, so a logit equal to the root's never displaces it: the lower id stays.
func (s *Sampler) selectTop(k int) error {
	if k >= s.vocab {
		return s.materialize()
	}
	s.buffer = slices.Grow(s.buffer[:0], min(k, len(s.logits)))
	h := s.buffer
	floor := float32(math.Inf(-1))
	for i, l := range s.logits {
		if l <= floor {
			continue
		}
		c := Candidate{Logit: float64(l), ID: s.id(i)}
		if len(h) < k {
			h = append(h, c)
			if len(h) == k {
				heapify(h, worse)
				floor = float32(h[0].Logit)
			}
			continue
		}
		h[0] = c
		sift(h, 0, worse)
		floor = float32(h[0].Logit)
	}
	s.buffer = h
	if len(h) == 0 {
		return ErrNoCandidate
	}
	s.candidates = h
	s.rank()
	return nil
}

func worse(a, b *Candidate) bool { return better(*a, *b) > 0 }

func (s *Sampler) rank() {
	if !s.ranked {
		slices.SortFunc(s.candidates, better)
		s.ranked = true
	}
}

func (s *Sampler) maxLogit() float64 {
	if s.ranked {
		return s.candidates[0].Logit
	}
	m := math.Inf(-1)
	for i := range s.candidates {
		m = max(m, s.candidates[i].Logit)
	}
	return m
}

// softmax sets P of each candidate: p[i] = exp(l[i]-m) / sum over j of exp(l[j]-m). It returns log of the sum.
func (s *Sampler) softmax() (logSum, largest float64) {
	m := s.maxLogit()
	var sum float64
	for i := range s.candidates {
		c := &s.candidates[i]
		c.P = exp(c.Logit - m)
		sum += c.P
	}
	for i := range s.candidates {
		s.candidates[i].P /= sum
	}
	return log(sum), m
}

// filter keeps the candidates for which keep holds, in their order.
func (s *Sampler) filter(keep func(c *Candidate) bool) {
	n := 0
	for i := range s.candidates {
		if keep(&s.candidates[i]) {
			s.candidates[n] = s.candidates[i]
			n++
		}
	}
	s.candidates = s.candidates[:n]
}

func (s *Sampler) topNSigma() {
	var sum float64
	for i := range s.candidates {
		sum += s.candidates[i].Logit
	}
	mean := sum / float64(len(s.candidates))
	var squares float64
	for i := range s.candidates {
		d := s.candidates[i].Logit - mean
		squares += float64(d * d)
	}
	sigma := math.Sqrt(squares / float64(len(s.candidates)))
	floor := s.maxLogit() - float64(s.params.TopNSigma*sigma)
	s.filter(func(c *Candidate) bool { return c.Logit >= floor })
}

func (s *Sampler) minP() {
	floor := log(s.params.MinP)
	m := s.maxLogit()
	s.filter(func(c *Candidate) bool { return c.Logit-m >= floor })
}

func (s *Sampler) topP() {
	s.softmax()
	bound := s.params.TopP
	if !s.ranked {
		// The candidates below (1-bound)/n hold less than 1-bound together, so those above reach the bound without
		// them. Half of that leaves room for the rounding of the sums.
		if floor := (1 - bound) / float64(2*len(s.candidates)); floor > 0 {
			s.filter(func(c *Candidate) bool { return c.P >= floor })
		}
	}
	s.keepMass(bound, func(a, b *Candidate) bool { return better(*a, *b) < 0 }, s.ranked)
	s.ranked = true
}

// keepMass keeps the first candidates in the order of before until their probabilities add up to bound.
func (s *Sampler) keepMass(bound float64, before func(a, b *Candidate) bool, sorted bool) {
	h := s.candidates
	if sorted {
		var sum float64
		for i := range h {
			sum += h[i].P
			if sum >= bound {
				s.candidates = h[:i+1]
				return
			}
		}
		return
	}
	// A heap gives them up one by one. It shrinks from the end, where the given-up ones gather in reverse order.
	heapify(h, before)
	var sum float64
	n := len(h)
	for n > 0 {
		n--
		h[0], h[n] = h[n], h[0]
		sum += h[n].P
		if sum >= bound {
			break
		}
		sift(h[:n], 0, before)
	}
	s.candidates = h[n:]
	slices.Reverse(s.candidates)
}

func (s *Sampler) typical() {
	logSum, m := s.softmax()
	// -log p[i] = logSum - (l[i] - m), so the entropy needs no logarithm of its own for each candidate.
	surprise := func(c *Candidate) float64 { return logSum - (c.Logit - m) }
	var entropy float64
	for i := range s.candidates {
		c := &s.candidates[i]
		if c.P > 0 {
			entropy += float64(c.P * surprise(c))
		}
	}
	distance := func(c *Candidate) float64 { return math.Abs(surprise(c) - entropy) }
	s.keepMass(s.params.Typical, func(a, b *Candidate) bool {
		if da, db := distance(a), distance(b); da != db {
			return da < db
		}
		return better(*a, *b) < 0
	}, false)
	s.ranked = false
}

func (s *Sampler) xtc() {
	if s.uniform() >= s.params.XTCProbability {
		return
	}
	s.softmax()
	s.rank()
	last := 0
	for last+1 < len(s.candidates) && s.candidates[last+1].P >= s.params.XTCThreshold {
		last++
	}
	s.candidates = s.candidates[last:]
}

// heat divides by the temperature what lies between each logit and the largest: the differences alone matter, and a
// tiny temperature then gives 0 for the best and large negative numbers for the others, never an overflow to infinity
// minus infinity.
func (s *Sampler) heat() {
	m := s.maxLogit()
	for i := range s.candidates {
		c := &s.candidates[i]
		c.Logit = clamp((c.Logit - m) / s.params.Temp)
	}
}

// heapify orders h so that h[0] comes before all others in the order of before.
func heapify(h []Candidate, before func(a, b *Candidate) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sift(h, i, before)
	}
}

// sift moves h[i] down to its place in the heap.
func sift(h []Candidate, i int, before func(a, b *Candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && before(&h[r], &h[child]) {
			child = r
		}
		if !before(&h[child], &h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
