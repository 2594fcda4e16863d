package cuda

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// decoder prints how a unit of a format is loaded and decoded: a struct of what is loaded and functions over it. Its
// names are overloads on the struct, so that a body serves every format:
//
//	unit_load(r, blk, p)    loads unit p of the block at blk
//	unit_codes(r, i)        four code bytes of quad i; weight = (code + add) for each, add is unit_add(r)
//	unit_code(r, e)         the code of element e
//	unit_scale(r, g), unit_offset(r, g), unit_bias(r, g)   numbers of group g; value = scale * (weight + bias) - offset
//
// and for every layout alike, whatever the order of a row's bytes,
//
//	Unit::row_bytes(cols), unit_at(r, row, cols, u)        the bytes of a row, and unit u of a row
//
// A layout of its own (model.Stored) has, instead of unit_load, unit_fetch<From>(r, row, blocks, b, p), which loads unit p of
// block b of a row of blocks from where From says, and unit_dot; see dot.go.
type decoder struct {
	*strings.Builder
	u      *lower.Unit
	name   string
	weight *model.Code // whose number's magnitude the codes are
	signs  []*model.Code
	levels []int // of the weight code, or nil
	add    int
	group  int // elements of the smallest group
	tables map[string]bool
	loads  strings.Builder
	fields strings.Builder
	shifts map[string]string     // shift expression -> member
	from   string                // what loads are called on: "From::" where the kind of memory is the caller's choice
	read   map[*model.Field]bool // fields in planes that are read
}

// unitName is the struct of a format's unit under a layout and a length.
func unitName(f *model.Format, l model.WeightLayout, elems int) string {
	n := f.Name + "_" + string(l)
	if elems != 32 {
		n += fmt.Sprintf("_x%d", elems)
	}
	return n
}

// decode prints the decoder of units of elems elements; held: in both forms.
func decode(f *model.Format, l model.WeightLayout, elems int, held bool) (string, error) {
	for _, s := range f.Segs {
		for _, c := range slices.Concat(s.Value.Scale, s.Value.Minus, s.Value.Plus, s.Value.Bias) {
			if c.As == model.F64 {
				return "", fmt.Errorf("%s: %s reads as f64, which GPU kernels do not compute with; leave the format out with except", f.Spec, c.Name)
			}
		}
	}
	u, err := lower.Analyse(f, lower.Place(f, l), elems)
	if err != nil {
		return "", err
	}
	d := &decoder{Builder: &strings.Builder{}, u: u, name: unitName(f, l, elems), tables: map[string]bool{}, shifts: map[string]string{}, read: map[*model.Field]bool{}}
	if f.StoredAs(l) != nil || !f.InFile() {
		d.from = "From::"
	}
	if u.Irregular == "" {
		u.Irregular = d.classify()
	}
	fmt.Fprintf(d, "// %s, blocks of %d bytes (%s layout): a unit is %d elements, %d in a block.\n", f.Name, u.Place.BlockBytes, l, elems, u.Count)
	if u.Irregular != "" && f.StoredAs(l) != nil {
		return "", fmt.Errorf("%s cannot be read in layout %s: %s", f.Name, l, u.Irregular)
	}
	if u.Irregular != "" {
		fmt.Fprintf(d, "// Decoded element by element: %s.\n", u.Irregular)
		if err := d.irregular(); err != nil {
			return "", err
		}
	} else {
		d.regular()
	}
	if held {
		d.WriteString(d.held())
	}
	return d.String(), nil
}

// classify finds the roles of the weight codes; it returns why the unit must be decoded element by element, or "".
func (d *decoder) classify() string {
	for _, c := range d.u.Value.Weight {
		if isSign(c) {
			d.signs = append(d.signs, c)
			continue
		}
		if d.weight != nil {
			return "its weight is a product of " + d.weight.Name + " and " + c.Name
		}
		d.weight = c
	}
	if d.weight == nil {
		return "its weight is a sign alone"
	}
	c := d.weight
	if d.u.Codes[c].Group != 1 || c.Add != math.Trunc(c.Add) || c.Mul != 1 && d.book() == nil {
		return c.Name + " is no whole number of each element"
	}
	d.add = int(c.Add)
	if t := d.book(); t != nil {
		// The codebook is emitted as the numbers of its entries, whatever a sub-code reads as.
		for w := range 1 << t.Bits {
			x, ok := integer(c, w)
			if !ok {
				return fmt.Sprintf("word %d of %s is no 8-bit integer", w, c.Name)
			}
			d.levels = append(d.levels, x)
		}
		d.add = 0
	}
	switch c.As {
	case model.Unsigned, model.Signed:
	case model.Levels:
		if d.levels != nil {
			break
		}
		for _, x := range c.Levels {
			if x != math.Trunc(x) || math.Abs(x) > 127 {
				return fmt.Sprintf("level %g of %s is no 8-bit integer", x, c.Name)
			}
			d.levels = append(d.levels, int(x))
		}
		if len(d.levels) > 16 && d.book() == nil {
			return fmt.Sprintf("%s has %d levels", c.Name, len(d.levels))
		}
	default:
		return c.Name + " reads as " + string(c.As)
	}
	if c.As == model.Signed && c.Bits != 8 && d.levels == nil {
		return fmt.Sprintf("%s is a signed code of %d bits", c.Name, c.Bits)
	}
	for _, s := range d.signs {
		if d.levels == nil || d.least() < 1 {
			return "a signed weight that may be zero"
		}
		if d.u.Codes[s] == nil || s.Bits != 1 || d.u.Codes[s].Group != 1 || d.u.Codes[s].Planes[0].Kind != lower.Packed {
			return s.Name + " is no plane of adjacent sign bits"
		}
	}
	d.group = d.u.Elems
	for _, list := range [][]*model.Code{d.u.Value.Scale, d.u.Value.Bias, d.u.Value.Minus, d.u.Value.Plus} {
		for _, c := range list {
			g := d.u.Codes[c].Group
			if g < lower.Quad {
				return c.Name + " changes within four elements"
			}
			d.group = min(d.group, g)
		}
	}
	return ""
}

