package cuda

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// dot writes the dot product of a unit with activations that stay in registers while a thread goes down the rows of a matrix. What
// depends on the activations alone is prepared once, in a struct of its own:
//
//	unit_prepare(x, a)   x from blocks of a8
//	unit_dot(r, x)       the unit's part of the sum
//
// Everything that is whole numbers is summed in whole numbers and becomes a float once for each block of activations: sub-block
// scales and mins are, and the codes. It is called before the struct of the unit is written, and adds members to it.
func (d *decoder) dot(scale, minus, bias []string) string {
	const perAct = 32
	x := d.name + "_acts"
	acts, groups := d.u.Elems/perAct, d.u.Elems/d.group
	if d.u.Elems%perAct != 0 || d.group > perAct {
		return "" // no kernel takes such units with activations in registers
	}
	hasSum := minus != nil || bias != nil
	var b strings.Builder
	fmt.Fprintf(&b, "struct %s {\n  int q[%d];\n  float d[%d];\n", x, d.u.Elems/lower.Quad, acts)
	if d.add != 0 {
		fmt.Fprintf(&b, "  int start[%d];  // %d times the sum of a group\n", groups, d.add)
	}
	if hasSum {
		fmt.Fprintf(&b, "  int sum[%d];\n", groups)
	}
	fmt.Fprintf(&b, "};\nMINFER_DEVICE void unit_prepare(%s& x, const a8_file* a) {\n", x)
	for k := range acts {
		fmt.Fprintf(&b, "  x.d[%d] = a[%d].n_d;\n  MINFER_UNROLL\n  for (int i = 0; i < %d; i++) x.q[i + %d] = (int)a[%d].q_qs[i];\n", k, k, perAct/lower.Quad, k*perAct/lower.Quad, k)
	}
	if d.add != 0 || hasSum {
		quads := d.group / lower.Quad
		for g := range groups {
			sum := fmt.Sprintf("(int)a[%d].n_sum", g*d.group/perAct)
			if d.group != perAct {
				sum = fmt.Sprintf("sum%d", g)
				fmt.Fprintf(&b, "  int sum%d = 0;\n  MINFER_UNROLL\n  for (int i = %d; i < %d; i++) sum%d = dp4a(0x01010101, x.q[i], sum%d);\n", g, g*quads, (g+1)*quads, g, g)
			}
			if d.add != 0 {
				fmt.Fprintf(&b, "  x.start[%d] = %d * %s;\n", g, d.add, sum)
			}
			if hasSum {
				fmt.Fprintf(&b, "  x.sum[%d] = %s;\n", g, sum)
			}
		}
	}
	b.WriteString("}\n")

	fmt.Fprintf(&b, "MINFER_DEVICE float unit_dot(const %s& r, const %s& x) {\n", d.name, x)
	for g := range groups {
		d.groupDot(&b, g)
	}
	scaleInt, scaleFloat := d.whole(d.u.Value.Scale, d.group*127*d.codeLimit())
	minusCodes, sign := d.u.Value.Minus, "-"
	if len(d.u.Value.Plus) > 0 {
		minusCodes, sign = d.u.Value.Plus, ""
	}
	minusInt, minusFloat := d.whole(minusCodes, d.group*127)
	b.WriteString("  float y = 0.0f;\n")
	for k := range acts {
		var inAct []int
		for g := range groups {
			if g*d.group/perAct == k {
				inAct = append(inAct, g)
			}
		}
		if bias == nil && (scaleInt != "" || len(d.u.Value.Scale) == 0 || len(distinctStrings(scale)) == 1 && scaleFloat != "") {
			var terms []string
			for _, g := range inAct {
				t := fmt.Sprintf("dot%d", g)
				if scaleInt != "" {
					t = fmt.Sprintf("r.i_%s * %s", d.instance(scaleInt, g), t)
				}
				terms = append(terms, t)
			}
			fmt.Fprintf(&b, "  y = fmaf(%s, (float)(%s), y);\n", times(fmt.Sprintf("x.d[%d]", k), scaleFloat), strings.Join(terms, " + "))
		} else {
			for _, g := range inAct {
				t := fmt.Sprintf("(float)dot%d", g)
				if bias != nil {
					t = fmt.Sprintf("fmaf(%s, (float)x.sum[%d], %s)", bias[g], g, t)
				}
				s := ""
				if scale != nil {
					s = scale[g]
				}
				fmt.Fprintf(&b, "  y = fmaf(%s, %s, y);\n", times(fmt.Sprintf("x.d[%d]", k), s), t)
			}
		}
		switch {
		case minus == nil:
		case minusInt != "":
			var terms []string
			for _, g := range inAct {
				terms = append(terms, fmt.Sprintf("r.i_%s * x.sum[%d]", d.instance(minusInt, g), g))
			}
			fmt.Fprintf(&b, "  y = fmaf(%s%s, (float)(%s), y);\n", sign, parenthesized(times(fmt.Sprintf("x.d[%d]", k), minusFloat)), strings.Join(terms, " + "))
		default:
			for _, g := range inAct {
				m := strings.TrimPrefix(minus[g], "-")
				fmt.Fprintf(&b, "  y = fmaf(%s%s, (float)x.sum[%d], y);\n", sign, parenthesized(times(fmt.Sprintf("x.d[%d]", k), m)), g)
			}
		}
	}
	b.WriteString("  return y;\n}\n")
	return b.String()
}

