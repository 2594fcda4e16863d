package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/minfer/minfer/runtime/kernel"
)

// KeyBytes is the size of a key of a logit.
const KeyBytes = 8

// Top lists the launches that find the k largest logits (one: by argmax) after a step of which one token's are wanted, and the memory that
// each of the Best needs. The last launch leaves the keys of the k, the largest first, in Found.
func (p *Plan) Top(k int) (launches []Launch, bytes int64, err error) {
	n := p.Graph.Vocab
	if k < 1 || k > n {
		return nil, 0, fmt.Errorf("the %d largest of %d logits", k, n)
	}
	s := &step{Plan: p, tokens: 1, wanted: 1, after: true}
	name, from := "top-k", value(p.Graph.Logits)
	for i := 0; ; i++ {
		to := ref(Best, i%2)
		if err := s.launch(fmt.Sprintf("the best %d of %d", k, n), findFormat(name, "", ""), name, kernel.Query{Rows: 1, Cols: int64(n), Kept: int64(k)}, nil,
			map[string]Arg{"x": from, "out": to, "cols": integer(n), "kept": integer(k)}); err != nil {
			return nil, 0, err
		}
		l := &s.launches[i]
		runs := int(l.Grid[0])
		if runs == 1 {
			l.Args[slices.Index(l.Args, to)] = ref(Found, 0)
			return s.launches, bytes, nil
		}
		n = runs * k
		bytes = max(bytes, KeyBytes*int64(n))
		name, from = "top-k-merge", to
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
