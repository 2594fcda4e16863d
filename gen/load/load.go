// Package load resolves specs into the model: names bound, defaults filled in, tables parsed, collections sorted.
// It reports every name and number that makes no sense by itself; whether the facts fit together is gen/proof's.
package load

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// maxElems bounds the elements of a block, so that proofs by enumeration stay short.
const maxElems = 65536

// maxLookupBits bounds the words that parity and radix transform: kernels have a table of every word.
const maxLookupBits = 12

// scalars are the field types by name.
var scalars = map[string]model.Scalar{
	"u8": {Name: "u8", Bits: 8, As: model.Unsigned}, "i8": {Name: "i8", Bits: 8, As: model.Signed},
	"u16": {Name: "u16", Bits: 16, As: model.Unsigned}, "i16": {Name: "i16", Bits: 16, As: model.Signed},
	"u32": {Name: "u32", Bits: 32, As: model.Unsigned}, "i32": {Name: "i32", Bits: 32, As: model.Signed},
	"i64": {Name: "i64", Bits: 64, As: model.Signed},
	"f16": {Name: "f16", Bits: 16, As: model.F16}, "bf16": {Name: "bf16", Bits: 16, As: model.BF16},
	"f32": {Name: "f32", Bits: 32, As: model.F32}, "f64": {Name: "f64", Bits: 64, As: model.F64},
	"e8m0": {Name: "e8m0", Bits: 8, As: model.E8M0}, "ue4m3": {Name: "ue4m3", Bits: 8, As: model.UE4M3},
}

