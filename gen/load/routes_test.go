package load_test

import (
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/route"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// few is the specs of some formats and families, so that a test can load them often.
var few = sync.OnceValue(func() fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, pattern := range []string{"formats/q4_K.yaml", "formats/q6_K.yaml", "formats/f16.yaml", "formats/a8.yaml", "devices/*.yaml", "layouts/q4_K*.yaml", "layouts/q6_K*.yaml"} {
		names, err := fs.Glob(specs.FS, pattern)
		if err != nil || len(names) == 0 {
			panic(fmt.Sprint(pattern, err))
		}
		for _, name := range names {
			fsys[name] = &fstest.MapFile{Data: read(name)}
		}
	}
	for _, name := range []string{"matvec-q8", "matvec-ring-q8", "attend-split", "rmsnorm"} {
		name = "kernels/" + name + ".yaml"
		fsys[name] = &fstest.MapFile{Data: []byte(narrowed(string(read(name))))}
	}
	return fsys
})

// narrowed is the text of a spec with lists of formats that name none but those of few; a row that has none of them is left out.
func narrowed(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if m := formatList.FindStringSubmatchIndex(line); m != nil {
			list := strings.Split(strings.Replace(line[m[2]:m[3]], "blocks", "q4_K, q6_K", 1), ", ")
			list = slices.DeleteFunc(list, func(f string) bool { return !slices.Contains([]string{"q4_K", "q6_K", "f16"}, f) })
			if len(list) == 0 {
				continue
			}
			line = line[:m[2]] + strings.Join(list, ", ") + line[m[3]:]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

var formatList = regexp.MustCompile(`formats: \[(.*?)\]`)

func read(name string) []byte {
	data, err := fs.ReadFile(specs.FS, name)
	if err != nil {
		panic(err)
	}
	return data
}

func routed(rows string) (*model.Catalog, error) {
	fsys := fstest.MapFS{}
	for name, file := range few() {
		fsys[name] = file
	}
	if rows != "" {
		fsys["routes/sm90.yaml"] = &fstest.MapFile{Data: []byte("routes: sm90\nruns:\n  - device: H200\n    date: \"2026-12-01\"\n    command: tune\n    first:\n" + rows)}
	}
	set, diags, err := spec.Read(fsys)
	if err != nil {
		return nil, err
	}
	c, pos, more := load.Load(set)
	diags.Add(more)
	if len(diags) == 0 {
		diags.Add(proof.Kernels(c, pos))
	}
	return c, diags.Err()
}

const okRow = "      - {kernel: matvec-q8, format: q6_K, variant: v2, set: {thread: 128}, shape: {rows: 64, cols: 512, tokens: 1}, figure: fast}\n"

// What a row of routes may not say, each with where it stands and what would do.
func TestRoutesAreRefused(t *testing.T) {
	if _, err := routed(okRow); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"matvec-q8", "matvec-q9", "specs/routes/sm90.yaml:7:18: no kernel family of GPUs is called matvec-q9"},
		{"format: q6_K", "format: q6_k", "7:37: q6_k is no format of matvec-q8"},
		{"format: q6_K, ", "", "7:9: key format is missing; matvec-q8 has formats"},
		{"variant: v2", "variant: v3", "7:52: matvec-q8 has no variant v3"},
		{"thread: 128", "thread: 127", "7:70: set: thread is 127; the spec of the kernel allows 64, 128, 256, 512"},
		{"thread: 128", "round: 2", "7:62: set: round is no free parameter of variant v2; the spec of the kernel lists them under free"},
		{"thread: 128", "hoist: 1", "set: hoist is no free parameter of variant v2"},
		{"rows: 64", "heads: 64", "7:84: shape: matvec-q8 has no size heads; the sizes are cols rows tokens"},
		{"rows: 64", "shares: 64", "shape: matvec-q8 has no size shares"},
		{"cols: 512", "cols: 500", "7:9: matvec-q8/v2_thread128 is put first for cols 500, rows 64, tokens 1, which it refuses: cols 500, needed cols % 256 == 0 (block: a row is whole q6_K blocks)"},
		{"tokens: 1", "tokens: 65536", "which it refuses: tokens 65536, needed tokens <= 65535 (grid: 65535 blocks in grid.y)"},
		{"tokens: 1", "tokens: 0", "0 is out of range; an integer of at least 1 is due"},
		// The variant with other values covers it, the one of the spec does not, and so the gate would admit more than it did.
		{"variant: v2, set: {thread: 128}, shape: {rows: 64, cols: 512", "variant: v2_pf, set: {thread: 512}, shape: {rows: 64, cols: 18944", "matvec-q8/v2_pf is put first for cols 18944, rows 64, tokens 1, which it refuses: cols 18944, needed cols <= 16384"},
		{okRow, okRow + strings.Replace(okRow, "tokens: 1", "tokens: 2", 1) + strings.Replace(okRow, "cols: 512, tokens: 1", "cols: 512", 1), "9:83: shape: specs/routes/sm90.yaml:7:9 already says what comes first for cols 512, rows 64"},
		{"figure: fast", "figure: fast, above: 3", "unknown key runs[0].first[0].above"},
		{", figure: fast", "", "key figure is missing"},
		{"figure: fast", "figure: fast, geometry: fast", `geometry: "fast" is not allowed`},
	} {
		row := strings.Replace(okRow, c.from, c.to, 1)
		if row == okRow {
			t.Fatalf("nothing is replaced: %s", c.from)
		}
		_, err := routed(row)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s -> %s: %v\nwant %s", c.from, c.to, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"routes: sm91\nruns: [{date: \"2026-12-01\"": "no device is called sm91", "routes: sm80\nruns: [{date: \"2026-12-01\"": "the name sm80 differs from the file's",
		"routes: sm90\nruns: [{date: \"2026-02-30\"": "specs/routes/sm90.yaml:2:15: date: there is no day 2026-02-30",
	} {
		fsys := fstest.MapFS{"routes/sm90.yaml": {Data: []byte(text + ", device: a, command: b, first: [{kernel: k, variant: v, shape: {rows: 1}, figure: f}]}]\n")}}
		for name, file := range few() {
			fsys[name] = file
		}
		if _, err := gen.Load(fsys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Whatever is wrong with a row is said at once.
func TestRowsAreRefusedWhole(t *testing.T) {
	for row, wants := range map[string][]string{
		"      - {kernel: matvec-q8, format: q6_k, variant: v3, set: {thread: 127}, shape: {heads: 64, shares: 3}, figure: fast}\n": {
			"7:37: q6_k is no format of matvec-q8", "7:52: matvec-q8 has no variant v3", "7:84: shape: matvec-q8 has no size heads", "7:95: shape: matvec-q8 has no size shares"},
		"      - {kernel: matvec-q8, variant: v2, set: {thread: 127, round: 2}, shape: {heads: 64}, figure: fast}\n": {
			"7:9: key format is missing; matvec-q8 has formats", "7:56: set: thread is 127", "7:61: set: round is no free parameter of variant v2", "7:80: shape: matvec-q8 has no size heads"},
		"      - {kernel: matvec-q9, format: q6_k, variant: v3, shape: {heads: 64}, figure: fast}\n": {"7:18: no kernel family of GPUs is called matvec-q9"},
	} {
		_, err := routed(row)
		if err == nil {
			t.Errorf("%s is accepted", row)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(wants) {
			t.Errorf("%s: %d faults, want %d:\n%v", row, n, len(wants), err)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in\n%v", row, want, err)
			}
		}
	}
}

// A figure is of the geometry that it was measured with: whatever a spec changes of that makes it stale, and nothing else does.
func TestStaleFigures(t *testing.T) {
	const matvec, ring = "kernels/matvec-q8.yaml", "kernels/matvec-ring-q8.yaml"
	stale := func(geometries [2]string, file, from, to string) diag.List {
		fsys := fstest.MapFS{}
		for name, data := range few() {
			fsys[name] = data
		}
		rows := "      - {kernel: matvec-q8, format: q6_K, variant: v2_pf, set: {round: 3}, shape: {rows: 64, cols: 512, tokens: 1}, figure: fast" + geometries[0] + "}\n" +
			"      - {kernel: matvec-ring-q8, format: q4_K, variant: c112, set: {stages: 4}, shape: {rows: 64}, figure: fast" + geometries[1] + "}\n"
		fsys["routes/sm90.yaml"] = &fstest.MapFile{Data: []byte("routes: sm90\nruns:\n  - device: H200\n    date: \"2026-12-01\"\n    command: tune\n    first:\n" + rows)}
		if file != "" {
			text := string(fsys[file].Data)
			if !strings.Contains(text, from) {
				t.Fatalf("%s has no %q", file, from)
			}
			fsys[file] = &fstest.MapFile{Data: []byte(strings.Replace(text, from, to, 1))}
		}
		set, diags, err := spec.Read(fsys)
		if err != nil {
			t.Fatal(err)
		}
		c, pos, more := load.Load(set)
		diags.Add(more)
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		return load.Stale(c, pos)
	}
	if found := stale([2]string{}, "", "", ""); len(found) > 0 {
		t.Errorf("rows that do not say their geometry: %v", found)
	}
	var now [2]string
	for i, d := range stale([2]string{`, geometry: "00000000"`, `, geometry: "00000000"`}, "", "", "") {
		m := regexp.MustCompile(`deals otherwise than when it was measured \(geometry 00000000, now ([0-9a-f]{8})\)`).FindStringSubmatch(d.Message)
		if m == nil || d.Pos.File != "specs/routes/sm90.yaml" || d.Pos.Line != 7+i || d.Pos.Col < 100 {
			t.Fatal(d)
		}
		now[i] = fmt.Sprintf(`, geometry: "%s"`, m[1])
	}
	for _, c := range []struct {
		file, from, to string
		stale          int // rows
	}{
		{"", "", "", 0},
		{matvec, "doc: Two rounds", "doc: Both rounds", 0},
		{matvec, "radix: 256}", "radix: 128}", 1},
		{matvec, "elems_of: {q4_K: 64}", "elems_of: {q4_K: 64, q6_K: 64}", 1},
		{matvec, "options: {hoist: 1}", "options: {hoist: 0}", 1},
		{matvec, "    weights: padded\n    radix", "    weights: file\n    radix", 1},
		{ring, "least_bytes: 118784", "least_bytes: 118788", 1},
		{ring, "stages: 8", "stages: 9", 0}, // the row sets them
		{ring, "{column: 112", "{column: 120", 1},
	} {
		if found := stale(now, c.file, c.from, c.to); len(found) != c.stale {
			t.Errorf("%s with %q: %v", c.file, c.to, found)
		}
	}
}

// A derived name that the spec gives to a variant of its own is no kernel twice.
func TestDerivedNameIsTaken(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, file := range few() {
		fsys[name] = file
	}
	k := string(few()["kernels/matvec-q8.yaml"].Data)
	fsys["kernels/matvec-q8.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(k, "  v2:\n", "  v2_thread128:\n    doc: Taken.\n  v2:\n", 1))}
	fsys["routes/sm90.yaml"] = &fstest.MapFile{Data: []byte("routes: sm90\nruns:\n  - device: H200\n    date: \"2026-12-01\"\n    command: tune\n    first:\n" + okRow)}
	if _, err := gen.Load(fsys); err == nil || !strings.Contains(err.Error(), "v2 with these values would be called v2_thread128, as another variant of the spec is") {
		t.Error(err)
	}
}

// The order of rows makes no difference, and each row names its variant's kernel once.
func TestRowsInAnyOrder(t *testing.T) {
	rows := []string{okRow, strings.Replace(okRow, "rows: 64", "rows: 65", 1), strings.Replace(okRow, "q6_K", "q4_K", 1),
		strings.NewReplacer("thread: 128", "thread: 64", "rows: 64", "rows: 66").Replace(okRow), strings.NewReplacer(", set: {thread: 128}", "", "rows: 64", "rows: 67").Replace(okRow)}
	a, err := routed(strings.Join(rows, ""))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(rows)
	b, err := routed(strings.Join(rows, ""))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("rows in another order make another catalog")
	}
	fam := a.Families[slices.IndexFunc(a.Families, func(f *model.Family) bool { return f.Name == "matvec-q8" })]
	var names []string
	for _, v := range fam.Variants {
		names = append(names, v.Name)
	}
	if have := strings.Join(names, " "); have != "v1 v2 v2_pf v2_thread128 v2_thread64" {
		t.Error(have)
	}
	if v := fam.Variants[3]; len(v.First) != 3 || !slices.Equal(v.Formats, []string{"q4_K", "q6_K"}) || v.Base != fam.Variants[1] {
		t.Errorf("%+v", v)
	}
}

// A kernel that takes less shared memory than the one of the spec does not run where that one has too little.
func TestRouteMakesNoRoom(t *testing.T) {
	c, err := routed("      - {kernel: matvec-ring-q8, format: q4_K, variant: c112, set: {stages: 4}, shape: {rows: 64}, figure: fast}\n")
	if err != nil {
		t.Fatal(err)
	}
	fam := c.Families[slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == "matvec-ring-q8" })]
	f := c.Formats[slices.IndexFunc(c.Formats, func(f *model.Format) bool { return f.Name == "q4_K" })]
	v := fam.Variants[len(fam.Variants)-1]
	shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: 64, model.Cols: 112 * 256, model.Tokens: 1, model.ShareOf: 132}, Arch: 90, SharedBytes: 232448, Weights: "lanes"}
	if have := route.Chosen(c, fam, f, route.Query{Shape: shape}); have != v || v.Name != "c112_stages4" {
		t.Fatalf("%v, of %s", have, v.Name)
	}
	for _, x := range bound.Derive(fam, v, f, c.Base()) {
		if x.Kind == bound.Shared {
			shape.SharedBytes = x.SharedBytes(112 * 256)
		}
	}
	if ok, broken := bound.Admits(bound.Derive(fam, v, f, c.Base()), shape); !ok || shape.SharedBytes >= 232448 {
		t.Fatalf("%d bytes of shared memory; %v", shape.SharedBytes, broken)
	}
	if have := route.Chosen(c, fam, f, route.Query{Shape: shape}); have != nil {
		t.Errorf("%s runs with %d bytes of shared memory, for which every variant of the spec has too little", have.Name, shape.SharedBytes)
	}
}

// No content of a file of routes widens a bound: it is refused, or for every query the gate admits exactly what it admitted without it, and what
// it chooses is a kernel whose own bounds admit the query.
func TestRoutesAdmitNothing(t *testing.T) {
	plain, err := routed("")
	if err != nil {
		t.Fatal(err)
	}
	// Routes do change choices, which an empty property would not tell.
	c, err := routed(okRow)
	if err != nil {
		t.Fatal(err)
	}
	at := bound.Shape{Dims: map[model.Dim]int64{model.Rows: 64, model.Cols: 512, model.Tokens: 1}, Arch: 90, SharedBytes: 232448, Weights: "padded"}
	for shape, want := range map[*bound.Shape]string{&at: "v2_thread128", ptr(at.With(model.Rows, 65)): "v2", ptr(at.With(model.Tokens, 2)): "v2", {Dims: at.Dims, Arch: 80, Weights: "padded"}: "v2"} {
		i := slices.IndexFunc(c.Families, func(f *model.Family) bool { return f.Name == "matvec-q8" })
		f := c.Formats[slices.IndexFunc(c.Formats, func(f *model.Format) bool { return f.Name == "q6_K" })]
		if v := route.Chosen(c, c.Families[i], f, route.Query{Shape: *shape}); v == nil || v.Name != want {
			t.Errorf("%+v: %v, want %s", shape, v, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.SampledFrom([]int{1, 2, 7, 8, 64, 127, 128, 129, 256, 512, 1024, 3584, 4096, 8192, 16384, 16640, 18944, 65535, 65536, math.MaxInt32}), rapid.IntRange(1, 1<<20))
		value := rapid.OneOf(rapid.SampledFrom([]int{1, 2, 3, 4, 8, 64, 128, 256, 512}), rapid.IntRange(1, 1024))
		usual := map[model.Dim][]int{model.Cols: {256, 512, 1024, 3584, 16384}, model.Tokens: {1, 2, 7}, model.Group: {1, 7, 8}, model.HeadDim: {64, 128, 256}}
		draw := func(t *rapid.T, d model.Dim) int {
			if list := usual[d]; list != nil && rapid.IntRange(0, 4).Draw(t, "usual") > 0 {
				return rapid.SampledFrom(list).Draw(t, string(d))
			}
			return size.Draw(t, string(d))
		}
		var rows strings.Builder
		var shapes []map[model.Dim]int64
		for range rapid.IntRange(1, 3).Draw(t, "rows") {
			fam := rapid.SampledFrom(plain.Families).Draw(t, "family")
			v := rapid.SampledFrom(fam.Variants).Draw(t, "variant")
			fmt.Fprintf(&rows, "      - {kernel: %s, variant: %s", fam.Name, v.Name)
			if len(fam.Formats) > 0 {
				fmt.Fprintf(&rows, ", format: %s", rapid.SampledFrom(fam.Formats).Draw(t, "format").Name)
			}
			var set []string
			for _, p := range v.Free {
				if rapid.Bool().Draw(t, "sets "+p.Name) {
					x := rapid.SampledFrom(p.Values).Draw(t, p.Name)
					if rapid.IntRange(0, 9).Draw(t, "strays") == 0 {
						x = value.Draw(t, p.Name)
					}
					set = append(set, fmt.Sprintf("%s: %d", p.Name, x))
				}
			}
			if len(set) > 0 {
				fmt.Fprintf(&rows, ", set: {%s}", strings.Join(set, ", "))
			}
			shape := map[model.Dim]int64{}
			var dims []string
			for axis, d := range fam.Dims {
				if _, known := shape[d]; known || d == model.ShareOf || rapid.IntRange(0, 3).Draw(t, "without "+axis) == 0 && len(shape) > 0 {
					continue
				}
				n := draw(t, d)
				shape[d] = int64(n)
				dims = append(dims, fmt.Sprintf("%s: %d", d, n))
			}
			if len(dims) == 0 {
				shape[model.Rows], dims = 1, []string{"rows: 1"}
			}
			fmt.Fprintf(&rows, ", shape: {%s}, figure: f}\n", strings.Join(dims, ", "))
			shapes = append(shapes, shape)
		}
		c, err := routed(rows.String())
		if err != nil {
			return // refused
		}
		for i, fam := range plain.Families {
			with := c.Families[i]
			formats := fam.Formats
			if len(formats) == 0 {
				formats = []*model.Format{nil}
			}
			for k, f := range formats {
				var g *model.Format
				if f != nil {
					g = with.Formats[k]
				}
				for range 8 {
					s := bound.Shape{Dims: map[model.Dim]int64{}, Arch: rapid.SampledFrom([]int{80, 90, 90, 121}).Draw(t, "arch"),
						SharedBytes: int64(rapid.OneOf(rapid.SampledFrom([]int{48 << 10, 166912, 232448}), rapid.IntRange(0, 250000)).Draw(t, "shared")),
						Weights:     rapid.SampledFrom([]model.WeightLayout{"file", "padded", "lanes"}).Draw(t, "weights")}
					near := rapid.SampledFrom(shapes).Draw(t, "near")
					for _, d := range []model.Dim{model.Rows, model.Cols, model.Tokens, model.Heads, model.KVHeads, model.Group, model.HeadDim, model.Context, model.ShareOf} {
						s.Dims[d] = near[d]
						if _, known := near[d]; !known || rapid.IntRange(0, 9).Draw(t, "strays") == 0 {
							s.Dims[d] = int64(draw(t, d))
						}
					}
					before, after := route.Chosen(plain, fam, f, route.Query{Shape: s}), route.Chosen(c, with, g, route.Query{Shape: s})
					if (before == nil) != (after == nil) {
						t.Fatalf("%s: without routes %v, with them %v:\n%s", fam.Name, before, after, &rows)
					}
					if after == nil {
						continue
					}
					if ok, broken := bound.Admits(bound.Derive(with, after, g, c.Base()), s); !ok {
						t.Fatalf("%s/%s is chosen and refuses: %s\n%s", fam.Name, after.Name, broken, &rows)
					}
				}
			}
		}
	})
}

func ptr(s bound.Shape) *bound.Shape { return &s }

// A GPU of a later architecture with little shared memory leaves the rings of an earlier one as they are.
func TestLaterDeviceShrinksNoRing(t *testing.T) {
	with, err := routed("")
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for name, file := range few() {
		fsys[name] = file
	}
	delete(fsys, "devices/sm121.yaml")
	without, err := gen.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, fam := range with.Families {
		for k, v := range fam.Variants {
			if r := v.Shared.Ring; r != nil {
				n++
				if other := without.Families[i].Variants[k].Shared.Ring; r.RoomBytes != 232448 || !reflect.DeepEqual(other, r) {
					t.Errorf("%s/%s: %+v, without sm121 %+v", fam.Name, v.Name, r, other)
				}
			}
		}
	}
	if n == 0 {
		t.Error("there is no ring")
	}
}
