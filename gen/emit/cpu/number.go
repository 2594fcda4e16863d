package cpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// tables collects the arrays that generated code reads, each once however many formats share it.
type tables struct {
	source map[string]string // name to declaration
	byBody map[string]string // declaration without its name to name
}

func newTables() *tables {
	return &tables{source: map[string]string{}, byBody: map[string]string{}}
}

// add declares an array and yields its name: the wanted one, or that of an equal array declared before.
func (t *tables) add(name, doc, typ string, values []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "= [%d]%s{", len(values), typ)
	perLine := 16
	for i, v := range values {
		if i%perLine == 0 {
			b.WriteString("\n")
		}
		b.WriteString(v + ",")
	}
	b.WriteString("\n}\n")
	if n, ok := t.byBody[b.String()]; ok {
		return n
	}
	for base, i := name, 2; t.source[name] != ""; i++ {
		name = base + strconv.Itoa(i)
	}
	t.byBody[b.String()] = name
	t.source[name] = emit.Comment(name+" "+doc) + "var " + name + b.String()
	return name
}

// write lists the arrays by name.
func (t *tables) write(b *strings.Builder) {
	names := make([]string, 0, len(t.source))
	for n := range t.source {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		b.WriteString("\n" + t.source[n])
	}
}

// unsignedType is the narrowest Go type of so many bits.
func unsignedType(bits int) string {
	for _, w := range []int{8, 16, 32} {
		if bits <= w {
			return fmt.Sprintf("uint%d", w)
		}
	}
	return "uint64"
}

// codebook is the array of a codebook's entries.
func (t *tables) codebook(m *model.Table) string {
	bits := m.Width * m.Bits
	values := make([]string, len(m.Entries))
	for i, e := range m.Entries {
		values[i] = fmt.Sprintf("%#0*x", 2+(bits+3)/4, e)
	}
	return t.add(emit.CamelName(m.Name), fmt.Sprintf("is a codebook: %d sub-codes of %d bits an entry, sub-code j at bit %d*j.", m.Width, m.Bits, m.Bits),
		unsignedType(bits), values)
}

// then is the array that carries out a transform of words of so many bits, or an error where none is small enough.
func (t *tables) then(c *model.Code) (string, error) {
	if c.Then.Table != nil {
		return t.codebook(c.Then.Table), nil
	}
	if c.Bits > 12 {
		return "", fmt.Errorf("code %s: a transform of %d bits needs a table of 2^%d entries; at most 12 bits are supported", c.Name, c.Bits, c.Bits)
	}
	values := make([]string, 1<<c.Bits)
	for w := range values {
		values[w] = fmt.Sprintf("%#x", transform(c.Then, uint64(w), c.Bits))
	}
	if c.Then.Parity {
		return t.add(fmt.Sprintf("evenParity%d", c.Bits), fmt.Sprintf("is a word of %d bits with a bit on top that makes the number of ones even.", c.Bits),
			unsignedType(c.ThenBits), values), nil
	}
	return t.add(fmt.Sprintf("base%dDigits%dOf%d", c.Then.Radix, c.Then.Digits, c.Bits),
		fmt.Sprintf("is the first %d digits in base %d of a %d-bit fraction, %d bits a digit, digit i at bit %d*i.",
			c.Then.Digits, c.Then.Radix, c.Bits, c.Then.DigitBits(), c.Then.DigitBits()),
		unsignedType(c.ThenBits), values), nil
}

// transform is what a parity or radix transform makes of a word.
func transform(t *model.Then, w uint64, width int) uint64 {
	if t.Parity {
		ones := uint64(0)
		for v := w; v != 0; v &= v - 1 {
			ones++
		}
		return w | ones&1<<width
	}
	out, mask := uint64(0), uint64(1)<<width-1
	for i := range t.Digits {
		w *= uint64(t.Radix)
		out |= w >> width << (i * t.DigitBits())
		w &= mask
	}
	return out
}

// integerScale is the least power of two that makes all numbers of a code integers; false where none up to
// 2^10 does, or where the numbers are not a short list.
func integerScale(c *model.Code) (int, bool) {
	numbers := emit.Numbers(c)
	if numbers == nil {
		return 0, false
	}
	for k := 1; k <= 1<<10; k *= 2 {
		if !slices.ContainsFunc(numbers, func(x float64) bool { return !emit.Integer(x * float64(k)) }) {
			return k, true
		}
	}
	return 0, false
}

