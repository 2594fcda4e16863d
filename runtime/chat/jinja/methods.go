package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is what a value of type V offers: parameters and what the call does.
type method[V any] struct {
	params []string
	apply  func(in *interp, v V, a []Value) Value
}

// of binds the method to its value.
func (m method[V]) of(id string, v V) Value {
	return &function{id, func(in *interp, a called) Value {
		return m.apply(in, v, a.bind(in, id+"()", m.params...))
	}}
}

var (
	textMethods map[string]method[Text]
	listMethods map[string]method[*sequence]
	dictMethods map[string]method[*mapping]
)

// strip cuts from the ends white space, or the characters that are given.
func (in *interp) strip(t Text, chars Value, left, right bool) Text {
	in.work(len(t.s))
	if !given(chars) || chars == nil {
		return t.strip(left, right, isSpace)
	}
	set := in.str(chars, "what to strip").s
	if len(set) <= 8 {
		return t.strip(left, right, func(r rune) bool { return strings.ContainsRune(set, r) })
	}
	in.allocate(valueBytes * len(set))
	chosen := map[rune]bool{}
	for _, r := range set {
		chosen[r] = true
	}
	return t.strip(left, right, func(r rune) bool { return chosen[r] })
}

func (in *interp) texts(parts []Text) Value {
	in.allocate(2 * valueBytes * len(parts))
	l := &sequence{items: make([]Value, len(parts))}
	for i, p := range parts {
		l.items[i] = p
	}
	return l
}

