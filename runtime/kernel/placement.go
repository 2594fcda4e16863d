package kernel

import "encoding/binary"

// Layout is how a weight lies in device memory.
type Layout string

// Placement is where the codes of a block lie under a layout: what takes a row of the file's blocks to a row in device memory.
type Placement struct {
	BlockBytes     int // from one block to the next; in planes what a block takes of its row
	FileBlockBytes int // the same in a file
	// Planes are the bytes of each field of a block where a row is, for each field, that field of all its blocks, and begins on a
	// multiple of 16 bytes. None: a row is its blocks.
	Planes []int
	Moves  []Move
}

// Move is Count items of Bits bits, none of which crosses a byte: item i goes from bit From+8*i of the file's block to bit
// To+8*i of the placed one (in planes: of its fields, one after the other).
type Move struct{ From, To, Bits, Count int }

// rowAlign is the multiple that rows in planes begin at.
const rowAlign = 16

// RowBytes is the distance of rows of a number of blocks.
func (p *Placement) RowBytes(blocks int) int {
	n := blocks * p.BlockBytes
	if p.Planes != nil {
		n = (n + rowAlign - 1) / rowAlign * rowAlign
	}
	return n
}

// Identical reports whether the file's bytes are the device's.
func (p *Placement) Identical() bool {
	return p.Planes == nil && p.BlockBytes == p.FileBlockBytes && len(p.Moves) == 1 && p.Moves[0] == Move{0, 0, 8, p.BlockBytes}
}

// Pack places whole rows of blocks: len(src) is rows times blocks file blocks, len(dst) as many placed rows. Padding is zero.
func (p *Placement) Pack(dst, src []byte, blocks int) {
	if p.Identical() {
		copy(dst, src)
		return
	}
	clear(dst)
	row := p.RowBytes(blocks)
	scratch := make([]byte, p.BlockBytes)
	for ; len(src) > 0; dst = dst[row:] {
		for b := range blocks {
			if p.Planes == nil {
				p.block(dst[b*p.BlockBytes:(b+1)*p.BlockBytes], src)
			} else {
				clear(scratch)
				p.block(scratch, src)
				at := 0
				for _, n := range p.Planes {
					copy(dst[blocks*at+b*n:], scratch[at:at+n])
					at += n
				}
			}
			src = src[p.FileBlockBytes:]
		}
	}
}

// block places one block into zeroed memory.
func (p *Placement) block(dst, src []byte) {
	for _, m := range p.Moves {
		from, to := src[m.From/8:], dst[m.To/8:]
		if m.Bits == 8 {
			copy(to[:m.Count], from)
			continue
		}
		down, up := m.From%8, m.To%8
		mask := byte(1<<m.Bits - 1)
		i := 0
		for wide := uint64(mask) * 0x0101010101010101; i+8 <= m.Count; i += 8 {
			w := binary.LittleEndian.Uint64(from[i:]) >> down & wide << up
			binary.LittleEndian.PutUint64(to[i:], binary.LittleEndian.Uint64(to[i:])|w)
		}
		for ; i < m.Count; i++ {
			to[i] |= from[i] >> down & mask << up
		}
	}
}
