// Package cuda emits the GPU kernels: for each kernel family and format one .cu file from the family's template, and for
// each format a header that decodes its units. Bodies are written by hand, once, in templates/; everything in them that a
// spec decides (index expressions, bounds, launch limits, decoders, signatures) is printed from the model.
package cuda

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

//go:embed templates vocabulary
var sources embed.FS

// Emitter emits folder cuda.
type Emitter struct{}

// Name implements emit.Emitter.
func (Emitter) Name() string { return "cuda" }

// dir is the folder of the emitted sources.
const dir = "cuda"

// Emit implements emit.Emitter.
func (Emitter) Emit(c *model.Catalog) ([]emit.File, error) {
	e, err := newEmitter(c)
	if err != nil {
		return nil, err
	}
	var files []emit.File
	for _, fam := range c.Families {
		formats := fam.Formats
		if len(formats) == 0 {
			formats = []*model.Format{nil}
		}
		for _, f := range formats {
			data, err := e.kernels(fam, f)
			if err != nil {
				return nil, err
			}
			files = append(files, emit.File{Path: path.Join(dir, model.SourceFile(fam, f)), Data: data})
		}
	}
	headers, err := e.headers()
	if err != nil {
		return nil, err
	}
	shared, err := copied()
	if err != nil {
		return nil, err
	}
	embed, err := emit.GoFile(path.Join(dir, "sources.go"), []byte(emit.Marker("specs/kernels")+sourcesGo))
	if err != nil {
		return nil, err
	}
	return append(append(append(files, headers...), shared...), embed), nil
}

// sourcesGo embeds the sources, for devices that compile them.
const sourcesGo = `
// Package cuda holds the sources of the GPU kernels.
package cuda

import "embed"

// Sources is the folder of the kernels and their headers.
//
//go:embed *.cu *.cuh
var Sources embed.FS
`

// copied is the hand-written headers, which every kernel includes.
func copied() (files []emit.File, err error) {
	for _, pattern := range []string{"vocabulary/*.cuh", "vocabulary/*.hpp", "templates/*.cuh"} {
		names, _ := fs.Glob(sources, pattern)
		for _, name := range names {
			data, err := fs.ReadFile(sources, name)
			if err != nil {
				return nil, err
			}
			data = append([]byte(emit.Marker("gen/emit/cuda/"+name)), data...)
			files = append(files, emit.File{Path: path.Join(dir, path.Base(name)), Data: data})
		}
	}
	return files, nil
}

// unitKey is a decoder that some kernel needs.
type unitKey struct {
	f      *model.Format
	layout model.WeightLayout
	elems  int
}

type emitter struct {
	catalog *model.Catalog
	bodies  *template.Template
	units   map[unitKey]bool
	held    map[string]bool // structs of units that some kernel holds undecoded
}

func newEmitter(c *model.Catalog) (*emitter, error) {
	bodies, err := template.New("").Funcs(sprig.HermeticTxtFuncMap()).ParseFS(sources, "templates/*.cu.tmpl")
	return &emitter{catalog: c, bodies: bodies, units: map[unitKey]bool{}, held: map[string]bool{}}, err
}

// Source is a file with one kernel of a family alone, beside the same headers.
func Source(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) (string, error) {
	e, err := newEmitter(c)
	if err != nil {
		return "", err
	}
	alone := *fam
	alone.Variants = []*model.Variant{v}
	data, err := e.kernels(&alone, f)
	return string(data), err
}

