package tile

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/minfer/minfer/gen/model"
)

// lowBits is the bits of an index that a byte of an entry depends on: a kernel looks 256 entries up in four registers.
const lowBits = 8

// mostBits is the widest index that is tried.
const mostBits = 13

// number gives the entries of a codebook indices of the tile's own: of as few bits as allow the first byte of an entry to depend on
// eight of them, and the second on eight and some further.
//
// An index of 8+n bits is three parts: n-further bits for the first byte, n for the second, and the others, which both bytes share. For
// one value of the shared part the entries are those of a rectangle in the plane of first and second bytes, a power of two of values
// of each. So the task is to cover the codebook with so many rectangles; choosing the fullest one again and again comes
// near, and where a few entries are left, some rectangles are given up for others.
func number(x *model.TileIndex, further int) error {
	table := x.Code.Then.Table
	if len(table.Entries) <= 1<<lowBits {
		x.Shared, x.Number = lowBits, make([]int, len(table.Entries))
		for i := range x.Number {
			x.Number[i] = i
		}
		x.Book = book(x, func(i int) uint64 { return table.Entries[min(i, len(table.Entries)-1)] }, lowBits)
		return nil
	}
	key := fmt.Sprint(further, x.Bits(), table.Width, table.Entries)
	found, known := covers.Load(key)
	if !known {
		points := make([]point, len(table.Entries))
		for i, e := range table.Entries {
			points[i] = point{x.Byte(e, 0), x.Byte(e, 1)}
		}
		var c covered
		for n := max(bits.Len(uint(len(points)-1))-lowBits, further); n <= mostBits-lowBits && c.rects == nil; n++ {
			c = covered{n - further, n, cover(points, n-further, n)}
		}
		found, _ = covers.LoadOrStore(key, c)
	}
	c := found.(covered)
	if c.rects == nil {
		return fmt.Errorf("no index of %d bits makes its codebook two lookups", mostBits)
	}
	x.Shared = lowBits - c.first
	x.Book = book(x, func(i int) uint64 {
		r := c.rects[min(i>>c.first&(1<<x.Shared-1), len(c.rects)-1)]
		return x.Entry([2]byte{r[0][i&(1<<c.first-1)], r[1][i>>lowBits]})
	}, lowBits+c.second)
	at := map[uint64]int{}
	for i, e := range x.Book.Entries {
		if _, twice := at[e]; !twice {
			at[e] = i
		}
	}
	for _, e := range table.Entries {
		x.Number = append(x.Number, at[e])
	}
	return nil
}

// covers keeps what was found, by codebook: specs are loaded more often than they change.
var covers sync.Map

func book(x *model.TileIndex, entry func(i int) uint64, bits int) *model.Table {
	t := &model.Table{Name: x.Code.Then.Table.Name, Width: x.Width(), Bits: x.Bits()}
	for i := range 1 << bits {
		t.Entries = append(t.Entries, entry(i))
	}
	return t
}

// covered is a codebook in rectangles of 1<<first and 1<<second bytes.
type covered struct {
	first, second int
	rects         []rect
}

// point is an entry: its first and its second byte.
type point [2]byte

// rect is first and second bytes.
type rect [2][]byte

// tries is how many rectangles are grown for each that is chosen, rounds how often some are given up, dropped how many.
const tries, rounds, dropped = 16, 400, 5

// plane is the points that are left: for each first byte its second bytes, and for each second byte its first.
type plane [2][256]set

// set is a set of bytes.
type set [4]uint64

func (s *set) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *set) remove(b byte)   { s[b>>6] &^= 1 << (b & 63) }
func (s *set) has(b byte) bool { return s[b>>6]>>(b&63)&1 > 0 }
func (s *set) common(o *set) (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i] & o[i])
	}
	return n
}

// cover finds rectangles that have all points, or nil.
func cover(points []point, first, second int) (found []rect) {
	r := rand.New(rand.NewPCG(1, 1))
	most := 1 << (lowBits - first)
	left := fill(points, &found, most, first, second, r)
	if left > len(points)/16 {
		return nil
	}
	for range rounds {
		if left == 0 {
			return found
		}
		other := slices.Clone(found)
		r.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		other = other[:max(0, len(other)-dropped)]
		if n := fill(points, &other, most, first, second, r); n <= left {
			left, found = n, other
		}
	}
	return nil
}

// fill adds rectangles, up to so many, and yields how many points are left.
func fill(points []point, found *[]rect, most, first, second int, r *rand.Rand) (n int) {
	left := new(plane)
	var values [2][]byte
	for _, p := range points {
		for i := range p {
			left[i][p[i]].add(p[1-i])
			values[i] = append(values[i], p[i])
		}
	}
	for i := range values {
		slices.Sort(values[i])
		values[i] = slices.Compact(values[i])
	}
	n = len(points)
	for _, x := range *found {
		n -= left.remove(x)
	}
	for n > 0 && len(*found) < most {
		var best rect
		have := 0
		for range tries {
			// Begin with second bytes that go with one first byte; then take the best first and second bytes in turn.
			var x rect
			var in [2]set
			in[0].add(values[0][r.IntN(len(values[0]))])
			for had := -1; ; {
				var points int
				x[1], _ = fullest(left, 1, values[1], second, r, &in)
				x[0], points = fullest(left, 0, values[0], first, r, &in)
				if points > have {
					have, best = points, x
				}
				if points <= had {
					break
				}
				had = points
			}
		}
		if have > 0 {
			n -= left.remove(best)
			*found = append(*found, best)
		}
	}
	return n
}

// remove takes a rectangle's points and yields how many it had.
func (p *plane) remove(x rect) (n int) {
	for _, a := range x[0] {
		for _, b := range x[1] {
			if p[0][a].has(b) {
				p[0][a].remove(b)
				p[1][b].remove(a)
				n++
			}
		}
	}
	return n
}

// fullest is the 1<<n of the values on a side that have the most points with those of the other side, in any order but that; some twice
// where there are too few. They replace the side's set.
func fullest(left *plane, side int, values []byte, n int, r *rand.Rand, in *[2]set) (list []byte, points int) {
	var have [256]int
	most := 0
	for _, v := range values {
		have[v] = left[side][v].common(&in[1-side])
		most = max(most, have[v])
	}
	list = make([]byte, 0, 1<<n)
	in[side] = set{}
	begin := r.IntN(len(values))
	for want := most; want >= 0 && len(list) < 1<<n; want-- {
		for i := range values {
			if v := values[(begin+i)%len(values)]; have[v] == want && len(list) < 1<<n {
				list = append(list, v)
				in[side].add(v)
				points += want
			}
		}
	}
	for len(list) < 1<<n {
		list = append(list, list[0])
	}
	return list, points
}
