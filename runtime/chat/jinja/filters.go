package jinja

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// operation is a filter: what it does with a value and its bound arguments.
type operation struct {
	params []string
	apply  func(in *interp, v Value, a []Value) Value
}

var filters map[string]operation

func init() {
	text := func(f func(in *interp, t Text) Value) operation {
		return operation{nil, func(in *interp, v Value, _ []Value) Value {
			t := in.text(v)
			in.allocate(len(t.s))
			return f(in, t)
		}}
	}
	filters = map[string]operation{
		"abs":        {nil, filterAbs},
		"attr":       {[]string{"name"}, filterAttr},
		"batch":      {[]string{"linecount", "fill_with"}, filterBatch},
		"capitalize": text(func(in *interp, t Text) Value { return capitalize(t) }),
		"center":     {[]string{"width"}, filterCenter},
		"default":    {[]string{"default_value", "boolean"}, filterDefault},
		"dictsort":   {[]string{"case_sensitive", "by", "reverse"}, filterDictsort},
		"escape":     text(func(in *interp, t Text) Value { return in.escape(t) }),
		"first":      {nil, func(in *interp, v Value, _ []Value) Value { return end(in.iterate(v), 0) }},
		"float":      {[]string{"default"}, filterFloat},
		"fromjson":   {nil, filterFromJSON},
		"indent":     {[]string{"width", "first", "blank"}, filterIndent},
		"int":        {[]string{"default", "base"}, filterInt},
		"items":      {nil, filterItems},
		"join":       {[]string{"d", "attribute"}, filterJoin},
		"last": {nil, func(in *interp, v Value, _ []Value) Value {
			items := in.iterate(v)
			return end(items, len(items)-1)
		}},
		"length":    {nil, filterLength},
		"list":      {nil, func(in *interp, v Value, _ []Value) Value { return in.list(in.iterate(v)) }},
		"lower":     text(func(in *interp, t Text) Value { return lower(t) }),
		"max":       {[]string{"case_sensitive", "attribute"}, func(in *interp, v Value, a []Value) Value { return in.extreme(v, a, 1) }},
		"min":       {[]string{"case_sensitive", "attribute"}, func(in *interp, v Value, a []Value) Value { return in.extreme(v, a, -1) }},
		"replace":   {[]string{"old", "new", "count"}, filterReplace},
		"reverse":   {nil, filterReverse},
		"round":     {[]string{"precision", "method"}, filterRound},
		"safe":      {nil, func(in *interp, v Value, _ []Value) Value { return v }},
		"slice":     {[]string{"slices", "fill_with"}, filterSlice},
		"sort":      {[]string{"reverse", "case_sensitive", "attribute"}, filterSort},
		"string":    {nil, func(in *interp, v Value, _ []Value) Value { return in.text(v) }},
		"sum":       {[]string{"attribute", "start"}, filterSum},
		"title":     text(func(in *interp, t Text) Value { return filterTitle(t) }),
		"tojson":    {[]string{"ensure_ascii", "indent", "separators", "sort_keys"}, filterToJSON},
		"trim":      {[]string{"chars"}, func(in *interp, v Value, a []Value) Value { return in.strip(in.text(v), a[0], true, true) }},
		"unique":    {[]string{"case_sensitive", "attribute"}, filterUnique},
		"upper":     text(func(in *interp, t Text) Value { return upper(t) }),
		"wordcount": text(func(in *interp, t Text) Value { return int64(len(words(t.s))) }),
	}
	for alias, id := range map[string]string{"count": "length", "d": "default", "e": "escape"} {
		filters[alias] = filters[id]
	}
}

// filtered applies a chain of filters; the innermost takes v where the chain has no expression of its own.
func (in *interp) filtered(e expr, v Value) Value {
	if e == nil {
		return v
	}
	f := e.(*filter)
	if f.of != nil {
		if inner, ok := f.of.(*filter); ok {
			in.enter()
			v = in.filtered(inner, v)
			in.leave()
		} else {
			v = in.eval(f.of)
		}
	}
	a := in.arguments(f.args)
	in.line = f.lineOf()
	return in.applyFilter(f.id, v, a)
}