// Load resolves a set of specs. The catalog holds the formats and tables without a diagnostic of their own.
func Load(set *spec.Set) (*model.Catalog, *Positions, diag.List) {
	l := &loader{pos: newPositions(), tables: map[string]*model.Table{}, tried: map[string]bool{}}
	catalog := new(model.Catalog)
	for _, t := range set.Tables {
		l.tried[t.Table.Value] = true
		if m := l.table(t); m != nil {
			if l.tables[m.Name] == nil {
				catalog.Tables = append(catalog.Tables, m)
			}
			l.tables[m.Name] = m
		}
	}
	for _, f := range set.Formats {
		before := len(l.diags)
		if m := l.format(f); len(l.diags) == before && !f.Faulty {
			catalog.Formats = append(catalog.Formats, m)
		}
	}
	l.unique(set)
	// What builds on specs waits until they are without a fault: what it then lacks would be but a consequence, and hide the fault.
	numbers := []string{"formats", "formats/tables"}
	if len(l.diags) == 0 && !set.Faulty(numbers...) {
		l.layouts(set, catalog.Formats)
		catalog.Tilings = l.tilings(set, catalog.Formats)
	}
	catalog.Devices = l.devices(set)
	var families []*model.Family
	if len(l.diags) == 0 && !set.Faulty(append(numbers, "layouts", "tiles", "devices")...) {
		families = l.families(set, catalog.Formats, catalog.Devices)
		if len(l.diags) == 0 && !set.Faulty("kernels") {
			l.routes(set, families, catalog.Devices)
		}
	}
	for _, f := range families {
		if f.CPU {
			catalog.CPU = append(catalog.CPU, f)
		} else {
			catalog.Families = append(catalog.Families, f)
		}
	}
	catalog.Models = l.models(set)
	slices.SortFunc(catalog.Formats, func(a, b *model.Format) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(catalog.Tables, func(a, b *model.Table) int { return cmp.Compare(a.Name, b.Name) })
	return catalog, l.pos, l.diags
}

type loader struct {
	pos    *Positions
	diags  diag.List
	tables map[string]*model.Table
	tried  map[string]bool // the names of tables that there is a file for, good or not
}

// unique refuses two specs of one name or one id.
func (l *loader) unique(set *spec.Set) {
	names, ids := map[string]spec.Text{}, map[int]spec.Int{}
	for _, f := range set.Formats {
		if f.Format.Set() {
			l.fileName(f.Format)
			// Case alone does not tell two formats apart: names become identifiers and files.
			folded := strings.ToLower(f.Format.Value)
			if first, twice := names[folded]; twice {
				l.diags.Addf(f.Format.At, "format %s is already declared at %s (names that differ in case alone count as one)", f.Format.Value, first.At)
			} else {
				names[folded] = f.Format
			}
		}
		if f.ID.Set() {
			if first, twice := ids[f.ID.Value]; twice {
				l.diags.Addf(f.ID.At, "ggml_id %d is already taken at %s", f.ID.Value, first.At)
			} else {
				ids[f.ID.Value] = f.ID
			}
		}
	}
	for _, t := range set.Tables {
		if t.Table.Set() {
			l.fileName(t.Table)
		}
	}
}

// fileName holds a spec to the name of its file, so that a name says where it is declared.
func (l *loader) fileName(name spec.Text) {
	if base := strings.TrimSuffix(path.Base(name.At.File), ".yaml"); base != name.Value {
		l.diags.Addf(name.At, "the name %s differs from the file's, %s.yaml; give both the same name", name.Value, base)
	}
}

func (l *loader) format(s *spec.Format) *model.Format {
	f := &model.Format{
		Name: s.Format.Value, Spec: s.At.File, Digest: s.Digest, Doc: strings.TrimSpace(s.Doc.Value),
		ID: s.ID.Or(-1), Padded: s.Padded.Value,
	}
	l.pos.set(f, "", s.At)
	l.pos.set(f, "format", s.Format.At)
	l.pos.set(f, "ggml_id", s.ID.At)
	switch {
	case s.Activation.Value && s.ID.Set():
		l.diags.Addf(s.ID.At, "ggml_id: an activation format is in no file and has no ggml_id; leave out one of activation and ggml_id")
	case !s.Activation.Value && !s.ID.Set() && !s.Faulty:
		l.diags.Addf(s.Format.At, "key ggml_id is missing; the type number in GGUF files is due (or activation: true for a format that no file holds)")
	}
	if s.Block == nil || !s.Format.Set() {
		return f // said by spec
	}
	f.Elems, f.Bytes = s.Block.Elems.Value, s.Block.Bytes.Value
	l.pos.set(f, "block", s.Block.At)
	l.pos.set(f, "block.elems", s.Block.Elems.At)
	l.pos.set(f, "block.bytes", s.Block.Bytes.At)

	b := &formatLoader{loader: l, spec: s, format: f, fields: map[string]*model.Field{}}
	for _, e := range s.Fields.Entries {
		b.field(e)
	}
	slices.SortFunc(f.Fields, func(x, y *model.Field) int {
		return cmp.Or(cmp.Compare(x.AtBytes, y.AtBytes), cmp.Compare(x.Name, y.Name))
	})
	switch {
	case len(s.Segments) > 0 && len(s.Shape) > 0:
		l.diags.Addf(s.Shape[0].Name.At, "shape: a format with segments has a shape in each segment, not one of its own")
	case len(s.Segments) == 0:
		b.segment(0, spec.Segment{At: s.At, Shape: s.Shape}, "")
	}
	first := 0
	for i, seg := range s.Segments {
		b.segment(first, seg, fmt.Sprintf("segments[%d]: ", i))
		if n := f.Segs[i].Elems(); seg.Elems.Set() && n != seg.Elems.Value {
			l.diags.Addf(seg.Elems.At, "segments[%d].elems is %d, but its shape has %d elements", i, seg.Elems.Value, n)
		}
		first += seg.Elems.Value
	}
	b.sums()
	b.encode()
	return f
}

// formatLoader resolves the names of one format.
type formatLoader struct {
	*loader
	spec   *spec.Format
	format *model.Format
	fields map[string]*model.Field
}

func (b *formatLoader) field(e spec.Entry[spec.Field]) {
	scalar, ok := scalars[e.Value.Type.Value]
	if !ok {
		return // said by spec
	}
	f := &model.Field{Name: e.Name.Value, AtBytes: e.Value.Bytes.Value, Type: scalar, Count: e.Value.Count.Or(1)}
	b.fields[f.Name] = f
	b.format.Fields = append(b.format.Fields, f)
	b.pos.set(f, "", e.Name.At)
	b.pos.set(f, "at", e.Value.Bytes.At)
	b.pos.set(f, "type", e.Value.Type.At)
	b.pos.set(f, "count", e.Value.Count.At)
}

// scope is the names of one segment while it is resolved.
type scope struct {
	*formatLoader
	seg   *model.Segment
	label string // what messages begin with
	specs map[string]spec.Entry[spec.Code]
	codes map[string]*model.Code
	state map[string]int // 1 while a code's sources are resolved, 2 after
	trail []string
}

func (b *formatLoader) segment(first int, s spec.Segment, label string) {
	seg := &model.Segment{FirstElem: first}
	b.format.Segs = append(b.format.Segs, seg)
	b.pos.set(seg, "", s.At)
	size := 1
	for _, d := range s.Shape {
		if !d.Value.Set() {
			continue // said by spec
		}
		if seg.Shape.Index(d.Name.Value) >= 0 {
			b.diags.Addf(d.Name.At, "%sdigit %s is already in the shape; give each digit its own name", label, d.Name.Value)
			continue
		}
		if size *= d.Value.Value; size > maxElems {
			b.diags.Addf(d.Value.At, "%sthe shape has more than %d elements; at most that many are allowed", label, maxElems)
			size = maxElems
			continue
		}
		seg.Shape = append(seg.Shape, layout.Digit{Name: d.Name.Value, Radix: d.Value.Value})
		b.pos.set(seg, "shape."+d.Name.Value, d.Value.At)
	}
	if len(s.Shape) > 0 {
		b.pos.set(seg, "shape", s.Shape[0].Name.At)
	}

	sc := &scope{
		formatLoader: b, seg: seg, label: label,
		specs: map[string]spec.Entry[spec.Code]{}, codes: map[string]*model.Code{}, state: map[string]int{},
	}
	for _, list := range [][]spec.Entry[spec.Code]{b.spec.Codes.Entries, s.Codes.Entries} {
		for _, e := range list {
			name := e.Name.Value
			if f := b.fields[name]; f != nil {
				b.diags.Addf(e.Name.At, "%s%s is a field and a code; give the code a name of its own", label, name)
				continue
			}
			if old, twice := sc.specs[name]; twice {
				b.diags.Addf(e.Name.At, "%scode %s is already common to all segments, at %s", label, name, old.Name.At)
				continue
			}
			sc.specs[name] = e
		}
	}
	names := make([]string, 0, len(sc.specs))
	for name := range sc.specs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sc.resolve(name)
	}
	sc.value()
}