// least is the least level that a word can have: of a codebook, that an entry has.
func (d *decoder) least() int {
	t := d.book()
	if t == nil {
		return slices.Min(d.levels)
	}
	least := math.MaxInt
	for _, e := range t.Entries {
		for j := range t.Width {
			least = min(least, d.levels[e>>(j*t.Bits)&(1<<t.Bits-1)])
		}
	}
	return least
}

// integer is the number that a word of a code reads as, where it is an 8-bit integer. A word past the levels is 0:
// the proof has no entry use it.
func integer(c *model.Code, w int) (int, bool) {
	x := float64(w)
	switch c.As {
	case model.Levels:
		if x = 0; w < len(c.Levels) {
			x = c.Levels[w]
		}
	case model.Signed:
		if w >= 1<<(c.Bits-1) {
			x -= float64(int(1) << c.Bits)
		}
	case model.Unsigned:
	default:
		return 0, false
	}
	x = c.Mul*x + c.Add
	return int(x), x == math.Trunc(x) && math.Abs(x) <= 127
}

func isSign(c *model.Code) bool {
	return c.As == model.Levels && len(c.Levels) == 2 && c.Levels[0] == 1 && c.Levels[1] == -1
}

// book is the codebook whose entries the weight code indexes directly, or nil.
func (d *decoder) book() *model.Table {
	p := d.weight.Planes[0]
	if len(d.weight.Planes) == 1 && p.Code != nil && p.Code.Then != nil && p.Code.Then.Table != nil && p.Code.Then.Table.Bits == p.Bits {
		return p.Code.Then.Table
	}
	return nil
}

func (d *decoder) regular() {
	u := d.u
	groups := u.Elems / d.group
	var body strings.Builder // of unit_codes
	d.codes(&body)
	scale := d.product(u.Value.Scale)
	minus, bias := d.product(u.Value.Minus), d.product(u.Value.Bias)
	if len(u.Value.Plus) > 0 {
		minus = d.product(u.Value.Plus)
		for i := range minus {
			minus[i] = "-" + minus[i]
		}
	}
	for _, s := range u.Format.Sums {
		d.product([]*model.Code{s.Code})
	}
	stored := u.Format.InFile() && d.from != ""
	var dot string
	if stored {
		dot = d.dot(scale, minus, bias)
	}
	d.tableTexts()
	fmt.Fprintf(d, "struct %s {\n%s", d.name, d.fields.String())
	d.constants(groups)
	fmt.Fprintf(d, "};\n")
	d.loader()
	fmt.Fprintf(d, "MINFER_DEVICE uint32_t unit_codes(const %s& r, int i) {\n%s}\n", d.name, body.String())
	if !d.u.Format.InFile() {
		return
	}
	fmt.Fprintf(d, "MINFER_DEVICE int unit_code(const %s& r, int e) { return (int)(%s)(unit_codes(r, e / 4) >> (8 * (e %% 4))); }\n", d.name, d.codeType())
	d.accessor("unit_scale", scale, "1.0f")
	d.accessor("unit_offset", minus, "0.0f")
	d.accessor("unit_bias", bias, "0.0f")
	d.accumulate(groups, scale, minus, bias)
	d.WriteString(dot)
}

// loader writes the functions that load a unit.
func (d *decoder) loader() {
	switch {
	case !d.u.Format.InFile():
		fmt.Fprintf(d, "template <typename From = FromGlobal> MINFER_DEVICE void unit_load(%s& r, const uint8_t* blk, int p) {\n%s}\n", d.name, d.loads.String())
		return
	case d.from == "":
		fmt.Fprintf(d, "MINFER_DEVICE void unit_load(%s& r, const uint8_t* blk, int p) {\n%s}\n", d.name, d.loads.String())
	default:
		fmt.Fprintf(d, "template <typename From> MINFER_DEVICE void unit_fetch(%s& r, const uint8_t* row, int blocks, int b, int p) {\n", d.name)
		if !d.u.Place.Planes {
			fmt.Fprintf(d, "  const uint8_t* blk = row + %d * b;\n", d.u.Place.BlockBytes)
		}
		d.planePointers(d)
		fmt.Fprintf(d, "%s}\n", d.loads.String())
	}
	unitAt(d, d.name, d.from != "")
}