func init() {
	plain := func(f func(t Text) Value) method[Text] {
		return method[Text]{nil, func(in *interp, t Text, _ []Value) Value {
			in.allocate(len(t.s))
			return f(t)
		}}
	}
	all := func(in func(r rune) bool) method[Text] {
		return plain(func(t Text) Value {
			return t.s != "" && !strings.ContainsFunc(t.s, func(r rune) bool { return !in(r) })
		})
	}
	strip := func(left, right bool) method[Text] {
		return method[Text]{[]string{"chars"}, func(in *interp, t Text, a []Value) Value { return in.strip(t, a[0], left, right) }}
	}
	edge := func(has func(s, edge string) bool) method[Text] {
		return method[Text]{[]string{"edge", "start", "end"}, func(in *interp, t Text, a []Value) Value {
			t = in.window(t, a[1], a[2])
			options := []Value{a[0]}
			if l, ok := a[0].(*sequence); ok && l.tuple {
				options = l.items
			}
			for _, o := range options {
				in.step()
				if has(t.s, in.str(or(o, nil), "what a text begins or ends with").s) {
					return true
				}
			}
			return false
		}}
	}
	find := func(index func(s, part string) int, must bool) method[Text] {
		return method[Text]{[]string{"sub", "start", "end"}, func(in *interp, t Text, a []Value) Value {
			in.work(len(t.s))
			part := in.window(t, a[1], a[2])
			at := index(part.s, in.str(or(a[0], nil), "what to find").s)
			if at < 0 {
				if must {
					in.fail("the text is not found")
				}
				return int64(-1)
			}
			skipped := int64(0)
			if given(a[1]) && a[1] != nil {
				skipped = in.integer(a[1], "start")
				if skipped < 0 {
					skipped = max(0, skipped+int64(t.chars()))
				}
			}
			return skipped + int64(utf8.RuneCountInString(part.s[:at]))
		}}
	}
	split := func(cut func(t Text, sep string, limit int) []Text, blanks func(t Text, limit int) []Text) method[Text] {
		return method[Text]{[]string{"sep", "maxsplit"}, func(in *interp, t Text, a []Value) Value {
			in.allocate(len(t.s))
			limit := int(max(-1, min(1<<30, in.integer(or(a[1], int64(-1)), "maxsplit"))))
			if !given(a[0]) || a[0] == nil {
				return in.texts(blanks(t, limit))
			}
			sep := in.str(a[0], "the separator").s
			if sep == "" {
				in.fail("the separator is empty")
			}
			in.times(int64(strings.Count(t.s, sep)), valueBytes)
			return in.texts(cut(t, sep, limit))
		}}
	}
	parts := func(index func(s, sep string) int, whole int) method[Text] {
		return method[Text]{[]string{"sep"}, func(in *interp, t Text, a []Value) Value {
			in.work(len(t.s))
			sep := in.str(or(a[0], nil), "the separator")
			l := &sequence{items: []Value{Text{}, Text{}, Text{}}, tuple: true}
			if i := index(t.s, sep.s); i >= 0 {
				l.items[0], l.items[1], l.items[2] = t.slice(0, i), t.slice(i, i+len(sep.s)), t.slice(i+len(sep.s), len(t.s))
			} else {
				l.items[whole] = t
			}
			return l
		}}
	}
	pad := func(place func(t, fill Text) Text) method[Text] {
		return method[Text]{[]string{"width", "fillchar"}, func(in *interp, t Text, a []Value) Value {
			fill := in.str(or(a[1], literal(" ")), "fillchar")
			if fill.chars() != 1 {
				in.fail("fillchar is one character")
			}
			n := in.integer(or(a[0], nil), "width") - int64(t.chars())
			return place(t, in.repeat(fill, n).(Text))
		}}
	}
	textMethods = map[string]method[Text]{
		"strip":      strip(true, true),
		"lstrip":     strip(true, false),
		"rstrip":     strip(false, true),
		"split":      split(Text.splitOn, Text.fields),
		"rsplit":     split(Text.rsplitOn, Text.rfields),
		"partition":  parts(strings.Index, 0),
		"rpartition": parts(strings.LastIndex, 2),
		"startswith": edge(strings.HasPrefix),
		"endswith":   edge(strings.HasSuffix),
		"find":       find(strings.Index, false),
		"rfind":      find(strings.LastIndex, false),
		"index":      find(strings.Index, true),
		"rindex":     find(strings.LastIndex, true),
		"ljust":      pad(func(t, fill Text) Text { return concat(t, fill) }),
		"rjust":      pad(func(t, fill Text) Text { return concat(fill, t) }),
		"upper":      plain(func(t Text) Value { return upper(t) }),
		"lower":      plain(func(t Text) Value { return lower(t) }),
		"casefold":   plain(func(t Text) Value { return lower(t) }),
		"capitalize": plain(func(t Text) Value { return capitalize(t) }),
		"title":      plain(func(t Text) Value { return titleCase(t) }),
		"isspace":    all(isSpace),
		"isdigit":    all(unicode.IsDigit),
		"isdecimal":  all(unicode.IsDigit),
		"isnumeric":  all(unicode.IsNumber),
		"isalpha":    all(unicode.IsLetter),
		"isalnum":    all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isupper":    {nil, func(in *interp, t Text, _ []Value) Value { return in.test("upper", t, called{}) }},
		"islower":    {nil, func(in *interp, t Text, _ []Value) Value { return in.test("lower", t, called{}) }},
		"splitlines": {[]string{"keepends"}, func(in *interp, t Text, a []Value) Value {
			in.allocate(len(t.s))
			return in.texts(t.lines(truth(or(a[0], false))))
		}},
		"count": {[]string{"sub", "start", "end"}, func(in *interp, t Text, a []Value) Value {
			in.work(len(t.s))
			return int64(strings.Count(in.window(t, a[1], a[2]).s, in.str(or(a[0], nil), "what to count").s))
		}},
		"replace": {[]string{"old", "new", "count"}, func(in *interp, t Text, a []Value) Value {
			return in.replace(t, in.str(or(a[0], nil), "what to replace"), in.str(or(a[1], nil), "what to replace with"), in.integer(or(a[2], int64(-1)), "count"))
		}},
		"removeprefix": {[]string{"prefix"}, func(in *interp, t Text, a []Value) Value {
			if p := in.str(or(a[0], nil), "prefix").s; strings.HasPrefix(t.s, p) {
				return t.slice(len(p), len(t.s))
			}
			return t
		}},
		"removesuffix": {[]string{"suffix"}, func(in *interp, t Text, a []Value) Value {
			if p := in.str(or(a[0], nil), "suffix").s; strings.HasSuffix(t.s, p) {
				return t.slice(0, len(t.s)-len(p))
			}
			return t
		}},
		"join": {[]string{"iterable"}, func(in *interp, t Text, a []Value) Value {
			items := in.iterate(or(a[0], nil))
			for _, v := range items {
				in.str(v, "an item of join()")
			}
			return in.join(items, t, absent{})
		}},
		"zfill": {[]string{"width"}, func(in *interp, t Text, a []Value) Value {
			zeros := in.repeat(literal("0"), in.integer(or(a[0], nil), "width")-int64(t.chars())).(Text)
			if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
				return concat(t.slice(0, 1), zeros, t.slice(1, len(t.s)))
			}
			return concat(zeros, t)
		}},
	}

	listMethods = map[string]method[*sequence]{
		"index": {[]string{"value"}, func(in *interp, l *sequence, a []Value) Value {
			for i, v := range l.items {
				in.step()
				if in.equal(v, a[0]) {
					return int64(i)
				}
			}
			in.fail("the value is not in the list")
			return nil
		}},
		"count": {[]string{"value"}, func(in *interp, l *sequence, a []Value) Value {
			n := int64(0)
			for _, v := range l.items {
				in.step()
				if in.equal(v, a[0]) {
					n++
				}
			}
			return n
		}},
		"copy": {nil, func(in *interp, l *sequence, _ []Value) Value { return in.list(l.items) }},
		// Lists can be changed, though the reference renderer forbids it: other renderers allow it, and templates do it.
		"append": {[]string{"value"}, func(in *interp, l *sequence, a []Value) Value {
			in.changes(l)
			in.allocate(valueBytes)
			l.items = append(l.items, or(a[0], nil))
			return nil
		}},
		"extend": {[]string{"values"}, func(in *interp, l *sequence, a []Value) Value {
			in.changes(l)
			more := in.iterate(or(a[0], nil))
			in.allocate(valueBytes * len(more))
			l.items = append(l.items, more...)
			return nil
		}},
		"insert": {[]string{"index", "value"}, func(in *interp, l *sequence, a []Value) Value {
			in.changes(l)
			in.allocate(valueBytes)
			in.work(valueBytes * len(l.items))
			n := int64(len(l.items))
			i := in.integer(or(a[0], nil), "index")
			if i < 0 {
				i += n
			}
			l.items = slices.Insert(l.items, int(max(0, min(n, i))), or(a[1], nil))
			return nil
		}},
		"pop": {[]string{"index"}, func(in *interp, l *sequence, a []Value) Value {
			in.changes(l)
			in.work(valueBytes * len(l.items))
			n := int64(len(l.items))
			i := in.integer(or(a[0], int64(-1)), "index")
			if i < 0 {
				i += n
			}
			if i < 0 || i >= n {
				in.fail("pop() finds no item")
			}
			v := l.items[i]
			l.items = slices.Delete(l.items, int(i), int(i)+1)
			return v
		}},
		"reverse": {nil, func(in *interp, l *sequence, _ []Value) Value {
			in.changes(l)
			in.work(valueBytes * len(l.items))
			slices.Reverse(l.items)
			return nil
		}},
	}

	dictMethods = map[string]method[*mapping]{
		"items": {nil, func(in *interp, m *mapping, _ []Value) Value { return filterItems(in, m, nil) }},
		"keys":  {nil, func(in *interp, m *mapping, _ []Value) Value { return in.list(m.keys) }},
		"values": {nil, func(in *interp, m *mapping, _ []Value) Value {
			return in.list(m.values)
		}},
		"get": {[]string{"key", "default"}, func(in *interp, m *mapping, a []Value) Value {
			if v, ok := m.get(a[0]); ok {
				return v
			}
			return or(a[1], nil)
		}},
		"copy": {nil, func(in *interp, m *mapping, _ []Value) Value {
			c := keywords(in, "copy", called{positional: []Value{m}})
			return &c
		}},
		"setdefault": {[]string{"key", "default"}, func(in *interp, m *mapping, a []Value) Value {
			if v, ok := m.get(a[0]); ok {
				return v
			}
			in.allocate(2 * valueBytes)
			in.setKey(m, or(a[0], nil), or(a[1], nil))
			return or(a[1], nil)
		}},
		"update": {[]string{"other"}, func(in *interp, m *mapping, a []Value) Value {
			other, ok := a[0].(*mapping)
			if !ok {
				in.fail("update() takes a dict")
			}
			in.allocate(2 * valueBytes * len(other.keys))
			for i, k := range slices.Clone(other.keys) {
				m.set(k, other.values[i])
			}
			return nil
		}},
		"pop": {[]string{"key", "default"}, func(in *interp, m *mapping, a []Value) Value {
			in.work(valueBytes * len(m.keys))
			v, ok := m.get(a[0])
			switch {
			case ok:
				m.remove(a[0])
				return v
			case given(a[1]):
				return a[1]
			}
			in.fail("pop() finds no such key")
			return nil
		}},
	}
}

