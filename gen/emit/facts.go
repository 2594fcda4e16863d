package emit

import (
	"fmt"
	"math"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

// Formula writes the value in the words of the spec: y = d*sc*q - dmin*m.
func Formula(v model.Value) string {
	scale := product(v.Scale)
	weight := product(v.Weight)
	if len(v.Bias) > 0 {
		for _, c := range v.Bias {
			weight += " + " + c.Name
		}
		if scale != "" {
			weight = "(" + weight + ")"
		}
	}
	y := "y = " + weight
	if scale != "" {
		y = "y = " + scale + "*" + weight
	}
	if len(v.Minus) > 0 {
		y += " - " + product(v.Minus)
	}
	if len(v.Plus) > 0 {
		y += " + " + product(v.Plus)
	}
	return y
}

func product(codes []*model.Code) string {
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = c.Name
	}
	return strings.Join(names, "*")
}

// WeightTerm names the integer part of the value: w = g*neg + delta.
func WeightTerm(v model.Value) string {
	w := "w = " + product(v.Weight)
	for _, c := range v.Bias {
		w += " + " + c.Name
	}
	return w
}

// Numbers lists every number that a code can take, indexed by its word, or nil for codes of more than 16 bits
// and codes that are read as floating point.
func Numbers(c *model.Code) []float64 {
	if c.As == model.Levels {
		return c.Levels
	}
	if c.Bits > 16 || (c.As != model.Unsigned && c.As != model.Signed) {
		return nil
	}
	n := make([]float64, 1<<c.Bits)
	for w := range n {
		v := w
		if c.As == model.Signed && w >= 1<<(c.Bits-1) {
			v -= 1 << c.Bits
		}
		n[w] = c.Mul*float64(v) + c.Add
	}
	return n
}

// FieldFacts writes one line per field: where it lies, its type and its use.
func FieldFacts(f *model.Format) []string {
	var lines []string
	for _, d := range f.Fields {
		t := d.Type.Name
		if d.Count > 1 {
			t = fmt.Sprintf("%s[%d]", t, d.Count)
		}
		lines = append(lines, fmt.Sprintf("%-9s %4d..%-4d %s", d.Name, d.AtBytes, d.AtBytes+d.Bits()/8-1, t))
	}
	return lines
}

// PlaneFacts writes one line per plane of each code of a segment, in layout notation over the element's digits.
func PlaneFacts(s *model.Segment) []string {
	var lines []string
	for _, c := range s.Codes {
		for i, p := range c.Planes {
			name := ""
			if i == 0 {
				name = c.Name
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-9s %d %s of %-9s %-28s %s",
				name, p.Bits, plural("bit", p.Bits), Source(p), p.Layout.Notation(s.Shape), Reading(c, i)), " "))
		}
	}
	return lines
}

// Source is the name of what a plane reads.
func Source(p model.Plane) string {
	if p.Field != nil {
		return p.Field.Name
	}
	return p.Code.Name
}

func plural(noun string, n int) string {
	if n == 1 {
		return noun + " "
	}
	return noun + "s"
}

// Reading says how a code's word becomes a number; it stands behind the last plane.
func Reading(c *model.Code, plane int) string {
	if plane < len(c.Planes)-1 {
		return ""
	}
	if t := c.Then; t != nil {
		switch {
		case t.Table != nil:
			return "-> entry of " + t.Table.Name
		case t.Parity:
			return "-> with its even parity bit on top"
		default:
			return fmt.Sprintf("-> %d digits in base %d", t.Digits, t.Radix)
		}
	}
	if c.As == model.Levels {
		return fmt.Sprintf("as one of %v", c.Levels)
	}
	s := ""
	if c.As != model.Unsigned {
		s = "as " + string(c.As)
	}
	if c.Mul != 1 {
		s += fmt.Sprintf(" * %g", c.Mul)
	}
	if c.Add != 0 {
		s += fmt.Sprintf(" %+g", c.Add)
	}
	return strings.TrimSpace(s)
}

// DigitFormula writes the element's index over its digits: e = 128*h + 16*k + l.
func DigitFormula(first int, s layout.Shape) string {
	var terms []string
	if first != 0 {
		terms = append(terms, fmt.Sprint(first))
	}
	for i, d := range s {
		if w := s.Weight(i); w == 1 {
			terms = append(terms, d.Name)
		} else {
			terms = append(terms, fmt.Sprintf("%d*%s", w, d.Name))
		}
	}
	if len(terms) == 0 {
		return "e = 0"
	}
	return "e = " + strings.Join(terms, " + ")
}

// FormatFacts introduces a format at the head of a generated file: geometry, value, fields, planes and the
// facts that follow from them, each with its derivation.
func FormatFacts(f *model.Format) string {
	var b strings.Builder
	x := proof.FactsOf(f)
	fmt.Fprintf(&b, "%s: blocks of %d %s in %d bytes, %d*8/%d = %.5g bits per weight.\n",
		f.Name, f.Elems, plural2("element", f.Elems), f.Bytes, f.Bytes, f.Elems, x.BitsPerWeight)
	fmt.Fprintf(&b, "\n%s\n", Formula(f.Segs[0].Value))
	if x.WeightKnown && !f.Plain() {
		fmt.Fprintf(&b, "%s lies in %g..%g.\n", WeightTerm(f.Segs[0].Value), x.WeightLo, x.WeightHi)
	}
	fmt.Fprintf(&b, "\nBlocks of a row that starts on 16 bytes lie on gcd(16, %d) = %d; %d of them are the least whole number of 16 bytes.\n",
		f.Bytes, x.AlignBytes, x.GroupBlocks)
	if !f.Plain() {
		fmt.Fprintf(&b, "No weight byte serves elements of two different runs of %d.\n", x.ClosedElems)
	}
	b.WriteString("\nField     bytes      type\n")
	for _, l := range FieldFacts(f) {
		b.WriteString(l + "\n")
	}
	for _, s := range f.Segs {
		b.WriteString("\n" + DigitFormula(s.FirstElem, s.Shape) + "\n")
		for _, l := range PlaneFacts(s) {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func plural2(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Integer reports whether x is an integer of moderate size.
func Integer(x float64) bool { return x == math.Trunc(x) && math.Abs(x) < 1<<30 }
