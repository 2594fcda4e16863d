package tune

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/specs"
)

func product(rows, cols int64) Shape {
	return Shape{"matvec-q8", "q6_K", []model.Size{{Dim: model.Rows, Value: rows}, {Dim: model.Cols, Value: cols}, {Dim: model.Tokens, Value: 1}}}
}

func win(s Shape, variant string, set ...model.Setting) Win {
	return Win{Shape: s, Variant: variant, Settings: set, Figure: "1.00 us against 2.00 of v2, medians of 7; noise 0.10"}
}

// What is written reads back as it was, whatever texts it holds, and the generator takes it.
func TestRoutesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[!-~]([ -~äµ]{0,20}[!-~])?`)
		r := &Routes{Device: "sm90"}
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			run := Run{Device: text.Draw(t, "device"), Date: "2026-12-01", Command: text.Draw(t, "command")}
			for i := range rapid.IntRange(1, 4).Draw(t, "rows") {
				w := win(product(int64(1+len(r.Runs)*10+i), 256*rapid.Int64Range(1, 8).Draw(t, "cols")), "v2")
				w.Figure = text.Draw(t, "figure")
				w.Geometry = rapid.SampledFrom([]string{"", "12345678", "0e123456", "deadbeef"}).Draw(t, "geometry")
				if rapid.Bool().Draw(t, "set") {
					w.Settings = []model.Setting{{Name: "thread", Value: rapid.SampledFrom([]int{64, 128, 512}).Draw(t, "thread")}}
				}
				run.First = append(run.First, w)
			}
			r.Runs = append(r.Runs, run)
		}
		back, err := Parse("sm90.yaml", []byte(r.Text()))
		if err != nil {
			t.Fatalf("%v\n%s", err, r.Text())
		}
		if !reflect.DeepEqual(back, r) || back.Text() != r.Text() {
			t.Fatalf("%+v\nreads back as %+v\n%s", r, back, r.Text())
		}
	})
	r := &Routes{Device: "sm90"}
	r.Add(Run{Device: "H200", Date: "2026-12-01", Command: "tune", First: []Win{win(product(64, 512), "v2", model.Setting{Name: "thread", Value: 128}), win(product(64, 256), "v1")}}, nil)
	if err := Check(specs.FS, r); err != nil {
		t.Error(err)
	}
	r.Runs[0].First[0].Settings[0].Value = 129
	if err := Check(specs.FS, r); err == nil || !strings.Contains(err.Error(), "specs/routes/sm90.yaml:10:") || !strings.Contains(err.Error(), "thread is 129") {
		t.Error(err)
	}
}

// A run takes the place of what earlier ones say of the same shapes, and of nothing else.
func TestAdd(t *testing.T) {
	a, b, c := product(1, 256), product(2, 256), product(3, 256)
	r := &Routes{Device: "sm90"}
	r.Add(Run{Device: "1", First: []Win{win(a, "v2"), win(b, "v2"), win(b, "v1")}}, nil)
	r.Add(Run{Device: "2", First: []Win{win(c, "v2_pf")}}, []Measured{{a, []string{"v2", "v2_pf"}}, {b, []string{"v2", "v2_pf"}}, {c, []string{"v2", "v2_pf"}}})
	var have []string
	for _, run := range r.Runs {
		for _, w := range run.First {
			have = append(have, fmt.Sprintf("%s: %s: %s", run.Device, w.Shape, w.Variant))
		}
	}
	// v1 reads weights that lie otherwise, so that it was not measured with the others.
	if want := []string{"1: matvec-q8 of q6_K rows 2 cols 256 tokens 1: v1", "2: matvec-q8 of q6_K rows 3 cols 256 tokens 1: v2_pf"}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
	r.Add(Run{Device: "3"}, []Measured{{b, []string{"v1"}}, {c, []string{"v2_pf"}}})
	if len(r.Runs) != 0 {
		t.Errorf("%+v is left", r.Runs)
	}
}

// Candidates are all combinations of values but the variant's own; those that are not proved or do not cover the shape are dropped, and say why.
func TestCandidates(t *testing.T) {
	c, err := gen.Load(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	f := c.Formats[slices.IndexFunc(c.Formats, func(f *model.Format) bool { return f.Name == "q6_K" })]
	for _, x := range []struct {
		family, variant string
		cols            int64
		want            map[string]string // by name, part of the reason for dropping it
	}{
		{"matvec-q8", "v2", 18944, map[string]string{"v2_thread64": "", "v2_thread128": "", "v2_thread512": ""}},
		{"matvec-q8", "v2_pf", 8448, map[string]string{
			"v2_pf_thread128": "refuses the shape: cols 8448, needed cols <= 8192 (coverage: 128 threads * 2 rounds * 32 elements)", "v2_pf_thread512": "", "v2_pf_round3": "", "v2_pf_round4": "",
			"v2_pf_round3_thread128": "", "v2_pf_round3_thread512": "", "v2_pf_round4_thread128": "", "v2_pf_round4_thread512": ""}},
	} {
		fam := c.Families[slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == x.family })]
		v := fam.Variants[slices.IndexFunc(fam.Variants, func(v *model.Variant) bool { return v.Name == x.variant })]
		shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: 64, model.Cols: x.cols, model.Tokens: 1}, Arch: 90, SharedBytes: 232448, Weights: v.Weights}
		for _, have := range Candidates(c, fam, v, f, shape) {
			want, due := x.want[have.Variant.Name]
			if !due || (want == "") != (have.Dropped == "") || !strings.Contains(have.Dropped, want) {
				t.Errorf("%s: %q, want %q", have.Variant.Name, have.Dropped, want)
			}
			delete(x.want, have.Variant.Name)
		}
		if len(x.want) > 0 {
			t.Errorf("%s/%s: missing are %v", x.family, x.variant, x.want)
		}
	}
	// Blocks over 1024 threads are not proved.
	fam := c.Families[slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == "matvec-ring-q8" })]
	v := fam.Variants[slices.IndexFunc(fam.Variants, func(v *model.Variant) bool { return v.Name == "c56_wide" })]
	shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: 64, model.Cols: 14336, model.Tokens: 1}, Arch: 90, SharedBytes: 232448, Weights: v.Weights}
	found := false
	for _, x := range Candidates(c, fam, v, f, shape) {
		if x.Variant.Name == "c56_wide_group8" {
			found = strings.Contains(x.Dropped, "not proved: a block has 3616 threads; sm90 allows 1024")
		}
	}
	if !found {
		t.Error("c56_wide_group8 is not dropped for its threads")
	}
	if v.Name != "c56_wide" || v.Base != nil || v.Value("group") != 2 {
		t.Errorf("the variant of the spec has changed: %+v", v)
	}
}