// integer writes the number of a word, times k, as an int32. It is of the highest precedence, or a sum.
func (t *tables) integer(owner string, c *model.Code, word string, k int) string {
	mul, add := c.Mul*float64(k), c.Add*float64(k)
	var x string
	switch {
	case c.As == model.Levels && len(c.Levels) == 2:
		// Two levels are an affine function of the bit.
		mul, add = (c.Levels[1]-c.Levels[0])*float64(k), c.Levels[0]*float64(k)
		x = "int32(" + word + ")"
	case c.As == model.Levels:
		x = "int32(" + t.levels(owner, c, k) + "[" + word + "])"
		mul, add = 1, 0
	case c.As == model.Signed:
		x = signed(c.Bits, word)
	default:
		x = "int32(" + word + ")"
	}
	return linear(x, mul, add)
}

// linear writes mul*x + add for integers mul and add.
func linear(x string, mul, add float64) string {
	switch {
	case mul == 1:
	case mul < 0 && add != 0:
		return fmt.Sprintf("%d - %s", int(add), linear(x, -mul, 0))
	case mul == -1:
		x = "-" + x
	default:
		x = fmt.Sprintf("%d*%s", int(mul), x)
	}
	switch {
	case add > 0:
		x += fmt.Sprintf("+%d", int(add))
	case add < 0:
		x += fmt.Sprintf("-%d", int(-add))
	}
	return x
}

// signed writes a word as a two's complement number of so many bits.
func signed(bits int, word string) string {
	switch bits {
	case 8, 16:
		return fmt.Sprintf("int32(int%d(%s))", bits, bare(word))
	case 32, 64:
		return fmt.Sprintf("int%d(%s)", bits, word)
	}
	return fmt.Sprintf("(int32(%s)<<%d>>%d)", parenthesize(word), 32-bits, 32-bits)
}

// levels is the array of a code's level table times k, filled up to 2^bits entries so that no word is outside.
func (t *tables) levels(owner string, c *model.Code, k int) string {
	values := make([]string, 1<<c.Bits)
	typ := "int8"
	for i := range values {
		v := 0.0
		if i < len(c.Levels) {
			v = c.Levels[i] * float64(k)
		}
		if !emit.Integer(v) || v < -128 || v > 127 {
			typ = "float32"
			if emit.Integer(v) && k > 1 {
				typ = "int32"
			}
		}
		values[i] = strconv.FormatFloat(v, 'g', -1, 32)
	}
	return t.add(emit.CamelName(owner)+"Levels", "is a level table, padded to a power of two.", typ, values)
}

// float writes the number of a word as a float32.
func (t *tables) float(owner string, c *model.Code, word string) string {
	affine := c.Mul != 1 || c.Add != 0
	switch c.As {
	case model.Levels:
		if k, ok := integerScale(c); ok && k == 1 && len(c.Levels) == 2 {
			return toFloat(t.integer(owner, c, word, 1))
		}
		if len(c.Levels) == 2 {
			d := c.Levels[1] - c.Levels[0]
			if float64(float32(d)) == d && float64(float32(c.Levels[0])+float32(d)) == c.Levels[1] {
				return plusMinus(fmt.Sprintf("float32(%s)", word), d, c.Levels[0])
			}
		}
		return "float32(" + t.levels(owner, c, 1) + "[" + word + "])"
	case model.F16, model.BF16, model.F32, model.F64, model.E8M0, model.UE4M3:
		return floating(c, word)
	}
	if k, ok := integerScale(c); ok && k == 1 {
		return toFloat(t.integer(owner, c, word, 1))
	}
	x := word
	if c.As == model.Signed {
		x = signed(c.Bits, word)
	}
	if !affine {
		return "float32(" + x + ")"
	}
	// In float32 where that is exact for every word, as for 0.25*w + 0.125; else rounded once from float64.
	exact := true
	for _, v := range emit.Numbers(c) {
		w := (v - c.Add) / c.Mul
		exact = exact && float64(float32(w)*float32(c.Mul)+float32(c.Add)) == v && float64(float32(w)*float32(c.Mul)) == w*c.Mul
	}
	if exact && emit.Numbers(c) != nil {
		return plusMinus("float32("+x+")", c.Mul, c.Add)
	}
	return "float32(" + plusMinus("float64("+x+")", c.Mul, c.Add) + ")"
}

