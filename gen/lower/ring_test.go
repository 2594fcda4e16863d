package lower

import (
	"slices"
	"testing"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
	"pgregory.net/rapid"
)

// ring is a variant of a family that streams rows, and a format that it is for.
func ring(t *testing.T, family string) (*model.Variant, *model.Format) {
	t.Helper()
	c := catalog(t)
	fam := c.Families[slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == family })]
	return fam.Variants[0], fam.Formats[slices.IndexFunc(fam.Formats, func(f *model.Format) bool { return f.Name == "q4_K" })]
}

// A warp adds the columns that it has of one row: all four, two or one, as many as divide the columns of a row.
func TestRingMergesColumnsOfAWarp(t *testing.T) {
	base, f := ring(t, "matvec-ring-q8")
	swap := func(digits []layout.PlacedDigit, a, b string) {
		at := func(name string) int {
			return slices.IndexFunc(digits, func(d layout.PlacedDigit) bool { return d.Name == name })
		}
		digits[at(a)], digits[at(b)] = digits[at(b)], digits[at(a)]
	}
	for _, c := range []struct {
		name                 string
		columns, group, seat int
		order                func([]layout.PlacedDigit)
		merged, sums         int
	}{
		{"four", 20, 4, 8, nil, 4, 5},
		{"more than four", 112, 1, 8, nil, 4, 29},
		{"a warp of one row", 4, 16, 8, nil, 4, 1},
		{"two", 14, 4, 8, nil, 2, 7},
		{"two columns", 2, 8, 8, nil, 2, 1},
		{"an odd number", 15, 4, 8, nil, 1, 15},
		{"a column", 1, 8, 8, nil, 1, 1},
		{"six", 6, 4, 8, nil, 2, 3},
		{"eight sums become nine", 32, 1, 8, nil, 4, 9},
		{"groups between column and seat", 20, 4, 8, func(d []layout.PlacedDigit) { swap(d, "group", "column") }, 1, 21},
		{"one group between them", 20, 1, 8, func(d []layout.PlacedDigit) { swap(d, "group", "column") }, 4, 5},
		{"columns below the seats", 20, 4, 8, func(d []layout.PlacedDigit) { swap(d, "seat", "column") }, 1, 21},
		{"four seats", 20, 4, 4, nil, 1, 21},
	} {
		v := base.With([]model.Setting{{Name: "column", Value: c.columns}, {Name: "group", Value: c.group}, {Name: "seat", Value: c.seat}})
		if c.order != nil {
			c.order(v.Digits)
		}
		if r := RingOf(v, f); r.Merged != c.merged || r.Sums != c.sums {
			t.Errorf("%s: %d columns, %d groups, %d seats: %d merged and %d sums, want %d and %d", c.name, c.columns, c.group, c.seat, r.Merged, r.Sums, c.merged, c.sums)
		}
	}
}

// Whatever the radices: sums of a row are odd in number and hold all columns, those of one tile more than there are stages have room, and what
// lies behind the partial sums begins on 16 bytes; all of it fits the room where more than one stage does.
func TestRingHasRoom(t *testing.T) {
	for _, family := range []string{"matvec-ring-q8", "gate-ring-q8"} {
		base, f := ring(t, family)
		rapid.Check(t, func(t *rapid.T) {
			columns := rapid.IntRange(1, 120).Draw(t, "columns")
			v := base.With([]model.Setting{{Name: "column", Value: columns}, {Name: "group", Value: rapid.IntRange(1, 16).Draw(t, "group")},
				{Name: "slot", Value: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "slot")}, {Name: model.StagesParameter, Value: rapid.IntRange(2, 32).Draw(t, "stages")}})
			shared := v.Shared.Ring
			shared.LeastBytes = 0
			r := RingOf(v, f)
			if columns%r.Merged != 0 || r.Merged*r.Sums < columns || r.Sums%2 == 0 || !slices.Contains([]int{1, 2, 4}, r.Merged) {
				t.Fatalf("%d columns: %+v", columns, r)
			}
			if r.Partials < (r.Stages+1)*r.Rows*r.Sums || r.Partials%4 != 0 || r.Partials >= (r.Stages+1)*r.Rows*r.Sums+4 {
				t.Fatalf("%d partial sums for one tile more than %d stages of %d rows of %d", r.Partials, r.Stages, r.Rows, r.Sums)
			}
			if r.StageBytes()%16 != 0 || r.StageBytes() < 3*8 || r.Fixed < r.Stages*r.StageBytes()+4*r.Partials {
				t.Fatalf("a stage has room for two barriers and two numbers of rows: %d bytes, %d in all", r.StageBytes(), r.Fixed)
			}
			if blocks := int64(columns * 256 / f.Elems); r.Stages < 1 || r.Stages > shared.MaxStages || r.Stages > 1 && r.Bytes(blocks) > int64(shared.RoomBytes) {
				t.Fatalf("%d stages take %d bytes of %d", r.Stages, r.Bytes(blocks), shared.RoomBytes)
			}
		})
	}
}
