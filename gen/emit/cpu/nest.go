package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// use is what a loop nest does with each element.
type use int

const (
	dequantize use = iota // y[e] = value
	dotF32                // sum += value * x[e]
	dotQ8                 // dot += weight * q[e], then scaled once per run of elements that share scale and activation block
	weights               // y[e] = the weight before it is scaled, as an integer
)

// A kernel writes the loop nest of one segment for one use:
//
//	for each looped digit, outermost first
//	    the codes that depend on no digit further in
//	    ...
//	        one statement for each value of the unrolled digits
//
// A code is computed at the level of the innermost looped digit that it depends on, once for each value of
// the unrolled digits it depends on.
type kernel struct {
	*nest
	use    use
	format *model.Format
	act    *activation // dotQ8 alone
	tables *tables
	names  *names

	unroll uint64 // the unrolled digits, as a set
	loops  []int  // the looped digits, outermost first
	perRun uint64 // dotQ8: the digits that one integer sum runs over
	accAt  int    // dotQ8: the sums are declared inside loops[:accAt]
	k      int    // dotQ8: what makes the weight an integer
	lane   uint64 // dotQ8: the digit whose eight values one 64-bit word holds, a byte each, as a set; 0 where there is none

	digitNames []string
	codeNames  map[*model.Code]string
	loads      map[string]string // load expression to variable
	vars       map[string]string // code and point to variable
	sources    map[string]source // field windows by field and outer strides
	elements   elements
	out        strings.Builder
	err        error
}

// source is a window of a field's bytes that the innermost loop reads.
type source struct {
	name string
	low  int // offset of the window's first byte, outer digits left out
}