// planePointers declares where block b's part of each plane that is read lies, in a row in planes.
func (d *decoder) planePointers(w io.Writer) {
	for _, x := range d.u.Place.Fields() {
		if d.read[x] {
			fmt.Fprintf(w, "  const uint8_t* %s = row", planeName(x))
			if at := d.u.Place.At[x]; at > 0 {
				fmt.Fprintf(w, " + %d * blocks", at)
			}
			fmt.Fprintf(w, " + %d * b;\n", x.Bits()/8)
		}
	}
}

// unitAt writes the access to a unit of a row that every layout has.
func unitAt(b io.Writer, name string, stored bool) {
	load := fmt.Sprintf("unit_load(r, row + (size_t)(u / %s::per_block) * %s::block_bytes, u %% %s::per_block)", name, name, name)
	if stored {
		load = fmt.Sprintf("unit_fetch<FromGlobal>(r, row, cols / %s::block_elems, u / %s::per_block, u %% %s::per_block)", name, name, name)
	}
	fmt.Fprintf(b, "MINFER_DEVICE void unit_at(%s& r, const uint8_t* row, int cols, int u) { %s; }\n", name, load)
}

// planeName is the local that points to a block's part of a plane.
func planeName(x *model.Field) string { return "in_" + x.Name }

func (d *decoder) constants(groups int) {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	v := d.u.Value
	fmt.Fprintf(d, "  static constexpr int elems = %d, per_block = %d, block_elems = %d, block_bytes = %d, group = %d, groups = %d, add = %d;\n",
		d.u.Elems, d.u.Count, d.u.Format.Elems, d.u.Place.BlockBytes, d.group, groups, d.add)
	if d.u.Format.InFile() {
		rowBytes(d, d.u.Place.Planes)
	}
	fmt.Fprintf(d, "  static constexpr bool has_offset = %d, has_bias = %d, unsigned_codes = %d, seven_bits = %d;\n",
		flag(len(v.Minus)+len(v.Plus) > 0), flag(len(v.Bias) > 0), flag(d.unsignedCodes()), flag(d.sevenBits()))
}

// sevenBits reports whether code bytes are all of 0..127.
func (d *decoder) sevenBits() bool {
	return d.u.Irregular == "" && d.weight != nil && d.levels == nil && len(d.signs) == 0 && d.weight.As == model.Unsigned && d.weight.Bits <= 7
}

// rowBytes writes the member that sizes a row.
func rowBytes(b io.Writer, planes bool) {
	e := "(size_t)(cols / block_elems) * block_bytes"
	if planes {
		e = fmt.Sprintf("(%s + %d) / %d * %d", e, model.RowAlignBytes-1, model.RowAlignBytes, model.RowAlignBytes)
	}
	fmt.Fprintf(b, "  MINFER_DEVICE size_t row_bytes(int cols) { return %s; }\n", e)
}

// unsignedCodes reports whether a code byte can pass 127 and means it.
func (d *decoder) unsignedCodes() bool {
	return d.weight != nil && d.levels == nil && d.weight.As == model.Unsigned && d.weight.Bits == 8
}

// codeType is the type of a code byte.
func (d *decoder) codeType() string {
	if d.unsignedCodes() {
		return "uint8_t"
	}
	return "int8_t"
}

// codes writes the body of unit_codes.
func (d *decoder) codes(b *strings.Builder) {
	n := d.u.Elems / lower.Quad
	var value string
	if t := d.book(); t != nil && d.levels != nil {
		value = d.bookEntry(b, t, n)
	} else {
		value = d.planes(b, d.weight, n)
		switch {
		case len(d.levels) > 8:
			value = fmt.Sprintf("levels16(%s, 0x%08xu, 0x%08xu, 0x%08xu, 0x%08xu)", value, d.pack(0), d.pack(4), d.pack(8), d.pack(12))
		case d.levels != nil:
			value = fmt.Sprintf("levels8(%s, 0x%08xu, 0x%08xu)", value, d.pack(0), d.pack(4))
		}
	}
	for _, s := range d.signs {
		value = fmt.Sprintf("negate4(%s, %s)", value, d.planes(b, s, n))
	}
	fmt.Fprintf(b, "  return %s;\n", value)
}

func (d *decoder) pack(from int) uint32 {
	var w uint32
	for i := range 4 {
		if from+i < len(d.levels) {
			w |= uint32(uint8(int8(d.levels[from+i]))) << (8 * i)
		}
	}
	return w
}

// planes is the expression of four code bytes of quad i.
func (d *decoder) planes(b *strings.Builder, c *model.Code, n int) string {
	var parts []string
	for _, p := range d.u.Codes[c].Planes {
		var e string
		switch p.Kind {
		case lower.Bytes:
			e = d.bytes(b, c, p, n)
		case lower.Packed:
			e = d.packed(b, c, p, n)
		default:
			panic("BUG: a scalar plane in a weight code")
		}
		if p.Pos > 0 {
			e = fmt.Sprintf("(%s << %d)", e, p.Pos)
		}
		parts = append(parts, e)
	}
	return strings.Join(parts, " | ")
}

