package tile

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// packSource is the file that lays out one format.
func packSource(t *model.Tile) string {
	var b, body strings.Builder
	name := emit.GoName(t.Source.Name)
	b.WriteString(emit.Marker(t.Source.Spec))
	facts := fmt.Sprintf("%s in tiles of %d rows: blocks of %d elements of each in %d bytes, %d bytes a row's block where a file has %d.\n\n",
		t.Source.Name, t.Rows, t.Source.Elems, t.Stored.Bytes, t.Stored.Bytes/t.Rows, t.Source.Bytes)
	facts += strings.Join(emit.FieldFacts(t.Stored), "\n") + "\n\n" + strings.Join(emit.PlaneFacts(t.Stored.Segs[0]), "\n")
	b.WriteString("//\n" + emit.Comment(facts))
	b.WriteString("\npackage tile\n\n")

	printf := func(format string, args ...any) { fmt.Fprintf(&body, format, args...) }
	if t.Levels != nil && t.Index == nil {
		printf("// words%s is the word of each weight.\nvar words%s = [256]int8{", name, name)
		for w, v := range t.Levels {
			if w < 1<<bits.Len(uint(len(t.Levels)-1)) && !seenBefore(t.Levels, w) {
				printf("%d: %d, ", uint8(int8(v)), w)
			}
		}
		printf("}\n\n")
	}
	if t.Index != nil && renumbers(t.Index) {
		printf("// %s is the tile's index of an entry by the file's.\nvar %[1]s = [%d]uint16{", numberName(t), len(t.Index.Number))
		for i, n := range t.Index.Number {
			if i%16 == 0 {
				printf("\n")
			}
			printf("%d, ", n)
		}
		printf("\n}\n\n")
	}
	printf("func %s(dst []byte, row int, src []byte, w []int8, weights func([]int8, []byte)) {\n", packName(t))
	printf("for ; len(src) > 0; dst, src = dst[%d:], src[%d:] {\n", t.Stored.Bytes, t.Source.Bytes)
	printf("b, y := (*[%d]byte)(src), (*[%d]byte)(dst)\n", t.Source.Bytes, t.Stored.Bytes)
	if t.Index == nil || t.Index.Per == 1 {
		printf("weights(w, b[:])\n")
	}
	switch {
	case t.Index != nil:
		packIndex(t, printf)
	case t.Levels != nil:
		printf("for i, x := range w {\nw[i] = words%s[uint8(x)]\n}\n", name)
	case t.Zero != 0:
		printf("for i := range w {\nw[i] += %d\n}\n", int8(t.Zero))
	}
	if x := t.Trits; x != nil {
		printf("putTrits(y[%d+%d*row:], y[%d:], y[%d:], y[%d+%d*row:], row, w)\n", x.Low.AtBytes, t.LaneElems, x.High[0].AtBytes, x.High[1].AtBytes, x.Last.AtBytes, t.LaneElems/2)
	}
	for _, p := range t.Word {
		printf("putPlane(y[%d+%d*row:], w, %d, %d)\n", p.Field.AtBytes, t.LaneElems, p.Bits, p.Pos)
	}
	seg := t.Source.Segs[0]
	for _, n := range t.Numbers {
		raw := rawWord(n.Code, seg.Shape.Digits(0))
		at := fmt.Sprintf("y[%d+%d*row:]", n.Field.AtBytes, n.Field.Type.Bits/8)
		plain := n.Code.Mul == 1 && n.Code.Add == 0 && n.Code.As == n.As
		switch {
		case plain && n.As == model.F32:
			printf("binary.LittleEndian.PutUint32(%s, %s)\n", at, raw)
		case plain:
			printf("binary.LittleEndian.PutUint16(%s, uint16(%s))\n", at, raw)
		case n.As == model.BF16: // exact: a power of two
			printf("binary.LittleEndian.PutUint16(%s, uint16(math.Float32bits(%s)>>16))\n", at, number(n.Code, raw))
		default:
			printf("binary.LittleEndian.PutUint32(%s, math.Float32bits(%s))\n", at, number(n.Code, raw))
		}
	}
	// Groups: a variable for each instance, then the items that hold them.
	variable := func(g *model.TileGroup, unit, inst int) string {
		return fmt.Sprintf("%s%d", g.Code.Name, unit*g.Instances+inst)
	}
	items := map[string][]string{}
	var order []string
	for _, g := range t.Groups {
		for u := range t.Units {
			for i := range g.Instances {
				v := variable(g, u, i)
				e := u*t.UnitElems + i*g.Elems
				printf("%s := %s\n", v, rawWord(g.Code, seg.Shape.Digits(e)))
				for _, p := range g.Pieces {
					x := v
					if p.Pos > 0 {
						x = fmt.Sprintf("%s>>%d", v, p.Pos)
					}
					if p.Bits < g.Code.Bits {
						x += fmt.Sprintf("&%#x", 1<<p.Bits-1)
					}
					bit := p.At[i] + u*p.UnitBits
					if p.ItemBits == 8 {
						printf("y[%d+row] = byte(%s)\n", p.Field.AtBytes+bit/8, x)
						continue
					}
					at := fmt.Sprintf("Uint%d(y[%d+%d*row:]", p.ItemBits, p.Field.AtBytes+bit/(p.ItemBits*t.Rows)*p.ItemBits*t.Rows/8, p.ItemBits/8)
					if items[at] == nil {
						order = append(order, at)
					}
					if s := bit % (p.ItemBits * t.Rows); s > 0 {
						x = fmt.Sprintf("(%s)<<%d", x, s)
					}
					items[at] = append(items[at], x)
				}
			}
		}
	}
	for _, at := range order {
		x := strings.Join(items[at], "|")
		if strings.HasPrefix(at, "Uint16") {
			x = "uint16(" + x + ")"
		}
		printf("binary.LittleEndian.Put%s, %s)\n", at, x)
	}
	printf("}\n}\n")

	text := body.String()
	b.WriteString("import (\n\"encoding/binary\"\n")
	if strings.Contains(text, "math.") {
		b.WriteString("\"math\"\n")
	}
	if strings.Contains(text, "numeric.") {
		b.WriteString("\n\"github.com/minfer/minfer/runtime/numeric\"\n")
	}
	b.WriteString(")\n\n")
	b.WriteString(text)
	return b.String()
}

