package ptx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/cuda"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/device/cuda/nvcc"
	"github.com/minfer/minfer/runtime/kernel"
)

// stale lists what the archive lacks of the sources that there are. No compiler is needed: the digest of each source is held
// against the one that its PTX was made from.
func stale(t *testing.T, a *Archive) (list []string) {
	t.Helper()
	sources, err := nvcc.Sources(cuda.Sources)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range sources {
		names[s.Name] = true
		if _, err := a.Find(s.Name, s.Digest()); err != nil {
			list = append(list, err.Error())
		}
	}
	for _, u := range a.Units {
		if !names[u.Name] {
			list = append(list, fmt.Sprintf("the archive has %s, which is no source any more; %s removes it", u.Name, Remake))
		}
	}
	return list
}

// current is the archive, which CI holds to the sources. Elsewhere a kernel may be worked on without nvcc: what rests on the
// archive is then left out.
func current(t *testing.T) *Archive {
	t.Helper()
	a, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if list := stale(t, a); len(list) > 0 {
		if os.Getenv("CI") != "" {
			t.Fatal(strings.Join(list, "\n"))
		}
		t.Skipf("%d sources are newer than their PTX (%s); %s makes it anew, with nvcc 11.8", len(list), list[0], Remake)
	}
	return a
}

func TestArchiveIsOfTheseSources(t *testing.T) {
	a := current(t)
	if a.Target != Target {
		t.Errorf("the archive is for sm_%d, wanted sm_%d", a.Target, Target)
	}
	if want := (Release{11, 8}); a.Version.Needs() != want {
		t.Errorf("the archive needs a driver of CUDA %s, promised is %s", a.Version.Needs(), want)
	}
}

// agrees reports how a gate and the compiled kernel contradict each other; nil if the kernel can do what the gate admits.
func agrees(v *kernel.Variant, m *Module) error {
	e := m.Entry(v.Symbol)
	if e == nil {
		return fmt.Errorf("kernel %s is not in %s", v.Symbol, v.Source)
	}
	if e.MaxThreads == 0 || e.MaxThreads < int(v.Threads) {
		return fmt.Errorf("kernel %s is compiled for %d threads, its gate launches %d", v.Symbol, e.MaxThreads, v.Threads)
	}
	var want []string
	for _, a := range v.Args {
		switch {
		case strings.HasSuffix(a.Type, "*") || a.Type == "i64":
			want = append(want, "u64")
		case a.Type == "f32":
			want = append(want, "f32")
		default:
			want = append(want, "u32")
		}
	}
	if !slices.Equal(e.Params, want) {
		return fmt.Errorf("kernel %s takes %v, its gate passes %v", v.Symbol, e.Params, want)
	}
	bounds, ok := m.Globals["minfer_bounds_"+v.Symbol]
	if !ok || len(bounds) != 8*len(v.Bounds) {
		return fmt.Errorf("kernel %s exports %d bytes of bounds, its gate has %d bounds", v.Symbol, len(bounds), len(v.Bounds))
	}
	for i, b := range v.Bounds {
		if have := int64(binary.LittleEndian.Uint64(bounds[8*i:])); have != b.Value {
			return fmt.Errorf("kernel %s was compiled with %d where its gate has %s", v.Symbol, have, b)
		}
	}
	return nil
}

// TestGatesAndKernelsAgree holds, without a GPU, what every gate admits against what was compiled: launch bounds,
// parameters and bounds of each kernel, and that no kernel is without a gate.
func TestGatesAndKernelsAgree(t *testing.T) {
	a := current(t)
	modules, unnamed := map[string]*Module{}, map[string]string{}
	for _, u := range a.Units {
		m, err := Parse(u.Text)
		if err != nil {
			t.Fatalf("%s: %v", u.Name, err)
		}
		if m.Version != a.Version || m.Target != a.Target {
			t.Errorf("%s is PTX %s for sm_%d, the archive says %s for sm_%d", u.Name, m.Version, m.Target, a.Version, a.Target)
		}
		modules[u.Name] = m
		for _, e := range m.Entries {
			if other, ok := unnamed[e.Name]; ok {
				t.Errorf("kernel %s is in %s and in %s", e.Name, other, u.Name)
			}
			unnamed[e.Name] = u.Name
		}
	}
	variants := 0
	for _, g := range gate.All {
		for _, s := range g.Steps {
			v := s.Variant
			delete(unnamed, v.Symbol)
			if v.Arch > a.Target {
				continue // not compiled for the baseline
			}
			variants++
			m := modules[v.Source]
			if m == nil {
				t.Errorf("%s names the source %s, which the archive has not", v, v.Source)
				continue
			}
			if err := agrees(v, m); err != nil {
				t.Error(err)
			}
		}
	}
	for name, unit := range unnamed {
		t.Errorf("kernel %s of %s is named by no gate", name, unit)
	}
	if variants == 0 {
		t.Error("no variant was compared")
	}
}

