package proof

import (
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// layoutRules are the rules for formats that the stored form of one must hold to as well.
var layoutRules = []func(*checker){elements, fieldsTile, planesInside, everythingUsed, bitsOnce}

// Layouts proves the layouts of a proved format: each is a description of a block of its own right, and between its bits and
// those of the file there is a bijection.
func Layouts(f *model.Format, pos *load.Positions) diag.List {
	var diags diag.List
	for _, s := range f.Layouts {
		if s.Format == f {
			continue // moves whole fields
		}
		c := &checker{format: s.Format, pos: pos}
		for _, rule := range layoutRules {
			if rule(c); len(c.diags) > 0 {
				break
			}
		}
		if diags.Add(c.diags); len(c.diags) > 0 {
			continue
		}
		if _, flaw := lower.Repack(f, s.Format); flaw != "" {
			diags.Addf(pos.At(s.Format, ""), "layout %s of %s: %s", s.Weights, f.Name, flaw)
		}
		if !s.Planes && s.Format.Bytes%model.RowAlignBytes != 0 {
			diags.Addf(pos.At(s.Format, "block.bytes"), "layout %s of %s: blocks of %d bytes do not keep rows on multiples of %d; pad them, or order them in planes", s.Weights, f.Name, s.Format.Bytes, model.RowAlignBytes)
		}
	}
	return diags
}