func (in *interp) applyFilter(id string, v Value, a called) Value {
	in.step()
	switch id {
	case "map":
		return in.mapped(v, a)
	case "select", "reject":
		return in.selected(id, v, a, id == "select", false)
	case "selectattr", "rejectattr":
		return in.selected(id, v, a, id == "selectattr", true)
	case "format":
		t := in.text(v)
		if len(a.names) > 0 {
			m := keywords(in, "format", called{names: a.names, values: a.values})
			return in.percent(t, &m)
		}
		return in.percent(t, &sequence{items: a.positional, tuple: true})
	}
	f, ok := filters[id]
	if !ok {
		in.unsupported("filter %q", id)
	}
	return f.apply(in, v, a.bind(in, "filter "+strconv.Quote(id), f.params...))
}

func (in *interp) list(items []Value) *sequence {
	in.allocate(valueBytes * len(items))
	return &sequence{items: slices.Clone(items)}
}

func end(items []Value, i int) Value {
	if len(items) == 0 {
		return undefined{"no first or last item: the sequence is empty"}
	}
	return items[i]
}

// path is a getter for the attribute argument of filters: a name, a number, or several with dots between.
func (in *interp) path(v, attribute Value) Value {
	if !given(attribute) || attribute == nil {
		return v
	}
	if n, ok := integer(attribute); ok {
		return in.item(v, n)
	}
	for part := range strings.SplitSeq(in.str(attribute, "attribute").s, ".") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = in.item(v, n)
		} else {
			v = in.item(v, literal(part))
		}
	}
	return v
}

// folded is the key that sorting and the like compare: in lower case unless asked otherwise.
func (in *interp) folded(v, caseSensitive, attribute Value) Value {
	v = in.path(v, attribute)
	if t, ok := v.(Text); ok && !truth(or(caseSensitive, false)) {
		in.allocate(len(t.s))
		return lower(t)
	}
	return v
}

func (in *interp) mapped(v Value, a called) Value {
	items := in.iterate(v)
	in.allocate(valueBytes * len(items))
	l := listOf()
	if len(a.positional) == 0 {
		b := a.bind(in, `filter "map"`, "attribute", "default")
		if !given(b[0]) {
			in.fail(`filter "map" takes the name of a filter, or an attribute`)
		}
		for _, x := range items {
			in.step()
			x = in.path(x, b[0])
			if _, missing := x.(undefined); missing && given(b[1]) {
				x = b[1]
			}
			l.items = append(l.items, x)
		}
		return l
	}
	id := in.str(a.positional[0], "the name of a filter").s
	rest := called{a.positional[1:], a.names, a.values}
	for _, x := range items {
		l.items = append(l.items, in.applyFilter(id, x, rest))
	}
	return l
}

func (in *interp) selected(id string, v Value, a called, keep, byAttribute bool) Value {
	var attribute Value = absent{}
	if byAttribute {
		if len(a.positional) == 0 {
			in.fail("filter %q takes the name of an attribute", id)
		}
		attribute, a.positional = a.positional[0], a.positional[1:]
	}
	l := listOf()
	for _, x := range in.iterate(v) {
		in.step()
		y := in.path(x, attribute)
		ok := truth(y)
		if len(a.positional) > 0 {
			ok = in.test(in.str(a.positional[0], "the name of a test").s, y, called{a.positional[1:], a.names, a.values})
		}
		if ok == keep {
			in.allocate(valueBytes)
			l.items = append(l.items, x)
		}
	}
	return l
}

func filterAbs(in *interp, v Value, _ []Value) Value {
	if n, ok := integer(v); ok {
		return max(n, -n)
	}
	f, ok := v.(float64)
	if !ok {
		in.defined(v)
		in.fail("%s has no absolute value", typeName(v))
	}
	return math.Abs(f)
}

// filterAttr looks for an attribute alone: the keys of a dict are items.
func filterAttr(in *interp, v Value, a []Value) Value {
	id := in.str(or(a[0], nil), "the name of an attribute").s
	if m, ok := v.(*mapping); ok {
		if f, ok := dictMethods[id]; ok {
			return f.of(id, m)
		}
		v = &mapping{}
	}
	return in.attribute(v, id)
}

