// Package tile lays the rows of a matrix out for vector kernels of a CPU: some rows side by side in a tile, so that a vector
// holds the same few elements of each of them, one lane a row. Sums then stay in their lanes, one activation serves all
// rows, and the scales of a unit are vectors too.
//
// What a tile stores follows from the format by rules that know none by name:
//   - all that is read for a single element (codes, signs, what a codebook's entry or a trit's byte says of it) becomes one
//     word, whose number is a small integer: the word itself less a constant, or an entry of a table;
//   - words are cut into planes of 8, 4, 2 or 1 bits. A lane is LaneElems elements in as many bytes; lanes that
//     share their bytes differ by a shift, so that a plane of b bits takes b vectors a unit whatever b is;
//   - codes that hold for several elements of a unit are cut likewise, several units' pieces in one word of a row, consumed by
//     shifting it from unit to unit; pieces of 8 bits stay bytes;
//   - where a tiling keeps indices (see model.TileIndex), a word is the sub-code that an entry has for the element, and a sign; words of
//     three numbers are packed there to numbers of base 3 (see model.TileTrits);
//   - numbers of a block are kept in the narrowest of f16, bf16, f32 that holds them all exactly.
//
// The result is an ordinary format of Rows times as many elements, so that the proof of bits and the slow reading of formats
// hold for it as for a file's.
package tile

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// maxWord is the widest word that kernels decode.
const maxWord = 8

// maxLevels is the longest table that they look words up in.
const maxLevels = 16