func times(a, b string) string {
	if b == "" {
		return a
	}
	return a + " * (" + b + ")"
}

func parenthesized(e string) string {
	if strings.Contains(e, " ") {
		return "(" + e + ")"
	}
	return e
}

// groupDot writes the whole-number dot product of group g, its start included.
func (d *decoder) groupDot(b *strings.Builder, g int) {
	start := "0"
	if d.add != 0 {
		start = fmt.Sprintf("x.start[%d]", g)
	}
	quads := d.group / lower.Quad
	fmt.Fprintf(b, "  int dot%d = %s;\n", g, start)
	p, mask := d.inPlace()
	if p == nil {
		fn := "dp4a((int)unit_codes(r, i), "
		if d.unsignedCodes() {
			fn = "dp4a_u(unit_codes(r, i), "
		}
		fmt.Fprintf(b, "  MINFER_UNROLL\n  for (int i = %d; i < %d; i++) dot%d = %sx.q[i], dot%d);\n", g*quads, (g+1)*quads, g, fn, g)
		return
	}
	// Codes stay where they lie in their bytes: those that are shifted by s give 2^s times their sum.
	words := distinct(p.At)
	var shifts []int
	for i := g * quads; i < (g+1)*quads; i++ {
		shifts = append(shifts, p.Shift.Base+p.ShiftAt[i])
	}
	for _, s := range distinct(shifts) {
		acc := fmt.Sprintf("dot%d", g)
		if s > 0 {
			acc = fmt.Sprintf("dot%d_%d", g, s)
			fmt.Fprintf(b, "  int %s = 0;\n", acc)
		}
		for i := g * quads; i < (g+1)*quads; i++ {
			if p.Shift.Base+p.ShiftAt[i] == s {
				fmt.Fprintf(b, "  %s = dp4a_u(r.%s[%d] & 0x%08xu, x.q[%d], %s);\n", acc, memberName(d.weight, *p), slices.Index(words, p.At[i]), mask<<s, i, acc)
			}
		}
		if s > 0 {
			fmt.Fprintf(b, "  dot%d += %s >> %d;\n", g, acc, s)
		}
	}
}

