package cpu

import "sync/atomic"

// share is a worker's part of the items of a task: one stretch, cut into pieces. Its worker takes them from the front, so that it
// reads through memory in one go; workers that are done with their own take them from the back.
type share struct {
	cuts []int         // the item that each piece begins with, then the end
	left atomic.Uint64 // pieces that nobody has taken: the first, and the end in the upper half
	_    [64]byte
}

// shareOf is the first item of a worker's stretch.
func shareOf(items, worker, workers int) int { return items * worker / workers }

// dealOut gives each share its stretch of items, in pieces of least to most items, and counts the pieces. They get smaller towards the
// end of a stretch: there is little to wait for when workers run out of them.
func dealOut(shares []share, items, least, most int) (pieces int) {
	for i := range shares {
		s := &shares[i]
		at, end := shareOf(items, i, len(shares)), shareOf(items, i+1, len(shares))
		s.cuts = append(s.cuts[:0], at)
		for at < end {
			piece := max((end-at)/2, least)
			if len(shares) == 1 {
				piece = most
			}
			at += min(piece, most, end-at)
			s.cuts = append(s.cuts, at)
		}
		s.left.Store(uint64(len(s.cuts)-1) << 32)
		pieces += len(s.cuts) - 1
	}
	return pieces
}

// take takes a piece for a worker, of which there must be one left.
func take(shares []share, worker int) (lo, hi int) {
	for i := range shares {
		s := &shares[(worker+i)%len(shares)]
		for {
			left := s.left.Load()
			first, end := left&(1<<32-1), left>>32
			if first == end {
				break
			}
			piece := first
			if i == 0 {
				first++
			} else {
				end--
				piece = end
			}
			if s.left.CompareAndSwap(left, end<<32|first) {
				return s.cuts[piece], s.cuts[piece+1]
			}
		}
	}
	panic("BUG: no piece is left")
}
