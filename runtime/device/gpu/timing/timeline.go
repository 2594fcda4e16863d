package timing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// Span is one launch as the marks of its blocks tell it.
type Span struct {
	Unit    string // the .cu file
	Blocks  int    // that began
	Moments []Moment
}

// Moment is when blocks came by one of the marks: the first of them, the one in the middle and the last, in ns after the earliest mark.
type Moment struct {
	Number              int
	First, Middle, Last int64
}

// Timeline sorts the marks of a step into its launches, in the order in which these began. A block's mark belongs to the launch whose
// moment 0 it marked last, so that a launch must not overlap the next one of its own unit.
func Timeline(all []gpu.Mark) []Span {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b gpu.Mark) int { return cmp.Or(cmp.Compare(a.Nanos, b.Nanos), cmp.Compare(a.Moment, b.Moment)) })
	type place struct {
		unit   string
		number int // a block, or a launch
	}
	type launch struct {
		place
		times map[int][]int64 // by moment
	}
	begun := map[place]int{} // launches of the unit that the block has begun
	byPlace := map[place]*launch{}
	var launches []*launch
	for _, m := range all {
		block := place{m.Unit, m.Block}
		if m.Moment == 0 {
			begun[block]++
		}
		at := place{m.Unit, begun[block]}
		if byPlace[at] == nil {
			byPlace[at] = &launch{at, map[int][]int64{}}
			launches = append(launches, byPlace[at])
		}
		byPlace[at].times[m.Moment] = append(byPlace[at].times[m.Moment], m.Nanos-all[0].Nanos)
	}
	var spans []Span
	for _, l := range launches {
		s := Span{Unit: l.unit, Blocks: len(l.times[0])}
		for number, times := range l.times {
			s.Moments = append(s.Moments, Moment{number, times[0], times[len(times)/2], times[len(times)-1]})
		}
		slices.SortFunc(s.Moments, func(a, b Moment) int { return cmp.Compare(a.Number, b.Number) })
		spans = append(spans, s)
	}
	return spans
}

// String is a line: each moment as number:first/middle/last in µs.
func (s Span) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %4d", s.Unit, s.Blocks)
	for _, m := range s.Moments {
		fmt.Fprintf(&b, "  %d:%.1f/%.1f/%.1f", m.Number, float64(m.First)/1e3, float64(m.Middle)/1e3, float64(m.Last)/1e3)
	}
	return b.String()
}
