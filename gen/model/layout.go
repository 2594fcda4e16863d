package model

// Stored is a format as a weight layout keeps it in device memory: the same codes at other bit addresses.
type Stored struct {
	Weights WeightLayout
	Spec    string // of the layout; "" for one that follows from the format alone
	Doc     string
	Format  *Format // the block as it is stored; the name, the elements and the meaning of the codes are the format's
	Planes  bool    // a row is, for each field, that field of all its blocks; else its blocks
}

// RowAlignBytes is the multiple that rows in planes begin at: that of the widest load and of a bulk copy.
const RowAlignBytes = 16

// Has reports whether device memory may hold the format so. A plain number lies as in the file.
func (f *Format) Has(l WeightLayout) bool {
	return l == LayoutFile || f.TileAs(l) != nil || !f.Plain() && (l == LayoutPadded || f.StoredAs(l) != nil)
}

// TileAs is the format in tiles of rows; nil where it has no such layout.
func (f *Format) TileAs(l WeightLayout) *Tile {
	for _, t := range f.Tiles {
		if WeightLayout(t.Name) == l {
			return t
		}
	}
	return nil
}

// StoredAs is the format under a layout that says more than where blocks begin; nil for file and padded.
func (f *Format) StoredAs(l WeightLayout) *Stored {
	for _, s := range f.Layouts {
		if s.Weights == l {
			return s
		}
	}
	return nil
}
