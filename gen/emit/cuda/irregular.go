package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/lower"
	"github.com/minfer/minfer/gen/model"
)

// irregular prints a unit that is decoded element by element, from the bit addresses of each: for formats whose elements
// do not lie alike. Groups are quads, or less where scales change within one.
func (d *decoder) irregular() error {
	f := d.u.Format
	for s, seg := range f.Segs {
		for _, c := range seg.Codes {
			d.elementWord(s, seg, c)
		}
	}
	d.group, d.add = sharedScales(f), 0
	fmt.Fprintf(d, "struct %s {\n  const uint8_t* blk;\n  int first;\n", d.name)
	d.constants(d.u.Elems / d.group)
	d.WriteString("};\n")
	fmt.Fprintf(d, "MINFER_DEVICE void unit_load(%s& r, const uint8_t* blk, int p) {\n  r.blk = blk;\n  r.first = p * %d;\n}\n", d.name, d.u.Elems)
	unitAt(d, d.name, false)
	fmt.Fprintf(d, "MINFER_DEVICE int %s_weight(const uint8_t* blk, int e) {\n", d.name)
	if err := d.bySegment(func(s int, seg *model.Segment) (string, error) {
		var parts []string
		for _, c := range seg.Value.Weight {
			if c.As == model.Levels && len(c.Levels) > 0 || c.As == model.Unsigned || c.As == model.Signed {
				parts = append(parts, fmt.Sprintf("(int)(%s)", number(c, d.elementCall(s, c))))
				continue
			}
			return "", fmt.Errorf("%s: weight %s reads as %s, which is no 8-bit integer", f.Name, c.Name, c.As)
		}
		return strings.Join(parts, " * "), nil
	}); err != nil {
		return err
	}
	d.WriteString("}\n")
	fmt.Fprintf(d, "MINFER_DEVICE uint32_t unit_codes(const %s& r, int i) {\n  uint32_t w = 0;\n  MINFER_UNROLL\n  for (int k = 0; k < 4; k++) w |= (uint32_t)(uint8_t)%s_weight(r.blk, r.first + 4 * i + k) << (8 * k);\n  return w;\n}\n", d.name, d.name)
	fmt.Fprintf(d, "MINFER_DEVICE int unit_code(const %s& r, int e) { return %s_weight(r.blk, r.first + e); }\n", d.name, d.name)
	for _, part := range []struct {
		name, none string
		codes      func(*model.Value) (codes []*model.Code, sign string)
	}{
		{"unit_scale", "1.0f", func(v *model.Value) ([]*model.Code, string) { return v.Scale, "" }},
		{"unit_offset", "0.0f", func(v *model.Value) ([]*model.Code, string) {
			if len(v.Plus) > 0 {
				return v.Plus, "-"
			}
			return v.Minus, ""
		}},
		{"unit_bias", "0.0f", func(v *model.Value) ([]*model.Code, string) { return v.Bias, "" }},
	} {
		fmt.Fprintf(d, "MINFER_DEVICE float %s(const %s& r, int g) {\n  const uint8_t* blk = r.blk;\n  const int e = r.first + %d * g;\n", part.name, d.name, d.group)
		if err := d.bySegment(func(s int, seg *model.Segment) (string, error) {
			codes, sign := part.codes(&seg.Value)
			if len(codes) == 0 {
				return part.none, nil
			}
			var parts []string
			for _, c := range codes {
				parts = append(parts, number(c, d.elementCall(s, c)))
			}
			return sign + "(" + strings.Join(parts, " * ") + ")", nil
		}); err != nil {
			return err
		}
		d.WriteString("}\n")
	}
	fmt.Fprintf(d, `MINFER_DEVICE void unit_acc(const %s& r, const a8_file* x, float& acc) {
  MINFER_UNROLL
  for (int i = 0; i < %d; i++) {
    const a8_file& a = x[i / 8];
`, d.name, d.u.Elems/lower.Quad)
	if d.group == lower.Quad {
		d.WriteString(`    const int xq = (int)a.q_qs[i % 8];
    const int dot = dp4a((int)unit_codes(r, i), xq, 0), sum = dp4a(0x01010101, xq, 0);
    acc += a.n_d * (unit_scale(r, i) * ((float)dot + unit_bias(r, i) * (float)sum) - unit_offset(r, i) * (float)sum);
  }
}
`)
		return nil
	}
	parts := lower.Quad / d.group
	fmt.Fprintf(d, `    MINFER_UNROLL
    for (int k = 0; k < %[1]d; k++) {
      const int g = %[1]d * i + k;
      const int xq = (int)(a.q_qs[i %% 8] & 0x%[2]xu << (%[3]d * k));  // the elements of group g
      const int dot = dp4a((int)unit_codes(r, i), xq, 0), sum = dp4a(0x01010101, xq, 0);
      acc += a.n_d * (unit_scale(r, g) * ((float)dot + unit_bias(r, g) * (float)sum) - unit_offset(r, g) * (float)sum);
    }
  }
}
`, parts, 1<<(8*d.group)-1, 8*d.group)
	return nil
}