func newKernel(f *model.Format, s *model.Segment, u use, act *activation, t *tables) *kernel {
	k := &kernel{nest: newNest(s), use: u, format: f, act: act, tables: t, names: newNames(), k: 1,
		loads: map[string]string{}, vars: map[string]string{}, sources: map[string]source{}, codeNames: map[*model.Code]string{}}
	if u == dotQ8 || u == weights {
		k.k, _ = weightInteger(s.Value)
	}
	if u == dotQ8 {
		// Digits that run over the end of an activation block are split there.
		for i := len(k.shape) - 1; i >= 0; i-- {
			if w, r := k.elem.Stride[i], k.shape[i].Radix; w < act.elems && w*r > act.elems && act.elems%w == 0 {
				if g := gcd(r, act.elems/w); g > 1 {
					k.split(i, g)
				}
			}
		}
	}
	k.unroll = k.unrolled()
	if u == dotQ8 {
		k.perRun = k.run()
		k.lane = k.byteLanes()
	}
	if k.lane == 0 {
		k.unroll = k.widen(k.unroll, 4)
	}
	if u == dotQ8 {
		k.perRun = k.run() // again: digits may have been split
	}
	var looped uint64
	for i, d := range k.shape {
		if (k.unroll|k.lane)&(1<<i) == 0 && d.Radix > 1 {
			looped |= 1 << i
		}
	}
	// Digits of the run go inside the others, so that one sum runs over all of them.
	for _, set := range []uint64{looped &^ k.perRun, looped & k.perRun} {
		for i := range k.shape {
			if set&(1<<i) != 0 {
				k.loops = append(k.loops, i)
			}
		}
	}
	k.accAt = bits.OnesCount64(looped &^ k.perRun)
	for _, d := range k.shape {
		k.digitNames = append(k.digitNames, k.names.local(d.Name))
	}
	for _, c := range k.codes {
		k.codeNames[c] = k.names.local(c.Name)
	}
	return k
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// run is the digits over which scale, offset and activation block are all constant.
func (k *kernel) run() uint64 {
	scaled := k.usesAll(slices.Concat(k.value.Scale, k.value.Minus, k.value.Plus))
	q, _, ok := k.elem.Divide(k.shape, k.act.elems)
	if !ok && k.loopedAddress() {
		return 0
	}
	var set uint64
	for i := range k.shape {
		switch {
		case scaled&(1<<i) != 0:
		case ok && !q.Uses(k.shape, i), !ok && k.elem.Stride[i]*k.shape[i].Radix <= k.aligned():
			set |= 1 << i
		}
	}
	return set
}

// aligned is the greatest divisor of the activation block that also divides the index of every run's start:
// the elements of a run of so many lie in one activation block.
func (k *kernel) aligned() int {
	g := gcd(k.act.elems, k.elem.Base)
	size := 1
	for i := len(k.shape) - 1; i >= 0; i-- {
		if k.elem.Stride[i] != size || k.act.elems%(size*k.shape[i].Radix) != 0 || g%(size*k.shape[i].Radix) != 0 {
			break
		}
		ok := true
		for j := range i {
			ok = ok && k.elem.Stride[j]%(size*k.shape[i].Radix) == 0
		}
		if !ok {
			break
		}
		size *= k.shape[i].Radix
	}
	return size
}

// loopedAddress reports whether some point's activation address is not affine in the looped digits.
func (k *kernel) loopedAddress() bool {
	for _, p := range k.points(k.unroll) {
		if _, _, ok := k.at(k.elem, p).Divide(k.shape, k.act.elems); !ok {
			return true
		}
	}
	return false
}

// laneBytes is the width of the words that hold a byte for each of eight elements.
const laneBytes = 8

// byteLanes splits the innermost digit so that its least significant part counts the bytes of a 64-bit word, and yields
// that digit: then one word operation decodes eight elements and dot8 multiplies them. It takes a weight that is
// one code of whole bytes' strides, read at a shift that the digit does not move, and small enough for dot8.
func (k *kernel) byteLanes() uint64 {
	if len(k.value.Weight) != 1 || len(k.value.Bias) > 0 {
		return 0
	}
	c := k.value.Weight[0]
	lo, hi, err := consecutive(c)
	if err != nil || c.As != model.Unsigned || c.Then != nil || c.Bits > 8 || max(-lo, hi)*laneBytes*127 >= 1<<15 {
		return 0
	}
	i := len(k.shape) - 1
	for i >= 0 && k.shape[i].Radix == 1 {
		i--
	}
	if i < 0 || k.shape[i].Radix%laneBytes != 0 || k.elem.Stride[i] != 1 || k.perRun&(1<<i) == 0 || k.unroll&(1<<i) != 0 {
		return 0
	}
	for _, p := range c.Planes {
		if a := k.access(p); p.Field == nil || !a.ok || a.bits != 8 || a.at.Stride[i] != 1 || a.shift.Stride[i] != 0 {
			return 0
		}
	}
	before := len(k.shape)
	k.split(i, laneBytes)
	if len(k.shape) > before { // sets of digits move up with those that stand behind the new one
		i++
		below := uint64(1)<<i - 1
		k.unroll = k.unroll&below | k.unroll&^below<<1
	}
	return 1 << i
}

// at fixes the unrolled digits at a point, and the lane at its first byte.
func (k *kernel) at(a layout.Affine, p point) layout.Affine { return restrict(a, k.unroll|k.lane, p) }

// packed reports whether a code is read eight elements at a time.
func (k *kernel) packed(c *model.Code) bool { return k.lane != 0 && c == k.value.Weight[0] }

func (k *kernel) printf(format string, args ...any) { fmt.Fprintf(&k.out, format, args...) }

func (k *kernel) expr(a layout.Affine) string {
	return k.terms(a, func(i int) string { return k.digitNames[i] })
}

// level is how many loops a set of digits needs: the code that depends on them is computed inside loops[:level].
func (k *kernel) level(set uint64) int {
	for n := len(k.loops); n > 0; n-- {
		if set&(1<<k.loops[n-1]) != 0 {
			return n
		}
	}
	return 0
}

// inline reports whether a code is written in the element statement rather than kept in a variable: it is used
// once there, since it depends on every unrolled digit and on the innermost loop.
func (k *kernel) inline(c *model.Code) bool {
	set := k.uses(c)
	return k.packed(c) || set&k.unroll == k.unroll && k.level(set) == len(k.loops) && c.Then == nil && !k.read(c)
}

// read reports whether other codes read this one's word.
func (k *kernel) read(c *model.Code) bool {
	for _, o := range k.codes {
		for _, p := range o.Planes {
			if p.Code == c {
				return true
			}
		}
	}
	return false
}

// needed lists the codes that the value depends on, sources first.
func (k *kernel) needed() []*model.Code {
	need := map[*model.Code]bool{}
	var visit func(c *model.Code)
	visit = func(c *model.Code) {
		need[c] = true
		for _, p := range c.Planes {
			if p.Code != nil {
				visit(p.Code)
			}
		}
	}
	v := k.value
	if k.use == weights {
		v = model.Value{Weight: v.Weight, Bias: v.Bias}
	}
	for _, c := range slices.Concat(v.Scale, v.Weight, v.Bias, v.Minus, v.Plus) {
		visit(c)
	}
	return slices.DeleteFunc(slices.Clone(k.codes), func(c *model.Code) bool { return !need[c] })
}

// write is the whole nest.
func (k *kernel) write() (string, error) {
	k.writeLevel(0)
	return k.out.String(), k.err
}

func (k *kernel) writeLevel(n int) {
	codes := slices.DeleteFunc(k.needed(), func(c *model.Code) bool { return k.level(k.uses(c)) != n })
	k.writeLoads(n)
	for _, c := range codes {
		if !k.inline(c) {
			k.writeCode(c)
		}
	}
	k.writeProducts(n)
	if k.use == dotQ8 && n == k.accAt {
		k.declareSums()
	}
	if n < len(k.loops) {
		if n == len(k.loops)-1 {
			k.writeWindows()
		}
		i := k.loops[n]
		k.printf("for %s := range %d {\n", k.digitNames[i], k.shape[i].Radix)
		k.writeLevel(n + 1)
		k.printf("}\n")
	} else {
		if n == 0 {
			k.writeWindows()
		}
		k.writeElements()
	}
	if k.use == dotQ8 && n == k.accAt {
		k.writeSums()
	}
}

// instances lists the points at which a code differs.
func (k *kernel) instances(c *model.Code) []point { return k.points(k.uses(c) & k.unroll) }

// writeLoads gives a variable to every item whose address is complete at this level, if it is read more than once
// or by codes further in.
func (k *kernel) writeLoads(n int) {
	count := map[string]int{}
	var order []string
	field := map[string]string{}
	for _, c := range k.needed() {
		for _, p := range c.Planes {
			if p.Field == nil {
				continue
			}
			for _, at := range k.instances(c) {
				if k.level(k.addressDigits(p, at)) != n {
					continue
				}
				e := k.loadExpr(p, k.packed(c), at)
				if count[e] == 0 {
					order = append(order, e)
					field[e] = p.Field.Name
				}
				count[e]++
				if k.level(k.uses(c)) > n {
					count[e]++ // read in a loop
				}
			}
		}
	}
	for _, e := range order {
		if count[e] > 1 && k.loads[e] == "" {
			v := k.names.numbered(field[e])
			k.printf("%s := %s\n", v, e)
			k.loads[e] = v
		}
	}
}

// addressDigits is the digits, as a set, that the address of a plane's item depends on at a point.
func (k *kernel) addressDigits(p model.Plane, at point) uint64 {
	a := k.access(p).at
	if !k.access(p).ok {
		a = p.Layout
	}
	a = k.at(a, at)
	var set uint64
	for i := range k.shape {
		if a.Uses(k.shape, i) {
			set |= 1 << i
		}
	}
	return set
}

// loadExpr is the item that holds a plane's bits, as an unsigned word.
func (k *kernel) loadExpr(p model.Plane, packed bool, at point) string {
	a := k.access(p)
	width := a.bits / 8
	bits := a.bits
	if packed {
		bits = 8 * laneBytes
	}
	if !a.ok {
		bit := k.expr(k.at(p.Layout, at))
		return item("b", fmt.Sprintf("%d+(%s)/%d*%d", p.Field.AtBytes, bit, a.bits, width), a.bits)
	}
	off := k.at(scale(a.at, width), at)
	if s, ok := k.sources[k.windowKey(p.Field, off)]; ok && k.innermost(off) {
		in := restrict(off, ^k.innerBit(), make(point, len(k.shape)))
		in.Base = off.Base - s.low
		return item(s.name, k.expr(in), bits)
	}
	off.Base += p.Field.AtBytes
	return item("b", k.expr(off), bits)
}

func scale(a layout.Affine, by int) layout.Affine {
	r := layout.Affine{Base: a.Base * by, Stride: slices.Clone(a.Stride)}
	for i := range r.Stride {
		r.Stride[i] *= by
	}
	return r
}

// item reads an unsigned little-endian item of so many bits at a byte offset.
func item(array, at string, width int) string {
	if width == 8 {
		return fmt.Sprintf("uint32(%s[%s])", array, at)
	}
	if at == "0" {
		at = ""
	}
	x := fmt.Sprintf("binary.LittleEndian.Uint%d(%s[%s:])", width, array, at)
	if width == 16 {
		x = "uint32(" + x + ")"
	}
	return x
}

// innerBit is the innermost looped digit, as a set.
func (k *kernel) innerBit() uint64 {
	if len(k.loops) == 0 {
		return 0
	}
	return 1 << k.loops[len(k.loops)-1]
}

// innermost reports whether an address moves with the innermost loop.
func (k *kernel) innermost(a layout.Affine) bool {
	return len(k.loops) > 0 && a.Uses(k.shape, k.loops[len(k.loops)-1])
}

// windowKey tells addresses in a field apart by how outer loops move them.
func (k *kernel) windowKey(f *model.Field, off layout.Affine) string {
	outer := restrict(off, k.innerBit(), make(point, len(k.shape)))
	outer.Base = 0
	return f.Name + ":" + k.expr(outer)
}

// writeWindows cuts out, just before the innermost loop, the bytes of each field that the loop reads: an array of
// constant size needs no bounds checks inside.
func (k *kernel) writeWindows() {
	type span struct {
		field  *model.Field
		outer  layout.Affine
		lo, hi int
		fits   bool
	}
	spans := map[string]*span{}
	var order []string
	inner := k.innerBit()
	for _, c := range k.needed() {
		if k.level(k.uses(c)) != len(k.loops) {
			continue
		}
		for _, p := range c.Planes {
			if p.Field == nil {
				continue
			}
			a := k.access(p)
			if !a.ok {
				continue
			}
			for _, at := range k.instances(c) {
				off := k.at(scale(a.at, a.bits/8), at)
				if !k.innermost(off) {
					continue
				}
				key := k.windowKey(p.Field, off)
				lo, hi := restrict(off, ^inner, make(point, len(k.shape))).Range(k.shape)
				hi += a.bits / 8
				if k.packed(c) {
					hi += laneBytes - 1
				}
				s := spans[key]
				if s == nil {
					outer := restrict(off, inner, make(point, len(k.shape)))
					outer.Base = 0
					s = &span{field: p.Field, outer: outer, lo: lo, hi: hi}
					spans[key] = s
					order = append(order, key)
				}
				s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
			}
		}
	}
	for _, key := range order {
		s := spans[key]
		if k.constant(s.outer) {
			continue
		}
		name := k.names.local(s.field.Name)
		from := s.outer
		from.Base = s.field.AtBytes + s.lo
		k.printf("%s := (*[%d]byte)(b[%s:])\n", name, s.hi-s.lo, k.expr(from))
		k.sources[key] = source{name: name, low: s.lo}
	}
	k.writeElementWindow()
}

// word writes the word of a code at a point, after its transform, from its planes.
func (k *kernel) word(c *model.Code, at point) string {
	var parts []string
	pos := 0
	wide := c.Bits > 32
	for _, p := range c.Planes {
		w := k.planeWord(p, at, wide, k.packed(c))
		if pos > 0 {
			w = parenthesize(w) + fmt.Sprintf("<<%d", pos)
		}
		parts = append(parts, w)
		pos += p.Bits
	}
	w := strings.Join(parts, " | ")
	if c.Then == nil {
		return w
	}
	table, err := k.tables.then(c)
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("%s: %w", k.format.Name, err)
	}
	if c.ThenBits > 32 {
		return fmt.Sprintf("uint64(%s[%s])", table, bare(w))
	}
	return fmt.Sprintf("uint32(%s[%s])", table, bare(w))
}

