package timing_test

import (
	"errors"
	"testing"

	"github.com/minfer/minfer/runtime/device/emu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
)

// Every family is timed on the emulator, on a small shape: the figures mean nothing, but the launches are those of a GPU.
func TestEveryFamilyLaunches(t *testing.T) {
	d, err := emu.Open(t.Context(), emu.Options{})
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	timer, err := timing.New(d, timing.Options{PoolBytes: 1 << 16, Launches: 2, Replays: 1})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range append(timing.Shapes(), timing.Prefill()...) {
		if seen[c.Family+c.Format] {
			continue
		}
		seen[c.Family+c.Format] = true
		c.Tokens = min(c.Tokens, 40)
		if c.KVHeads > 0 {
			c.Depth = 3
		} else {
			c.Rows, c.Cols = 5, 512
		}
		rates := timer.Time(c)
		for _, r := range rates {
			if r.Err != nil || r.Micros <= 0 || r.Bytes <= 0 {
				t.Errorf("%+v: %v", c, r)
			}
		}
		if want := 1; c.Family != "matvec-q8" && c.Tokens == 0 {
			if want = 2; len(rates) != want {
				t.Errorf("%+v: %d rates, want %d", c, len(rates), want)
			}
		}
	}
}