// named lists the names that a plane or a list may use.
func (sc *scope) named() string {
	var fields, codes []string
	for name := range sc.fields {
		fields = append(fields, name)
	}
	for name := range sc.specs {
		codes = append(codes, name)
	}
	slices.Sort(fields)
	slices.Sort(codes)
	text := "fields " + strings.Join(fields, ", ")
	if len(codes) > 0 {
		text += "; codes " + strings.Join(codes, ", ")
	}
	return text
}

func (sc *scope) meant(name string) string {
	var all []string
	for n := range sc.fields {
		all = append(all, n)
	}
	for n := range sc.specs {
		all = append(all, n)
	}
	slices.Sort(all)
	return diag.Meant(name, all)
}

// resolve makes the code called name, after the codes that it reads. It returns nil after a diagnostic.
func (sc *scope) resolve(name string) *model.Code {
	if sc.state[name] == 2 {
		return sc.codes[name]
	}
	e := sc.specs[name]
	if sc.state[name] == 1 {
		from := slices.Index(sc.trail, name)
		sc.diags.Addf(e.Name.At, "%scode %s reads itself: %s; a code reads fields, or codes that do not depend on it",
			sc.label, name, strings.Join(append(slices.Clone(sc.trail[from:]), name), " <- "))
		return nil
	}
	sc.state[name] = 1
	sc.trail = append(sc.trail, name)
	c := sc.code(e)
	sc.trail = sc.trail[:len(sc.trail)-1]
	sc.state[name] = 2
	if c != nil {
		sc.codes[name] = c
		sc.seg.Codes = append(sc.seg.Codes, c)
	}
	return c
}