func filterBatch(in *interp, v Value, a []Value) Value {
	n := in.integer(a[0], "linecount")
	if n < 1 {
		in.fail("linecount is at least 1")
	}
	l := listOf()
	for part := range slices.Chunk(in.iterate(v), int(min(n, math.MaxInt32))) {
		row := in.list(part)
		for given(a[1]) && a[1] != nil && int64(len(row.items)) < n {
			in.allocate(valueBytes)
			row.items = append(row.items, a[1])
		}
		l.items = append(l.items, row)
	}
	return l
}

func filterSlice(in *interp, v Value, a []Value) Value {
	n := in.integer(a[0], "slices")
	if n < 1 {
		in.fail("slices is at least 1")
	}
	items := in.iterate(v)
	l := listOf()
	size, more := int64(len(items))/n, int64(len(items))%n
	at := int64(0)
	for i := range n {
		count := size
		if i < more {
			count++
		}
		in.allocate(valueBytes)
		part := in.list(items[at : at+count])
		at += count
		if given(a[1]) && a[1] != nil && more > 0 && i >= more {
			part.items = append(part.items, a[1])
		}
		l.items = append(l.items, part)
	}
	return l
}

func filterCenter(in *interp, v Value, a []Value) Value {
	t := in.text(v)
	width := in.integer(or(a[0], int64(80)), "width")
	room := width - int64(t.chars())
	if room <= 0 {
		return t
	}
	left := room/2 + room&width&1
	return concat(in.repeat(literal(" "), left).(Text), t, in.repeat(literal(" "), room-left).(Text))
}

func filterDefault(in *interp, v Value, a []Value) Value {
	if _, missing := v.(undefined); missing || truth(or(a[1], false)) && !truth(v) {
		return or(a[0], Text{})
	}
	return v
}

func filterDictsort(in *interp, v Value, a []Value) Value {
	m, ok := v.(*mapping)
	if !ok {
		in.defined(v)
		in.fail("dictsort takes a dict, not %s", typeName(v))
	}
	column := int64(0)
	switch by := or(a[1], literal("key")).(type) {
	case Text:
		switch by.s {
		case "key":
		case "value":
			column = 1
		default:
			in.fail(`dictsort goes by "key" or "value"`)
		}
	default:
		in.fail(`dictsort goes by "key" or "value"`)
	}
	in.allocate(3 * valueBytes * len(m.keys))
	return in.sorted(m.pairs(), a[0], column, truth(or(a[2], false)))
}

// sorted sorts, keeping the order of equal items, also in reverse, as Python does.
func (in *interp) sorted(items []Value, caseSensitive, attribute Value, reverse bool) *sequence {
	l := in.list(items)
	in.allocate(valueBytes * len(items))
	type keyed struct{ key, value Value }
	all := make([]keyed, len(items))
	for i, v := range l.items {
		all[i] = keyed{in.folded(v, caseSensitive, attribute), v}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		in.step()
		c := in.compare(a.key, b.key, "<")
		if reverse {
			return -c
		}
		return c
	})
	for i := range all {
		l.items[i] = all[i].value
	}
	return l
}

func filterSort(in *interp, v Value, a []Value) Value {
	return in.sorted(in.iterate(v), a[1], a[2], truth(or(a[0], false)))
}

func filterUnique(in *interp, v Value, a []Value) Value {
	l, seen := listOf(), listOf()
	for _, x := range in.iterate(v) {
		k := in.folded(x, a[0], a[1])
		if !in.contains(seen, k) {
			in.allocate(2 * valueBytes)
			seen.items = append(seen.items, k)
			l.items = append(l.items, x)
		}
	}
	return l
}

func (in *interp) extreme(v Value, a []Value, sign int) Value {
	items := in.iterate(v)
	if len(items) == 0 {
		return undefined{"no largest or smallest item: the sequence is empty"}
	}
	best := items[0]
	key := in.folded(best, a[0], a[1])
	for _, x := range items[1:] {
		in.step()
		if k := in.folded(x, a[0], a[1]); in.compare(k, key, "<") == sign {
			best, key = x, k
		}
	}
	return best
}

