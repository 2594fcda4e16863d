//go:build cuda && linux && cgo

package timing_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
)

// TestRates prints the rates of the decode shapes on the first GPU; MINFER_TIME=7B,ring picks those whose names hold all words.
//
//	go test -tags cuda -run TestRates -v ./runtime/device/gpu/timing
func TestRates(t *testing.T) {
	d, err := cuda.Open(t.Context(), 0, cuda.Options{})
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	timer, err := timing.New(d, timing.Options{PoolBytes: 1300 << 20, Launches: 160, Replays: 7})
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(os.Getenv("MINFER_TIME"), ",")
	for _, c := range append(timing.Shapes(), timing.Crossover()...) {
		chosen := true
		for _, w := range words {
			chosen = chosen && strings.Contains(fmt.Sprint(c), w)
		}
		if !chosen {
			continue
		}
		for _, r := range timer.Time(c) {
			fmt.Println(r)
		}
	}
}