func (sc *scope) code(e spec.Entry[spec.Code]) *model.Code {
	s, what := e.Value, sc.label+"code "+e.Name.Value
	c := &model.Code{Name: e.Name.Value, As: model.Unsigned, Mul: s.Mul.Or(1), Add: s.Add.Or(0)}
	sc.pos.set(c, "", e.Name.At)
	before := len(sc.diags)

	planes := s.Planes
	inline := s.From.Set() || s.Bits.Set() || s.Base.Set() || s.Stride.Set() || s.Shared.Set()
	switch {
	case inline && len(planes) > 0:
		sc.diags.Addf(e.Name.At, "%s: it has planes and the keys of a plane; put from, bits, base, stride and shared in the planes", what)
		return nil
	case inline:
		planes = []spec.Plane{s.Plane}
	case len(planes) == 0:
		if !sc.spec.Faulty {
			sc.diags.Addf(e.Name.At, "%s: it reads nothing; give it from and bits, or planes", what)
		}
		return nil
	}
	for i, p := range planes {
		sc.plane(c, i, p, what)
	}
	if c.Bits > 64 {
		sc.diags.Addf(e.Name.At, "%s: its planes have %d bits together; at most 64 are allowed", what, c.Bits)
	}
	sc.number(c, s, what)
	c.ThenBits = c.Bits
	if s.Then != nil {
		sc.then(c, s.Then, what)
	}
	if len(sc.diags) > before {
		return nil
	}
	return c
}

func (sc *scope) plane(c *model.Code, i int, p spec.Plane, what string) {
	sc.pos.set(c, planePart(i, ""), cmp.Or(p.From.At, p.At))
	sc.pos.set(c, planePart(i, "bits"), p.Bits.At)
	sc.pos.set(c, planePart(i, "base"), p.Base.At)
	sc.pos.set(c, planePart(i, "stride"), p.Stride.At)
	missing := func(key, due string) {
		if sc.spec.Faulty {
			return // it may be there, refused or misspelt
		}
		sc.diags.Addf(cmp.Or(p.At, sc.pos.At(c, "")), "%s: key %s is missing; %s is due", what, key, due)
	}
	out := model.Plane{Bits: p.Bits.Value, Shared: p.Shared.Value, Layout: layout.Affine{Base: p.Base.Value, Stride: make([]int, len(sc.seg.Shape))}}
	if !p.Bits.Set() {
		missing("bits", "the number of bits that are read")
	}
	switch name := p.From.Value; {
	case !p.From.Set():
		missing("from", "the field or the code that is read")
	case sc.fields[name] != nil:
		out.Field = sc.fields[name]
	default:
		if _, known := sc.specs[name]; known {
			out.Code = sc.resolve(name)
			if out.Code == nil && !slices.Contains(sc.trail, name) {
				sc.diags.Addf(p.From.At, "%s: it reads %s, which has a fault of its own", what, name)
			}
		} else if !slices.ContainsFunc(sc.spec.Fields.Entries, func(e spec.Entry[spec.Field]) bool { return e.Name.Value == name }) {
			sc.diags.Addf(p.From.At, "%s: from names %s, which is no field and no code%s; there are %s", what, name, sc.meant(name), sc.named())
		}
	}
	for _, e := range p.Stride.Entries {
		j := sc.seg.Shape.Index(e.Name.Value)
		if j < 0 {
			var digits []string
			for _, d := range sc.seg.Shape {
				digits = append(digits, d.Name)
			}
			allowed := "the shape has the digits " + strings.Join(digits, ", ")
			if len(digits) == 0 {
				allowed = "a block of one element has no digits"
			}
			sc.diags.Addf(e.Name.At, "%s: stride names %s, which is no digit%s; %s", what, e.Name.Value, diag.Meant(e.Name.Value, digits), allowed)
			continue
		}
		out.Layout.Stride[j] = e.Value.Value
		sc.pos.set(c, planePart(i, "stride."+e.Name.Value), e.Value.At)
	}
	c.Planes = append(c.Planes, out)
	c.Bits += out.Bits
}