// bytes loads the plane's bytes into words and selects the quad's.
func (d *decoder) bytes(b *strings.Builder, c *model.Code, p lower.Plane, n int) string {
	member := memberName(c, p)
	words := distinct(p.At)
	fmt.Fprintf(&d.fields, "  uint32_t %s[%d];\n", member, len(words))
	d.wordLoads(member, p, words)
	index := make([]int, n)
	for i := range index {
		index[i] = slices.Index(words, p.At[i])
	}
	word := fmt.Sprintf("r.%s[%s]", member, d.byQuad(b, member+"_word", index))
	shift := d.shift(b, member, p, n)
	mask := uint32(1)<<p.Plane.Bits - 1
	if shift != "" {
		word = fmt.Sprintf("(%s >> %s)", word, shift)
	}
	if p.Plane.Bits == 8 {
		return word
	}
	return fmt.Sprintf("(%s & 0x%08xu)", word, mask*0x01010101)
}

// wordLoads loads each distinct word, with the widest loads that the alignment allows.
func (d *decoder) wordLoads(member string, p lower.Plane, words []int) {
	field, align := p.Plane.Field, d.align(p)
	for i := 0; i < len(words); {
		run := 1
		for i+run < len(words) && words[i+run] == words[i]+4*run {
			run++
		}
		width := 16
		for width > 4 && (run*4 < width || gcd(align, words[i])%width != 0) {
			width /= 2
		}
		at := d.address(field, p.Byte.Base+words[i], p.Byte)
		switch a := gcd(align, words[i]); {
		case width == 16:
			fmt.Fprintf(&d.loads, "  put16(r.%s + %d, %sload16(%s));\n", member, i, d.from, at)
		case width == 8:
			fmt.Fprintf(&d.loads, "  put8(r.%s + %d, %sload8(%s));\n", member, i, d.from, at)
		case a%4 == 0:
			fmt.Fprintf(&d.loads, "  r.%s[%d] = %sload4(%s);\n", member, i, d.from, at)
		case a%2 == 0:
			fmt.Fprintf(&d.loads, "  r.%s[%d] = %sload4_by2(%s);\n", member, i, d.from, at)
		default:
			fmt.Fprintf(&d.loads, "  r.%s[%d] = %sload4_by1(%s);\n", member, i, d.from, at)
		}
		i += width / 4
	}
}

// align is the power of two, at most 16, that divides the address of a plane's first byte for every unit of every block.
func (d *decoder) align(p lower.Plane) int {
	align := d.u.Place.FieldAlignBytes(p.Plane.Field, p.Byte.Base)
	for _, s := range p.Byte.Stride {
		align = gcd(align, s)
	}
	return align
}

// address is where the field begins plus a constant and the unit's part.
func (d *decoder) address(x *model.Field, base int, a layout.Affine) string {
	e := "blk"
	if d.u.Place.Planes {
		e = planeName(x)
		d.read[x] = true
	} else {
		base += d.u.Place.At[x]
	}
	if base != 0 {
		e += fmt.Sprintf(" + %d", base)
	}
	if t := unitTerms(d.u.Shape, a.Stride); t != "" {
		e += " + " + t
	}
	return e
}

// unitTerms is sum(stride * digit) over the digits of p, neighbouring digits merged where they form one.
func unitTerms(s layout.Shape, stride []int) string {
	var parts []string
	for i := 0; i < len(s); {
		if stride[i] == 0 {
			i++
			continue
		}
		j := i
		for j+1 < len(s) && stride[j] == stride[j+1]*s[j+1].Radix {
			j++
		}
		weight, radix, top := s.Weight(j), 1, true
		for k := i; k <= j; k++ {
			radix *= s[k].Radix
		}
		for k := range i {
			top = top && s[k].Radix == 1
		}
		e := "p"
		if weight > 1 {
			e = fmt.Sprintf("%s / %d", e, weight)
		}
		if !top {
			if weight > 1 {
				e = "(" + e + ")"
			}
			e = fmt.Sprintf("%s %% %d", e, radix)
		}
		if e != "p" {
			e = "(" + e + ")"
		}
		if stride[j] != 1 {
			e = fmt.Sprintf("%d * %s", stride[j], e)
		}
		parts = append(parts, e)
		i = j + 1
	}
	return strings.Join(parts, " + ")
}

// byQuad is a constant of quad i: a number, a formula or an entry of a constant array.
func (d *decoder) byQuad(b *strings.Builder, name string, v []int) string {
	if len(distinct(v)) == 1 {
		return fmt.Sprint(v[0])
	}
	same := func(f func(i int) int) bool {
		for i, x := range v {
			if f(i) != x {
				return false
			}
		}
		return true
	}
	if same(func(i int) int { return i }) {
		return "i"
	}
	for m := 2; m <= len(v)/2; m *= 2 {
		if same(func(i int) int { return i % m }) {
			return fmt.Sprintf("i %% %d", m)
		}
		for s := 1; s <= 16; s++ {
			if same(func(i int) int { return i / m * s }) {
				return scaled(fmt.Sprintf("(i / %d)", m), s)
			}
			if same(func(i int) int { return i % m * s }) {
				return scaled(fmt.Sprintf("(i %% %d)", m), s)
			}
		}
	}
	for s := 2; s <= 32; s++ {
		if same(func(i int) int { return i * s }) {
			return scaled("i", s)
		}
	}
	var text []string
	for _, x := range v {
		text = append(text, fmt.Sprint(x))
	}
	line := fmt.Sprintf("  constexpr int %s[%d] = {%s};\n", name, len(v), strings.Join(text, ", "))
	if !strings.Contains(b.String(), line) {
		b.WriteString(line)
	}
	return name + "[i]"
}

