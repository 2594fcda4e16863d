package model

// Tiling is how rows of a matrix lie side by side for vector kernels of a CPU.
type Tiling struct {
	Name      string
	Spec      string
	Doc       string
	Rows      int // of a tile
	LaneElems int // adjacent elements of a row that share a lane of a vector
	UnitElems int // elements of a row that kernels take at a time: an activation block
}

// Tile is a format's blocks of Rows rows, interleaved.
type Tile struct {
	*Tiling
	Source *Format // of one row
	Stored *Format // of the tile: element row*Source.Elems + e
	Units  int     // in a block

	WordBits int
	Word     []TilePlane // least significant first
	Times    int         // the numbers below are this many times the weight
	Zero     int         // the number is the word less this, where there are no levels
	Levels   []int       // the number of each word

	Numbers       []*TileNumber
	Groups        []*TileGroup
	Scale, Offset TileProduct
	Subtracted    bool // the offset
}

// TilePlane is some bits of the words. In a unit, lane i lies in vector i mod Bits, shifted by i div Bits times Bits.
type TilePlane struct {
	Field     *Field
	Bits, Pos int
}

// TileNumber is a code that holds for a whole block.
type TileNumber struct {
	Code  *Code // of the source
	Field *Field
	As    Number // F16, BF16 or F32
}

// TileGroup is a code that holds for Elems elements of a unit.
type TileGroup struct {
	Code      *Code
	Elems     int
	Instances int // in a unit
	Pieces    []TilePiece
}

// TilePiece is some bits of the instances of a group. Instance i of unit u is at bit At[i] + u*UnitBits of the item of a row, and
// items of rows lie side by side; for items of a byte, At counts bits from the start of the field and a unit is UnitBits.
type TilePiece struct {
	Field     *Field
	Bits, Pos int
	ItemBits  int
	At        []int
	UnitBits  int
}

// TileProduct is a product of numbers and groups.
type TileProduct struct {
	Numbers []*TileNumber
	Groups  []*TileGroup
}

// Empty reports whether there is nothing in the product.
func (p TileProduct) Empty() bool { return len(p.Numbers)+len(p.Groups) == 0 }

// Elems is the number of elements that share all groups of the product: at most a unit.
func (p TileProduct) Elems(unit int) int {
	for _, g := range p.Groups {
		unit = min(unit, g.Elems)
	}
	return unit
}
