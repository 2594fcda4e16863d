package tile

import (
	"fmt"
	"slices"
	"strings"
)

// panelSource writes how activations lie for the kernels.
func panelSource(tiled []instance) string {
	var b strings.Builder
	var list []int
	for _, in := range tiled {
		if !slices.Contains(list, in.tokens) {
			list = append(list, in.tokens)
		}
	}
	slices.Sort(list)
	b.WriteString(`
// PanelBytes is the size of a unit of a panel of so many tokens: the tokens' 32 rounded activations, then for each token the
// scale, the sums of all, the first and the second half as f32, and the negated sums as integers.
func PanelBytes(tokens int) int {
	switch tokens {
`)
	for _, n := range list {
		fmt.Fprintf(&b, "case %d:\nreturn %d\n", n, panelBytes(n))
	}
	b.WriteString("}\npanic(\"BUG: no panel has that many tokens\")\n}\n")
	fmt.Fprintf(&b, `
// PutPanel puts a row of activation blocks into a panel as one of its tokens.
func PutPanel(panel []byte, tokens, token int, row []byte) {
	step := PanelBytes(tokens)
	for ; len(row) > 0; row, panel = row[cpu.ActivationBlockBytes:], panel[step:] {
		b := (*[cpu.ActivationBlockBytes]byte)(row)
		q := panel[UnitElems*token:][:UnitElems]
		copy(q, b[format.%[1]sQsAtBytes:])
		sum := int32(binary.LittleEndian.Uint32(b[format.%[1]sSumAtBytes:]))
		var first int32
		for _, x := range q[:UnitElems/2] {
			first += int32(int8(x))
		}
		f := panel[UnitElems*tokens+4*token:]
		put := func(i int, v uint32) { binary.LittleEndian.PutUint32(f[4*i*tokens:], v) }
		put(0, math.Float32bits(numeric.F16(binary.LittleEndian.Uint16(b[format.%[1]sDAtBytes:]))))
		for i, s := range [3]int32{sum, first, sum - first} {
			put(1+i, math.Float32bits(float32(s)))
			put(4+i, uint32(-s))
		}
	}
}
`, "A8")
	return b.String()
}
