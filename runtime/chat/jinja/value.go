package jinja

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is what expressions yield: nil for None, bool, int64, float64, [Text], *sequence, *mapping, *namespace,
// *function, *loop, or undefined.
type Value any

// undefined is the value of a name, attribute or item that is not there; hint says which.
type undefined struct{ hint string }

// sequence is a list or a tuple.
type sequence struct {
	items []Value
	tuple bool
}

func listOf(items ...Value) *sequence { return &sequence{items: items} }

// mapping is a dictionary in the order of insertion.
type mapping struct {
	keys   []Value
	values []Value
	index  map[any]int
}

// hashKey returns what keys of a dictionary compare by, and false for one that cannot be a key. 1, 1.0 and true are
// one key, as in Python.
func hashKey(v Value) (any, bool) {
	switch v := v.(type) {
	case nil:
		return struct{}{}, true
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case int64:
		return v, true
	case float64:
		if i := int64(v); float64(i) == v {
			return i, true
		}
		return v, true
	case Text:
		return v.s, true
	}
	return nil, false
}

func (m *mapping) get(key Value) (Value, bool) {
	h, ok := hashKey(key)
	if !ok {
		return nil, false
	}
	i, ok := m.index[h]
	if !ok {
		return nil, false
	}
	return m.values[i], true
}

func (m *mapping) set(key, value Value) bool {
	h, ok := hashKey(key)
	if !ok {
		return false
	}
	if i, ok := m.index[h]; ok {
		m.values[i] = value
		return true
	}
	if m.index == nil {
		m.index = map[any]int{}
	}
	m.index[h] = len(m.keys)
	m.keys = append(m.keys, key)
	m.values = append(m.values, value)
	return true
}

func (m *mapping) remove(key Value) {
	h, _ := hashKey(key)
	i, ok := m.index[h]
	if !ok {
		return
	}
	delete(m.index, h)
	m.keys = slices.Delete(m.keys, i, i+1)
	m.values = slices.Delete(m.values, i, i+1)
	for k, j := range m.index {
		if j > i {
			m.index[k] = j - 1
		}
	}
}

func (m *mapping) pairs() []Value {
	items := make([]Value, len(m.keys))
	for i := range m.keys {
		items[i] = &sequence{items: []Value{m.keys[i], m.values[i]}, tuple: true}
	}
	return items
}

// namespace is what namespace() makes: fields that loops can set from inside.
type namespace struct{ fields mapping }

// function is something that can be called.
type function struct {
	id   string
	call func(in *interp, a called) Value
}

// called are the values of a call's arguments.
type called struct {
	positional []Value
	names      []string
	values     []Value
}

// bind gives the arguments to the parameters, in order and by name; what is not given is absent.
func (a called) bind(in *interp, id string, params ...string) []Value {
	if len(a.positional) > len(params) {
		in.fail("%s takes at most %d arguments, %d were given", id, len(params), len(a.positional))
	}
	bound := make([]Value, len(params))
	for i := range bound {
		bound[i] = absent{}
	}
	copy(bound, a.positional)
	for i, n := range a.names {
		j := slices.Index(params, n)
		if j < 0 {
			in.fail("%s has no argument %q", id, n)
		}
		if j < len(a.positional) {
			in.fail("argument %q of %s is given twice", n, id)
		}
		bound[j] = a.values[i]
	}
	return bound
}

// absent stands for an argument that was not given.
type absent struct{}

func given(v Value) bool {
	_, missing := v.(absent)
	return !missing
}

// or returns v, or other if v was not given.
func or(v, other Value) Value {
	if given(v) {
		return v
	}
	return other
}

// Member is a key of an [Object] with its value.
type Member struct {
	Key   string
	Value any
}

// Object is a mapping whose order is kept.
type Object []Member

