package plan

import (
	"fmt"
	"math"

	"github.com/minfer/minfer/runtime/kernel"
)

// KeyBytes is the size of a key of a logit.
const KeyBytes = 8

// Top lists the launches that find the k largest logits (one: by argmax) after a step of which one token's are wanted, and the memory that either of
// their buffers needs. The keys of the k, the largest first, are then in the buffer that the last launch writes.
func (p *Plan) Top(k int) (launches []Launch, bytes int64, err error) {
	n := p.Graph.Vocab
	if k < 1 || k > n {
		return nil, 0, fmt.Errorf("the %d largest of %d logits", k, n)
	}
	s := &step{Plan: p, tokens: 1, wanted: 1}
	name, from := "top-k", value(p.Graph.Logits)
	for i := 0; ; i++ {
		if err := s.launch(fmt.Sprintf("the best %d of %d", k, n), findFormat(name, "", ""), name, kernel.Query{Rows: 1, Cols: int64(n), Kept: int64(k)}, nil,
			map[string]Arg{"x": from, "out": ref(Best, i%2), "cols": integer(n), "kept": integer(k)}); err != nil {
			return nil, 0, err
		}
		runs := int(s.launches[i].Grid[0])
		n = runs * k
		bytes = max(bytes, KeyBytes*int64(n))
		if runs == 1 {
			return s.launches, bytes, nil
		}
		name, from = "top-k-merge", ref(Best, i%2)
	}
}

// Logit is the token and the logit that a key stands for: NaN for one that is not finite.
func Logit(key uint64) (id int32, x float32) {
	order := int32(key >> 32)
	if order < 0 {
		order ^= math.MaxInt32
	}
	return int32(^uint32(key)), math.Float32frombits(uint32(order))
}
