package cuda

import (
	"fmt"
	"regexp"
	"strings"
)

// held writes a second form of a unit: what its loads bring, as it comes, so that a thread can go on to other work before it needs the
// numbers. Its names are overloads, and Unit's member type:
//
//	unit_hold(h, row, cols, u)   starts the loads of unit u of a row
//	unit_read(r, h)              makes of them what unit_at(r, row, cols, u) would have
func (d *decoder) held() string {
	name := heldName(d.name)
	if d.u.Irregular != "" {
		return fmt.Sprintf("struct %[1]s {\n  %[2]s unit;\n};\nMINFER_DEVICE void unit_hold(%[1]s& h, const uint8_t* row, int cols, int u) { unit_at(h.unit, row, cols, u); }\n"+
			"MINFER_DEVICE void unit_read(%[2]s& r, const %[1]s& h) { r = h.unit; }\n", name, d.name)
	}
	var fields, loads strings.Builder
	known := map[string]string{} // load -> member
	read := eachLoad(strings.ReplaceAll(d.loads.String(), "From::", "FromGlobal::"), func(kind, load string) string {
		member, ok := known[load]
		if !ok {
			member = fmt.Sprintf("m%d", len(known))
			known[load] = member
			fmt.Fprintf(&fields, "  %s %s;\n", loadTypes[kind], member)
			fmt.Fprintf(&loads, "  h.%s = %s;\n", member, load)
		}
		return "h." + member
	})
	var b strings.Builder
	fmt.Fprintf(&b, "struct %s {\n%s  int p;\n};\nMINFER_DEVICE void unit_hold(%s& h, const uint8_t* row, int cols, int u) {\n", name, fields.String(), name)
	fmt.Fprintf(&b, "  const int b = u / %[1]s::per_block, p = u %% %[1]s::per_block;\n", d.name)
	if d.u.Place.Planes {
		fmt.Fprintf(&b, "  const int blocks = cols / %s::block_elems;\n", d.name)
	} else {
		fmt.Fprintf(&b, "  const uint8_t* blk = row + (size_t)b * %s::block_bytes;\n", d.name)
	}
	d.planePointers(&b)
	fmt.Fprintf(&b, "%s  h.p = p;\n}\nMINFER_DEVICE void unit_read(%s& r, const %s& h) {\n  const int p = h.p;\n  (void)p;\n%s}\n", loads.String(), d.name, name, read)
	return b.String()
}

// heldName is the struct of a unit's loads.
func heldName(unit string) string { return unit + "_held" }

var loadTypes = map[string]string{"1": "uint8_t", "2": "uint16_t", "4": "uint32_t", "4_by1": "uint32_t", "4_by2": "uint32_t", "8": "uint2", "16": "uint4"}

var loadCall = regexp.MustCompile(`(?:FromGlobal::)?\bload(16|8|4_by2|4_by1|4|2|1)\(`)

// eachLoad replaces the loads in statements.
func eachLoad(text string, replace func(kind, load string) string) string {
	var b strings.Builder
	for {
		at := loadCall.FindStringSubmatchIndex(text)
		if at == nil {
			return b.String() + text
		}
		end, depth := at[1], 1
		for ; depth > 0; end++ {
			switch text[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		b.WriteString(text[:at[0]] + replace(text[at[2]:at[3]], text[at[0]:end]))
		text = text[end:]
	}
}