// packName is the function that lays out a format.
func packName(t *model.Tile) string {
	n := "pack" + emit.GoName(t.Source.Name)
	if t.Spare > 0 {
		n += emit.GoName(t.Name[:1]) + t.Name[1:]
	}
	return n
}

// renumbers reports whether the tile's indices are others than the file's.
func renumbers(x *model.TileIndex) bool { return x.Shared < 8 }

func numberName(t *model.Tile) string { return "number" + strings.TrimPrefix(packName(t), "pack") }

// packIndex writes how indices and signs are laid out.
func packIndex(t *model.Tile, printf func(string, ...any)) {
	x, seg := t.Index, t.Source.Segs[0]
	vectors := t.UnitElems / x.Width() / t.LaneElems
	if x.Per == 1 {
		printf("putSigns(y[%d+%d*row:], w, %v)\n", x.Signs.AtBytes, t.LaneElems, x.Width() > t.LaneElems)
	}
	for v := range t.Units * vectors {
		var low, signs []string
		high := make([][]string, len(x.High))
		for i := range t.LaneElems {
			n := v*t.LaneElems + i
			raw := rawWord(x.Code, seg.Shape.Digits(n*x.Width()))
			if renumbers(x) {
				raw = fmt.Sprintf("uint32(%s[%s])", numberName(t), raw)
			}
			printf("i%d := %s\n", n, raw)
			if x.Per > 1 && x.Signs != nil {
				signs = append(signs, fmt.Sprintf("%s<<%d", rawWord(x.Bit, seg.Shape.Digits(n*x.Width())), i))
			}
			low = append(low, fmt.Sprintf("i%d&0xff<<%d", n, 8*i))
			for b := range high {
				high[b] = append(high[b], fmt.Sprintf("i%d>>%d&1<<%d", n, 8+b, i))
			}
		}
		whole := t.Rows * t.LaneElems
		printf("binary.LittleEndian.PutUint32(y[%d+%d*row:], %s)\n", x.Low.AtBytes+v*whole, t.LaneElems, strings.Join(low, "|"))
		for b, f := range x.High {
			printf("putNibble(y[%d:], row, %s)\n", f.AtBytes+v*whole/8, strings.Join(high[b], "|"))
		}
		if signs != nil {
			printf("putNibble(y[%d:], row, %s)\n", x.Signs.AtBytes+v*whole/8, strings.Join(signs, "|"))
		}
	}
}

func seenBefore(levels []int, w int) bool {
	for _, v := range levels[:w] {
		if v == levels[w] {
			return true
		}
	}
	return false
}

// number is the expression of the number that a word reads as, a float32.
func number(c *model.Code, word string) string {
	x := ""
	switch c.As {
	case model.F16:
		x = "float64(numeric.F16(uint16(" + word + ")))"
	case model.BF16:
		x = "float64(numeric.BF16(uint16(" + word + ")))"
	case model.F32:
		x = "float64(math.Float32frombits(" + word + "))"
	case model.E8M0:
		x = "numeric.E8M0(uint8(" + word + "))"
	case model.UE4M3:
		x = "float64(numeric.UE4M3(uint8(" + word + ")))"
	case model.Signed:
		x = fmt.Sprintf("float64(int32((%s)<<%d)>>%[2]d)", word, 32-c.Bits)
	default:
		x = "float64(" + word + ")"
	}
	if c.Mul != 1 {
		x = fmt.Sprintf("%v*%s", c.Mul, x)
	}
	if c.Add != 0 {
		x = fmt.Sprintf("%s + %v", x, c.Add)
	}
	return "float32(" + x + ")"
}

// rawWord is the expression of a code's word, a uint32, at an element of the source's block b.
func rawWord(c *model.Code, digits []int) string {
	var parts []string
	pos := 0
	for _, p := range c.Planes {
		bit := 8*p.Field.AtBytes + p.Layout.At(digits)
		at, shift := bit/8, bit%8
		x := fmt.Sprintf("uint32(b[%d])", at)
		for k := 1; 8*k < shift+p.Bits; k++ {
			x += fmt.Sprintf("|uint32(b[%d])<<%d", at+k, 8*k)
		}
		if strings.Contains(x, "|") {
			x = "(" + x + ")"
		}
		if shift > 0 {
			x += fmt.Sprintf(">>%d", shift)
		}
		if (shift+p.Bits)%8 != 0 {
			x += fmt.Sprintf("&%#x", 1<<p.Bits-1)
		}
		if pos > 0 {
			x = fmt.Sprintf("(%s)<<%d", x, pos)
		}
		parts = append(parts, x)
		pos += p.Bits
	}
	return strings.Join(parts, "|")
}
