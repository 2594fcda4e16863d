// Package cover proves that a dealing processes every index of its work exactly once, and counts, for one extent,
// what a dealing that does not would drop or repeat.
//
// The proof is by enumeration of a finite set that decides every extent. Let an axis have digits of fixed radices and
// at most one digit of radix Any with stride P (the period; without such a digit P is the ceiling). If the fixed
// digits produce every index of [0, P) exactly once and none outside it, then
//   - with the Any digit, index v is produced by exactly one tuple: v mod P by the fixed digits, v div P by the Any digit;
//   - without it, every extent up to P is covered exactly once by the tuples kept by the predicate index < extent,
//     and no larger extent is.
//
// A shared axis is cut into runs [N*b/n, N*(b+1)/n): run b ends where run b+1 begins, the first begins at 0 and
// the last ends at N, so the runs partition [0, N) for every N and n; within a run the argument above holds.
// Axes use disjoint digits, so the tuples of all axes together are the product of the axes' tuples.
package cover

import (
	"fmt"

	"github.com/minfer/minfer/gen/layout"
)

// maxPeriod bounds what one proof enumerates.
const maxPeriod = 1 << 22

// Flaw is why a dealing is no proof of coverage.
type Flaw struct {
	Axis string // "" when it concerns the whole geometry
	Text string
}

func (f Flaw) String() string {
	if f.Axis == "" {
		return f.Text
	}
	return f.Axis + ": " + f.Text
}

// Prove returns the flaws of a geometry; none means that every axis is covered exactly once for every extent
// up to its ceiling.
func Prove(g *layout.Geometry) []Flaw {
	var flaws []Flaw
	flaw := func(axis, format string, args ...any) {
		flaws = append(flaws, Flaw{axis, fmt.Sprintf(format, args...)})
	}
	first := map[layout.Place]string{}
	for _, p := range g.Digits {
		if !p.Place.Grid() || p.Radix == 1 {
			continue
		}
		if other, taken := first[p.Place]; taken {
			flaw("", "digits %s and %s both live on %s, so each block would be two values at once; allowed: one digit on an axis of the grid", other, p.Name, p.Place)
		}
		first[p.Place] = p.Name
	}
	for i, p := range g.Digits {
		var users []string
		for a := range g.Axes {
			if g.Axes[a].Uses(i) {
				users = append(users, g.Axes[a].Axis)
			}
		}
		switch {
		case p.Radix < 0:
			flaw("", "digit %s has radix %d, allowed: any, or at least 1", p.Name, p.Radix)
		case len(users) > 1:
			flaw("", "digit %s is dealt to %v, allowed: one axis; split it into two digits", p.Name, users)
		case len(users) == 0 && p.Radix != 1:
			flaw("", "digit %s is dealt to no axis: its %s do the same work again", p.Name, values(p))
		case p.Radix == layout.Any && !p.Place.Grid() && p.Place != layout.Loop:
			flaw("", "digit %s of place %s has radix any, allowed there: a number", p.Name, p.Place)
		}
	}
	if len(flaws) > 0 {
		return flaws
	}
	for a := range g.Axes {
		flaws = append(flaws, proveAxis(g, &g.Axes[a])...)
	}
	return flaws
}

func values(p layout.PlacedDigit) string {
	if p.Radix == layout.Any {
		return "values"
	}
	return fmt.Sprintf("%d values", p.Radix)
}

