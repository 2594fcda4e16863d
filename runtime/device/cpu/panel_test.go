package cpu

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	kernels "github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device/cpu/vec"
)

// TestPanelQuantize: at every level a panel gets the bytes that generated code makes of the generated blocks, whichever
// rows, token and unit it begins with, and nothing beside them.
func TestPanelQuantize(t *testing.T) {
	const units = 5
	rng := rand.New(rand.NewPCG(3, 4))
	for _, sizes := range [][]int{{16, 4, 1}, {4, 1}, {1}} {
		for _, rows := range []int{1, 3, 4, 5, 16, 23} {
			p := panels{sizes: sizes}
			p.grow(rows, units*kernels.ActivationBlockElems)
			before := make([]byte, len(p.data))
			for i := range before {
				before[i] = byte(rng.Uint32())
			}
			for row := range rows {
				for first := range units {
					x := make([]float32, (1+rng.IntN(units-first))*kernels.ActivationBlockElems)
					for i := range x {
						x[i] = float32(rng.NormFloat64())
					}
					switch rng.IntN(8) {
					case 0:
						clear(x[:kernels.ActivationBlockElems])
					case 1:
						x[rng.IntN(len(x))] = float32(math.Inf(-1))
					case 2:
						x[rng.IntN(len(x))] = float32(math.NaN())
					}
					blocks := make([]byte, quantizedBytes(len(x)))
					finite := vec.For(cpufeature.Portable).Quantize(blocks, x)
					want := bytes.Clone(before)
					offset, tokens, token := p.at(units, rows, row)
					tile.PutPanel(want[offset+first*tile.PanelBytes(tokens):], tokens, token, blocks)
					for _, l := range cpufeature.Levels() {
						copy(p.data, before)
						if ok := p.quantize(vec.For(l), units, rows, row, first, x, make([]byte, len(blocks))); ok != finite {
							t.Fatalf("%s: finite %v, want %v", l, ok, finite)
						}
						if !bytes.Equal(p.data, want) {
							t.Fatalf("%s: panels of %v, %d rows, row %d, unit %d: other bytes than generated code", l, sizes, rows, row, first)
						}
					}
				}
			}
		}
	}
}