func scaled(e string, s int) string {
	if s == 1 {
		return e
	}
	return fmt.Sprintf("%d * %s", s, e)
}

// shift is the expression of a plane's shift for quad i; "" when it is zero everywhere.
func (d *decoder) shift(b *strings.Builder, member string, p lower.Plane, n int) string {
	var parts []string
	if unit := d.unitShift(member, p); unit != "" {
		parts = append(parts, unit)
	}
	if slices.Max(p.ShiftAt) > 0 {
		parts = append(parts, d.byQuad(b, member+"_shift", p.ShiftAt[:n]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, " + ") + ")"
}

// unitShift is the part of a shift that the unit decides: a constant, or a member computed at load.
func (d *decoder) unitShift(member string, p lower.Plane) string {
	terms := unitTerms(d.u.Shape, p.Shift.Stride)
	if terms == "" {
		if p.Shift.Base == 0 {
			return ""
		}
		return fmt.Sprint(p.Shift.Base)
	}
	e := terms
	if p.Shift.Base != 0 {
		e = fmt.Sprintf("%d + %s", p.Shift.Base, terms)
	}
	name, known := d.shifts[e]
	if !known {
		name = member + "_s"
		d.shifts[e] = name
		fmt.Fprintf(&d.fields, "  int %s;\n", name)
		fmt.Fprintf(&d.loads, "  r.%s = %s;\n", name, e)
	}
	return "r." + name
}

// packed is four codes out of adjacent bits.
func (d *decoder) packed(b *strings.Builder, c *model.Code, p lower.Plane, n int) string {
	var word string
	if p.Plane.Code != nil {
		word = d.derived(b, p, n)
	} else {
		word = d.items(b, c, p, n, lower.Quad)
	}
	if s := d.shift(b, memberName(c, p), p, n); s != "" {
		word = fmt.Sprintf("(%s >> %s)", word, s)
	}
	return fmt.Sprintf("spread%d(%s)", p.Plane.Bits, word)
}

// items loads the items of a plane that the instances read and selects the instance's.
func (d *decoder) items(b *strings.Builder, c *model.Code, p lower.Plane, n, step int) string {
	member := memberName(c, p)
	offsets := distinct(p.At)
	kind := map[int]string{8: "uint8_t", 16: "uint16_t", 32: "uint32_t"}[p.Item]
	field, align := p.Plane.Field, d.align(p)
	// Four or more neighbouring bytes are one word.
	if p.Item == 8 && len(offsets) >= 4 && len(offsets)%4 == 0 && offsets[len(offsets)-1] == len(offsets)-1 {
		words := make([]int, len(offsets)/4)
		for i := range words {
			words[i] = 4 * i
		}
		fmt.Fprintf(&d.fields, "  uint32_t %s[%d];\n", member, len(words))
		d.wordLoads(member, p, words)
		at := d.byQuad(b, member+"_byte", p.At[:n])
		if len(words) == 1 {
			return fmt.Sprintf("(r.%s[0] >> (8 * (%s)) & 0xffu)", member, at)
		}
		return fmt.Sprintf("(r.%s[(%s) / 4] >> (8 * ((%s) %% 4)) & 0xffu)", member, at, at)
	}
	fmt.Fprintf(&d.fields, "  %s %s[%d];\n", kind, member, len(offsets))
	for i, o := range offsets {
		fmt.Fprintf(&d.loads, "  r.%s[%d] = %s;\n", member, i, d.itemLoad(p.Item, gcd(align, o), d.address(field, p.Byte.Base+o, p.Byte)))
	}
	index := make([]int, n)
	for i := range index {
		index[i] = slices.Index(offsets, p.At[i])
	}
	return fmt.Sprintf("(uint32_t)r.%s[%s]", member, d.byQuad(b, member+"_item", index))
}

// itemLoad is the load of an item with the alignment that is there.
func (d *decoder) itemLoad(bits, align int, at string) string {
	switch {
	case bits == 8:
		return d.from + "load1(" + at + ")"
	case bits == 16 && align%2 == 0:
		return d.from + "load2(" + at + ")"
	case bits == 16:
		return fmt.Sprintf("(uint16_t)(%[1]sload1(%[2]s) | %[1]sload1(%[2]s + 1) << 8)", d.from, at)
	case align%4 == 0:
		return d.from + "load4(" + at + ")"
	case align%2 == 0:
		return d.from + "load4_by2(" + at + ")"
	}
	return d.from + "load4_by1(" + at + ")"
}

// word is the raw word of a code that a group of elements shares, for the instance of quad i (quad) or group i.
func (d *decoder) word(b *strings.Builder, c *model.Code, count func(p lower.Plane) []int, n int) string {
	var parts []string
	for _, p := range d.u.Codes[c].Planes {
		q := p
		q.At, q.ShiftAt = expand(p.At, n), expand(p.ShiftAt, n)
		var e string
		if p.Plane.Code != nil {
			e = d.derived(b, q, n)
		} else {
			e = d.items(b, c, q, n, 0)
		}
		if s := d.shift(b, memberName(c, q), q, n); s != "" {
			e = fmt.Sprintf("(%s >> %s)", e, s)
		}
		if p.Plane.Field == nil || p.Plane.Bits < p.Item {
			e = fmt.Sprintf("(%s & 0x%xu)", e, uint64(1)<<p.Plane.Bits-1)
		}
		if p.Pos > 0 {
			e = fmt.Sprintf("(%s << %d)", e, p.Pos)
		}
		parts = append(parts, e)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " | ") + ")"
}

// expand repeats a list of instances to n of them.
func expand(v []int, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v[i*len(v)/n]
	}
	return out
}

// derived is the word of the code that a plane reads, after its transform, for quad i.
func (d *decoder) derived(b *strings.Builder, p lower.Plane, n int) string {
	src := p.Plane.Code
	w := d.word(b, src, nil, n)
	switch t := src.Then; {
	case t == nil:
		return w
	case t.Parity:
		return fmt.Sprintf("with_parity(%s, %d)", w, src.Bits)
	case t.Table != nil:
		d.tables[t.Table.Name] = true
		return fmt.Sprintf("%s_words[%s]", t.Table.Name, w)
	default:
		return fmt.Sprintf("radix_digits(%s, %d, %d, %d)", w, src.Bits, t.Radix, t.Digits)
	}
}

// bookEntry is four levels of the codebook's entry for quad i.
func (d *decoder) bookEntry(b *strings.Builder, t *model.Table, n int) string {
	p := d.u.Codes[d.weight].Planes[0]
	w := d.word(b, p.Plane.Code, nil, n)
	part := make([]int, n)
	for i := range part {
		part[i] = p.ShiftAt[i] / p.Plane.Bits / lower.Quad
	}
	per := (t.Width + lower.Quad - 1) / lower.Quad
	d.tables[bookName(d.u.Format, t)] = true
	if per == 1 {
		return fmt.Sprintf("%s[%s]", bookName(d.u.Format, t), w)
	}
	return fmt.Sprintf("%s[%d * %s + %s]", bookName(d.u.Format, t), per, w, d.byQuad(b, "entry_part", part))
}

func bookName(f *model.Format, t *model.Table) string { return f.Name + "_" + t.Name + "_levels" }

// tableTexts writes the tables that the unit reads; a guard keeps one copy in a file.
func (d *decoder) tableTexts() {
	var names []string
	for n := range d.tables {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		var entries []string
		if t := d.book(); name == bookName(d.u.Format, t) {
			for _, e := range t.Entries {
				for j := 0; j < t.Width; j += lower.Quad {
					var w uint32
					for k := range lower.Quad {
						level := d.levels[e>>((j+k)*t.Bits)&(1<<t.Bits-1)]
						w |= uint32(uint8(int8(level))) << (8 * k)
					}
					entries = append(entries, fmt.Sprintf("0x%08x", w))
				}
			}
		}
		if len(entries) == 0 {
			continue
		}
		fmt.Fprintf(d, "#ifndef MINFER_TABLE_%s\n#define MINFER_TABLE_%s\nMINFER_TABLE uint32_t %s[%d] = {\n%s};\n#endif\n", name, name, name, len(entries), wrap(entries))
	}
}

func wrap(entries []string) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 10 {
		b.WriteString("  " + strings.Join(entries[i:min(i+10, len(entries))], ", ") + ",\n")
	}
	return b.String()
}