// inPlace is the only plane of the weight, where its codes are unsigned bits of bytes at shifts that the generator knows, and the mask
// of four of them; nil otherwise.
func (d *decoder) inPlace() (*lower.Plane, uint32) {
	planes := d.u.Codes[d.weight].Planes
	if len(planes) != 1 || planes[0].Kind != lower.Bytes || d.levels != nil || len(d.signs) > 0 || d.weight.As != model.Unsigned {
		return nil, 0
	}
	p := &planes[0]
	if unitTerms(d.u.Shape, p.Shift.Stride) != "" || slices.Max(p.ShiftAt)+p.Shift.Base+p.Plane.Bits > 8 {
		return nil, 0
	}
	return p, (uint32(1)<<p.Plane.Bits - 1) * 0x01010101
}

// codeLimit is the greatest magnitude of code + add.
func (d *decoder) codeLimit() int {
	limit := 1<<d.weight.Bits - 1
	if d.levels != nil {
		limit = 128
	}
	return max(limit, -d.add) + max(0, d.add)
}

// whole splits the factors of a product into one code that is a whole number, whose members i_NAME it adds to the unit, and an
// expression of the others, which must not vary within the unit. It succeeds where sums of magnitude limit for each group, times the
// code, fit 32 bits; otherwise the name is "", and the expression the product of factors that are alike in all groups, if they are.
func (d *decoder) whole(codes []*model.Code, limit int) (name, others string) {
	var rest []string
	groups := d.u.Elems / d.group
	for k := len(codes) - 1; k >= 0; k-- {
		c := codes[k]
		lo, hi, ok := wholeRange(c)
		if ok && name == "" && float64(limit)*float64(groups)*math.Max(-lo, hi) < math.MaxInt32 {
			name = c.Name
			n := d.u.Elems / d.u.Codes[c].Group
			if n == 1 {
				fmt.Fprintf(&d.fields, "  int i_%s;\n", name)
			} else {
				fmt.Fprintf(&d.fields, "  int i_%s[%d];\n", name, n)
			}
			var b strings.Builder
			for i, w := range d.groupWords(&b, c, n) {
				target := "r.i_" + name
				if n > 1 {
					target += fmt.Sprintf("[%d]", i)
				}
				fmt.Fprintf(&d.loads, "  %s = %s;\n", target, wholeNumber(c, w))
			}
			continue
		}
		if d.u.Codes[c].Group < d.u.Elems {
			return "", ""
		}
		rest = append(rest, "r.n_"+c.Name)
	}
	return name, strings.Join(rest, " * ")
}

// instance is the member of a whole-number code for group g.
func (d *decoder) instance(name string, g int) string {
	for c, lc := range d.u.Codes {
		if c.Name == name {
			if n := d.u.Elems / lc.Group; n > 1 {
				return fmt.Sprintf("%s[%d]", name, g*n*d.group/d.u.Elems)
			}
		}
	}
	return name
}

// wholeRange is the range of a code that reads as a small whole number.
func wholeRange(c *model.Code) (lo, hi float64, ok bool) {
	if c.Mul != 1 || c.Add != math.Trunc(c.Add) || c.Bits > 8 {
		return 0, 0, false
	}
	switch c.As {
	case model.Unsigned:
		lo, hi = 0, float64(int(1)<<c.Bits-1)
	case model.Signed:
		lo, hi = -float64(int(1)<<(c.Bits-1)), float64(int(1)<<(c.Bits-1)-1)
	default:
		return 0, 0, false
	}
	return lo + c.Add, hi + c.Add, true
}

// wholeNumber is the integer that a code word reads as.
func wholeNumber(c *model.Code, w string) string {
	e := fmt.Sprintf("(int)(%s)", w)
	if c.As == model.Signed {
		e = fmt.Sprintf("(int)((unsigned)(%s) << %d) >> %d", w, 32-c.Bits, 32-c.Bits)
		if c.Bits == 8 {
			e = fmt.Sprintf("(int)(int8_t)(%s)", w)
		}
	}
	if c.Add != 0 {
		e = fmt.Sprintf("%s + %d", e, int(c.Add))
	}
	return e
}
