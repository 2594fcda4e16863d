package timing_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
)

func TestTimeline(t *testing.T) {
	mark := func(unit string, block, moment int, nanos int64) gpu.Mark {
		return gpu.Mark{Unit: unit, Block: block, Moment: moment, Nanos: 1000 + nanos}
	}
	all := []gpu.Mark{
		// Two launches of one unit around one of another that begins before its predecessor ends, and where one block alone combines.
		mark("a.cu", 0, 0, 0), mark("a.cu", 1, 0, 10), mark("a.cu", 2, 0, 20), mark("a.cu", 0, 1, 100), mark("a.cu", 1, 1, 90), mark("a.cu", 2, 1, 200),
		mark("b.cu", 0, 0, 150), mark("b.cu", 1, 0, 210), mark("b.cu", 1, 5, 400),
		mark("a.cu", 0, 0, 410), mark("a.cu", 1, 0, 410), mark("a.cu", 2, 0, 410), mark("a.cu", 0, 1, 410), mark("a.cu", 1, 1, 500), mark("a.cu", 2, 1, 450),
	}
	want := []timing.Span{
		{Unit: "a.cu", Blocks: 3, Moments: []timing.Moment{{0, 0, 10, 20}, {1, 90, 100, 200}}},
		{Unit: "b.cu", Blocks: 2, Moments: []timing.Moment{{0, 150, 210, 210}, {5, 400, 400, 400}}},
		{Unit: "a.cu", Blocks: 3, Moments: []timing.Moment{{0, 410, 410, 410}, {1, 410, 450, 500}}},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if diff := cmp.Diff(want, timing.Timeline(all)); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := want[1].String(); got != "b.cu                            2  0:0.1/0.2/0.2  5:0.4/0.4/0.4" {
		t.Errorf("%q", got)
	}
	if got := timing.Timeline(nil); got != nil {
		t.Errorf("%v", got)
	}
}