func (k *kernel) planeWord(p model.Plane, at point, wide, packed bool) string {
	a := k.access(p)
	var raw string
	width := a.bits
	if p.Field != nil {
		raw = k.loadExpr(p, packed, at)
		if v := k.loads[raw]; v != "" {
			raw = v
		}
	} else {
		raw = k.vars[k.varKey(p.Code, at)]
		width = p.Code.ThenBits
	}
	shift := k.at(a.shift, at)
	if !a.ok {
		raw += fmt.Sprintf(">>(uint(%s)%%%d)", k.expr(k.at(p.Layout, at)), a.bits)
	} else if e := k.expr(shift); e != "0" {
		if !k.constant(shift) && strings.ContainsAny(e, "+*") {
			e = "(" + e + ")"
		}
		raw += ">>" + e
	}
	if packed {
		if p.Bits < 8 {
			raw += fmt.Sprintf("&%#016x", (uint64(1)<<p.Bits-1)*0x0101010101010101)
		}
		return raw
	}
	// The uppermost bits need no mask, unless the word is kept in a wider type: then the mask saves a bounds check.
	kept := p.Field != nil || width&(width-1) == 0
	if whole := a.ok && kept && k.constant(shift) && shift.Base+p.Bits == width; !whole {
		raw += "&" + mask(p.Bits)
	}
	is64 := width > 32
	switch {
	case is64 && !wide:
		raw = "uint32(" + raw + ")"
	case !is64 && wide:
		raw = "uint64(" + raw + ")"
	}
	return raw
}

