package gpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/kernel"
)

// naive places rows bit by bit, straight from what the moves and the planes mean.
func naive(src []byte, p kernel.Placement, blocks int) []byte {
	var out []byte
	for at := 0; at < len(src); at += blocks * p.FileBlockBytes {
		row := make([]byte, p.RowBytes(blocks))
		for b := range blocks {
			for _, m := range p.Moves {
				for i := range m.Count * m.Bits {
					from, to := m.From+i/m.Bits*8+i%m.Bits, m.To+i/m.Bits*8+i%m.Bits
					bit := src[at+b*p.FileBlockBytes+from/8] >> (from % 8) & 1
					where := 8*b*p.BlockBytes + to
					if p.Planes != nil {
						first := 0
						for _, n := range p.Planes {
							if to < 8*(first+n) {
								where = 8*(blocks*first+b*n) + to - 8*first
								break
							}
							first += n
						}
					}
					row[where/8] |= bit << (where % 8)
				}
			}
		}
		out = append(out, row...)
	}
	return out
}

func TestPackMovesAsThePlacementSays(t *testing.T) {
	for name, layouts := range gate.Placements {
		for layout, p := range layouts {
			for _, blocks := range []int{1, 3, 8} {
				src := make([]byte, 5*blocks*p.FileBlockBytes)
				for i := range src {
					src[i] = byte(rand.Uint32())
				}
				dst := make([]byte, 5*p.RowBytes(blocks))
				for i := range dst {
					dst[i] = 0xff
				}
				p.Pack(dst, src, blocks)
				if !bytes.Equal(dst, naive(src, p, blocks)) {
					t.Errorf("%s %s: rows of %d blocks are placed wrongly", name, layout, blocks)
				}
			}
		}
	}
}

func BenchmarkPack(b *testing.B) {
	for _, name := range []string{"q4_K", "q6_K"} {
		for layout, p := range gate.Placements[name] {
			b.Run(name+"/"+string(layout), func(b *testing.B) {
				const rows, blocks = 64, 14
				src, dst := make([]byte, rows*blocks*p.FileBlockBytes), make([]byte, rows*p.RowBytes(blocks))
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					p.Pack(dst, src, blocks)
				}
			})
		}
	}
}
