package proof_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/specs"
)

// tables reads the rows of every markdown table whose header has all the given words, by the column that is called
// format.
func tables(t *testing.T, text string, words ...string) map[string]map[string]string {
	t.Helper()
	rows := map[string]map[string]string{}
	var header []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if header == nil {
			header = cells
			continue
		}
		all := strings.Join(header, "|")
		wanted := true
		for _, w := range words {
			wanted = wanted && strings.Contains(all, w)
		}
		if !wanted || strings.HasPrefix(cells[0], "---") {
			continue
		}
		row := map[string]string{}
		for i, c := range cells {
			row[header[i]] = c
		}
		rows[row["format"]] = row
	}
	if len(rows) == 0 {
		t.Fatalf("no table with %v", words)
	}
	return rows
}

// TestFacts compares what is computed from the specs with the tables that were computed, by another program, when the
// formats were described.
func TestFacts(t *testing.T) {
	data, err := os.ReadFile(shared.Path(t, "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	catalog, _ := shared.Catalog(t, specs.FS)
	formats := map[string]*model.Format{}
	for _, f := range catalog.Formats {
		formats[f.Name] = f
	}
	compared := 0
	check := func(rows map[string]map[string]string, column string, got func(*model.Format, proof.Facts) string) {
		t.Helper()
		for name, row := range rows {
			f := formats[name]
			if f == nil {
				t.Errorf("no spec for %s", name)
				continue
			}
			want, ok := row[column]
			if !ok {
				t.Fatalf("no column %q in %v", column, row)
			}
			compared++
			if diff := cmp.Diff(want, got(f, proof.FactsOf(f))); diff != "" {
				t.Errorf("%s, %s (-document +computed):\n%s", name, column, diff)
			}
		}
	}

	all := tables(t, text, "W range", "bpw")
	check(all, "id", func(f *model.Format, _ proof.Facts) string { return strconv.Itoa(f.ID) })
	check(all, "elems", func(f *model.Format, _ proof.Facts) string { return strconv.Itoa(f.Elems) })
	check(all, "bytes", func(f *model.Format, _ proof.Facts) string { return strconv.Itoa(f.Bytes) })
	check(all, "bpw", func(_ *model.Format, x proof.Facts) string { return fmt.Sprint(x.BitsPerWeight) })
	check(all, "W range", func(f *model.Format, x proof.Facts) string {
		switch {
		case f.Plain():
			return "—"
		case x.WeightHi == 9.0/8:
			return fmt.Sprintf("(%g..%g)/8", 8*x.WeightLo, 8*x.WeightHi)
		}
		return fmt.Sprintf("%g..%g", x.WeightLo, x.WeightHi)
	})
	check(all, "unused bits", func(f *model.Format, x proof.Facts) string {
		if len(f.Sums) > 0 && x.UnusedBits == 0 {
			return "derived: " + f.Sums[0].Code.Name
		}
		return strconv.Itoa(x.UnusedBits)
	})

	aligned := tables(t, text, "G: blocks per 16 B multiple")
	check(aligned, "alignment a block is guaranteed (≤16)", func(_ *model.Format, x proof.Facts) string { return strconv.Itoa(x.AlignBytes) })
	check(aligned, "stride for 16 B loads", func(f *model.Format, x proof.Facts) string {
		if x.StrideBytes == f.Bytes {
			return fmt.Sprintf("%d (already)", x.StrideBytes)
		}
		return fmt.Sprintf("%d (+%.1f%%)", x.StrideBytes, 100*float64(x.StrideBytes-f.Bytes)/float64(f.Bytes))
	})
	check(aligned, "fields ≥16 B then on 16 in place?", func(_ *model.Format, x proof.Facts) string {
		if x.AlignedFields {
			return "yes"
		}
		return "no"
	})
	check(aligned, "G: blocks per 16 B multiple", func(_ *model.Format, x proof.Facts) string { return strconv.Itoa(x.GroupBlocks) })
	check(aligned, "G·bytes", func(f *model.Format, x proof.Facts) string { return strconv.Itoa(x.GroupBlocks * f.Bytes) })

	closed := tables(t, text, "byte-closed group (elements)")
	check(closed, "byte-closed group (elements)", func(_ *model.Format, x proof.Facts) string { return strconv.Itoa(x.ClosedElems) })

	if compared < 300 {
		t.Errorf("only %d cells were compared", compared)
	}
}

// TestLayouts compares the layout of every plane with the document's, in its notation.
func TestLayouts(t *testing.T) {
	data, err := os.ReadFile(shared.Path(t, "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "| format | code | from | bits | layout over the element index, bits |\n")
	if !ok {
		t.Fatal("the document has no table of layouts")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	want := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		if cells[0] != "" {
			name = cells[0]
		}
		want[name] = append(want[name], strings.Join(cells[1:], " "))
	}
	catalog, _ := shared.Catalog(t, specs.FS)
	for _, f := range catalog.Formats {
		if want[f.Name] == nil {
			continue
		}
		have := map[string]bool{}
		s := f.Segs[0]
		for _, c := range s.Codes {
			for _, p := range c.Planes {
				source := ""
				if p.Field != nil {
					source = p.Field.Name
				} else {
					source = p.Code.Name
				}
				have[fmt.Sprintf("%s %s %d `%s`", c.Name, source, p.Bits, p.Layout.Notation(s.Shape))] = true
			}
		}
		for _, w := range want[f.Name] {
			if !have[w] {
				t.Errorf("%s: no plane %s; there are %v", f.Name, w, have)
			}
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d formats in the table", len(want))
	}
}
