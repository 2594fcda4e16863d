package cuda

import (
	"encoding/binary"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// coverageOf reads the counts of a space, a u32 for each cell in order of token, row and unit, and behind them that of all
// cells outside.
func coverageOf(space gpu.CoverSpace, counts []byte) gpu.Coverage {
	cells := space.Cells()
	c := gpu.Coverage{Space: space, Outside: int64(binary.LittleEndian.Uint32(counts[4*cells:]))}
	for i := range cells {
		n := binary.LittleEndian.Uint32(counts[4*i:])
		if i == 0 || n < c.Min {
			c.Min = n
		}
		c.Max = max(c.Max, n)
		if n == 1 {
			continue
		}
		cell := gpu.Cell{Token: i / (space.Rows * space.Units), Row: i / space.Units % space.Rows, Unit: i % space.Units, Count: n}
		if n == 0 {
			c.Missing++
			if len(c.FirstMissing) < gpu.CoverageExamples {
				c.FirstMissing = append(c.FirstMissing, cell)
			}
			continue
		}
		c.Repeated++
		if len(c.FirstRepeated) < gpu.CoverageExamples {
			c.FirstRepeated = append(c.FirstRepeated, cell)
		}
	}
	return c
}
