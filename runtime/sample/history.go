package sample

import "math"

// history holds the accepted tokens that penalties look at.
type history struct {
	limit int // tokens kept; -1 for all, 0 for none
	ids   []int32
	next  int      // where the next id goes, once ids is full
	count []int32  // sightings in the window, by id
	mark  []uint32 // pass in which an id was last visited
	pass  uint32
}

func (h *history) reset() {
	for _, id := range h.ids {
		h.count[id] = 0
	}
	h.ids = h.ids[:0]
	h.next = 0
}

func (h *history) add(id int32) {
	if id < 0 {
		panic("BUG: a negative token id was accepted")
	}
	if int(id) >= len(h.count) {
		size := max(int(id)+1, 2*len(h.count))
		h.count = append(h.count, make([]int32, size-len(h.count))...)
		h.mark = append(h.mark, make([]uint32, size-len(h.mark))...)
	}
	h.count[id]++
	if h.limit < 0 || len(h.ids) < h.limit {
		h.ids = append(h.ids, id)
		return
	}
	h.count[h.ids[h.next]]--
	h.ids[h.next] = id
	h.next = (h.next + 1) % h.limit
}

// visit calls f once for each id in the window, with its sightings.
func (h *history) visit(f func(id, count int32)) {
	h.pass++
	if h.pass == 0 { // wrapped: no stale mark may look current
		clear(h.mark)
		h.pass = 1
	}
	for _, id := range h.ids {
		if h.mark[id] != h.pass {
			h.mark[id] = h.pass
			f(id, h.count[id])
		}
	}
}

// penalized returns a logit after the penalties for count sightings. A negative logit is multiplied, so that a penalty
// above 1 lowers it too. Masked stays masked, and no finite settings mask a token.
func (p *Params) penalized(logit float64, count int32) float64 {
	switch {
	case math.IsInf(logit, -1):
		return logit
	case logit > 0:
		logit /= p.RepeatPenalty
	default:
		logit *= p.RepeatPenalty
	}
	return clamp(clamp(logit) - clamp(float64(float64(count)*p.FrequencyPenalty)+p.PresencePenalty))
}

// penalize applies the penalties while all of the vocabulary still stands.
func (s *Sampler) penalize() {
	if s.window.limit == 0 {
		return
	}
	s.window.visit(func(id, count int32) {
		if i, ok := s.at(id); ok {
			s.logits[i] = finite32(s.params.penalized(float64(s.logits[i]), count))
		}
	})
}

// penalizeCandidates applies the penalties where the order puts other stages first.
func (s *Sampler) penalizeCandidates() {
	if s.window.limit == 0 {
		return
	}
	for i := range s.candidates {
		c := &s.candidates[i]
		if int(c.ID) < len(s.window.count) && s.window.count[c.ID] > 0 {
			c.Logit = s.params.penalized(c.Logit, s.window.count[c.ID])
		}
	}
	s.ranked = false
}