// TestDisagreementIsFound damages one side of the comparison at a time.
func TestDisagreementIsFound(t *testing.T) {
	a := current(t)
	v := *gate.MatvecQ8Q6K.Steps[0].Variant
	text := a.Units[slices.IndexFunc(a.Units, func(u Unit) bool { return u.Name == v.Source })].Text
	threads := fmt.Sprintf(".maxntid %d, 1, 1", v.Threads)
	for _, c := range []struct {
		name    string
		variant func(v *kernel.Variant)
		text    func(s string) string
		want    string
	}{
		{"a gate of more threads", func(v *kernel.Variant) { v.Threads++ }, nil, "threads"},
		{"fewer launch bounds", nil, func(s string) string { return strings.ReplaceAll(s, threads, ".maxntid 128, 1, 1") }, "compiled for 128 threads"},
		{"no launch bounds", nil, func(s string) string { return strings.ReplaceAll(s, threads, "") }, "compiled for 0 threads"},
		{"a gate of another bound", func(v *kernel.Variant) { v.Bounds = slices.Clone(v.Bounds); v.Bounds[len(v.Bounds)-1].Value++ }, nil, "was compiled with"},
		{"a gate of more bounds", func(v *kernel.Variant) { v.Bounds = append(slices.Clone(v.Bounds), kernel.Bound{}) }, nil, "bounds"},
		{"a gate of fewer arguments", func(v *kernel.Variant) { v.Args = v.Args[1:] }, nil, "takes"},
		{"a kernel of another name", func(v *kernel.Variant) { v.Symbol += "x" }, nil, "is not in"},
	} {
		w, s := v, text
		if c.variant != nil {
			c.variant(&w)
		}
		if c.text != nil {
			s = c.text(s)
		}
		m, err := Parse(s)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := agrees(&w, m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	m, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := agrees(&v, m); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

const example = `.version 7.8
.target sm_80
.address_size 64
.global .align 8 .b8 minfer_bounds_k[16] = {80, 0, 0, 0, 0, 0, 0, 0, 255, 1};
.visible .entry k(
	.param .u64 k_param_0,
	.param .u32 k_param_1,
	.param .f32 k_param_2
)
.maxntid 16, 8, 1
.minnctapersm 4
{
	ret;
}
.visible .entry without()
{
	ret;
}
`

func TestParse(t *testing.T) {
	m, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != (Version{7, 8}) || m.Target != 80 || len(m.Entries) != 2 {
		t.Errorf("read %+v", m)
	}
	k := m.Entry("k")
	if k == nil || !slices.Equal(k.Params, []string{"u64", "u32", "f32"}) || k.MaxThreads != 128 || k.MinBlocks != 4 {
		t.Errorf("kernel k: %+v", k)
	}
	if w := m.Entry("without"); w == nil || len(w.Params) != 0 || w.MaxThreads != 0 {
		t.Errorf("kernel without: %+v", w)
	}
	if b := m.Globals["minfer_bounds_k"]; len(b) != 16 || b[0] != 80 || b[9] != 1 || b[15] != 0 {
		t.Errorf("bounds %v", b)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"no PTX":           "\x7fELF",
		"cut in the head":  ".version 7.8\n.tar",
		"cut in the body":  example[:len(example)-4],
		"content too wide": strings.Replace(example, "255", "256", 1),
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s was taken for PTX", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add(example[:200])
	f.Add(".version 99999999999999999999.1\n.target sm_80\n.entry k(){.param .u64}\n.global .b8 x[99999999999] = {1}")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := Parse(text); err == nil && m.Globals == nil {
			t.Error("no error and no module")
		}
	})
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version Version
		driver  Release
	}{
		{Version{7, 0}, Release{11, 0}}, {Version{7, 8}, Release{11, 8}}, {Version{8, 0}, Release{12, 0}}, {Version{8, 4}, Release{12, 4}},
		{Version{8, 6}, Release{12, 7}}, {Version{8, 7}, Release{12, 8}}, {Version{8, 8}, Release{12, 9}}, {Version{9, 0}, Release{13, 0}},
	} {
		if have := c.version.Needs(); have != c.driver {
			t.Errorf("PTX %s needs CUDA %s, want %s", c.version, have, c.driver)
		}
	}
	if r := ReleaseOf(11080); r != (Release{11, 8}) {
		t.Errorf("11080 is %s", r)
	}
	if r := ReleaseOf(13000); r != (Release{13, 0}) {
		t.Errorf("13000 is %s", r)
	}
	if !(Version{7, 8}).Less(Version{8, 0}) || (Version{8, 0}).Less(Version{7, 8}) || (Version{8, 0}).Less(Version{8, 0}) || !(Version{8, 0}).Less(Version{8, 1}) {
		t.Error("versions are out of order")
	}
	if !(Release{11, 8}).Less(Release{12, 0}) || (Release{12, 0}).Less(Release{11, 8}) || (Release{12, 0}).Less(Release{12, 0}) || !(Release{12, 0}).Less(Release{12, 1}) {
		t.Error("releases are out of order")
	}
}

func TestArchiveRoundTrip(t *testing.T) {
	want := &Archive{Release: "11.8.89", Version: Version{7, 8}, Target: 80, Units: []Unit{{"a.cu", "1234", example}, {"b.cu", "5678", ""}, {"c.cu", "9abc", strings.Repeat(example, 9)}}}
	packed, manifest, err := want.Write()
	if err != nil {
		t.Fatal(err)
	}
	again, manifestAgain, err := want.Write()
	if err != nil || string(again) != string(packed) || manifest != manifestAgain {
		t.Errorf("the same units gave other bytes (%v)", err)
	}
	have, err := Read(packed, manifest)
	if err != nil {
		t.Fatal(err)
	}
	if have.Release != want.Release || have.Version != want.Version || have.Target != want.Target || !slices.Equal(have.Units, want.Units) {
		t.Errorf("read %+v", have)
	}
	if text, err := have.Find("a.cu", "1234"); err != nil || text != example {
		t.Errorf("Find: %q, %v", text, err)
	}
	for _, c := range []struct{ name, source string }{{"a.cu", "another"}, {"z.cu", "1234"}} {
		if _, err := have.Find(c.name, c.source); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), Remake) {
			t.Errorf("%s of source %s: %v", c.name, c.source, err)
		}
	}
}