// sharedScales is the length of the runs, a whole part of a quad, whose elements have the same scales, offsets and biases.
func sharedScales(f *model.Format) int {
	var instances []string // of the codes, by element
	for s, seg := range f.Segs {
		v := seg.Value
		for e := range seg.Elems() {
			digits := seg.Shape.Digits(e)
			key := fmt.Sprint(s)
			for _, c := range slices.Concat(v.Scale, v.Minus, v.Plus, v.Bias) {
				key += instance(c, digits)
			}
			instances = append(instances, key)
		}
	}
	for n := lower.Quad; n > 1; n /= 2 {
		alike := true
		for e, key := range instances {
			alike = alike && key == instances[e/n*n]
		}
		if alike {
			return n
		}
	}
	return 1
}

// instance says which bits a code reads for an element.
func instance(c *model.Code, digits []int) string {
	key := " " + c.Name
	for _, p := range c.Planes {
		key += fmt.Sprint(":", p.Layout.At(digits))
		if p.Code != nil {
			key += instance(p.Code, digits)
		}
	}
	return key
}

// bySegment writes the return statements of a function of the element e.
func (d *decoder) bySegment(expr func(s int, seg *model.Segment) (string, error)) error {
	for s, seg := range d.u.Format.Segs {
		e, err := expr(s, seg)
		if err != nil {
			return err
		}
		if s < len(d.u.Format.Segs)-1 {
			fmt.Fprintf(d, "  if (e < %d) return %s;\n", seg.FirstElem+seg.Elems(), e)
		} else {
			fmt.Fprintf(d, "  return %s;\n", e)
		}
	}
	return nil
}

func (d *decoder) elementName(s int, c *model.Code) string {
	return fmt.Sprintf("%s_%s%d", d.name, c.Name, s)
}

func (d *decoder) elementCall(s int, c *model.Code) string {
	return fmt.Sprintf("%s(blk, e - %d)", d.elementName(s, c), d.u.Format.Segs[s].FirstElem)
}

// elementWord writes the function that reads a code's raw word for element e of its segment.
func (d *decoder) elementWord(s int, seg *model.Segment, c *model.Code) {
	fmt.Fprintf(d, "MINFER_DEVICE uint32_t %s(const uint8_t* blk, int e) {\n", d.elementName(s, c))
	var parts []string
	for i, p := range c.Planes {
		pos := 0
		for _, q := range c.Planes[:i] {
			pos += q.Bits
		}
		a := fmt.Sprintf("a%d", i)
		fmt.Fprintf(d, "  const int %s = %s;\n", a, addressOf(seg.Shape, p.Layout))
		var e string
		if p.Field != nil {
			base := d.u.Place.At[p.Field]
			e = fmt.Sprintf("bits_at(blk + %d, %s, %d)", base, a, p.Bits)
		} else {
			w := fmt.Sprintf("%s(blk, e)", d.elementName(s, p.Code))
			switch t := p.Code.Then; {
			case t == nil:
			case t.Parity:
				w = fmt.Sprintf("with_parity(%s, %d)", w, p.Code.Bits)
			case t.Table != nil:
				d.wordTable(t.Table)
				w = fmt.Sprintf("%s_words[%s]", t.Table.Name, w)
			default:
				w = fmt.Sprintf("radix_digits(%s, %d, %d, %d)", w, p.Code.Bits, t.Radix, t.Digits)
			}
			e = fmt.Sprintf("(uint32_t)(%s >> %s & 0x%xu)", w, a, uint64(1)<<p.Bits-1)
		}
		if pos > 0 {
			e = fmt.Sprintf("%s << %d", e, pos)
		}
		parts = append(parts, e)
	}
	fmt.Fprintf(d, "  return %s;\n}\n", strings.Join(parts, " | "))
}

// wordTable writes a codebook's packed entries, before the function that is being written; C++ allows it inside.
func (d *decoder) wordTable(t *model.Table) {
	var entries []string
	for _, e := range t.Entries {
		entries = append(entries, fmt.Sprintf("0x%xull", e))
	}
	fmt.Fprintf(d, "  static constexpr unsigned long long %s_words[%d] = {\n%s};\n", t.Name, len(entries), wrap(entries))
}

// addressOf is the bit address of element e.
func addressOf(s layout.Shape, a layout.Affine) string {
	var parts []string
	for i, digit := range s {
		if !a.Uses(s, i) {
			continue
		}
		e := "e"
		if w := s.Weight(i); w > 1 {
			e = fmt.Sprintf("e / %d", w)
		}
		if i > 0 {
			e = fmt.Sprintf("(%s) %% %d", e, digit.Radix)
		}
		parts = append(parts, fmt.Sprintf("%d * (%s)", a.Stride[i], e))
	}
	if a.Base != 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprint(a.Base))
	}
	return strings.Join(parts, " + ")
}