// floats are the widths of the numbers that are no plain integers.
var floats = map[model.Number]int{model.F16: 16, model.BF16: 16, model.F32: 32, model.F64: 64, model.E8M0: 8, model.UE4M3: 8}

func (sc *scope) number(c *model.Code, s spec.Code, what string) {
	sc.pos.set(c, "as", s.As.At)
	sc.pos.set(c, "mul", s.Mul.At)
	sc.pos.set(c, "add", s.Add.At)
	switch {
	case len(s.Levels) > 0 && s.As.Set():
		sc.diags.Addf(s.As.At, "%s: it has as and levels; leave one out", what)
	case len(s.Levels) > 0:
		c.As = model.Levels
		for _, x := range s.Levels {
			c.Levels = append(c.Levels, x.Value)
		}
		sc.pos.set(c, "levels", s.Levels[0].At)
	case s.As.Set():
		c.As = model.Number(s.As.Value)
		if bits, float := floats[c.As]; float && bits != c.Bits {
			sc.diags.Addf(s.As.At, "%s: as %s reads %d bits, but the code has %d", what, c.As, bits, c.Bits)
		}
	}
	if s.Mul.Set() && s.Mul.Value == 0 {
		sc.diags.Addf(s.Mul.At, "%s: mul is 0, which forgets the code; a number other than 0 is due", what)
	}
}

func (sc *scope) then(c *model.Code, s *spec.Then, what string) {
	sc.pos.set(c, "then", s.At)
	given := 0
	for _, set := range []bool{s.Table.Set(), s.Parity.Set(), s.Radix.Set() || s.Digits.Set()} {
		if set {
			given++
		}
	}
	if given != 1 {
		if given > 1 {
			sc.diags.Addf(s.At, "%s: then does more than one thing; exactly one of table, parity, radix with digits is allowed", what)
		}
		return
	}
	t := &model.Then{Parity: s.Parity.Set(), Radix: s.Radix.Value, Digits: s.Digits.Value}
	c.Then = t
	switch {
	case s.Table.Set():
		t.Table = sc.tables[s.Table.Value]
		if t.Table == nil {
			if !sc.tried[s.Table.Value] {
				var names []string
				for name := range sc.tried {
					names = append(names, name)
				}
				slices.Sort(names)
				sc.diags.Addf(s.Table.At, "%s: there is no table %s%s; there are %s", what, s.Table.Value, diag.Meant(s.Table.Value, names), strings.Join(names, ", "))
			} else {
				sc.diags.Addf(s.Table.At, "%s: table %s has a fault of its own", what, s.Table.Value)
			}
			return
		}
		c.ThenBits = t.Table.Width * t.Table.Bits
	case t.Parity:
		c.ThenBits = c.Bits + 1
		if c.Bits > maxLookupBits {
			sc.diags.Addf(s.Parity.At, "%s: parity reads a word of %d bits; at most %d are allowed, for the kernels look it up", what, c.Bits, maxLookupBits)
		}
	case !s.Radix.Set() || !s.Digits.Set():
		sc.diags.Addf(s.At, "%s: then has one of radix and digits; both are due", what)
	default:
		c.ThenBits = t.Digits * t.DigitBits()
		if c.ThenBits > 64 {
			sc.diags.Addf(s.Digits.At, "%s: %d digits of %d bits have more than 64 bits", what, t.Digits, t.DigitBits())
		}
		if math.Pow(float64(t.Radix), float64(t.Digits)) > math.Ldexp(1, c.Bits) {
			sc.diags.Addf(s.Digits.At, "%s: %d digits in base %d are more than a word of %d bits can tell apart; at most %d are allowed",
				what, t.Digits, t.Radix, c.Bits, int(float64(c.Bits)/math.Log2(float64(t.Radix))))
		}
		if c.Bits > maxLookupBits {
			sc.diags.Addf(s.Radix.At, "%s: radix reads a word of %d bits; at most %d are allowed, for the kernels look it up", what, c.Bits, maxLookupBits)
		}
	}
}