// product is the factors of a product of codes for each group, sub-block factors first: "r.sc[0] * r.d".
func (d *decoder) product(codes []*model.Code) []string {
	if len(codes) == 0 {
		return nil
	}
	groups := d.u.Elems / d.group
	out := make([]string, groups)
	for k := len(codes) - 1; k >= 0; k-- {
		c := codes[k]
		lc := d.u.Codes[c]
		n := d.u.Elems / lc.Group
		member := c.Name
		if !strings.Contains(d.fields.String(), fmt.Sprintf(" %s[", "n_"+member)) && !strings.Contains(d.fields.String(), fmt.Sprintf(" n_%s;", member)) {
			var b strings.Builder
			words := d.groupWords(&b, c, n)
			if n == 1 {
				kind := "float"
				if c.As == model.Signed && c.Bits == 32 {
					kind = "int"
				}
				fmt.Fprintf(&d.fields, "  %s n_%s;\n", kind, member)
			} else {
				fmt.Fprintf(&d.fields, "  float n_%s[%d];\n", member, n)
			}
			for i, w := range words {
				target := "r.n_" + member
				if n > 1 {
					target += fmt.Sprintf("[%d]", i)
				}
				e := number(c, w)
				if c.As == model.Signed && c.Bits == 32 {
					e = "(int)" + w
				}
				fmt.Fprintf(&d.loads, "  %s = %s;\n", target, e)
			}
		}
		for g := range out {
			e := "r.n_" + member
			if n > 1 {
				e += fmt.Sprintf("[%d]", g*n/groups)
			}
			if out[g] != "" {
				e = out[g] + " * " + e
			}
			out[g] = e
		}
	}
	return out
}