func (k *kernel) varKey(c *model.Code, at point) string {
	return c.Name + "/" + k.suffix(at, k.uses(c)&k.unroll)
}

// writeCode keeps a code in variables, one for each value of the unrolled digits that it depends on.
func (k *kernel) writeCode(c *model.Code) {
	for _, at := range k.instances(c) {
		name := k.codeNames[c]
		if s := k.suffix(at, k.uses(c)&k.unroll); s != "" {
			name = k.names.local(name + s)
		}
		x := k.word(c, at)
		if !k.read(c) {
			x = k.number(c, x)
		}
		k.printf("%s := %s\n", name, x)
		k.vars[k.varKey(c, at)] = name
	}
}

// number writes a code's number: an int32 where the code is part of an integer weight, else a float32.
func (k *kernel) number(c *model.Code, word string) string {
	if k.integerWeight() && (slices.Contains(k.value.Weight, c) || slices.Contains(k.value.Bias, c)) {
		return k.tables.integer(k.format.Name, c, word, k.codeScale(c))
	}
	return k.tables.float(k.format.Name, c, word)
}

// codeScale is what a code's numbers are multiplied by so that the weight becomes k times itself.
func (k *kernel) codeScale(c *model.Code) int {
	if slices.Contains(k.value.Bias, c) {
		return k.k
	}
	s, _ := integerScale(c)
	return s
}