func (in *interp) escape(t Text) Text {
	var b builder
	for i := range len(t.s) {
		if j := strings.IndexByte(`&<>"'`, t.s[i]); j >= 0 {
			b.addAs([]string{"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"}[j], t.origin(i))
		} else {
			b.add(t.slice(i, i+1))
		}
	}
	in.allocate(b.s.Len())
	return b.text()
}

func filterFloat(in *interp, v Value, a []Value) Value {
	if f, ok := number(v); ok {
		return f
	}
	if t, ok := v.(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(t.s, isSpace), 64); err == nil {
			return f
		}
	}
	return or(a[0], 0.0)
}

func filterInt(in *interp, v Value, a []Value) Value {
	switch v := v.(type) {
	case bool, int64:
		n, _ := integer(v)
		return n
	case float64:
		if math.Abs(v) < 1<<63 {
			return int64(v)
		}
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			in.fail("%v is too large for an integer here", v)
		}
	case Text:
		s := strings.ReplaceAll(strings.TrimFunc(v.s, isSpace), "_", "")
		base := in.integer(or(a[1], int64(10)), "base")
		sign := ""
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			sign, s = s[:1], s[1:]
		}
		for prefix, of := range map[string]int64{"0x": 16, "0o": 8, "0b": 2} {
			if base == of && strings.HasPrefix(strings.ToLower(s), prefix) {
				s = s[2:]
			}
		}
		s = sign + s
		if base >= 2 && base <= 36 {
			n, err := strconv.ParseInt(s, int(base), 64)
			if err == nil {
				return n
			}
			if errors.Is(err, strconv.ErrRange) {
				in.fail("%.30s is too large for an integer here", s)
			}
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f)
		}
	}
	return or(a[0], int64(0))
}

func filterFromJSON(in *interp, v Value, _ []Value) Value {
	t := in.str(v, "what fromjson reads")
	in.allocate(valueBytes * len(t.s))
	x, err := fromGo(json.RawMessage(t.s), 0)
	if err != nil {
		in.fail("fromjson: %v", err)
	}
	return x
}

func filterIndent(in *interp, v Value, a []Value) Value {
	t := in.text(v)
	pad, ok := or(a[0], int64(4)).(Text)
	if !ok {
		pad = in.repeat(literal(" "), in.integer(or(a[0], int64(4)), "width")).(Text)
	}
	lines := concat(t, literal("\n")).lines(false)
	in.allocate(len(t.s) + len(lines)*(len(pad.s)+1))
	var b builder
	for i, line := range lines {
		if i > 0 {
			b.add(literal("\n"))
		}
		if i == 0 && truth(or(a[1], false)) || i > 0 && (line.s != "" || truth(or(a[2], false))) {
			b.add(pad)
		}
		b.add(line)
	}
	return b.text()
}

func filterItems(in *interp, v Value, _ []Value) Value {
	switch v := v.(type) {
	case undefined:
		return listOf()
	case *mapping:
		in.allocate(3 * valueBytes * len(v.keys))
		return listOf(v.pairs()...)
	}
	in.fail("items takes a mapping, not %s", typeName(v))
	return nil
}

func filterJoin(in *interp, v Value, a []Value) Value {
	return in.join(in.iterate(v), in.text(or(a[0], Text{})), a[1])
}

func (in *interp) join(items []Value, sep Text, attribute Value) Text {
	var b builder
	for i, x := range items {
		if i > 0 {
			in.allocate(len(sep.s))
			b.add(sep)
		}
		t := in.text(in.path(x, attribute))
		in.allocate(len(t.s))
		b.add(t)
	}
	return b.text()
}

func filterLength(in *interp, v Value, _ []Value) Value {
	switch v := v.(type) {
	case Text:
		in.work(len(v.s))
		return int64(v.chars())
	case *sequence:
		return int64(len(v.items))
	case *mapping:
		return int64(len(v.keys))
	case undefined:
		return int64(0)
	}
	in.fail("%s has no length", typeName(v))
	return nil
}

