package load

import (
	"cmp"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/gen/tile"
)

// tilings resolves the tilings and gives each format that fits them the layouts.
func (l *loader) tilings(set *spec.Set, formats []*model.Format) (all []*model.Tiling) {
	for _, s := range set.Tilings {
		if s.Faulty {
			continue // said by spec
		}
		l.fileName(s.Tiling)
		g := &model.Tiling{Name: s.Tiling.Value, Spec: s.At.File, Doc: strings.TrimSpace(s.Doc.Value),
			Rows: s.Rows.Value, LaneElems: s.LaneElems.Value, UnitElems: s.UnitElems.Value, Spare: s.Spare.Or(0)}
		l.pos.set(g, "", s.At)
		if g.Rows%16 != 0 {
			l.diags.Addf(s.Rows.At, "rows is %d; a vector holds a lane of each of 16 rows, so a multiple of 16 is due", g.Rows)
			continue
		}
		for _, f := range formats {
			w := model.WeightLayout(g.Name)
			if w == model.LayoutFile || w == model.LayoutPadded || f.StoredAs(w) != nil || f.TileAs(w) != nil {
				l.diags.Addf(s.Tiling.At, "format %s already has a layout %s", f.Name, w)
				break
			}
			if !f.InFile() || f.Plain() {
				continue
			}
			if t, err := tile.Of(f, g); err == nil { // a format that does not fit stays in the file's layout
				f.Tiles = append(f.Tiles, t)
				l.pos.set(t.Stored, "", s.At)
			}
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *model.Tiling) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