// integerWeight reports whether product(weight) + sum(bias) is taken in integers.
func (k *kernel) integerWeight() bool {
	scale, ok := weightInteger(k.value)
	return ok && (k.use == dotQ8 || k.use == weights || scale == 1 && zeroSafe(k.value))
}

// writeProducts multiplies the scale and the offset, where they are products, at the level that has all factors.
func (k *kernel) writeProducts(n int) {
	for _, p := range k.productsOf() {
		set := k.usesAll(p.codes)
		if k.level(set) != n || !p.product {
			continue
		}
		for _, at := range k.points(set & k.unroll) {
			var f []string
			for _, c := range p.codes {
				f = append(f, k.vars[k.varKey(c, at)])
			}
			x := strings.Join(f, " * ")
			if p.times != "" {
				x += " * " + p.times
			}
			name := k.names.local(p.name + k.suffix(at, set&k.unroll))
			k.printf("%s := %s\n", name, x)
			k.vars[p.name+"/"+k.suffix(at, set&k.unroll)] = name
		}
	}
}

type products struct {
	name    string
	codes   []*model.Code
	product bool // kept in a variable of its own
	times   string
}

func (k *kernel) productsOf() []products {
	if k.use == weights {
		return nil
	}
	times := ""
	if k.use == dotQ8 && k.k > 1 {
		times = number(1 / float64(k.k))
	}
	offset := slices.Concat(k.value.Minus, k.value.Plus)
	return []products{
		{"scale", k.value.Scale, len(k.value.Scale) > 1 || times != "" && len(k.value.Scale) > 0, times},
		{"offset", offset, len(offset) > 1, ""},
	}
}

