package layout

import (
	"fmt"
	"strings"
)

// Place is where a digit of a kernel's dealing lives.
type Place string

// The places. Thread digits together make threadIdx.x, the first of them most significant; a loop digit is an
// iteration of the thread, a slot digit one of its unrolled copies.
const (
	GridX  Place = "grid.x"
	GridY  Place = "grid.y"
	GridZ  Place = "grid.z"
	Thread Place = "thread"
	Lane   Place = "lane" // of a vector, on a CPU
	Loop   Place = "loop"
	Slot   Place = "slot"
)

// Grid reports whether the place is an axis of the launch grid.
func (p Place) Grid() bool { return p == GridX || p == GridY || p == GridZ }

// Any is the radix of a digit that takes as many values as the shape needs: a grid axis or a loop.
const Any = 0

// PlacedDigit is one digit of a dealing.
type PlacedDigit struct {
	Name  string
	Place Place
	Radix int // Any, or the number of values
}

// Dealing says which index of one axis of the work the digits stand for:
//
//	index = lo + sum(stride[i] * digit[i]),   kept while index < hi.
//
// Without a share lo is 0 and hi the axis' extent N. With one, digit Share (value b of n) owns the contiguous run
// [N*b/n, N*(b+1)/n), and the other digits count from its start. With a queue as well, the runs are those of [0, M), where M is
// QueueFrom; the rest is dealt in runs of a period each, from M on, and each is taken once, by whichever block comes next.
type Dealing struct {
	Axis   string
	Elems  int   // elements of the shape that one index stands for
	Stride []int // parallel to Geometry.Digits
	Share  int   // index of the sharing digit, or -1
	Queue  bool
}

// Uses reports whether digit i takes part in the dealing.
func (d *Dealing) Uses(i int) bool { return d.Stride[i] != 0 || d.Share == i }

// Geometry is how a kernel deals its work: every digit belongs to exactly one axis.
type Geometry struct {
	Digits  []PlacedDigit
	Axes    []Dealing
	Helpers int // threads after those of the digits, which deal no work
}

// Axis returns the dealing of the named axis, or nil.
func (g *Geometry) Axis(name string) *Dealing {
	for i := range g.Axes {
		if g.Axes[i].Axis == name {
			return &g.Axes[i]
		}
	}
	return nil
}

// Threads is the number of threads in a block.
func (g *Geometry) Threads() int { return g.Workers() + g.Helpers }

// Workers is the number of threads in a block that deal work; they come first.
func (g *Geometry) Workers() int {
	n := 1
	for _, d := range g.Digits {
		if d.Place == Thread {
			n *= d.Radix
		}
	}
	return n
}

// Ceiling is the largest index that the digits of an axis reach, plus one; bounded is false when a digit of
// radix Any carries the axis as far as the shape goes. For a shared axis it is the ceiling of one share.
func (g *Geometry) Ceiling(d *Dealing) (ceiling int, bounded bool) {
	top := 0
	for i, digit := range g.Digits {
		if d.Stride[i] == 0 {
			continue
		}
		if digit.Radix == Any {
			return 0, false
		}
		top += d.Stride[i] * (digit.Radix - 1)
	}
	return top + 1, true
}

// Period is the stride of the axis' digit of radix Any, the length that the other digits must tile;
// the ceiling where there is none. The digit's index is -1 then.
func (g *Geometry) Period(d *Dealing) (period, digit int) {
	for i, p := range g.Digits {
		if d.Stride[i] != 0 && p.Radix == Any {
			return d.Stride[i], i
		}
	}
	c, _ := g.Ceiling(d)
	return c, -1
}

// Counts enumerates the digits of an axis that have a radix of their own and counts how often they produce each
// index of [0, n); beyond is the number of tuples that fall outside it, below zero included.
func (g *Geometry) Counts(d *Dealing, n int) (counts []int, beyond int) {
	counts = make([]int, n)
	var walk func(i, v int)
	walk = func(i, v int) {
		if i == len(g.Digits) {
			if v < 0 || v >= n {
				beyond++
			} else {
				counts[v]++
			}
			return
		}
		if d.Stride[i] == 0 || g.Digits[i].Radix == Any {
			walk(i+1, v)
			return
		}
		for x := range g.Digits[i].Radix {
			walk(i+1, v+x*d.Stride[i])
		}
	}
	walk(0, 0)
	return counts, beyond
}

// Factors is the radices whose product is the ceiling of a compact dealing; none when the ceiling is no such product.
func (g *Geometry) Factors(d *Dealing) []int64 {
	c, bounded := g.Ceiling(d)
	var factors []int64
	product := 1
	for i, p := range g.Digits {
		if d.Stride[i] != 0 && p.Radix != Any {
			factors = append(factors, int64(p.Radix))
			product *= p.Radix
		}
	}
	if !bounded || product != c {
		return nil
	}
	return factors
}

// Chain writes the ceiling of an axis as the product that makes it, "256 threads * 2 rounds * 32 elements".
func (g *Geometry) Chain(d *Dealing) string {
	var parts []string
	for i, p := range g.Digits {
		if d.Stride[i] != 0 && p.Radix != Any && p.Radix > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", p.Radix, plural(p.Name)))
		}
	}
	if d.Elems > 1 || len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%d elements", d.Elems))
	}
	return strings.Join(parts, " * ")
}

func plural(name string) string {
	switch {
	case strings.HasSuffix(name, "s"):
		return name
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}

// Index is the expression of the axis' index in terms of the digits' names, "thread + 256*round".
// Thread digits are written as name; the template decides what a name stands for.
func (g *Geometry) Index(d *Dealing, name func(PlacedDigit) string) string {
	var parts []string
	if d.Share >= 0 {
		parts = append(parts, d.Axis+"_lo")
	}
	for i, p := range g.Digits {
		switch s := d.Stride[i]; {
		case s == 0 || p.Radix == 1:
		case s == 1:
			parts = append(parts, name(p))
		default:
			parts = append(parts, fmt.Sprintf("%d*%s", s, name(p)))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " + ")
}

// ThreadDigit is the expression of thread digit i in terms of the flat thread index tid.
func (g *Geometry) ThreadDigit(i int, tid string) string {
	below, total := 1, 1
	for j, p := range g.Digits {
		if p.Place != Thread {
			continue
		}
		total *= p.Radix
		if j > i {
			below *= p.Radix
		}
	}
	e := tid
	if below > 1 {
		e = fmt.Sprintf("(%s / %d)", e, below)
	}
	if below*g.Digits[i].Radix < total {
		e = fmt.Sprintf("(%s %% %d)", e, g.Digits[i].Radix)
	}
	return e
}

// QueueFrom is how much of an extent is dealt out as runs of n blocks where a block's own run has room for `room` indices: what is beyond is
// taken from a queue.
func QueueFrom(extent, n, room int64) int64 { return min(extent, n*room) }

// ShareBounds is the run of share b of n over an extent: the one place that defines the contiguous split.
// The runs of b = 0..n-1 partition [0, extent): run b ends where run b+1 begins, run 0 begins at 0 and run n-1
// ends at extent. extent*n must fit 63 bits.
func ShareBounds(extent, b, n int64) (lo, hi int64) { return extent * b / n, extent * (b + 1) / n }