func TestDamagedArchive(t *testing.T) {
	a := &Archive{Release: "11.8.89", Version: Version{7, 8}, Target: 80, Units: []Unit{{"a.cu", "1234", example}, {"b.cu", "5678", example + "\n"}}}
	packed, manifest, err := a.Write()
	if err != nil {
		t.Fatal(err)
	}
	swapped := &Archive{Release: "11.8.89", Version: Version{7, 8}, Target: 80, Units: []Unit{{"a.cu", "1234", strings.Replace(example, "ret", "RET", 1)}, {"b.cu", "5678", example + "\n"}}}
	other, _, err := swapped.Write()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		archive  []byte
		manifest string
		want     string
	}{
		"cut in half":      {packed[:len(packed)/2], manifest, ArchiveFile},
		"empty":            {nil, manifest, ArchiveFile},
		"another text":     {other, manifest, "a.cu"},
		"a unit less":      {packed, manifest[:strings.Index(manifest, "b.cu")], Remake},
		"no head":          {packed, strings.Replace(manifest, "# nvcc", "#", 1), ManifestFile + ":1"},
		"a cell less":      {packed, strings.Replace(manifest, "\t1234", "", 1), ManifestFile + ":3"},
		"a size of words":  {packed, strings.Replace(manifest, fmt.Sprintf("\t%d\t", len(example)), "\tlong\t", 1), ManifestFile + ":3"},
		"a size below one": {packed, strings.Replace(manifest, fmt.Sprintf("\t%d\t", len(example)), "\t-1\t", 1), ManifestFile + ":3"},
	} {
		if _, err := Read(c.archive, c.manifest); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