// bind returns the code of that name; a field of count 1 becomes a code by itself. nil after a diagnostic.
func (sc *scope) bind(name spec.Text, role string) *model.Code {
	if !name.Set() {
		return nil // said by spec
	}
	if c := sc.codes[name.Value]; c != nil {
		return c
	}
	if _, broken := sc.specs[name.Value]; broken {
		return nil // said where it is declared
	}
	f := sc.fields[name.Value]
	switch {
	case f == nil:
		if !slices.Contains(sc.spec.Fields.Names(), name.Value) {
			sc.diags.Addf(name.At, "%s%s names %s, which is no code and no field%s; there are %s", sc.label, role, name.Value, sc.meant(name.Value), sc.named())
		}
		return nil
	case f.Count != 1:
		sc.diags.Addf(name.At, "%s%s names field %s of %d items; a field by itself must have count 1, else declare a code that reads it", sc.label, role, f.Name, f.Count)
		return nil
	}
	c := &model.Code{
		Name: f.Name, Bits: f.Type.Bits, ThenBits: f.Type.Bits, As: f.Type.As, Mul: 1,
		Planes: []model.Plane{{Field: f, Bits: f.Type.Bits, Layout: layout.Affine{Stride: make([]int, len(sc.seg.Shape))}}},
	}
	sc.pos.set(c, "", sc.pos.At(f, ""))
	sc.codes[f.Name] = c
	sc.seg.Codes = append(sc.seg.Codes, c)
	return c
}

func (sc *scope) bindAll(names []spec.Text, role string) []*model.Code {
	var out []*model.Code
	for i, name := range names {
		if c := sc.bind(name, fmt.Sprintf("%s[%d]", role, i)); c != nil {
			out = append(out, c)
		}
	}
	return out
}

func (sc *scope) value() {
	v := sc.spec.Value
	if v == nil {
		return // said by spec
	}
	sc.pos.set(sc.seg, "value", v.At)
	for _, list := range []struct {
		name string
		from []spec.Text
		to   *[]*model.Code
	}{
		{"scale", v.Scale, &sc.seg.Value.Scale}, {"weight", v.Weight, &sc.seg.Value.Weight}, {"bias", v.Bias, &sc.seg.Value.Bias},
		{"minus", v.Minus, &sc.seg.Value.Minus}, {"plus", v.Plus, &sc.seg.Value.Plus},
	} {
		*list.to = sc.bindAll(list.from, "value."+list.name)
		for i, name := range list.from {
			sc.pos.set(sc.seg, fmt.Sprintf("value.%s[%d]", list.name, i), name.At)
		}
	}
	if len(v.Minus) > 0 && len(v.Plus) > 0 {
		sc.diags.Addf(v.Plus[0].At, "%svalue has minus and plus; leave one out", sc.label)
	}
	// Fields that only sums or the encoder name become codes of the (only) segment as well.
	if len(sc.spec.Segments) == 0 {
		for _, e := range sc.spec.Sums.Entries {
			sc.bind(e.Name, "sums")
			sc.bindAll(e.Value.Times, "sums."+e.Name.Value+".times")
		}
		if enc := sc.spec.Encode; enc != nil {
			sc.bindAll(enc.Scale, "encode.scale")
			sc.bindAll(enc.Offset, "encode.offset")
		}
	}
	sc.order()
}

