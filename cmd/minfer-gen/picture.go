package main

import (
	"fmt"
	"strings"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// The picture's measures in pixels.
const (
	cellWidth, cellHeight = 3, 14
	left, top             = 110, 64
)

// picture draws the units of a row as cells, a line for each pass of the block's threads: which thread takes each, where
// the gate ends, and how far the rows of the known models reach.
func picture(c *model.Catalog, fam *model.Family, v *model.Variant, f *model.Format) (string, error) {
	g := v.Geometry(f)
	d := g.Axis("unit")
	if d == nil {
		return "", fmt.Errorf("%s/%s deals no units of a row", fam.Name, v.Name)
	}
	across := 1 // units that the threads of a row take in one pass
	for i, p := range g.Digits {
		if p.Place == layout.Thread && d.Stride[i] != 0 {
			across *= p.Radix
		}
	}
	most := 0
	for _, w := range widths(c, f) {
		most = max(most, (w.cols+d.Elems-1)/d.Elems)
	}
	ceiling, bounded := g.Ceiling(d)
	reach := most
	if bounded {
		reach = ceiling
	}
	rounds := (max(most, reach) + across - 1) / across
	marks := widths(c, f)
	height := top + rounds*(cellHeight+4) + 18*len(marks) + 60
	width := left + across*cellWidth + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14">%s of %s, %s: unit = %s, %d elements each</text>`+"\n", fam.Name, f.Name, v.Name,
		g.Index(d, func(p layout.PlacedDigit) string { return p.Name }), d.Elems)
	gate := "the loop covers any width"
	for _, t := range bound.Derive(fam, v, f, c.Base()) {
		if t.Kind == bound.Max && t.Source == bound.Coverage && t.Dim == model.Cols {
			gate = fmt.Sprintf("gate: %s", t)
		}
	}
	fmt.Fprintf(&b, `<text x="10" y="38">%s</text>`+"\n", strings.ReplaceAll(gate, "<", "&lt;"))
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666">thread 0</text><text x="%d" y="%d" fill="#666" text-anchor="end">thread %d</text>`+"\n", left, top-6, left+across*cellWidth, top-6, across-1)
	for r := range rounds {
		y := top + r*(cellHeight+4)
		fmt.Fprintf(&b, `<text x="10" y="%d">units %d..%d</text>`+"\n", y+11, r*across, r*across+across-1)
		for u := r * across; u < (r+1)*across; u++ {
			fill := "#4a7" // taken by a thread
			switch {
			case u >= reach && bounded:
				fill = "#d33" // by none
			case u >= most:
				fill = "#ddd" // no model has it
			case r%2 == 1:
				fill = "#6bc"
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", left+(u%across)*cellWidth, y, cellWidth-1, cellHeight, fill)
		}
	}
	y := top + rounds*(cellHeight+4) + 24
	fmt.Fprintf(&b, `<text x="10" y="%d" fill="#666">green, blue: a thread takes the unit; red: past the ceiling, no thread would; grey: wider than any known row</text>`+"\n", y)
	for i, m := range marks {
		units := (m.cols + d.Elems - 1) / d.Elems
		state, fill := "covered", "#273"
		if bounded && units > ceiling {
			state, fill = fmt.Sprintf("refused: units %d..%d would be dropped", ceiling, units-1), "#a22"
		}
		fmt.Fprintf(&b, `<text x="10" y="%d" fill="%s">%d cols = %d units: %s (%s)</text>`+"\n", y+18*(i+1), fill, m.cols, units, state, strings.Join(m.who, ", "))
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}