// product is the variable that holds the scale or the offset at a point; "" when there is none.
func (k *kernel) product(name string, at point) string {
	for _, p := range k.productsOf() {
		if p.name != name || len(p.codes) == 0 {
			continue
		}
		if !p.product {
			return k.vars[k.varKey(p.codes[0], at)]
		}
		return k.vars[p.name+"/"+k.suffix(at, k.usesAll(p.codes)&k.unroll)]
	}
	return ""
}

// weight writes product(weight) + sum(bias) at a point, as an int32 or a float32.
func (k *kernel) weight(at point) string {
	var f, sum []string
	for _, c := range k.value.Weight {
		x := k.vars[k.varKey(c, at)]
		if k.inline(c) {
			x = k.number(c, k.word(c, at))
		}
		f = append(f, x)
	}
	if extra := k.extraFactor(); extra > 1 {
		f = append([]string{fmt.Sprint(extra)}, f...)
	}
	if len(f) > 0 {
		sum = append(sum, factors(f))
	}
	for _, c := range k.value.Bias {
		x := k.vars[k.varKey(c, at)]
		if k.inline(c) {
			x = k.number(c, k.word(c, at))
		}
		sum = append(sum, x)
	}
	return strings.Join(sum, " + ")
}

// extraFactor makes up for factors whose own scales multiply to less than k.
func (k *kernel) extraFactor() int {
	if k.use != dotQ8 && k.use != weights {
		return 1
	}
	own := 1
	for _, c := range k.value.Weight {
		s, _ := integerScale(c)
		own *= s
	}
	return k.k / own
}

// value writes y at a point as a float32.
func (k *kernel) valueAt(at point) string {
	w := k.weight(at)
	if k.integerWeight() {
		w = toFloat(w)
	}
	y := w
	if s := k.product("scale", at); s != "" {
		y = s + "*" + parenthesize(w)
	}
	if o := k.product("offset", at); o != "" {
		y += k.offsetSign() + o
	}
	return y
}

func (k *kernel) offsetSign() string {
	if len(k.value.Minus) > 0 {
		return " - "
	}
	return " + "
}