// headers writes the decoders, one file for each format.
func (e *emitter) headers() (files []emit.File, err error) {
	for _, f := range e.catalog.Formats {
		var keys []unitKey
		for k := range e.units {
			if k.f == f {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			continue
		}
		slices.SortFunc(keys, func(a, b unitKey) int {
			return strings.Compare(unitName(a.f, a.layout, a.elems), unitName(b.f, b.layout, b.elems))
		})
		var b bytes.Buffer
		b.WriteString(emit.Marker(f.Spec) + "#pragma once\n#include \"decode.cuh\"\n")
		if f.InFile() && !f.Plain() {
			b.WriteString("#include \"a8.cuh\"\n")
		}
		var bodies strings.Builder
		for _, k := range keys {
			text, err := "", error(nil)
			if f.Plain() {
				text, err = plain(f, k.elems)
			} else {
				text, err = decode(f, k.layout, k.elems, e.held[unitName(f, k.layout, k.elems)])
			}
			if err != nil {
				return nil, err
			}
			bodies.WriteString("\n" + text)
		}
		if strings.Contains(bodies.String(), "ue4m3_to_f32(") {
			b.WriteString(ue4m3)
		}
		b.WriteString(bodies.String())
		files = append(files, emit.File{Path: path.Join(dir, f.Name+".cuh"), Data: b.Bytes()})
	}
	return files, nil
}

// ue4m3 is the reading of an unsigned number with 4 bits of exponent and 3 of fraction, for the headers that need it.
const ue4m3 = `
// As ggml reads it: 0x7f is zero, and otherwise bit 7 is ignored.
MINFER_DEVICE float ue4m3_to_f32(uint32_t w) {
  const uint32_t e = w >> 3 & 15u, m = w & 7u;
  if (w == 0x7fu) return 0.0f;
  return e ? bits_f32((e + 120u) << 23 | m << 20) : (float)m * 0.001953125f;
}
`

// view is what a template sees of a family for one format.
type view struct {
	Family   *model.Family
	Format   *model.Format
	Variants []kernelView
	formats  []*model.Format
}

// At is the byte offset of a field in the block of a format.
func (v *view) At(format, field string) (int, error) {
	for _, f := range v.formats {
		if f.Name != format {
			continue
		}
		for _, x := range f.Fields {
			if x.Name == field {
				return x.AtBytes, nil
			}
		}
	}
	return 0, fmt.Errorf("no format %s has a field %s", format, field)
}

// Cache is the C++ type, of cache.cuh, of a cache in the family's format.
func (v *view) Cache() (string, error) {
	f := v.Format
	switch f.Name {
	case "f16", "f32":
		return "Cache" + strings.ToUpper(f.Name), nil
	}
	e := f.Encode
	if f.Elems != 32 || len(f.Segs) != 1 || e == nil || e.Fit != model.FitAbsMax || e.Round != model.RoundAway || len(e.Scale) != 1 || len(e.Offset) != 0 || len(f.Sums) != 0 {
		return "", fmt.Errorf("%s: a cache holds f16, f32, or blocks of 32 that encode by absmax and away with one scale", f.Name)
	}
	d, q := e.Scale[0].Planes[0].Field, e.Code.Planes[0].Field
	if d.Bits() != 16 || e.Scale[0].As != model.F16 || q.Bits() != 8*32 || e.Code.Planes[0].Bits != 8 || e.Code.As != model.Signed {
		return "", fmt.Errorf("%s: the blocks of a cache have a scale in f16 and codes of 8 bits", f.Name)
	}
	return fmt.Sprintf("CacheBlocks<%d, %d, %d>", f.Bytes, d.AtBytes, q.AtBytes), nil
}

// kernelView is what a template sees of one variant.
type kernelView struct {
	*model.Variant
	Symbol  string
	Threads int
	Unit    string // struct of a unit; "" without weights
	Elems   int    // of a unit
	emitter *emitter
	family  *model.Family
	format  *model.Format
	geo     *layout.Geometry
	terms   []bound.Term
}

func (e *emitter) kernels(fam *model.Family, f *model.Format) ([]byte, error) {
	body := e.bodies.Lookup(fam.Template + ".cu.tmpl")
	if body == nil {
		return nil, fmt.Errorf("%s: template %s is not in gen/emit/cuda/templates", fam.Spec, fam.Template)
	}
	v := view{Family: fam, Format: f, formats: e.catalog.Formats}
	for _, variant := range fam.VariantsFor(f) {
		v.Variants = append(v.Variants, e.view(fam, variant, f))
	}
	if e.activations() != nil {
		e.units[unitKey{e.activations(), model.LayoutFile, 32}] = true
	}
	var b bytes.Buffer
	b.WriteString(e.header(&v))
	if err := body.Execute(&b, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", fam.Spec, err)
	}
	return tidy(b.Bytes()), nil
}

// tidy drops trailing blanks and runs of empty lines.
func tidy(b []byte) []byte {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if line == "" && len(out) > 0 && out[len(out)-1] == "" {
			continue
		}
		out = append(out, line)
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

// activations is the format of 8-bit activations.
func (e *emitter) activations() *model.Format {
	for _, f := range e.catalog.Formats {
		if !f.InFile() {
			return f
		}
	}
	return nil
}

func (e *emitter) view(fam *model.Family, v *model.Variant, f *model.Format) kernelView {
	k := kernelView{Variant: v, Symbol: model.Symbol(fam, f, v), emitter: e, family: fam, format: f, geo: v.Geometry(f), terms: bound.Derive(fam, v, f, e.catalog.Base())}
	k.Threads = k.geo.Threads()
	if f != nil {
		for i := range k.geo.Axes {
			if d := &k.geo.Axes[i]; fam.Dims[d.Axis] == model.Cols && d.Axis == "unit" {
				k.Elems = d.Elems
				k.Unit = unitName(f, v.Weights, d.Elems)
				e.units[unitKey{f, v.Weights, d.Elems}] = true
			}
		}
	}
	return k
}

// header introduces a file.
func (e *emitter) header(v *view) string {
	var b strings.Builder
	b.WriteString(emit.Marker(v.Family.Spec))
	title := v.Family.Name
	if v.Format != nil {
		title += " of " + v.Format.Name
	}
	b.WriteString(emit.Comment(title + ": " + v.Family.Doc))
	b.WriteString("//\n")
	for _, k := range v.Variants {
		fmt.Fprintf(&b, "// %s: %s\n", k.Symbol, strings.Join(strings.Fields(k.Doc), " "))
		for i := range k.geo.Axes {
			d := &k.geo.Axes[i]
			reach := "all " + string(v.Family.Dims[d.Axis])
			if c, bounded := k.geo.Ceiling(d); bounded && d.Share < 0 {
				reach = fmt.Sprintf("%ss 0..%d: %s = %d %s", d.Axis, c-1, k.geo.Chain(d), c*d.Elems, v.Family.Dims[d.Axis])
			}
			if d.Queue {
				reach += ", by each block's own run, then by rounds out of a queue"
			}
			fmt.Fprintf(&b, "//   %s = %s covers %s\n", d.Axis, k.geo.Index(d, func(p layout.PlacedDigit) string { return p.Name }), reach)
		}
	}
	fmt.Fprintf(&b, "// spec %s\n", v.Family.Digest)
	b.WriteString("#include \"minfer.cuh\"\n#include \"reduce.cuh\"\n")
	if v.Variants[0].Unit != "" {
		fmt.Fprintf(&b, "#include \"%s.cuh\"\n", v.Format.Name)
	}
	return b.String()
}

// Params is the kernel's signature.
func (k kernelView) Params() string {
	types := map[string]string{"u8": "uint8_t", "i8": "int8_t", "u16": "uint16_t", "i32": "int", "u32": "unsigned", "i64": "long long", "f32": "float"}
	var parts []string
	for _, a := range k.family.Args {
		base, pointer := strings.CutSuffix(a.Type, "*")
		t := types[base]
		if pointer {
			t += "*"
			if !a.Out {
				t = "const " + t
			}
			t += " __restrict__"
		}
		parts = append(parts, t+" "+a.Name)
	}
	return strings.Join(parts, ", ")
}

// Ring is the shared memory that rows are streamed through.
func (k kernelView) Ring() lower.Ring { return lower.RingOf(k.Variant, k.format) }

// Held is the struct of a unit's loads, before they are decoded.
func (k kernelView) Held() string {
	k.emitter.held[k.Unit] = true
	return heldName(k.Unit)
}

// LanesPerRow is how many lanes of a warp add up one row when it adds up rows of them, or as many as fit, at a time.
func (k kernelView) LanesPerRow(rows int) int {
	n := 32
	for n > 1 && n*rows > 32 {
		n /= 2
	}
	return n
}

// Workers is the number of threads that deal work; helpers come after them.
func (k kernelView) Workers() int { return k.geo.Workers() }

// Await lets the successor of a launch begin, and waits for its predecessor, where the family says that its bodies do.
func (k kernelView) Await() string {
	if !k.family.Awaits {
		return ""
	}
	return "  dependency_launch();\n  dependency_wait();\n"
}

// Digits declares the digits that the launch decides: those of the grid and of the thread.
func (k kernelView) Digits() string {
	var b strings.Builder
	for i, p := range k.geo.Digits {
		switch {
		case p.Radix == 1:
		case p.Place.Grid():
			fmt.Fprintf(&b, "  const int %s = (int)blockIdx.%s;\n", p.Name, strings.TrimPrefix(string(p.Place), "grid."))
		case p.Place == layout.Thread:
			fmt.Fprintf(&b, "  const int %s = %s;\n", p.Name, k.geo.ThreadDigit(i, "(int)threadIdx.x"))
		}
	}
	return b.String()
}

// Index is the expression of an axis' index.
func (k kernelView) Index(axis string) (string, error) {
	return k.IndexAt(axis, nil)
}

// IndexAt is the expression of an axis' index with digits replaced by other expressions.
func (k kernelView) IndexAt(axis string, digits map[string]any) (string, error) {
	d := k.geo.Axis(axis)
	if d == nil {
		return "", fmt.Errorf("%s: no axis is called %s", k.family.Spec, axis)
	}
	return k.geo.Index(d, func(p layout.PlacedDigit) string {
		if e, ok := digits[p.Name]; ok {
			return fmt.Sprint(e)
		}
		return p.Name
	}), nil
}

// Radix is the number of values of a digit; 0 when it is open.
func (k kernelView) Radix(digit string) (int, error) {
	for _, p := range k.geo.Digits {
		if p.Name == digit {
			return p.Radix, nil
		}
	}
	return 0, fmt.Errorf("%s: no digit is called %s", k.family.Spec, digit)
}

// Period is the length that the digits of an axis cover before its open digit advances.
func (k kernelView) Period(axis string) (int, error) {
	d := k.geo.Axis(axis)
	if d == nil {
		return 0, fmt.Errorf("%s: no axis is called %s", k.family.Spec, axis)
	}
	p, _ := k.geo.Period(d)
	return p, nil
}

// ElemsOf is the number of elements that an index of an axis stands for.
func (k kernelView) ElemsOf(axis string) (int, error) {
	d := k.geo.Axis(axis)
	if d == nil {
		return 0, fmt.Errorf("%s: no axis is called %s", k.family.Spec, axis)
	}
	return d.Elems, nil
}

// Option is an option of the variant; 0 when the variant does not say. Package model declares which there are.
func (k kernelView) Option(name string) (int, error) {
	if model.BodyOf(k.family.Template).Option(name) == nil {
		return 0, fmt.Errorf("template %s asks for option %s, which gen/model/body.go does not declare", k.family.Template, name)
	}
	return k.Options[name], nil
}

// Bounds declares the bounds: constants with their derivation, assertions that they are what the body does, and the
// exported array that the runtime compares with the gate before it launches anything.
func (k kernelView) Bounds() string {
	var b strings.Builder
	var names []string
	for _, t := range k.terms {
		name := k.Symbol + "_" + t.Name()
		fmt.Fprintf(&b, "// %s: %s.\n", t.Source, t.Chain)
		switch {
		case t.Kind == bound.Weights:
			name = k.Symbol + "_BlockBytes"
			fmt.Fprintf(&b, "constexpr long long %s = %d;\n", name, k.blockBytes())
			if k.Unit == "" {
				break
			}
			fmt.Fprintf(&b, "static_assert(%s::block_bytes == %s * %s::block_elems / %d, \"%s reads blocks of another size\");\n", k.Unit, name, k.Unit, k.format.Elems, k.Symbol)
		case len(t.Factors) > 0:
			var product []string
			for _, x := range t.Factors {
				product = append(product, fmt.Sprintf("%dll", x))
			}
			fmt.Fprintf(&b, "constexpr long long %s = %d;\nstatic_assert(%s == %s, \"%s: %s\");\n", name, t.Value, strings.Join(product, " * "), name, t.Source, t.Chain)
		case t.Kind == bound.Shared:
			fmt.Fprintf(&b, "constexpr long long %s = %d;\n", name, t.Fixed)
		default:
			fmt.Fprintf(&b, "constexpr long long %s = %d;\n", name, t.Value)
		}
		names = append(names, name)
	}
	fmt.Fprintf(&b, "MINFER_BOUNDS(%s, {%s});\n", k.Symbol, strings.Join(names, ", "))
	return b.String()
}

func (k kernelView) blockBytes() int { return BlockBytes(k.format, k.Weights) }
