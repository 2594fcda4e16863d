package layout

import (
	"testing"

	"pgregory.net/rapid"
)

// The blocks' own runs and the rounds of the queue follow each other without a gap from 0 to the extent: no run is longer than
// its room, nothing is queued while there is room, and no turn of the queue is empty.
func TestOwnRunsAndQueuePartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1, 64).Draw(t, "period")
		rounds := rapid.Int64Range(1, 32).Draw(t, "rounds")
		n := rapid.Int64Range(1, 200).Draw(t, "blocks")
		room := rounds * period
		extent := rapid.OneOf(rapid.Int64Range(0, 3*n*room), rapid.SampledFrom([]int64{n*room - 1, n * room, n*room + 1, 1<<31 - 1})).Draw(t, "extent")
		from, at := QueueFrom(extent, n, room), int64(0)
		for b := range n {
			lo, hi := ShareBounds(from, b, n)
			if lo != at || hi < lo || hi-lo > room {
				t.Fatalf("run %d is [%d, %d), the one before ends at %d, room for %d", b, lo, hi, at, room)
			}
			at = hi
		}
		if at != from || from > extent || from < extent && from != n*room {
			t.Fatalf("the runs end at %d, the queue begins at %d of %d, room for %d", at, from, extent, n*room)
		}
		if turns := (extent - from + period - 1) / period; from+turns*period < extent || turns > 0 && from+(turns-1)*period >= extent {
			t.Fatalf("%d turns of %d from %d on end before %d or one has nothing", turns, period, from, extent)
		}
	})
}