// elements is how the innermost statements name an element of x or y: an array, its digits' strides, and whether
// there is such an affine address at all.
type elements struct {
	array string
	outer layout.Affine // where the window starts; the zero Affine where there is none
}

// address is the index of the element in the array of elements: of y and of f32 x its number, of 8-bit x a byte.
func (k *kernel) address(at point) (layout.Affine, bool) {
	e := k.at(k.elem, at)
	if k.use != dotQ8 {
		return e, true
	}
	div, rem, ok := e.Divide(k.shape, k.act.elems)
	if !ok {
		return e, false
	}
	a := scale(div, k.act.bytes)
	a.Base += rem.Base + k.act.qAt
	for i, s := range rem.Stride {
		a.Stride[i] += s
	}
	return a, true
}

// writeElementWindow cuts out the part of x or y that the innermost loop touches.
func (k *kernel) writeElementWindow() {
	array, typ := "x", "float32"
	switch k.use {
	case dequantize:
		array = "y"
	case weights:
		array, typ = "y", "int8"
	case dotQ8:
		typ = "byte"
	}
	k.elements = elements{array: array, outer: layout.Affine{Stride: make([]int, len(k.shape))}}
	inner := k.innerBit()
	var outer layout.Affine
	lo, hi := math.MaxInt, 0
	for i, at := range k.points(k.unroll) {
		a, ok := k.address(at)
		if !ok {
			return
		}
		o := restrict(a, inner, make(point, len(k.shape)))
		o.Base = 0
		if i == 0 {
			outer = o
		} else if !slices.Equal(o.Stride, outer.Stride) {
			return
		}
		l, h := restrict(a, ^inner, make(point, len(k.shape))).Range(k.shape)
		lo, hi = min(lo, l), max(hi, h+1)
		if k.lane != 0 {
			hi = max(hi, h+laneBytes)
		}
	}
	if k.constant(outer) {
		return
	}
	outer.Base = lo
	name := k.names.local(array + "s")
	k.printf("%s := (*[%d]%s)(%s[%s:])\n", name, hi-lo, typ, array, k.expr(outer))
	k.elements = elements{array: name, outer: outer}
}

// element names the element of x or y at a point.
func (k *kernel) element(at point) string {
	a, ok := k.address(at)
	if !ok {
		e := k.expr(a)
		return fmt.Sprintf("int32(int8(x[(%s)/%d*%d+(%s)%%%d+%d]))", e, k.act.elems, k.act.bytes, e, k.act.elems, k.act.qAt)
	}
	a.Base -= k.elements.outer.Base
	for i, s := range k.elements.outer.Stride {
		a.Stride[i] -= s
	}
	x := fmt.Sprintf("%s[%s]", k.elements.array, k.expr(a))
	if k.use == dotQ8 {
		x = "int32(int8(" + x + "))"
	}
	return x
}

// writeElements writes one statement for each value of the unrolled digits.
func (k *kernel) writeElements() {
	for i, at := range k.points(k.unroll) {
		switch k.use {
		case dequantize:
			k.printf("%s = %s\n", k.element(at), k.valueAt(at))
		case weights:
			k.printf("%s = int8(%s)\n", k.element(at), bare(k.weight(at)))
		case dotF32:
			k.printf("sum%d += %s * %s\n", i%4, parenthesize(k.valueAt(at)), k.element(at))
		case dotQ8:
			if k.lane != 0 {
				k.writeLanes(at)
				continue
			}
			q := k.element(at)
			if k.perRun == 0 {
				k.printf("acc += %s * %s\n", k.blockScale(k.at(k.elem, at)), k.scaledSum(at, "float32("+parenthesize("("+k.weight(at)+") * "+q)+")", "float32("+q+")"))
				continue
			}
			s := k.suffix(at, k.unroll&^k.perRun)
			k.printf("%s += %s * %s\n", k.vars["dot/"+s], parenthesize(k.weight(at)), q)
			if v := k.vars["sum/"+s]; v != "" {
				k.printf("%s += %s\n", v, q)
			}
		}
	}
}