// fromGo makes a value of Go data. Texts in it count as data, except [Trusted] ones. A map's keys are sorted; use
// [Object] or [json.RawMessage] to keep an order.
func fromGo(v any, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		return v, nil
	case string:
		return data(v), nil
	case Trusted:
		return literal(string(v)), nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int64:
		return v, nil
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", v)
		}
		return f, nil
	case Object:
		m := &mapping{}
		for _, member := range v {
			x, err := fromGo(member.Value, depth+1)
			if err != nil {
				return nil, err
			}
			m.set(data(member.Key), x)
		}
		return m, nil
	case map[string]any:
		m := &mapping{}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			x, err := fromGo(v[k], depth+1)
			if err != nil {
				return nil, err
			}
			m.set(data(k), x)
		}
		return m, nil
	case []any:
		l := &sequence{items: make([]Value, len(v))}
		for i := range v {
			x, err := fromGo(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			l.items[i] = x
		}
		return l, nil
	case json.RawMessage:
		d := json.NewDecoder(bytes.NewReader(v))
		d.UseNumber()
		x, err := fromJSON(d, depth)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if d.More() {
			return nil, fmt.Errorf("more than one JSON value")
		}
		return x, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fromGo(json.RawMessage(raw), depth+1)
}

// fromJSON reads one value, keeping the order of keys.
func fromJSON(d *json.Decoder, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		l := &sequence{}
		for d.More() {
			x, err := fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, x)
		}
		_, err := d.Token()
		return l, err
	case json.Delim('{'):
		m := &mapping{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			x, err := fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			m.set(data(k.(string)), x)
		}
		_, err := d.Token()
		return m, err
	}
	return fromGo(t, depth)
}

// typeName is Python's name for v's type.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *sequence:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *mapping:
		return "dict"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case undefined:
		return "Undefined"
	}
	return "function"
}

// truth is Python's truth value.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *sequence:
		return len(v.items) > 0
	case *mapping:
		return len(v.keys) > 0
	}
	return true
}

// number returns v as a float64 if it is a number; bool counts, as in Python.
func number(v Value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// integer returns v as an int64 if it is an integer; bool counts.
func integer(v Value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

// equal is Python's ==.
func (in *interp) equal(a, b Value) bool {
	in.enter()
	defer in.leave()
	in.step()
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return x == y
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case Text:
		y, ok := b.(Text)
		in.work(min(len(x.s), len(y.s)))
		return ok && x.s == y.s
	case *sequence:
		y, ok := b.(*sequence)
		if !ok || x.tuple != y.tuple || len(x.items) != len(y.items) {
			return false
		}
		for i := range x.items {
			if !in.equal(x.items[i], y.items[i]) {
				return false
			}
		}
		return true
	case *mapping:
		y, ok := b.(*mapping)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			v, ok := y.get(k)
			if !ok || !in.equal(x.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b // identity of namespaces, functions, loops
}

// compare orders a and b, or fails as Python does where they have no order.
func (in *interp) compare(a, b Value, op string) int {
	in.enter()
	defer in.leave()
	in.step()
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return cmp.Compare(x, y)
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			case x == y:
				return 0
			}
			return 2 // NaN
		}
	}
	switch x := a.(type) {
	case Text:
		if y, ok := b.(Text); ok {
			in.work(min(len(x.s), len(y.s)))
			return strings.Compare(x.s, y.s)
		}
	case *sequence:
		if y, ok := b.(*sequence); ok && x.tuple == y.tuple {
			for i := range min(len(x.items), len(y.items)) {
				if !in.equal(x.items[i], y.items[i]) {
					return in.compare(x.items[i], y.items[i], op)
				}
			}
			return cmp.Compare(len(x.items), len(y.items))
		}
	}
	in.defined(a)
	in.defined(b)
	in.fail("%q has no meaning between %s and %s", op, typeName(a), typeName(b))
	return 0
}

