package conform

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/runtime/device/gpu"
	"github.com/minfer/minfer/runtime/kernel"
)

// subjectOf is a variant by its full name.
func subjectOf(t testing.TB, name string) *Subject {
	t.Helper()
	s, err := subjectNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// benchOf is a bench with the kernels of a variant's gate loaded.
func benchOf(t testing.TB, s *Subject) *bench {
	t.Helper()
	d, err := open(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var variants []*kernel.Variant
	for _, step := range s.Entry.Steps {
		variants = append(variants, step.Variant)
	}
	if err := gpu.LoadVariants(d, variants); err != nil {
		t.Fatal(err)
	}
	s.shared = int64(d.Info().SharedOptInBytes)
	return &bench{driver: d, subject: s, report: &Report{}}
}

// The fault that this project began with, end to end: a kernel that unrolls two rounds of 256 threads covers 512 units of 32, and was
// launched, by a gate that looked at one side only, on rows of 18944 = 592 units. Here the gate is passed by.
func TestUncoveredUnits(t *testing.T) {
	s := subjectOf(t, "matvec-q8/q6_K/v2_pf")
	b := benchOf(t, s)
	const cols, units, covered = 18944, 592, 512

	query := s.query()
	query.Rows, query.Cols = 3584, cols
	if i := s.refusal(&query); i < 0 || !strings.Contains(s.Variant.Bounds[i].String(), "cols <= 16384 (coverage: 256 threads * 2 rounds * 32 elements)") {
		t.Fatalf("the gate's refusal is bound %d", i)
	}
	if v, err := s.Entry.Pick(&query); err != nil || v.Name != "v2" {
		t.Fatalf("the gate chooses %v, %v", v, err)
	}

	t.Run("witness names the units", func(t *testing.T) {
		for _, rows := range []int64{1, 3584} {
			b.report.Failures = nil
			j := &job{name: "the shape of the fault", query: query, args: map[string]any{
				"w": make([]byte, rows*cols/256*224), "x": make([]byte, cols/32*40), "bias": nil, "y": nans(rows), "rows": rows, "cols": int64(cols), "y_stride": rows}}
			j.query.Rows = rows
			var c gpu.Coverage
			j.cells = func(have gpu.Coverage) error { c = have; return have.Exact() }
			b.launch(s.Variant, j)
			if len(b.report.Failures) != 1 || b.report.Failures[0].Judge != "witness" || !strings.Contains(b.report.Failures[0].Text, "(13.51 %) were never processed") {
				t.Fatalf("failures are %v", b.report.Failures)
			}
			if c.Missing != rows*(units-covered) || c.Repeated != 0 || c.Outside != 0 {
				t.Errorf("%d rows: %+v", rows, c)
			}
			// The first missing of each row is unit 512, and as many are missing as lie from there to the end.
			if c.FirstMissing[0].Unit != covered || c.FirstMissing[0].Row != 0 {
				t.Errorf("the first missing cell is %+v", c.FirstMissing[0])
			}
			t.Logf("%d x %d: %s", rows, cols, b.report.Failures[0].Text)
		}
	})
	t.Run("values are wrong", func(t *testing.T) {
		b.report.Failures = nil
		b.run(s.product(product{rows: 8, cols: cols, tokens: 1, weights: sane, x: normal}))
		if !slices.ContainsFunc(b.report.Failures, func(f Failure) bool { return f.Judge == "value" }) {
			t.Errorf("failures are %v", b.report.Failures)
		}
		b.report.Failures = nil
		b.run(s.product(product{rows: 8, cols: cols, tokens: 1, weights: sane, x: lastUnit}))
		if !slices.ContainsFunc(b.report.Failures, func(f Failure) bool { return f.Judge == "value" }) {
			t.Errorf("the last unit alone: failures are %v", b.report.Failures)
		}
	})
	t.Run("the front of the row is right", func(t *testing.T) {
		// What a check of the first units sees, and why it is no check: the loss begins after them.
		b.report.Failures = nil
		r := random(3)
		x := activations(1, cols, 32, normal, r)
		clear(x[covered*32:])
		j := s.productOf(product{rows: 8, cols: cols, tokens: 1}, makeWeights(s.Info, 8, cols, sane, r), x, r)
		j.cells = func(gpu.Coverage) error { return nil }
		b.run(j)
		if len(b.report.Failures) > 0 {
			t.Errorf("failures are %v", b.report.Failures)
		}
	})
	t.Run("a kernel equals itself", func(t *testing.T) {
		// And so does a comparison of the kernel before and after a change, however often it is made.
		j := s.product(product{rows: 8, cols: cols, tokens: 1, weights: sane, x: normal})
		j.cells = func(gpu.Coverage) error { return nil }
		one, ok1 := b.launch(s.Variant, j)
		two, ok2 := b.launch(s.Variant, j)
		if !ok1 || !ok2 || !bytes.Equal(one, two) {
			t.Error("it does not")
		}
		// A variant that covers the row gives other values.
		v2 := subjectOf(t, "matvec-q8/q6_K/v2")
		if right, ok := b.launch(v2.Variant, j); !ok || bytes.Equal(one, right) {
			t.Error("v2 gives the same on a row that v2_pf does not cover")
		}
	})
}
