package conform

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
)

// keyOf is the key of number i of a row: numbers as they are ordered, of equal ones the lower index above.
func keyOf(v float32, i int64) int64 {
	order := int32(math.Float32bits(v))
	switch {
	case v == 0:
		order = 0
	case v-v != 0:
		order = math.MaxInt32
	case order < 0:
		order ^= math.MaxInt32
	}
	return int64(order)<<32 | int64(^uint32(i))
}

// keysBytes is keys as a kernel takes them.
func keysBytes(keys []int64) []byte {
	b := make([]byte, 0, 8*len(keys))
	for _, k := range keys {
		b = binary.LittleEndian.AppendUint64(b, uint64(k))
	}
	return b
}

// best is the job that finds the kept best of each run of keys, which x holds or is made of.
func (s *Subject) best(name string, x any, keys []int64, rows, cols, kept int64) *job {
	q := s.query()
	q.Rows, q.Cols, q.Kept = rows, cols, kept
	run := s.Geometry.Axis("elem").Period
	runs := (cols + run - 1) / run
	args := map[string]any{"x": x, "out": nans(2 * rows * runs * kept), "cols": cols, "kept": kept}
	check := func(out []byte) (float64, error) {
		for i := range rows * runs {
			r, first := i/runs, i%runs*run
			want := slices.Clone(keys[r*cols+first : r*cols+min(first+run, cols)])
			slices.SortFunc(want, func(a, b int64) int {
				if a > b {
					return -1
				}
				return 1
			})
			for rank := range kept {
				key := int64(math.MinInt64)
				if rank < int64(len(want)) {
					key = want[rank]
				}
				if got := int64(binary.LittleEndian.Uint64(out[8*(i*kept+rank):])); got != key {
					return 0, fmt.Errorf("row %d, numbers from %d on: rank %d is %#016x, it must be %#016x", r, first, rank, uint64(got), uint64(key))
				}
			}
		}
		return 0, nil
	}
	return &job{name: fmt.Sprintf("the best %d of [%d, %d], %s", kept, rows, cols, name), query: q, args: args, check: check}
}

// bestShapes are sizes of rows and how many of their numbers are asked for.
func (s *Subject) bestShapes() (shapes [][2]int64) {
	most, run := s.Geometry.Axis("rank").Ceiling, s.Geometry.Axis("elem").Period
	counts := slices.DeleteFunc([]int64{1, 2, 3, 40, 64, 65}, func(k int64) bool { return k >= most })
	counts = append(counts, most)
	for _, n := range []int64{1, 2, 31, 40, 65, run - 1, run, run + 1, 2*run + 41} {
		for _, kept := range counts {
			shapes = append(shapes, [2]int64{n, kept})
		}
	}
	if s.cheap {
		for _, n := range []int64{65535, 65537, 151936, 152064} {
			shapes = append(shapes, [2]int64{n, min(40, most)}, [2]int64{n, most})
		}
	}
	return shapes
}

// topJobs: exact keys of numbers, those that are not finite above all others.
func topJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for i, shape := range s.bestShapes() {
			n := shape[0]
			r := random(n, shape[1])
			few := numbers(2*n, false, r)
			for i := range few {
				few[i] = float32(math.Round(float64(few[i]))) // few values, hence many alike, zeros of both signs among them
			}
			alike := make([]float32, n)
			last := make([]float32, n)
			for i := range last {
				alike[i], last[i] = -7, -float32(i+1)
			}
			last[n-1] = 1
			// Where threads take the numbers of a run in turn, 40 groups of 8 threads have the best, and one of them none of those but what all of them
			// have at least: far more are not below it than are asked for.
			crowded := numbers(n, false, r)
			for i := range crowded {
				if i%512 < 320 {
					crowded[i] += 1000
				}
				if i%512 < 312 {
					crowded[i] += 1000
				}
			}
			for k, c := range []struct {
				name string
				rows int64
				x    []float32
			}{{"random", 2, numbers(2*n, false, r)}, {"many alike", 2, few}, {"all alike", 1, alike}, {"the last of a falling row", 1, last}, {"crowded", 1, crowded}, {"special", 1, numbers(n, true, r)}} {
				if n > 1<<16 && k != i%6 {
					continue // the large ones take turns
				}
				keys := make([]int64, len(c.x))
				for i, v := range c.x {
					keys[i] = keyOf(v, int64(i)%n)
				}
				if !yield(s.best(c.name, c.x, keys, c.rows, n, shape[1])) {
					return
				}
			}
		}
	}
}

// mergeJobs: exact keys of keys: in any order; in lists of k, as they come, the best of each better than all seconds, and each run's and each
// row's better than the one's before; and rising.
func mergeJobs(s *Subject) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		run := s.Geometry.Axis("elem").Period
		for _, shape := range s.bestShapes() {
			n, kept := shape[0], shape[1]
			r := random(n, kept)
			keys, lists, rising := make([]int64, 2*n), make([]int64, 2*n), make([]int64, 2*n)
			for i := range 2 * n {
				part := i/n*(n/run+1) + i%n/run // of both rows together
				keys[i] = int64(r.Uint64())
				lists[i] = (part-1<<20)<<32 + (kept-i%n%run%kept)<<24 + int64(r.IntN(1<<10))<<14 + i%(1<<14)
				rising[i] = (i - 1<<30) << 32
			}
			for range n / 5 {
				keys[r.IntN(len(keys))] = math.MinInt64 // of runs that were too short
			}
			for _, c := range []struct {
				name string
				keys []int64
			}{{"keys", keys}, {"lists", lists}, {"rising", rising}} {
				if !yield(s.best(c.name, keysBytes(c.keys), c.keys, 2, n, kept)) {
					return
				}
			}
		}
	}
}