// format is Python's str.format with fields by number or name, without conversions and format specifications.
func (in *interp) format(t Text, a called) Value {
	var b builder
	next, numbered := 0, false
	for i := 0; i < len(t.s); {
		j := strings.IndexAny(t.s[i:], "{}")
		if j < 0 {
			j = len(t.s) - i
		}
		b.add(t.slice(i, i+j))
		i += j
		if i == len(t.s) {
			break
		}
		if strings.HasPrefix(t.s[i+1:], t.s[i:i+1]) {
			b.add(t.slice(i, i+1))
			i += 2
			continue
		}
		j = strings.IndexByte(t.s[i:], '}')
		if t.s[i] == '}' || j < 0 {
			in.fail("a single brace in the format")
		}
		field := t.s[i+1 : i+j]
		i += j + 1
		var x Value
		at, err := strconv.Atoi(field)
		switch k := slices.Index(a.names, field); {
		case field == "" || err == nil:
			if field == "" {
				at = next
				next++
			} else {
				numbered = true
			}
			if next > 0 && numbered {
				in.fail("the format mixes fields with and without numbers")
			}
			if at < 0 || at >= len(a.positional) {
				in.fail("the format has no value %d", at)
			}
			x = a.positional[at]
		case k >= 0:
			x = a.values[k]
		case strings.ContainsAny(field, ":!.["):
			in.unsupported("field {%s} of a format", field)
		default:
			in.fail("the format has no value %q", field)
		}
		y := in.text(x)
		in.allocate(len(y.s))
		b.add(y)
		in.fits(b.s.Len())
	}
	return b.text()
}