// floating writes the number of a word that is read as floating point.
func floating(c *model.Code, word string) string {
	var x string
	single := true // x is a float32 rather than a float64
	switch c.As {
	case model.F16:
		x = "numeric.F16(" + narrow("uint16", word) + ")"
	case model.BF16:
		x = "numeric.BF16(" + narrow("uint16", word) + ")"
	case model.F32:
		x = "math.Float32frombits(" + word + ")"
	case model.F64:
		x, single = "math.Float64frombits("+word+")", false
	case model.E8M0:
		x, single = "numeric.E8M0(uint8("+word+"))", false
	case model.UE4M3:
		x = "numeric.UE4M3(" + narrow("uint8", word) + ")"
	}
	if c.Mul == 1 && c.Add == 0 {
		if single {
			return x
		}
		return "float32(" + x + ")"
	}
	if single {
		x = "float64(" + x + ")"
	}
	return "float32(" + plusMinus(x, c.Mul, c.Add) + ")"
}

// plusMinus writes mul*x + add.
func plusMinus(x string, mul, add float64) string {
	if mul != 1 {
		x = number(mul) + "*" + x
	}
	switch {
	case add > 0:
		x += "+" + number(add)
	case add < 0:
		x += "-" + number(-add)
	}
	return x
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// parenthesize makes an expression safe as an operand of a product: anything but a name, a call, an index or a
// conversion is put in parentheses.
func parenthesize(x string) string {
	depth := 0
	for i := 0; i < len(x); i++ {
		switch x[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '+', '-', '|', '&', '<', '>', ' ':
			if depth == 0 {
				return "(" + x + ")"
			}
		}
	}
	return x
}

// factors multiplies expressions.
func factors(list []string) string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = x
		if len(list) > 1 {
			out[i] = parenthesize(x)
		}
	}
	return strings.Join(out, " * ")
}

// weightInteger is the power of two that makes product(weight) + sum(bias) an integer; false where none up to 2^10 does.
func weightInteger(v model.Value) (k int, ok bool) {
	k = 1
	for _, c := range v.Weight {
		s, ok := integerScale(c)
		if !ok {
			return 0, false
		}
		k *= s
	}
	for _, c := range v.Bias {
		s, ok := integerScale(c)
		if !ok {
			return 0, false
		}
		k = max(k, s)
	}
	return k, k <= 1<<10
}

// zeroSafe reports whether the product of the weight codes, taken in integers, has the sign of zero that
// float32 gives it: with several factors that holds where none of them is ever zero.
func zeroSafe(v model.Value) bool {
	return len(v.Weight) <= 1 || !slices.ContainsFunc(v.Weight, func(c *model.Code) bool {
		return slices.Contains(emit.Numbers(c), 0)
	})
}

// toFloat converts an int32 expression to float32; the int32 conversion of a narrower number falls away.
func toFloat(x string) string {
	if inner, ok := inside("int32", x); ok {
		x = inner
	}
	return "float32(" + x + ")"
}

// narrow converts a word to a narrower unsigned type; the widening of a loaded item falls away.
func narrow(typ, word string) string {
	if inner, ok := inside("uint32", word); ok {
		return inner
	}
	return typ + "(" + word + ")"
}

// inside is the operand of an expression that is a conversion to typ as a whole.
func inside(typ, x string) (string, bool) {
	rest, ok := strings.CutPrefix(x, typ+"(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return "", false
	}
	depth := 1
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 && i < len(rest)-1 {
				return "", false
			}
		}
	}
	return rest[:len(rest)-1], true
}

// bare is an expression without the widening of a loaded item around it.
func bare(word string) string {
	if inner, ok := inside("uint32", word); ok {
		return inner
	}
	return word
}

// mask is so many ones.
func mask(bits int) string {
	if m := uint64(1)<<bits - 1; m < 10 {
		return strconv.FormatUint(m, 10)
	} else {
		return fmt.Sprintf("%#x", m)
	}
}
