package cuda

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/minfer/minfer/runtime/device/gpu"
)

func TestSpans(t *testing.T) {
	var s spans
	s.add(0x300, 0x10)
	s.add(0x100, 0x100)
	s.add(0x200, 0x80)
	for _, c := range []struct {
		p     gpu.Pointer
		bytes int64
		good  bool
	}{
		{0x100, 0x100, true}, {0x100, 0x101, false}, {0x180, 0x80, true}, {0x180, 0x81, false}, {0xff, 1, false},
		{0x200, 0x80, true}, {0x27f, 1, true}, {0x280, 1, false}, {0x280, 0, false}, {0x30f, 1, true}, {0x310, 1, false}, {0, 1, false}, {0x100, -1, false},
	} {
		err := s.check(c.p, c.bytes)
		if c.good != (err == nil) || err != nil && !errors.Is(err, gpu.ErrArgument) {
			t.Errorf("%d bytes at %#x: %v", c.bytes, c.p, err)
		}
	}
	if s.remove(0x101) || !s.remove(0x200) || s.remove(0x200) {
		t.Error("removal finds the wrong allocations")
	}
	if err := s.check(0x200, 1); err == nil {
		t.Error("a freed allocation is still there")
	}
	if err := spans(nil).check(1, 1); err == nil {
		t.Error("an allocation where there is none")
	}
}

// The allocations found are those of a plain list.
func TestSpansProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		var plain []span
		next := gpu.Pointer(1)
		for range rapid.IntRange(0, 20).Draw(t, "allocations") {
			next += gpu.Pointer(rapid.IntRange(0, 5).Draw(t, "gap"))
			x := span{next, int64(rapid.IntRange(1, 5).Draw(t, "bytes"))}
			next += gpu.Pointer(x.bytes)
			plain = append(plain, x)
		}
		for _, i := range rapid.Permutation(indices(len(plain))).Draw(t, "order") {
			s.add(plain[i].base, plain[i].bytes)
		}
		for i := range plain {
			if rapid.Bool().Draw(t, "freed") {
				if !s.remove(plain[i].base) {
					t.Fatalf("%v is not found", plain[i])
				}
				plain[i].bytes = 0
			}
		}
		p, bytes := gpu.Pointer(rapid.IntRange(0, 200).Draw(t, "pointer")), int64(rapid.IntRange(1, 6).Draw(t, "size"))
		want := false
		for _, x := range plain {
			want = want || p >= x.base && int64(p)+bytes <= int64(x.base)+x.bytes
		}
		if err := s.check(p, bytes); want != (err == nil) {
			t.Fatalf("%d bytes at %d of %v: %v", bytes, p, plain, err)
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestCoverageOf(t *testing.T) {
	space := gpu.CoverSpace{Rows: 2, Units: 3, Tokens: 2}
	counts := make([]byte, 0, 4*13)
	for _, n := range []uint32{1, 1, 1, 1, 0, 1, 1, 2, 1, 1, 1, 0, 5} {
		counts = binary.LittleEndian.AppendUint32(counts, n)
	}
	c := coverageOf(space, counts)
	if c.Min != 0 || c.Max != 2 || c.Missing != 2 || c.Repeated != 1 || c.Outside != 5 {
		t.Errorf("coverage %+v", c)
	}
	if len(c.FirstMissing) != 2 || c.FirstMissing[0] != (gpu.Cell{Row: 1, Unit: 1}) || c.FirstMissing[1] != (gpu.Cell{Row: 1, Unit: 2, Token: 1}) {
		t.Errorf("missing %v", c.FirstMissing)
	}
	if len(c.FirstRepeated) != 1 || c.FirstRepeated[0] != (gpu.Cell{Unit: 1, Token: 1, Count: 2}) {
		t.Errorf("repeated %v", c.FirstRepeated)
	}
	if err := c.Exact(); err == nil || !strings.Contains(err.Error(), "row 1, unit 1") {
		t.Errorf("%v", err)
	}
	for i := range 12 {
		binary.LittleEndian.PutUint32(counts[4*i:], 1)
	}
	binary.LittleEndian.PutUint32(counts[48:], 0)
	if err := coverageOf(space, counts).Exact(); err != nil {
		t.Error(err)
	}
}

func TestParseIndex(t *testing.T) {
	for arg, want := range map[string]int{"": 0, "0": 0, "3": 3} {
		if have, err := parseIndex(arg); err != nil || have != want {
			t.Errorf("%q is %d, %v", arg, have, err)
		}
	}
	for _, arg := range []string{"-1", "one", "0x1", "99999", "1 "} {
		if _, err := parseIndex(arg); err == nil || !strings.Contains(err.Error(), "cuda:"+arg) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}
