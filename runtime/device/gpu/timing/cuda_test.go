//go:build cuda && linux && cgo

package timing_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/device/gpu/timing"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/synth"
)

// TestRates prints the rates of the shapes of decoding and of prompts on the first GPU; MINFER_TIME=7B,ring picks those whose names
// hold all words, MINFER_TIME=prefill the products of prompts.
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
	for _, c := range slices.Concat(timing.Shapes(), timing.Crossover(), timing.Prefill()) {
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

// TestTimeline prints when the blocks of each launch of a decode step came by the moments that the kernels mark, for four layers of the
// shape MINFER_TIMELINE, such as qwen2.5-7b.
//
//	MINFER_TIMELINE=qwen2.5-7b go test -tags cuda -run TestTimelineOfAStep -v ./runtime/device/gpu/timing
func TestTimelineOfAStep(t *testing.T) {
	shape := os.Getenv("MINFER_TIMELINE")
	if shape == "" {
		t.Skip("MINFER_TIMELINE names no shape")
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, synth.Options{Shape: shape, Format: "q4_K_M", Layers: 4}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := arch.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	var driver gpu.Driver
	open := func() (_ gpu.Driver, err error) {
		driver, err = cuda.Open(context.Background(), 0, cuda.Options{Marks: true})
		return driver, err
	}
	m, err := gpu.New("cuda", open, gpu.SwitchedOff()).Load(t.Context(), g, device.LoadOptions{})
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	s, err := m.NewSession(device.SessionOptions{Context: 4096, KVType: format.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	forward := func(tokens int) {
		if _, err := s.Forward(t.Context(), make([]int32, tokens), device.LogitsLast); err != nil {
			t.Fatal(err)
		}
	}
	for _, depth := range []int{128, 3254} {
		forward(depth - s.Len())
		for range 8 {
			forward(1)
		}
		if err := driver.(gpu.Marker).StartMarks(1 << 20); err != nil {
			t.Fatal(err)
		}
		forward(1)
		all, err := driver.(gpu.Marker).StopMarks()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s at depth %d: file, blocks, then of each moment the first, middle and last block in us\n", shape, depth)
		for _, span := range timing.Timeline(all) {
			fmt.Println(span)
		}
	}
}