func (in *interp) changes(l *sequence) {
	if l.tuple {
		in.fail("a tuple cannot be changed")
	}
}

// window is t[start:end] for the methods that take these.
func (in *interp) window(t Text, start, end Value) Text {
	if !given(start) && !given(end) {
		return t
	}
	in.allocate(8 * len(t.s))
	at := t.offsets()
	n := int64(len(at) - 1)
	bound := func(v Value, missing int64) int64 {
		if !given(v) || v == nil {
			return missing
		}
		i := in.integer(v, "a bound")
		if i < 0 {
			i += n
		}
		return max(0, min(n, i))
	}
	from, to := bound(start, 0), bound(end, n)
	return t.slice(at[from], at[max(from, to)])
}

// rfields cuts at runs of white space from the right.
func (t Text) rfields(limit int) []Text {
	var parts []Text
	rest := t.strip(false, true, isSpace)
	for rest.s != "" {
		i := strings.LastIndexFunc(rest.s, isSpace)
		if limit == 0 || i < 0 {
			parts = append(parts, rest)
			break
		}
		_, n := utf8.DecodeRuneInString(rest.s[i:])
		parts = append(parts, rest.slice(i+n, len(rest.s)))
		rest = rest.slice(0, i).strip(false, true, isSpace)
		limit--
	}
	slices.Reverse(parts)
	return parts
}