// Of lays a format out. The error says why a format has no tile: its kernels are then the portable ones.
func Of(f *model.Format, g *model.Tiling) (*model.Tile, error) {
	if f.Plain() || f.Elems%g.UnitElems != 0 {
		return nil, fmt.Errorf("%s: a block of %d elements is no whole number of units of %d", f.Name, f.Elems, g.UnitElems)
	}
	ways := []func(*builder) error{(*builder).words}
	if g.Spare > 0 {
		index := func(further int) func(*builder) error {
			return func(t *builder) error { return t.index(further) }
		}
		ways = []func(*builder) error{index(0), index(1), (*builder).trits} // as few lookups as there is room for
	}
	var err error
	for _, words := range ways {
		t := &builder{&model.Tile{Tiling: g, Source: f}}
		if err = t.build(words); err == nil {
			return t.Tile, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", f.Name, err)
}

// builder fills a tile in, step by step.
type builder struct{ *model.Tile }

func (t *builder) build(words func(*builder) error) error {
	t.Units = t.Source.Elems / t.UnitElems
	for _, step := range []func(*builder) error{words, (*builder).scales, (*builder).store} {
		if err := step(t); err != nil {
			return err
		}
	}
	return nil
}

// words finds the integers that weights take, and numbers the words.
func (t *builder) words() error {
	values := map[int]bool{}
	for _, s := range t.Source.Segs {
		k, list, err := weights(s)
		if err != nil {
			return err
		}
		if t.Times != 0 && k != t.Times {
			return fmt.Errorf("its segments make integers by unlike factors")
		}
		t.Times = k
		for _, v := range list {
			values[v] = true
		}
	}
	var list []int
	for v := range values {
		list = append(list, v)
	}
	slices.Sort(list)
	lo, hi := list[0], list[len(list)-1]
	if lo < -128 || hi > 127 && (lo < 0 || hi > 255) {
		return fmt.Errorf("weights from %d to %d are no bytes", lo, hi)
	}
	t.WordBits = max(1, bits.Len(uint(len(list)-1)))
	if span := bits.Len(uint(hi - lo)); span <= t.WordBits {
		t.Zero = -lo
		return nil
	}
	if t.WordBits > bits.Len(uint(maxLevels-1)) {
		// A table would be too long, but a byte holds any weight as it is.
		t.WordBits, t.Zero = maxWord, 128
		return nil
	}
	t.Levels = list
	for len(t.Levels) < 1<<t.WordBits {
		t.Levels = append(t.Levels, 0)
	}
	return nil
}

// trits finds weights of three neighbouring integers.
func (t *builder) trits() error {
	if err := t.words(); err != nil {
		return err
	}
	for _, s := range t.Source.Segs {
		if _, list, err := weights(s); err != nil || slices.Max(list) > 2-t.Zero {
			return fmt.Errorf("its weights are no three integers")
		}
	}
	if t.Levels != nil || t.WordBits != 2 {
		return fmt.Errorf("its weights are no three integers")
	}
	t.Trits = &model.TileTrits{}
	return nil
}

// index finds the codebook and the bit that make the weights. For further, see number.
func (t *builder) index(further int) error {
	if len(t.Source.Segs) != 1 {
		return fmt.Errorf("it has segments of their own shape")
	}
	s := t.Source.Segs[0]
	x := &model.TileIndex{}
	for _, c := range slices.Concat(s.Value.Weight, s.Value.Bias) {
		if p := c.Planes[0]; p.Code != nil && p.Code.Then.Table != nil {
			x.Of, x.Code = c, p.Code
		} else {
			x.Bit = c
		}
	}
	if x.Of == nil || x.Bit == nil || x.Bit.Bits != 1 || len(s.Value.Weight)+len(s.Value.Bias) != 2 || !slices.Contains(s.Value.Weight, x.Of) {
		return fmt.Errorf("its weights are no sub-codes of a codebook and a bit")
	}
	table := x.Code.Then.Table
	if n := table.Width / t.LaneElems * x.Slices(); n != 2 || table.Width%t.LaneElems != 0 {
		return fmt.Errorf("entries of %d bytes", n)
	}
	if len(x.Of.Planes) != 1 || x.Of.Bits != table.Bits {
		return fmt.Errorf("%s is no sub-code of %s", x.Of.Name, table.Name)
	}
	adjacent := group(s, x.Code, table.Width) == table.Width
	for e := range s.Elems() {
		adjacent = adjacent && x.Of.Planes[0].Layout.At(s.Shape.Digits(e)) == e%table.Width*table.Bits
	}
	if !adjacent {
		return fmt.Errorf("the elements of an entry are not adjacent")
	}
	subs, err := numbers(s, x.Of)
	if err != nil {
		return err
	}
	bit, err := numbers(s, x.Bit)
	if err != nil {
		return err
	}
	switch n := group(s, x.Bit, t.UnitElems); {
	case n == t.UnitElems:
		x.Per = n
	case n >= table.Width && table.Width > t.LaneElems:
		x.Per = table.Width
	case len(s.Value.Weight) == 2 && slices.Equal(bit, []float64{1, -1}) && slices.Min(subs) > 0:
		x.Per = 1 // the weight's own sign, so that it may be stored in any way
	default:
		return fmt.Errorf("%s is no sign, and not the same for an entry", x.Bit.Name)
	}
	if x.Per > 1 && x.Bit.Planes[0].Field == nil {
		return fmt.Errorf("%s is read from %s", x.Bit.Name, x.Bit.Planes[0].Code.Name)
	}
	if t.Times, _, err = weights(s); err != nil {
		return err
	}
	t.WordBits = table.Bits + 1
	if 1<<t.WordBits > maxLevels {
		return fmt.Errorf("sub-codes of %d bits", table.Bits)
	}
	t.Levels = make([]int, 1<<t.WordBits)
	for w := range t.Levels {
		sub := w & (1<<table.Bits - 1)
		if x.Of.As == model.Levels && sub >= len(x.Of.Levels) {
			continue // no entry has it
		}
		v := x.Of.Mul*float64(sub) + x.Of.Add
		if x.Of.As == model.Levels {
			v = x.Of.Levels[sub]
		}
		if b := bit[w>>table.Bits]; len(s.Value.Bias) > 0 {
			v += b
		} else {
			v *= b
		}
		t.Levels[w] = int(v * float64(t.Times))
		if float64(t.Levels[w]) != v*float64(t.Times) || t.Levels[w] != int(int8(t.Levels[w])) {
			return fmt.Errorf("%g times %d is no byte", v, t.Times)
		}
	}
	if err := number(x, further); err != nil {
		return err
	}
	t.Index = x
	return nil
}

// weights is the integers that product(weight) + sum(bias) of a segment takes, times the least power of two that makes them
// whole.
func weights(s *model.Segment) (times int, list []int, err error) {
	product := []float64{1}
	for _, c := range s.Value.Weight {
		n, err := numbers(s, c)
		if err != nil {
			return 0, nil, err
		}
		product = combine(product, n, func(a, b float64) float64 { return a * b })
	}
	for _, c := range s.Value.Bias {
		n, err := numbers(s, c)
		if err != nil {
			return 0, nil, err
		}
		product = combine(product, n, func(a, b float64) float64 { return a + b })
	}
	whole := func(k float64) bool {
		return !slices.ContainsFunc(product, func(x float64) bool { return x*k != math.Trunc(x*k) })
	}
	for times = 1; !whole(float64(times)); times *= 2 {
		if times > 1<<8 {
			return 0, nil, fmt.Errorf("its weights are no integers")
		}
	}
	for _, x := range product {
		list = append(list, int(x*float64(times)))
	}
	return times, list, nil
}

func combine(a, b []float64, f func(a, b float64) float64) (out []float64) {
	seen := map[float64]bool{}
	for _, x := range a {
		for _, y := range b {
			if z := f(x, y); !seen[z] {
				seen[z] = true
				out = append(out, z)
			}
		}
	}
	slices.Sort(out)
	return out
}

// scales sorts the codes of scale and offset into numbers of a block and groups.
func (t *builder) scales() error {
	seg := t.Source.Segs[0]
	known := map[*model.Code]any{}
	place := func(list []*model.Code) (p model.TileProduct, err error) {
		for _, c := range list {
			if known[c] == nil {
				known[c], err = t.scale(seg, c)
				if err != nil {
					return p, err
				}
			}
			switch x := known[c].(type) {
			case *model.TileNumber:
				p.Numbers = append(p.Numbers, x)
			case *model.TileGroup:
				p.Groups = append(p.Groups, x)
			}
		}
		return p, nil
	}
	for _, s := range t.Source.Segs[1:] {
		for i, list := range [][]*model.Code{s.Value.Scale, s.Value.Minus, s.Value.Plus} {
			for k, c := range list {
				first := [][]*model.Code{seg.Value.Scale, seg.Value.Minus, seg.Value.Plus}[i]
				if k >= len(first) || !constant(s, c) || !constant(seg, first[k]) {
					return fmt.Errorf("its segments have scales of their own")
				}
			}
		}
	}
	if x := t.Index; x != nil && x.Per == t.UnitElems {
		x.Group = &model.TileGroup{Code: x.Bit, Elems: t.UnitElems, Instances: 1}
		t.Groups = append(t.Groups, x.Group)
	}
	var err error
	if t.Scale, err = place(seg.Value.Scale); err != nil {
		return err
	}
	t.Subtracted = len(seg.Value.Minus) > 0
	t.Offset, err = place(slices.Concat(seg.Value.Minus, seg.Value.Plus))
	return err
}

// constant reports whether a code is the same for all elements of its segment.
func constant(s *model.Segment, c *model.Code) bool { return group(s, c, s.Elems()) == s.Elems() }

// group is the largest number of adjacent elements, n halved as often as it takes, that share each instance of a code.
func group(s *model.Segment, c *model.Code, n int) int {
	for _, p := range c.Planes {
		for n > 1 && !holds(s, p.Layout, n) {
			if n%2 != 0 {
				return 1
			}
			n /= 2
		}
		if p.Code != nil {
			n = min(n, group(s, p.Code, n))
		}
	}
	return n
}

func holds(s *model.Segment, a layout.Affine, n int) bool {
	for e := range s.Elems() {
		if a.At(s.Shape.Digits(e)) != a.At(s.Shape.Digits(e-e%n)) {
			return false
		}
	}
	return true
}

func (t *builder) scale(s *model.Segment, c *model.Code) (any, error) {
	for _, p := range c.Planes {
		if p.Field == nil {
			return nil, fmt.Errorf("%s of the scale reads %s", c.Name, p.Code.Name)
		}
	}
	if constant(s, c) {
		if c.As == model.Levels || c.Then != nil || c.Bits > 32 {
			return nil, fmt.Errorf("%s of the scale reads as %s of %d bits", c.Name, c.As, c.Bits)
		}
		n := &model.TileNumber{Code: c, As: model.F32}
		switch {
		case c.As == model.F16 && c.Mul == 1 && c.Add == 0:
			n.As = model.F16
		case c.As == model.BF16 && c.Mul == 1 && c.Add == 0, c.As == model.E8M0 && powerOfTwo(c.Mul) && c.Add == 0:
			n.As = model.BF16
		}
		t.Numbers = append(t.Numbers, n)
		return n, nil
	}
	if c.As != model.Unsigned && (c.As != model.Signed || c.Bits != 8) || c.Then != nil || c.Bits > 8 {
		return nil, fmt.Errorf("%s changes within a block and reads as %s of %d bits", c.Name, c.As, c.Bits)
	}
	g := &model.TileGroup{Code: c, Elems: min(t.UnitElems, group(s, c, s.Elems()))}
	if g.Elems*2 < t.UnitElems {
		return nil, fmt.Errorf("%s changes every %d elements", c.Name, g.Elems)
	}
	g.Instances = t.UnitElems / g.Elems
	t.Groups = append(t.Groups, g)
	return g, nil
}

func powerOfTwo(x float64) bool { f, _ := math.Frexp(x); return f == 0.5 }

// pieces cuts a word into widths of which each divides 8, from the least significant bit up.
func pieces(width int) (cut []int) {
	for _, b := range []int{8, 4, 2, 1} {
		for width >= b {
			cut = append(cut, b)
			width -= b
		}
	}
	return cut
}

// slotBits is what a unit takes of a word that several units share.
const slotBits = 4

// store places everything and describes the result as a format.
func (t *builder) store() error {
	stored := &model.Format{Name: t.Source.Name, Spec: t.Source.Spec, Digest: t.Source.Digest, ID: t.Source.ID, Elems: t.Rows * t.Source.Elems}
	t.Stored = stored
	end := 0
	field := func(name string, typ model.Scalar, count int) *model.Field {
		f := &model.Field{Name: name, AtBytes: (end + alignBytes - 1) / alignBytes * alignBytes, Type: typ, Count: count}
		if f.AtBytes != end {
			stored.Padded = true
		}
		end = f.AtBytes + f.Bits()/8
		stored.Fields = append(stored.Fields, f)
		return f
	}
	lanes := t.UnitElems / t.LaneElems
	shape := layout.Shape{{Name: "row", Radix: t.Rows}, {Name: "unit", Radix: t.Units}}
	for n := lanes; n > 1; n /= 2 {
		shape = append(shape, layout.Digit{Name: fmt.Sprintf("lane%d", n/2), Radix: 2})
	}
	shape = append(shape, layout.Digit{Name: "elem", Radix: t.LaneElems})
	seg := &model.Segment{Shape: shape}
	stored.Segs = []*model.Segment{seg}
	affine := func(row, unit int, lane func(i int) int, elem int) layout.Affine {
		a := layout.Affine{Base: lane(0), Stride: []int{row, unit}}
		for n := lanes / 2; n > 0; n /= 2 {
			a.Stride = append(a.Stride, lane(n)-lane(0))
		}
		a.Stride = append(a.Stride, elem)
		return a
	}
	code := func(c *model.Code) *model.Code { seg.Codes = append(seg.Codes, c); return c }
	placed := map[*model.Code]*model.Code{}

	for _, n := range t.Numbers {
		typ := map[model.Number]model.Scalar{model.F16: {Name: "f16", Bits: 16, As: model.F16}, model.BF16: {Name: "bf16", Bits: 16, As: model.BF16}, model.F32: {Name: "f32", Bits: 32, As: model.F32}}[n.As]
		n.Field = field(n.Code.Name, typ, t.Rows)
		mul := 1.0
		if len(t.Scale.Numbers) > 0 && n == t.Scale.Numbers[0] && t.Index == nil {
			mul /= float64(t.Times) // what makes the weights integers
		}
		placed[n.Code] = code(&model.Code{Name: n.Code.Name, Bits: typ.Bits, ThenBits: typ.Bits, As: n.As, Mul: mul,
			Planes: []model.Plane{{Field: n.Field, Bits: typ.Bits, Layout: affine(typ.Bits, 0, func(int) int { return 0 }, 0)}}})
	}
	if t.Times > 1 && len(t.Scale.Numbers) == 0 {
		return fmt.Errorf("it has fractions as weights and no scale for a block")
	}
	if err := t.storeGroups(field, affine, func(g *model.TileGroup, planes []model.Plane) {
		c := *g.Code
		c.Planes = planes
		placed[g.Code] = code(&c)
	}); err != nil {
		return err
	}
	list := func(codes []*model.Code) (out []*model.Code) {
		for _, c := range codes {
			out = append(out, placed[c])
		}
		return out
	}
	v := t.Source.Segs[0].Value
	var weight, bias []*model.Code
	switch {
	case t.Index != nil:
		if x := t.Index; x.Per < t.UnitElems {
			placed[x.Bit] = code(t.storeBit(field))
		}
		placed[t.Index.Of] = code(t.storeIndex(field, code))
		weight, bias = list(v.Weight), list(v.Bias)
	case t.Trits != nil:
		weight = []*model.Code{code(t.storeTrits(field, code))}
	default:
		weight = []*model.Code{code(t.storeWords(field, affine))}
	}
	seg.Value = model.Value{Scale: list(v.Scale), Weight: weight, Bias: bias, Minus: list(v.Minus), Plus: list(v.Plus)}
	if end%alignBytes != 0 {
		stored.Padded = true
	}
	stored.Bytes = (end + alignBytes - 1) / alignBytes * alignBytes
	if file := t.Rows * t.Source.Bytes; t.Spare > 0 && 100*stored.Bytes > (100+t.Spare)*file {
		return fmt.Errorf("%d bytes in a tile, %d in the file", stored.Bytes, file)
	}
	return nil
}

// storeWords places words in planes and yields their code.
func (t *builder) storeWords(field func(string, model.Scalar, int) *model.Field, affine func(int, int, func(int) int, int) layout.Affine) *model.Code {
	word := &model.Code{Name: "w", Bits: t.WordBits, ThenBits: t.WordBits, As: model.Unsigned, Mul: 1, Add: float64(-t.Zero)}
	if t.Levels != nil {
		word.As, word.Add = model.Levels, 0
		for _, l := range t.Levels {
			word.Levels = append(word.Levels, float64(l))
		}
	}
	pos, widths := 0, pieces(t.WordBits)
	for _, b := range widths {
		name := "w"
		if len(widths) > 1 {
			name = fmt.Sprintf("w%d", pos)
		}
		vector := t.Rows * t.LaneElems * 8 // bits
		p := model.TilePlane{Field: field(name, model.Scalar{Name: "u8", Bits: 8, As: model.Unsigned}, t.Units*b*vector/8), Bits: b, Pos: pos}
		t.Word = append(t.Word, p)
		word.Planes = append(word.Planes, model.Plane{Field: p.Field, Bits: b,
			Layout: affine(t.LaneElems*8, b*vector, func(i int) int { return i%b*vector + i/b*b }, 8)})
		pos += b
	}
	return word
}

// u8 is bytes.
var u8 = model.Scalar{Name: "u8", Bits: 8, As: model.Unsigned}

// overIndex is a layout over row, unit, the three digits of a lane, and element.
func overIndex(row, unit int, lane [3]int, elem int) layout.Affine {
	return layout.Affine{Stride: []int{row, unit, lane[0], lane[1], lane[2], elem}}
}

// entryAt is how lanes move through the entries of a unit: an entry is two lanes, or one and the unit's entries are two vectors.
func (t *builder) entryAt(vector, entry int) [3]int {
	if t.Index.Width() > t.LaneElems {
		return [3]int{2 * entry, entry, 0}
	}
	return [3]int{vector, 2 * entry, entry}
}

// entries is how many there are in a unit, of every row.
func (t *builder) entries() int { return t.UnitElems / t.Index.Width() * t.Rows }

// storeIndex places indices and yields the code of their sub-codes.
func (t *builder) storeIndex(field func(string, model.Scalar, int) *model.Field, code func(*model.Code) *model.Code) *model.Code {
	x := t.Index
	whole := t.Rows * t.LaneElems // entries of a vector of every row
	n := bits.Len(uint(len(x.Book.Entries) - 1))
	idx := model.Code{Name: x.Code.Name, Bits: n, Then: &model.Then{Table: x.Book}, ThenBits: x.Code.ThenBits, As: model.Unsigned, Mul: 1}
	x.Low = field(idx.Name, u8, t.Units*t.entries())
	idx.Planes = []model.Plane{{Field: x.Low, Bits: 8, Layout: overIndex(8*t.LaneElems, 8*t.entries(), t.entryAt(8*whole, 8), 0)}}
	for b := 8; b < idx.Bits; b++ {
		f := field(fmt.Sprintf("%s%d", idx.Name, b), u8, t.Units*t.entries()/8)
		x.High = append(x.High, f)
		idx.Planes = append(idx.Planes, model.Plane{Field: f, Bits: 1, Layout: overIndex(t.LaneElems, t.entries(), t.entryAt(whole, 1), 0)})
	}
	of := *x.Of
	second := 0
	if x.Width() > t.LaneElems {
		second = t.LaneElems * x.Bits()
	}
	of.Planes = []model.Plane{{Code: code(&idx), Bits: of.Bits, Layout: overIndex(0, 0, [3]int{0, 0, second}, x.Bits())}}
	return &of
}

// storeTrits places trits and yields the code of the weight. What is stored of the eight lanes of a unit reads as a number of 14 bits, an
// entry of a table of eight trits.
func (t *builder) storeTrits(field func(string, model.Scalar, int) *model.Field, code func(*model.Code) *model.Code) *model.Code {
	x := t.Trits
	over := func(row, unit, elem int) layout.Affine { return overIndex(row, unit, [3]int{}, elem) }
	lane := t.Rows * t.LaneElems // elements of a lane of every row
	book := &model.Table{Name: "trits", Width: 8, Bits: 2}
	for n := range 1 << 14 {
		var entry uint64
		at := 0
		for _, part := range []struct{ bits, trits int }{{5, 3}, {5, 3}, {4, 2}} {
			number := n & (1<<part.bits - 1)
			n >>= part.bits
			for range part.trits {
				entry |= uint64(number%3) << at
				number /= 3
				at += book.Bits
			}
		}
		book.Entries = append(book.Entries, entry)
	}
	all := &model.Code{Name: "trits", Bits: 14, Then: &model.Then{Table: book}, ThenBits: book.Width * book.Bits, As: model.Unsigned, Mul: 1}
	x.Low = field("low", u8, t.Units*lane)
	all.Planes = []model.Plane{{Field: x.Low, Bits: 8, Layout: over(8*t.LaneElems, 8*lane, 8)}}
	for i := range x.High {
		x.High[i] = field(fmt.Sprintf("high%d", i), u8, t.Units*lane/8)
		all.Planes = append(all.Planes, model.Plane{Field: x.High[i], Bits: 1, Layout: over(t.LaneElems, lane, 1)})
	}
	x.Last = field("last", u8, t.Units*lane/2)
	all.Planes = append(all.Planes, model.Plane{Field: x.Last, Bits: 4, Layout: over(4*t.LaneElems, 4*lane, 4)})
	return &model.Code{Name: "w", Bits: book.Bits, ThenBits: book.Bits, As: model.Unsigned, Mul: 1, Add: float64(-t.Zero),
		Planes: []model.Plane{{Code: code(all), Bits: book.Bits, Layout: overIndex(0, 0, [3]int{4 * book.Bits, 2 * book.Bits, book.Bits}, 0)}}}
}

// storeBit places the bits of words that are an element's or an entry's.
func (t *builder) storeBit(field func(string, model.Scalar, int) *model.Field) *model.Code {
	x := t.Index
	c := *x.Bit
	if x.Per > 1 {
		x.Signs = field(c.Name, u8, t.Units*t.entries()/8)
		c.Planes = []model.Plane{{Field: x.Signs, Bits: 1, Layout: overIndex(t.LaneElems, t.entries(), t.entryAt(0, 1), 0)}}
		return &c
	}
	x.Signs = field(c.Name, u8, t.Units*t.Rows*t.LaneElems)
	lane := t.entryAt(1, 8)
	if x.Width() > t.LaneElems {
		lane[2] = 1
	}
	c.Planes = []model.Plane{{Field: x.Signs, Bits: 1, Layout: overIndex(8*t.LaneElems, 8*t.Rows*t.LaneElems, lane, 2)}}
	return &c
}

// alignBytes is what fields begin at: a cache line, and the widest vector.
const alignBytes = 64

// storeGroups places the pieces of the groups: bytes in a field of each group, narrower pieces in slots of words.
func (t *builder) storeGroups(field func(string, model.Scalar, int) *model.Field, affine func(int, int, func(int) int, int) layout.Affine, done func(*model.TileGroup, []model.Plane)) error {
	type slot struct {
		used   int
		pieces []*model.TilePiece
	}
	var slots []slot
	for _, g := range t.Groups {
		if g.Code.Bits != 8 && t.Units*slotBits != 32 {
			return fmt.Errorf("%s has %d bits, and %d units of a block fill no word with them", g.Code.Name, g.Code.Bits, t.Units)
		}
	}
	// Wider pieces first, so that narrower ones fill the rest.
	for _, b := range []int{4, 2, 1} {
		for _, g := range t.Groups {
			pos := 0
			for _, width := range pieces(g.Code.Bits) {
				if width == b {
					p := model.TilePiece{Bits: b, Pos: pos, At: make([]int, g.Instances)}
					for i := range g.Instances {
						k := slices.IndexFunc(slots, func(s slot) bool { return s.used+b <= slotBits })
						if k < 0 {
							k = len(slots)
							slots = append(slots, slot{})
						}
						p.At[i] = k*32*t.Rows + slots[k].used // for now in bits of the field of slots
						slots[k].used += b
					}
					g.Pieces = append(g.Pieces, p)
				}
				pos += width
			}
		}
	}
	for i, s := range slots {
		if s.used < slotBits && (i < len(slots)-1 || s.used*t.Units > 16) {
			t.Stored.Padded = true
		}
	}
	// Slots that are full, or of more bits than half an item's, lie in 32-bit items; a last one may do with 16.
	wide := len(slots)
	narrow := 0
	if wide > 0 {
		// A piece reads one field: a last slot that only some of its instances lie in stays with the others.
		last, shared := (wide-1)*32*t.Rows, false
		for _, g := range t.Groups {
			for _, p := range g.Pieces {
				shared = shared || slices.Max(p.At) >= last && slices.Min(p.At) < last
			}
		}
		if s := slots[wide-1]; s.used*t.Units <= 16 && !shared {
			wide, narrow = wide-1, s.used
		}
	}
	var words, halves *model.Field
	if wide > 0 {
		words = field("groups", model.Scalar{Name: "u32", Bits: 32, As: model.Unsigned}, wide*t.Rows)
	}
	if narrow > 0 {
		halves = field("groups16", model.Scalar{Name: "u16", Bits: 16, As: model.Unsigned}, t.Rows)
	}
	for _, g := range t.Groups {
		for i := range g.Pieces {
			p := &g.Pieces[i]
			p.Field, p.ItemBits, p.UnitBits = words, 32, slotBits
			if p.At[0]/(32*t.Rows) >= wide {
				p.Field, p.ItemBits, p.UnitBits = halves, 16, narrow
				for k := range p.At {
					p.At[k] -= wide * 32 * t.Rows
				}
			}
		}
	}
	for _, g := range t.Groups {
		pos := 0
		for _, width := range pieces(g.Code.Bits) {
			if width == 8 {
				typ := u8
				if g.Code.As == model.Signed {
					typ = model.Scalar{Name: "i8", Bits: 8, As: model.Signed}
				}
				p := model.TilePiece{Bits: width, Pos: pos, ItemBits: 8, UnitBits: 8 * t.Rows * g.Instances,
					Field: field(g.Code.Name, typ, t.Units*g.Instances*t.Rows)}
				for i := range g.Instances {
					p.At = append(p.At, i*8*t.Rows)
				}
				g.Pieces = append(g.Pieces, p)
			}
			pos += width
		}
		slices.SortFunc(g.Pieces, func(a, b model.TilePiece) int { return a.Pos - b.Pos })
		var planes []model.Plane
		lanes := t.UnitElems / t.LaneElems
		for _, p := range g.Pieces {
			at := func(lane int) int { return p.At[lane*g.Instances/lanes] }
			a := affine(p.ItemBits, p.UnitBits, at, 0)
			for lane := range lanes {
				digits := make([]int, len(a.Stride))
				for i, n := 2, lanes/2; n > 0; i, n = i+1, n/2 {
					digits[i] = lane / n % 2
				}
				if a.At(digits) != at(lane) {
					return fmt.Errorf("the places of %s are no layout", g.Code.Name)
				}
			}
			planes = append(planes, model.Plane{Field: p.Field, Bits: p.Bits, Layout: a})
		}
		done(g, planes)
	}
	return nil
}

// numbers lists what a code of the weight can read as.
func numbers(s *model.Segment, c *model.Code) ([]float64, error) {
	n := s.Numbers(c)
	if n == nil {
		return nil, fmt.Errorf("%s reads as %s of %d bits", c.Name, c.As, c.Bits)
	}
	return n, nil
}
