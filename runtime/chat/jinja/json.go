package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonStyle is how tojson writes: as Python's json.dumps with ensure_ascii off.
type jsonStyle struct {
	indent     string // of one level
	lines      bool   // one item a line
	comma      Text
	colon      Text
	sorted     bool
	ascii      bool
	lineBreaks int // depth
}

func filterToJSON(in *interp, v Value, a []Value) Value {
	s := jsonStyle{comma: literal(", "), colon: literal(": "), ascii: truth(or(a[0], false)), sorted: truth(or(a[3], false))}
	if given(a[1]) && a[1] != nil {
		s.lines, s.comma = true, literal(",")
		if t, ok := a[1].(Text); ok {
			s.indent = t.s
		} else {
			n := max(0, in.integer(a[1], "indent"))
			s.indent = string(in.repeat(literal(" "), n).(Text).s)
		}
	}
	if given(a[2]) && a[2] != nil {
		l, ok := a[2].(*sequence)
		if !ok || len(l.items) != 2 {
			in.fail("separators are two texts")
		}
		s.comma, s.colon = in.str(l.items[0], "a separator"), in.str(l.items[1], "a separator")
	}
	var b builder
	in.json(&b, v, s)
	return b.text()
}

func (in *interp) json(b *builder, v Value, s jsonStyle) {
	in.enter()
	defer in.leave()
	in.step()
	in.fits(b.s.Len())
	word := func(s string) { b.add(literal(s)) }
	breakLine := func(depth int) {
		if s.lines {
			in.allocate(1 + depth*len(s.indent))
			word("\n" + strings.Repeat(s.indent, depth))
		}
	}
	block := func(open, end string, n int, one func(i int, inner jsonStyle)) {
		word(open)
		inner := s
		inner.lineBreaks++
		for i := range n {
			if i > 0 {
				b.add(s.comma)
			}
			breakLine(inner.lineBreaks)
			one(i, inner)
		}
		if n > 0 {
			breakLine(s.lineBreaks)
		}
		word(end)
	}
	switch v := v.(type) {
	case nil:
		word("null")
	case bool:
		word(strconv.FormatBool(v))
	case int64:
		word(strconv.FormatInt(v, 10))
	case float64:
		switch {
		case math.IsInf(v, 1):
			word("Infinity")
		case math.IsInf(v, -1):
			word("-Infinity")
		case math.IsNaN(v):
			word("NaN")
		default:
			word(formatFloat(v))
		}
	case Text:
		in.jsonText(b, v, s.ascii)
	case *sequence:
		block("[", "]", len(v.items), func(i int, inner jsonStyle) { in.json(b, v.items[i], inner) })
	case *mapping:
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if s.sorted {
			slices.SortStableFunc(order, func(i, j int) int { in.step(); return in.compare(v.keys[i], v.keys[j], "<") })
		}
		block("{", "}", len(v.keys), func(i int, inner jsonStyle) {
			switch k := v.keys[order[i]].(type) {
			case Text:
				in.jsonText(b, k, s.ascii)
			default: // numbers and constants become texts
				word(`"`)
				in.json(b, k, inner)
				word(`"`)
			}
			b.add(s.colon)
			in.json(b, v.values[order[i]], inner)
		})
	default:
		in.defined(v)
		in.fail("tojson cannot write %s", typeName(v))
	}
}

func (in *interp) jsonText(b *builder, t Text, ascii bool) {
	in.allocate(2*len(t.s) + 2) // escapes are slower than copies
	b.add(literal(`"`))
	plain := 0
	flush := func(i int) {
		if i > plain {
			b.add(t.slice(plain, i))
		}
	}
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		esc := ""
		switch {
		case r == '"':
			esc = `\"`
		case r == '\\':
			esc = `\\`
		case r == '\n':
			esc = `\n`
		case r == '\r':
			esc = `\r`
		case r == '\t':
			esc = `\t`
		case r == '\b':
			esc = `\b`
		case r == '\f':
			esc = `\f`
		case r < 0x20 || ascii && r >= 0x7f && r <= 0xffff && (r != utf8.RuneError || n > 1):
			if r != 0x7f {
				esc = fmt.Sprintf(`\u%04x`, r)
			}
		case ascii && r > 0xffff:
			r -= 0x10000
			esc = fmt.Sprintf(`\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		if esc != "" {
			flush(i)
			b.addAs(esc, t.origin(i))
			plain = i + n
		}
		i += n
	}
	flush(len(t.s))
	b.add(literal(`"`))
}