// titleCase is Python's str.title: each run of letters begins in upper case.
func titleCase(t Text) Text {
	var b builder
	inside := false
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		c := t.slice(i, i+n)
		switch letter := unicode.IsLetter(r); {
		case letter && inside:
			c = lower(c)
		case letter:
			c = titled(c)
		}
		inside = unicode.IsLetter(r)
		b.add(c)
		i += n
	}
	return b.text()
}

// percent is Python's % on a text, for the conversions s, r, d, i, x, X, f, e, g and %%.
func (in *interp) percent(t Text, v Value) Value {
	var b builder
	items := []Value{v}
	if l, ok := v.(*sequence); ok && l.tuple {
		items = l.items
	}
	used := 0
	for i := 0; i < len(t.s); {
		if t.s[i] != '%' {
			j := strings.IndexByte(t.s[i:], '%')
			if j < 0 {
				j = len(t.s) - i
			}
			b.add(t.slice(i, i+j))
			i += j
			continue
		}
		start := i
		i++
		var x Value = absent{}
		if i < len(t.s) && t.s[i] == '(' {
			j := strings.IndexByte(t.s[i:], ')')
			m, ok := v.(*mapping)
			if j < 0 || !ok {
				in.fail("a named conversion takes a dict")
			}
			if x, ok = m.get(t.slice(i+1, i+j)); !ok {
				in.fail("the dict has no %q", t.s[i+1:i+j])
			}
			i += j + 1
		}
		spec := i
		for i < len(t.s) && strings.IndexByte("-+ #0123456789.", t.s[i]) >= 0 {
			i++
		}
		if i == len(t.s) {
			in.fail("the format ends inside a conversion")
		}
		flags, verb := t.s[spec:i], t.s[i]
		i++
		if verb == '%' {
			b.add(literal("%"))
			continue
		}
		if !given(x) {
			if used >= len(items) {
				in.fail("the format has more conversions than values")
			}
			x = items[used]
			used++
		}
		if len(flags) > 4 { // a width of four digits: nothing that needs counting
			in.unsupported("conversion %s of a format", strconv.Quote(t.s[start:i]))
		}
		switch verb {
		case 's', 'r':
			if flags != "" {
				in.unsupported("conversion %s of a format", strconv.Quote(t.s[start:i]))
			}
			y := in.text(x)
			if verb == 'r' {
				var q builder
				in.write(&q, x)
				y = q.text()
			}
			in.allocate(len(y.s))
			b.add(y)
		case 'd', 'i', 'x', 'X':
			n, ok := integer(x)
			if f, isFloat := x.(float64); isFloat && verb == 'd' {
				n, ok = int64(f), true
			}
			if !ok {
				in.fail("the conversion %q takes an integer, not %s", t.s[start:i], typeName(x))
			}
			if verb == 'i' {
				verb = 'd'
			}
			b.add(literal(fmt.Sprintf("%"+flags+string(verb), n)))
		case 'f', 'e', 'g':
			f, ok := number(x)
			if !ok {
				in.fail("the conversion %q takes a number, not %s", t.s[start:i], typeName(x))
			}
			b.add(literal(fmt.Sprintf("%"+flags+string(verb), f)))
		default:
			in.unsupported("conversion %s of a format", strconv.Quote(t.s[start:i]))
		}
		in.fits(b.s.Len())
	}
	if _, named := v.(*mapping); !named && used < len(items) {
		in.fail("the format has fewer conversions than values")
	}
	return b.text()
}