// writeLanes adds the products of eight elements.
func (k *kernel) writeLanes(at point) {
	a, _ := k.address(at)
	a.Base -= k.elements.outer.Base
	for i, s := range k.elements.outer.Stride {
		a.Stride[i] -= s
	}
	x := fmt.Sprintf("%s[%s:]", k.elements.array, k.expr(a))
	c := k.value.Weight[0]
	s := k.suffix(at, k.unroll&^k.perRun)
	k.printf("%s += dot8(%s, %d, %s)\n", k.vars["dot/"+s], k.word(c, at), int(-c.Add), x)
	if v := k.vars["sum/"+s]; v != "" {
		k.printf("%s += sum8(%s)\n", v, x)
	}
}

// blockAt is the offset of the activation block that holds an element.
func (k *kernel) blockAt(e layout.Affine, plus int) string {
	div, _, ok := e.Divide(k.shape, k.act.elems)
	if !ok {
		x := fmt.Sprintf("(%s)/%d*%d", k.expr(e), k.act.elems, k.act.bytes)
		if plus != 0 {
			x += fmt.Sprintf("+%d", plus)
		}
		return x
	}
	a := scale(div, k.act.bytes)
	a.Base += plus
	return k.expr(a)
}

// partialSums reports whether an offset needs sums of q over less than an activation block.
func (k *kernel) partialSums() bool {
	size := 1
	for i, d := range k.shape {
		if k.perRun&(1<<i) != 0 {
			size *= d.Radix
		}
	}
	return size != k.act.elems
}

func (k *kernel) hasOffset() bool { return len(k.value.Minus)+len(k.value.Plus) > 0 }

func (k *kernel) declareSums() {
	if k.perRun == 0 {
		return
	}
	var vars []string
	for _, at := range k.points(k.unroll &^ k.perRun) {
		s := k.suffix(at, k.unroll&^k.perRun)
		k.vars["dot/"+s] = k.names.local("dot" + s)
		vars = append(vars, k.vars["dot/"+s])
		if k.hasOffset() && k.partialSums() {
			k.vars["sum/"+s] = k.names.local("sum" + s)
			vars = append(vars, k.vars["sum/"+s])
		}
	}
	k.printf("var %s int32\n", strings.Join(vars, ", "))
}

// writeSums adds each run's sum to the result: acc += d8 * (scale*dot - offset*sum).
func (k *kernel) writeSums() {
	if k.perRun == 0 {
		return
	}
	for _, at := range k.points(k.unroll &^ k.perRun) {
		s := k.suffix(at, k.unroll&^k.perRun)
		e := restrict(k.at(k.elem, at), k.perRun, make(point, len(k.shape)))
		sum := k.vars["sum/"+s]
		if sum == "" {
			sum = fmt.Sprintf("int32(binary.LittleEndian.Uint32(x[%s:]))", k.blockAt(e, k.act.sumAt))
		}
		k.printf("acc += %s * %s\n", k.blockScale(e), k.scaledSum(at, "float32("+k.vars["dot/"+s]+")", "float32("+sum+")"))
	}
}

func (k *kernel) scaledSum(at point, dot, sum string) string {
	x := dot
	if s := k.product("scale", at); s != "" {
		x = s + "*" + dot
	} else if k.k > 1 {
		x = number(1/float64(k.k)) + "*" + dot
	}
	if !k.hasOffset() {
		return "(" + x + ")"
	}
	return "(" + x + k.offsetSign() + k.product("offset", at) + "*" + sum + ")"
}

// blockScale reads the scale of the activation block that holds an element.
func (k *kernel) blockScale(e layout.Affine) string {
	at := k.blockAt(e, k.act.dAt)
	if at == "0" {
		at = ""
	}
	return fmt.Sprintf("numeric.F16(binary.LittleEndian.Uint16(x[%s:]))", at)
}