// contains is Python's x in v.
func (in *interp) contains(v, x Value) bool {
	switch v := v.(type) {
	case undefined:
		return false
	case Text:
		y, ok := x.(Text)
		if !ok {
			in.defined(x)
			in.fail("a str can contain a str alone, not %s", typeName(x))
		}
		in.work(len(v.s))
		return strings.Contains(v.s, y.s)
	case *sequence:
		for _, y := range v.items {
			in.step()
			if in.equal(x, y) {
				return true
			}
		}
		return false
	case *mapping:
		if _, ok := hashKey(x); !ok {
			in.defined(x)
			in.fail("%s cannot be the key of a dict", typeName(x))
		}
		_, ok := v.get(x)
		return ok
	}
	in.fail("%s cannot contain anything", typeName(v))
	return false
}

// iterate returns the items of v.
func (in *interp) iterate(v Value) []Value {
	switch v := v.(type) {
	case undefined:
		return nil
	case *sequence:
		return v.items
	case *mapping:
		in.allocate(valueBytes * len(v.keys))
		return slices.Clone(v.keys)
	case Text:
		in.allocate(valueBytes * len(v.s))
		at := v.offsets()
		items := make([]Value, 0, len(at))
		for i := range len(at) - 1 {
			items = append(items, v.slice(at[i], at[i+1]))
		}
		return items
	}
	in.fail("%s cannot be iterated over", typeName(v))
	return nil
}

// text is Python's str(v): what printing v writes.
func (in *interp) text(v Value) Text {
	switch v := v.(type) {
	case Text:
		return v
	case undefined:
		return Text{}
	}
	var b builder
	in.write(&b, v)
	return b.text()
}

func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if e := math.Abs(f); e != 0 && (e < 1e-4 || e >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

// write adds Python's repr(v).
func (in *interp) write(b *builder, v Value) {
	in.enter()
	defer in.leave()
	in.step()
	word := func(s string) { b.add(literal(s)) }
	items := func(open, close string, n int, one func(i int)) {
		word(open)
		for i := range n {
			if i > 0 {
				word(", ")
			}
			one(i)
			in.fits(b.s.Len())
		}
		word(close)
	}
	switch v := v.(type) {
	case nil:
		word("None")
	case bool:
		if v {
			word("True")
		} else {
			word("False")
		}
	case int64:
		word(strconv.FormatInt(v, 10))
	case float64:
		word(formatFloat(v))
	case Text:
		in.allocate(len(v.s))
		quote(b, v)
	case *sequence:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.items) == 1 {
				end = ",)"
			}
		}
		items(open, end, len(v.items), func(i int) { in.write(b, v.items[i]) })
	case *mapping:
		items("{", "}", len(v.keys), func(i int) {
			in.write(b, v.keys[i])
			word(": ")
			in.write(b, v.values[i])
		})
	case *namespace:
		word("<Namespace ")
		in.write(b, &v.fields)
		word(">")
	case *loop:
		word(fmt.Sprintf("<LoopContext %d/%d>", v.index+1, len(v.items)))
	case undefined:
		word("Undefined")
	default:
		word("<function>")
	}
}

// quote adds Python's repr of a string.
func quote(b *builder, t Text) {
	mark := "'"
	if strings.ContainsRune(t.s, '\'') && !strings.ContainsRune(t.s, '"') {
		mark = `"`
	}
	b.add(literal(mark))
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		origin := t.origin(i)
		switch {
		case r == '\\' || string(r) == mark:
			b.addAs(`\`+string(r), origin)
		case r == '\n':
			b.addAs(`\n`, origin)
		case r == '\r':
			b.addAs(`\r`, origin)
		case r == '\t':
			b.addAs(`\t`, origin)
		case r == utf8.RuneError && n == 1:
			b.addAs(fmt.Sprintf(`\x%02x`, t.s[i]), origin)
		case unicode.IsPrint(r):
			b.add(t.slice(i, i+n))
		case r < 0x100:
			b.addAs(fmt.Sprintf(`\x%02x`, r), origin)
		case r < 0x10000:
			b.addAs(fmt.Sprintf(`\u%04x`, r), origin)
		default:
			b.addAs(fmt.Sprintf(`\U%08x`, r), origin)
		}
		i += n
	}
	b.add(literal(mark))
}
