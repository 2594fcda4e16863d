package cpu

import (
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
)

// panels is the quantized input of a product as tile kernels read it: the first tokens in panels of the most tokens that a
// kernel takes, the rest in smaller ones.
type panels struct {
	sizes []int // tokens of a panel, descending; the last is 1
	data  []byte
}

// grow makes room for rows of a width.
func (p *panels) grow(rows, width int) {
	if len(p.sizes) == 0 {
		return
	}
	// A panel of one token takes the most for a token.
	if n := rows * (width / tile.UnitElems) * tile.PanelBytes(1); len(p.data) < n {
		p.data = aligned(n)
	}
}

// at finds the panel of a row among so many: where it begins, its tokens and which of them the row is.
func (p *panels) at(units, rows, row int) (offset, tokens, token int) {
	first := 0
	for _, n := range p.sizes {
		whole := (rows - first) / n * n
		if row < first+whole {
			k := (row - first) / n
			return offset + k*units*tile.PanelBytes(n), n, (row - first) % n
		}
		offset += whole / n * units * tile.PanelBytes(n)
		first += whole
	}
	panic("BUG: a row past the last panel")
}

// quantize sets units of a row, from unit first on, to x rounded as activation blocks are. It reports whether all scales
// are finite. blocks is room for x in blocks.
func (p *panels) quantize(k *vec.Kernels, units, rows, row, first int, x []float32, blocks []byte) bool {
	offset, tokens, token := p.at(units, rows, row)
	size := tile.PanelBytes(tokens)
	panel := p.data[offset:][:units*size][first*size:]
	if ok, done := k.QuantizeDealt(panel[tile.UnitElems*token:], panel[tile.UnitElems*tokens+4*token:], x, size, 4*tokens); done {
		return ok
	}
	ok := k.Quantize(blocks, x)
	tile.PutPanel(panel, tokens, token, blocks)
	return ok
}
