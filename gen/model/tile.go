package model

// Tiling is how rows of a matrix lie side by side for vector kernels of a CPU.
type Tiling struct {
	Name      string
	Spec      string
	Doc       string
	Rows      int // of a tile
	LaneElems int // adjacent elements of a row that share a lane of a vector
	UnitElems int // elements of a row that kernels take at a time: an activation block
	Spare     int // percent that tiles which keep indices or pack trits may take beyond the file; 0 where words are written out
}

// Tile is a format's blocks of Rows rows, interleaved.
type Tile struct {
	*Tiling
	Source *Format // of one row
	Stored *Format // of the tile: element row*Source.Elems + e
	Units  int     // in a block

	WordBits int
	Word     []TilePlane // least significant first; none where there is an Index
	Index    *TileIndex  // what words come from where indices are kept
	Trits    *TileTrits  // or where words are of three numbers
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

// TileIndex is words as a codebook has them, and a bit beside: sub-code e of an entry is the word of element e of the Width that the
// entry makes, a sign or the like its bit above. Indices are the tile's own. Those of a unit lie four to a 32-bit lane of a row, their low
// bytes, vector after vector of rows; of each bit beyond the eighth, the four of a row lie together, row after row.
//
// Kernels take an entry as two bytes (see Byte). The first depends on the low byte of the index alone, the second on the Shared upper
// bits of it and on the bits beyond.
type TileIndex struct {
	Code   *Code  // of the source: the index
	Of     *Code  // of the source: the sub-code
	Book   *Table // by the tile's indices
	Number []int  // the tile's index by the source's
	Shared int
	Low    *Field
	High   []*Field // of each bit beyond the eighth

	Bit   *Code      // of the source: the word's uppermost bit
	Per   int        // elements that share one: 1, Width or a unit
	Signs *Field     // of each element: that of lane i of a unit and element e is bit 2e + i%2 of byte i/2 of the lane, or 2e + i/4 of byte i%4 where an entry is a lane; of entries: as High
	Group *TileGroup // of units
}

// Width is how many elements an entry makes.
func (x *TileIndex) Width() int { return x.Code.Then.Table.Width }

// Bits is the width of a sub-code.
func (x *TileIndex) Bits() int { return x.Code.Then.Table.Bits }

// TileTrits is words of three numbers, several in a digit of base 3. For each element of a lane, those of lanes 0, 1 and 2 of a unit are
// a number of five bits, those of lanes 3 to 5 another, those of 6 and 7 one of four; the first lane is the least significant trit.
type TileTrits struct {
	Low  *Field    // byte e of a row's lane: the first number, and above it the three lowest bits of the second
	High [2]*Field // of each other bit of the second, those of a row's four elements
	Last *Field    // the third: 16 bits a row
}

// TileSlice is the bits of a sub-code in one byte of an entry.
const TileSlice = 2

// Slices is how many bytes an entry has for a lane's elements.
func (x *TileIndex) Slices() int { return (x.Bits() + TileSlice - 1) / TileSlice }

// Byte is byte i of an entry: a slice of the sub-codes of four elements, which follow each other. Slices go before elements.
func (x *TileIndex) Byte(entry uint64, i int) (b byte) {
	for e := range 4 {
		code := entry >> ((i/x.Slices()*4 + e) * x.Bits()) & (1<<x.Bits() - 1)
		b |= byte(code>>(i%x.Slices()*TileSlice)&(1<<TileSlice-1)) << (e * TileSlice)
	}
	return b
}

// Entry is the entry of two bytes.
func (x *TileIndex) Entry(bytes [2]byte) (entry uint64) {
	for i, b := range bytes {
		for e := range 4 {
			slice := uint64(b>>(e*TileSlice)) & (1<<TileSlice - 1)
			entry |= slice << ((i/x.Slices()*4+e)*x.Bits() + i%x.Slices()*TileSlice)
		}
	}
	return entry
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