func proveAxis(g *layout.Geometry, d *layout.Dealing) (flaws []Flaw) {
	flaw := func(format string, args ...any) {
		flaws = append(flaws, Flaw{d.Axis, fmt.Sprintf(format, args...)})
	}
	if d.Elems < 1 {
		flaw("an index stands for %d elements, allowed: at least 1", d.Elems)
		return flaws
	}
	open := 0
	for i, p := range g.Digits {
		if d.Stride[i] == 0 {
			continue
		}
		if d.Stride[i] < 0 {
			flaw("digit %s has stride %d, allowed: at least 1", p.Name, d.Stride[i])
		}
		if p.Radix == layout.Any {
			open++
		}
	}
	if open > 1 {
		flaw("%d digits have radix any, allowed: one", open)
	}
	if len(flaws) > 0 {
		return flaws
	}
	period, digit := g.Period(d)
	if d.Share >= 0 && digit < 0 {
		flaw("the share of one block has no limit but the digits reach %d of it, allowed: a loop of radix any", period)
		return flaws
	}
	if period > maxPeriod {
		flaw("a period of %d indices is past the %d that a proof enumerates", period, maxPeriod)
		return flaws
	}
	counts, beyond := g.Counts(d, period)
	missing, repeated := Ranges(counts, func(c int) bool { return c == 0 }), Ranges(counts, func(c int) bool { return c > 1 })
	if len(missing) > 0 {
		flaw("of each %d indices, %s processed by no thread", period, missing.Are())
	}
	if len(repeated) > 0 {
		flaw("of each %d indices, %s processed more than once", period, repeated.Are())
	}
	if beyond > 0 && digit >= 0 {
		flaw("%d combinations of digits reach past the period of %d, into indices of the next", beyond, period)
	}
	return flaws
}

// Range is the indices First..Last.
type Range struct{ First, Last int }

// RangeList is ranges in ascending order.
type RangeList []Range

// Len is the number of indices in all ranges.
func (l RangeList) Len() int {
	n := 0
	for _, r := range l {
		n += r.Last - r.First + 1
	}
	return n
}

// String names the first few ranges, "512..591".
func (l RangeList) String() string {
	const most = 4
	s := ""
	for i, r := range l {
		if i == most {
			return s + fmt.Sprintf(" and %d more", len(l)-most)
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(r.First)
		if r.Last > r.First {
			s += fmt.Sprintf("..%d", r.Last)
		}
	}
	return s
}

// Are is the ranges as the subject of a sentence.
func (l RangeList) Are() string {
	if l.Len() == 1 {
		return l.String() + " is"
	}
	return l.String() + " are"
}

// Ranges collects the runs of indices whose count is bad.
func Ranges(counts []int, bad func(int) bool) (l RangeList) {
	for i, c := range counts {
		if !bad(c) {
			continue
		}
		if n := len(l) - 1; n >= 0 && l[n].Last == i-1 {
			l[n].Last = i
		} else {
			l = append(l, Range{i, i})
		}
	}
	return l
}

// Audit launches the dealing of one axis over extent indices, in shares runs where the axis is shared, and reports
// the indices that no tuple keeps and those that more than one does. It walks the digits one by one and
// uses neither the period argument nor the ceiling: a slow witness of its own.
func Audit(g *layout.Geometry, d *layout.Dealing, extent, shares int) (dropped, repeated RangeList) {
	counts := make([]int, extent)
	run := func(lo, hi int) {
		radix := make([]int, len(g.Digits))
		for i, p := range g.Digits {
			switch {
			case d.Stride[i] == 0:
				radix[i] = 1
			case p.Radix == layout.Any:
				radix[i] = (hi - lo + d.Stride[i] - 1) / d.Stride[i]
			default:
				radix[i] = p.Radix
			}
		}
		digit := make([]int, len(g.Digits))
		for {
			v := lo
			for i, x := range digit {
				v += d.Stride[i] * x
			}
			if v < hi && v >= 0 {
				counts[v]++
			}
			i := 0
			for ; i < len(digit); i++ {
				if digit[i]++; digit[i] < radix[i] {
					break
				}
				digit[i] = 0
			}
			if i == len(digit) {
				break
			}
		}
	}
	if d.Share < 0 {
		run(0, extent)
	} else {
		shared := extent
		if d.Queue {
			const rounds = 2 // of a block's own run; any number will do
			period, _ := g.Period(d)
			shared = int(layout.QueueFrom(int64(extent), int64(shares), int64(rounds*period)))
			for lo := shared; lo < extent; lo += period {
				run(lo, min(lo+period, extent))
			}
		}
		for b := range shares {
			if lo, hi := layout.ShareBounds(int64(shared), int64(b), int64(shares)); lo < hi {
				run(int(lo), int(hi))
			}
		}
	}
	return Ranges(counts, func(c int) bool { return c == 0 }), Ranges(counts, func(c int) bool { return c > 1 })
}