// groupWords is the raw word of each of n instances of a shared code, as expressions of loads.
func (d *decoder) groupWords(b *strings.Builder, c *model.Code, n int) []string {
	out := make([]string, n)
	for i := range out {
		var parts []string
		for _, p := range d.u.Codes[c].Planes {
			if p.Plane.Code != nil {
				panic("BUG: a scale that reads another code")
			}
			e := d.groupItem(p, i)
			shift := unitTerms(d.u.Shape, p.Shift.Stride)
			if k := p.Shift.Base + p.ShiftAt[i]; k != 0 && shift != "" {
				shift = fmt.Sprintf("%d + %s", k, shift)
			} else if k != 0 {
				shift = fmt.Sprint(k)
			}
			if shift != "" {
				e = fmt.Sprintf("(%s >> (%s))", e, shift)
			}
			if p.Plane.Bits < p.Item {
				e = fmt.Sprintf("(%s & 0x%xu)", e, uint64(1)<<p.Plane.Bits-1)
			}
			if p.Pos > 0 {
				e = fmt.Sprintf("(%s << %d)", e, p.Pos)
			}
			parts = append(parts, e)
		}
		out[i] = strings.Join(parts, " | ")
		if len(parts) > 1 {
			out[i] = "(" + out[i] + ")"
		}
	}
	return out
}

// groupItem is item i of a shared plane. In a layout of its own, items that lie together are loaded together: those of a block's header
// as 8 bytes, neighbouring bytes of a unit as one item.
func (d *decoder) groupItem(p lower.Plane, i int) string {
	at, field := p.Byte.Base+p.At[i], p.Plane.Field
	once := func(name, kind, load string) {
		if line := fmt.Sprintf("  const %s %s = %s;\n", kind, name, load); !strings.Contains(d.loads.String(), line) {
			d.loads.WriteString(line)
		}
	}
	if d.from != "" && d.u.Format.InFile() && !d.u.Place.Planes && !slices.ContainsFunc(p.Byte.Stride, func(s int) bool { return s != 0 }) {
		const window = 8
		a := d.u.Place.At[field] + at
		if bytes := p.Item / 8; d.u.Place.AlignBytes%window == 0 && a%window+bytes <= window {
			name := fmt.Sprintf("head_%d", a/window*window)
			once(name, "uint2", fmt.Sprintf("%sload8(blk + %d)", d.from, a/window*window))
			word := name + map[int]string{0: ".x", 1: ".y"}[a%window/4]
			if bytes == 4 {
				return word
			}
			return fmt.Sprintf("(%s >> %d & 0x%xu)", word, 8*(a%4), 1<<p.Item-1)
		}
	}
	if n := len(p.At); d.from != "" && d.u.Format.InFile() && p.Item == 8 && (n == 2 || n == 4) && p.At[n-1] == p.At[0]+n-1 && gcd(d.align(p), p.At[0])%n == 0 {
		name := fmt.Sprintf("run_%s_%d", field.Name, p.Byte.Base+p.At[0])
		once(name, "uint32_t", d.itemLoad(8*n, n, d.address(field, p.Byte.Base+p.At[0], p.Byte)))
		return fmt.Sprintf("(%s >> %d & 0xffu)", name, 8*i)
	}
	return d.itemLoad(p.Item, gcd(d.align(p), p.At[i]), d.address(field, at, p.Byte))
}

// number is the float that a code word reads as.
func number(c *model.Code, w string) string {
	var e string
	switch c.As {
	case model.Unsigned:
		e = fmt.Sprintf("(float)(unsigned)(%s)", w)
	case model.Signed:
		if c.Bits == 8 {
			e = fmt.Sprintf("(float)(int8_t)(%s)", w)
		} else {
			e = fmt.Sprintf("(float)((int)((unsigned)(%s) << %d) >> %d)", w, 32-c.Bits, 32-c.Bits)
		}
	case model.F16:
		e = fmt.Sprintf("f16_to_f32((uint16_t)(%s))", w)
	case model.BF16:
		e = fmt.Sprintf("bf16_to_f32((uint16_t)(%s))", w)
	case model.F32:
		e = fmt.Sprintf("bits_f32(%s)", w)
	case model.UE4M3:
		e = fmt.Sprintf("ue4m3_to_f32(%s)", w)
	case model.E8M0:
		if c.Mul == 0.5 && c.Add == 0 {
			return fmt.Sprintf("e8m0_half_to_f32((uint8_t)(%s))", w)
		}
		e = fmt.Sprintf("e8m0_to_f32((uint8_t)(%s))", w)
	case model.Levels:
		if len(c.Levels) == 2 {
			return fmt.Sprintf("((%s) ? %s : %s)", w, cfloat(c.Levels[1]), cfloat(c.Levels[0]))
		}
		var list []string
		for _, x := range c.Levels {
			list = append(list, cfloat(x))
		}
		return fmt.Sprintf("level_of<%d>({%s}, %s)", len(c.Levels), strings.Join(list, ", "), w)
	default:
		panic("BUG: a scale that reads as " + string(c.As))
	}
	if c.Mul != 1 {
		e = fmt.Sprintf("%s * %s", cfloat(c.Mul), e)
	}
	if c.Add != 0 {
		e = fmt.Sprintf("%s + %s", e, cfloat(c.Add))
	}
	return e
}