// order sorts the codes by name, but each after the codes that it reads.
func (sc *scope) order() {
	slices.SortFunc(sc.seg.Codes, func(a, b *model.Code) int { return cmp.Compare(a.Name, b.Name) })
	var sorted []*model.Code
	done := map[*model.Code]bool{}
	var visit func(c *model.Code)
	visit = func(c *model.Code) {
		if done[c] {
			return
		}
		done[c] = true
		for _, p := range c.Planes {
			if p.Code != nil {
				visit(p.Code)
			}
		}
		sorted = append(sorted, c)
	}
	for _, c := range sc.seg.Codes {
		visit(c)
	}
	sc.seg.Codes = sorted
}

// only is the scope of the only segment, for sums and the encoder.
func (b *formatLoader) only() *scope {
	seg := b.format.Segs[0]
	sc := &scope{formatLoader: b, seg: seg, specs: map[string]spec.Entry[spec.Code]{}, codes: map[string]*model.Code{}}
	for _, e := range b.spec.Codes.Entries {
		sc.specs[e.Name.Value] = e
	}
	for _, c := range seg.Codes {
		sc.codes[c.Name] = c
	}
	return sc
}

func (b *formatLoader) sums() {
	if !b.spec.Sums.Set() {
		return
	}
	if len(b.spec.Segments) > 0 {
		b.diags.Addf(b.spec.Sums.At, "sums: a format with segments has no sums; they run over the digits of one shape")
		return
	}
	sc := b.only()
	entries := slices.Clone(b.spec.Sums.Entries)
	slices.SortFunc(entries, func(x, y spec.Entry[spec.Sum]) int { return cmp.Compare(x.Name.Value, y.Name.Value) })
	for _, e := range entries {
		sum := model.Sum{
			Code:  sc.codes[e.Name.Value], // bound, or refused, with the value
			Of:    sc.bind(e.Value.Of, "sums."+e.Name.Value+".of"),
			Times: nil,
		}
		for _, t := range e.Value.Times {
			if c := sc.codes[t.Value]; c != nil {
				sum.Times = append(sum.Times, c)
			}
		}
		if sum.Code != nil {
			b.pos.set(b.format, "sums."+e.Name.Value, e.Name.At)
		}
		b.format.Sums = append(b.format.Sums, sum)
	}
}

func (b *formatLoader) encode() {
	s := b.spec.Encode
	if s == nil {
		return
	}
	if len(b.spec.Segments) > 0 {
		b.diags.Addf(s.At, "encode: a format with segments has no rounding scheme; it runs over the digits of one shape")
		return
	}
	sc := b.only()
	e := &model.Encode{
		Fit: model.Fit(s.Fit.Value), Round: model.Rounding(s.Round.Value), Search: s.Search.Value,
		Code: sc.bind(s.Code, "encode.code"), Scale: sc.existing(s.Scale), Offset: sc.existing(s.Offset),
	}
	b.pos.set(e, "", s.At)
	b.pos.set(e, "fit", s.Fit.At)
	b.pos.set(e, "code", s.Code.At)
	b.pos.set(e, "search", s.Search.At)
	for i, name := range s.Scale {
		b.pos.set(e, fmt.Sprintf("scale[%d]", i), name.At)
	}
	for i, name := range s.Offset {
		b.pos.set(e, fmt.Sprintf("offset[%d]", i), name.At)
	}
	b.format.Encode = e
}

// existing looks names up that value() has bound or refused.
func (sc *scope) existing(names []spec.Text) []*model.Code {
	var out []*model.Code
	for _, name := range names {
		if c := sc.codes[name.Value]; c != nil {
			out = append(out, c)
		}
	}
	return out
}