func filterReplace(in *interp, v Value, a []Value) Value {
	count := int64(-1)
	if given(a[2]) && a[2] != nil {
		count = in.integer(a[2], "count")
	}
	if !given(a[0]) || !given(a[1]) {
		in.fail("replace takes what to replace, and with what")
	}
	return in.replace(in.text(v), in.text(a[0]), in.text(a[1]), count)
}

func (in *interp) replace(t, old, to Text, count int64) Text {
	in.work(len(t.s))
	n := int64(strings.Count(t.s, old.s))
	if count >= 0 {
		n = min(n, count)
	}
	in.allocate(len(t.s))
	in.times(n, len(to.s))
	var b builder
	rest := t
	for i := range n {
		j := strings.Index(rest.s, old.s)
		if old.s == "" && i > 0 { // an empty text is found before each character
			j = rest.offsets1()
		}
		b.add(rest.slice(0, j))
		b.add(to)
		rest = rest.slice(j+len(old.s), len(rest.s))
	}
	b.add(rest)
	return b.text()
}

func filterReverse(in *interp, v Value, _ []Value) Value {
	if t, ok := v.(Text); ok {
		in.allocate(9 * len(t.s))
		at := t.offsets()
		var b builder
		for i := len(at) - 2; i >= 0; i-- {
			b.add(t.slice(at[i], at[i+1]))
		}
		return b.text()
	}
	l := in.list(in.iterate(v))
	slices.Reverse(l.items)
	return l
}

func filterRound(in *interp, v Value, a []Value) Value {
	f, ok := number(v)
	if !ok {
		in.defined(v)
		in.fail("%s cannot be rounded", typeName(v))
	}
	precision := in.integer(or(a[0], int64(0)), "precision")
	if precision < -300 || precision > 300 {
		in.fail("precision is from -300 to 300")
	}
	method := in.text(or(a[1], literal("common"))).s
	scale := math.Pow(10, float64(precision))
	switch method {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
		if n, whole := integer(v); whole && precision >= 0 {
			return n
		} else if whole {
			return int64(math.RoundToEven(f*scale) / scale)
		}
		if precision >= 0 { // exact decimal, half to even, as Python
			r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
			return r
		}
		return math.RoundToEven(f*scale) / scale
	}
	in.fail(`the method of round is "common", "ceil" or "floor"`)
	return nil
}

func filterSum(in *interp, v Value, a []Value) Value {
	sum := or(a[1], int64(0))
	for _, x := range in.iterate(v) {
		sum = in.operate("+", sum, in.path(x, a[0]))
	}
	return sum
}

// fold changes case as Python does: with the full mappings of Unicode.
func fold(t Text, c func() cases.Caser) Text {
	return t.convert(func(s string) string { return c().String(s) })
}

func upper(t Text) Text {
	return fold(t, func() cases.Caser { return cases.Upper(language.Und) })
}

func lower(t Text) Text {
	return fold(t, func() cases.Caser { return cases.Lower(language.Und) })
}

// titled puts one character in title case.
func titled(t Text) Text {
	return fold(t, func() cases.Caser { return cases.Title(language.Und) })
}

// capitalize puts the first character in upper case and the others in lower case.
func capitalize(t Text) Text {
	if t.s == "" {
		return t
	}
	n := t.offsets1()
	return concat(titled(t.slice(0, n)), lower(t.slice(n, len(t.s))))
}

// offsets1 returns the size of the first character.
func (t Text) offsets1() int {
	for i := range t.s {
		if i > 0 {
			return i
		}
	}
	return len(t.s)
}

