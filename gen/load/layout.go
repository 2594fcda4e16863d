package load

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// layouts gives each format the layouts that its codes may lie in: planes, which follows from its fields, and those of the specs.
func (l *loader) layouts(set *spec.Set, formats []*model.Format) {
	for _, f := range formats {
		if f.InFile() && !f.Plain() {
			f.Layouts = append(f.Layouts, &model.Stored{Weights: model.LayoutPlanes, Doc: "the fields of the file, each together for a whole row", Format: f, Planes: true})
		}
	}
	for _, s := range set.Layouts {
		l.layout(s, set, formats)
	}
	for _, f := range formats {
		slices.SortStableFunc(f.Layouts, func(a, b *model.Stored) int { return cmp.Compare(a.Weights, b.Weights) })
	}
}

// layout resolves one layout of a format: the format's spec with the places of the layout's.
func (l *loader) layout(s *spec.Layout, set *spec.Set, formats []*model.Format) {
	if !s.Format.Set() || !s.Weights.Set() || s.Faulty {
		return // said by spec
	}
	if name := s.Format.Value + "_" + s.Weights.Value; name != strings.TrimSuffix(path.Base(s.At.File), ".yaml") {
		l.diags.Addf(s.Format.At, "the layout %s of %s is described in %s; name the file %s.yaml", s.Weights.Value, s.Format.Value, path.Base(s.At.File), name)
	}
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
	}
	i := slices.IndexFunc(formats, func(f *model.Format) bool { return f.Name == s.Format.Value })
	k := slices.IndexFunc(set.Formats, func(f *spec.Format) bool { return f.Format.Value == s.Format.Value })
	if i < 0 || k < 0 {
		l.diags.Addf(s.Format.At, "there is no format %s%s", s.Format.Value, diag.Meant(s.Format.Value, names))
		return
	}
	base, from := formats[i], set.Formats[k]
	switch w := model.WeightLayout(s.Weights.Value); {
	case w == model.LayoutFile, w == model.LayoutPadded, base.StoredAs(w) != nil:
		l.diags.Addf(s.Weights.At, "format %s already has a layout %s", base.Name, w)
		return
	case !base.InFile():
		l.diags.Addf(s.Format.At, "%s is no weight format: no file holds it", base.Name)
		return
	case len(from.Segments) > 0:
		l.diags.Addf(s.Format.At, "%s has segments; a layout moves the codes of one shape", base.Name)
		return
	}
	moved := *from
	moved.At, moved.Digest, moved.Faulty = s.At, s.Digest, false
	moved.Shape, moved.Fields, moved.Padded, moved.Encode = s.Shape, s.Fields, s.Padded, nil
	moved.Block = &spec.Block{At: from.Block.At, Elems: from.Block.Elems, Bytes: s.Bytes}
	moved.Codes = l.movedCodes(s, from)
	before := len(l.diags)
	f := l.format(&moved)
	if len(l.diags) > before {
		return
	}
	f.Doc = strings.TrimSpace(s.Doc.Value)
	base.Layouts = append(base.Layouts, &model.Stored{Weights: model.WeightLayout(s.Weights.Value), Spec: s.At.File, Doc: f.Doc, Format: f, Planes: s.Order.Value == "planes"})
}

// movedCodes is the format's codes with the planes that the layout gives them; codes that read other codes stay as they are.
func (l *loader) movedCodes(s *spec.Layout, from *spec.Format) spec.Map[spec.Code] {
	out := spec.Map[spec.Code]{At: s.Codes.At}
	fields := from.Fields.Names()
	var movable []string
	for _, e := range from.Codes.Entries {
		planes := e.Value.Planes
		if len(planes) == 0 {
			planes = []spec.Plane{e.Value.Plane}
		}
		if !slices.ContainsFunc(planes, func(p spec.Plane) bool { return slices.Contains(fields, p.From.Value) }) {
			out.Entries = append(out.Entries, e)
			continue
		}
		movable = append(movable, e.Name.Value)
		i := slices.IndexFunc(s.Codes.Entries, func(m spec.Entry[spec.MovedCode]) bool { return m.Name.Value == e.Name.Value })
		if i < 0 {
			l.diags.Addf(s.Codes.At, "code %s of %s lies nowhere; give its planes", e.Name.Value, s.Format.Value)
			continue
		}
		to := s.Codes.Entries[i]
		code := e.Value
		code.Plane, code.Planes = to.Value.Plane, to.Value.Planes
		out.Entries = append(out.Entries, spec.Entry[spec.Code]{Name: to.Name, Value: code})
	}
	for _, e := range s.Codes.Entries {
		if !slices.Contains(movable, e.Name.Value) {
			l.diags.Addf(e.Name.At, "%s is no code of %s that reads fields%s; those are %s", e.Name.Value, s.Format.Value, diag.Meant(e.Name.Value, movable), strings.Join(movable, ", "))
		}
	}
	return out
}
