package gpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/minfer/minfer/generated/gate"
)

// Rows packed several at a time lie as rows packed by one.
func TestPackRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"q4_K", "q6_K", "q8_0"} {
		for layout, place := range gate.Placements[name] {
			for _, shape := range [][2]int{{1, 1}, {1, 7}, {9, 1}, {4, 1500}, {13, 300}} {
				blocks, rows := shape[0], shape[1]
				src := make([]byte, rows*blocks*place.FileBlockBytes)
				for i := range src {
					src[i] = byte(rng.Uint32())
				}
				row := place.RowBytes(blocks)
				want, have := make([]byte, rows*row), make([]byte, rows*row)
				place.Pack(want, src, blocks)
				packRows(have, src, place, blocks, rows)
				if !bytes.Equal(want, have) {
					t.Errorf("%s %s: %d rows of %d blocks differ", name, layout, rows, blocks)
				}
			}
		}
	}
}