// filterTitle puts a character in upper case that begins the text or follows white space, an opening bracket, a dash
// or a less-than sign.
func filterTitle(t Text) Text {
	var parts []Text
	start := 0
	in := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	inside := false
	for i, r := range t.s {
		if in(r) != inside {
			parts = append(parts, t.slice(start, i))
			start, inside = i, !inside
		}
	}
	parts = append(parts, t.slice(start, len(t.s)))
	for i, p := range parts {
		if p.s != "" {
			n := p.offsets1()
			parts[i] = concat(upper(p.slice(0, n)), lower(p.slice(n, len(p.s))))
		}
	}
	return concat(parts...)
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// test is v is id(arguments).
func (in *interp) test(id string, v Value, a called) bool {
	in.step()
	one := func() Value {
		x := a.bind(in, "test "+strconv.Quote(id), "other")[0]
		if !given(x) {
			in.fail("test %q takes an argument", id)
		}
		return x
	}
	if len(a.positional)+len(a.names) > 0 {
		switch id {
		case "eq", "equalto", "==", "ne", "!=", "gt", "greaterthan", ">", "ge", ">=", "lt", "lessthan", "<", "le", "<=",
			"in", "sameas", "divisibleby":
		default:
			if _, known := simpleTests[id]; known || slices.Contains([]string{"odd", "even", "upper", "lower", "filter"}, id) {
				in.fail("test %q takes no argument", id)
			}
		}
	}
	switch id {
	case "eq", "equalto", "==":
		return in.equal(v, one())
	case "ne", "!=":
		return !in.equal(v, one())
	case "gt", "greaterthan", ">":
		return in.compare(v, one(), ">") == 1
	case "ge", ">=":
		c := in.compare(v, one(), ">=")
		return c == 1 || c == 0
	case "lt", "lessthan", "<":
		return in.compare(v, one(), "<") == -1
	case "le", "<=":
		return in.compare(v, one(), "<=") <= 0
	case "in":
		return in.contains(one(), v)
	case "sameas":
		return same(v, one())
	case "divisibleby":
		n := in.operate("%", v, one())
		return in.equal(n, int64(0))
	case "odd":
		return in.equal(in.operate("%", v, int64(2)), int64(1))
	case "even":
		return in.equal(in.operate("%", v, int64(2)), int64(0))
	case "upper", "lower":
		t := in.text(v)
		in.allocate(len(t.s))
		cased := strings.ContainsFunc(t.s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) })
		if id == "upper" {
			return cased && upper(t).s == t.s
		}
		return cased && lower(t).s == t.s
	case "filter":
		name := in.text(v).s
		switch name {
		case "map", "select", "reject", "selectattr", "rejectattr", "format":
			return true
		}
		_, ok := filters[name]
		return ok
	}
	f, ok := simpleTests[id]
	if !ok {
		in.unsupported("test %q", id)
	}
	return f(v)
}

var simpleTests = map[string]func(v Value) bool{
	"defined":   func(v Value) bool { _, no := v.(undefined); return !no },
	"undefined": func(v Value) bool { _, yes := v.(undefined); return yes },
	"none":      func(v Value) bool { return v == nil },
	"boolean":   func(v Value) bool { _, yes := v.(bool); return yes },
	"true":      func(v Value) bool { b, yes := v.(bool); return yes && b },
	"false":     func(v Value) bool { b, yes := v.(bool); return yes && !b },
	"integer":   func(v Value) bool { _, yes := v.(int64); return yes },
	"float":     func(v Value) bool { _, yes := v.(float64); return yes },
	"number":    func(v Value) bool { _, yes := number(v); return yes },
	"string":    func(v Value) bool { _, yes := v.(Text); return yes },
	"mapping":   func(v Value) bool { _, yes := v.(*mapping); return yes },
	"iterable": func(v Value) bool {
		switch v.(type) {
		case Text, *sequence, *mapping, undefined:
			return true
		}
		return false
	},
	"sequence": func(v Value) bool {
		switch v.(type) {
		case Text, *sequence, *mapping, undefined:
			return true
		}
		return false
	},
	"callable": func(v Value) bool {
		switch v.(type) {
		case *function, undefined: // calling an undefined value is an error of its own
			return true
		}
		return false
	},
	"escaped": func(v Value) bool { return false },
}

// same is Python's "is" for what templates ask it of: constants and small numbers.
func same(a, b Value) bool {
	switch x := a.(type) {
	case Text:
		y, ok := b.(Text)
		return ok && x.s == y.s
	case undefined:
		return false
	}
	return a == b
}