func cfloat(x float64) string {
	s := fmt.Sprintf("%g", x)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s + "f"
}

// accessor writes a function of the group.
func (d *decoder) accessor(name string, v []string, none string) {
	fmt.Fprintf(d, "MINFER_DEVICE float %s(const %s& r, int g) {\n", name, d.name)
	switch {
	case v == nil:
		fmt.Fprintf(d, "  return %s;\n", none)
	case len(distinctStrings(v)) == 1:
		fmt.Fprintf(d, "  return %s;\n", v[0])
	default:
		d.WriteString("  switch (g) {\n")
		for g, e := range v[:len(v)-1] {
			fmt.Fprintf(d, "    case %d: return %s;\n", g, e)
		}
		fmt.Fprintf(d, "    default: return %s;\n  }\n", v[len(v)-1])
	}
	d.WriteString("}\n")
}

// accumulate writes unit_acc, the accumulation statement: one for all variants of all families.
func (d *decoder) accumulate(groups int, scale, minus, bias []string) {
	perAct := 32
	fmt.Fprintf(d, "MINFER_DEVICE void unit_acc(const %s& r, const a8_file* x, float& acc) {\n", d.name)
	quads := d.group / lower.Quad
	needSum := d.add != 0 || minus != nil || bias != nil
	for g := range groups {
		a := g * d.group / perAct
		fmt.Fprintf(d, "  int dot%d = 0;\n", g)
		if needSum && d.group < perAct {
			fmt.Fprintf(d, "  int sum%d = 0;\n", g)
		}
		d.WriteString("  MINFER_UNROLL\n")
		dot := "dp4a((int)unit_codes(r, i)"
		if d.unsignedCodes() {
			dot = "dp4a_u(unit_codes(r, i)"
		}
		x := fmt.Sprintf("(int)x[%d].q_qs[i - %d]", a, a*perAct/lower.Quad)
		if a == 0 {
			x = "(int)x[0].q_qs[i]"
		}
		if needSum && d.group < perAct {
			fmt.Fprintf(d, "  for (int i = %d; i < %d; i++) dot%d = %s, %s, dot%d), sum%d = dp4a(0x01010101, %s, sum%d);\n", g*quads, (g+1)*quads, g, dot, x, g, g, x, g)
		} else {
			fmt.Fprintf(d, "  for (int i = %d; i < %d; i++) dot%d = %s, %s, dot%d);\n", g*quads, (g+1)*quads, g, dot, x, g)
			if needSum {
				fmt.Fprintf(d, "  const int sum%d = (int)x[%d].n_sum;\n", g, a)
			}
		}
		if d.add != 0 {
			fmt.Fprintf(d, "  dot%d += %d * sum%d;\n", g, d.add, g)
		}
	}
	var terms []string
	for g := range groups {
		d8 := fmt.Sprintf("x[%d].n_d", g*d.group/perAct)
		s := "1.0f"
		if scale != nil {
			s = scale[g]
		}
		dot := fmt.Sprintf("(float)dot%d", g)
		if bias != nil {
			dot = fmt.Sprintf("((float)dot%d + %s * (float)sum%d)", g, bias[g], g)
		}
		t := fmt.Sprintf("%s * %s * %s", d8, s, dot)
		if minus != nil {
			m := strings.TrimPrefix(minus[g], "-")
			sign := " - "
			if m != minus[g] {
				sign = " + "
			}
			t += fmt.Sprintf("%s%s * %s * (float)sum%d", sign, d8, m, g)
		}
		terms = append(terms, t)
	}
	fmt.Fprintf(d, "  acc += %s;\n}\n", strings.Join(terms, " + "))
}

// memberName is what a plane's loads are called: the code and the field, and the plane's number where those repeat.
func memberName(c *model.Code, p lower.Plane) string {
	source, repeated, at := "", 0, 0
	for i := range c.Planes {
		q := &c.Planes[i]
		if q == p.Plane {
			at = i
		}
		if q.Field == p.Plane.Field && q.Code == p.Plane.Code {
			repeated++
		}
	}
	if p.Plane.Field != nil {
		source = p.Plane.Field.Name
	} else {
		source = p.Plane.Code.Name
	}
	if repeated > 1 {
		return fmt.Sprintf("%s_%s%d", c.Name, source, at)
	}
	return c.Name + "_" + source
}

func distinct(v []int) []int {
	out := slices.Clone(v)
	slices.Sort(out)
	return slices.Compact(out)
}

func distinctStrings(v []string) []string {
	out := slices.Clone(v)
	slices.Sort(out)
	return slices.Compact(out)
}

func gcd(a, b int) int {
	if a < 0 {
		a = -a
	}
	if b < 0 {
		b = -b
	}
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
