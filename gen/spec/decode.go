package spec

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/minfer/minfer/gen/diag"
)

// decoder turns a YAML tree into one of the structs of this package. It reports everything that is wrong and goes on:
// what could not be decoded stays unset.
type decoder struct {
	file  string
	diags *diag.List
}

var posType = reflect.TypeFor[diag.Pos]()

// rules are what a field's tag allows.
type rules struct {
	required bool
	enum     []string
	pattern  *regexp.Regexp
	min, max int
}

func rulesOf(tag reflect.StructTag) rules {
	r := rules{min: math.MinInt32, max: math.MaxInt32}
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "":
		case "required":
			r.required = true
		case "enum":
			r.enum = append(r.enum, value)
		case "pattern":
			r.pattern = regexp.MustCompile(value)
		case "minimum":
			r.min, _ = strconv.Atoi(value)
		case "maximum":
			r.max, _ = strconv.Atoi(value)
		default:
			panic("BUG: the decoder knows no rule " + part)
		}
	}
	return r
}

// key is one key of a struct, those of inlined structs included.
type key struct {
	name  string
	rules rules
	index []int
}

func keysOf(t reflect.Type) []key {
	var keys []key
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case option == "inline":
			for _, k := range keysOf(f.Type) {
				k.index = append([]int{i}, k.index...)
				keys = append(keys, k)
			}
		default:
			keys = append(keys, key{name, rulesOf(f.Tag), []int{i}})
		}
	}
	return keys
}

// Range is what an integer under a key of a struct may be.
func Range[T any](name string) (least, most int) {
	keys := keysOf(reflect.TypeFor[T]())
	r := keys[slices.IndexFunc(keys, func(k key) bool { return k.name == name })].rules
	return r.min, r.max
}

// decodeRoot decodes a whole file into the struct that out points to.
func (d *decoder) decodeRoot(n ast.Node, out any) {
	d.decode(n, reflect.ValueOf(out).Elem(), rules{}, "")
}

func (d *decoder) addf(n ast.Node, path, format string, args ...any) {
	if path != "" {
		path += ": "
	}
	d.diags.Addf(position(d.file, n), "%s%s", path, fmt.Sprintf(format, args...))
}

// decode decodes a node into a value of any type of this package. path is what messages call the value.
func (d *decoder) decode(n ast.Node, v reflect.Value, r rules, path string) {
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.addf(n, path, "YAML anchors (&) and aliases (*) are not allowed: a spec says each thing where it holds, so that an error can name one place")
		return
	case *ast.TagNode:
		d.addf(n, path, "a YAML tag (%s) is not allowed; the key decides what the value is", n.GetToken().Value)
		return
	case *ast.NullNode:
		d.addf(n, path, "there is no value; %s is due", expected(v, r))
		return
	case nil:
		return
	}
	at := position(d.file, n)
	switch p := v.Addr().Interface().(type) {
	case *Text:
		if s, ok := d.text(n, r, path); ok {
			*p = Text{s, at}
		}
		return
	case *Int:
		if i, ok := d.integer(n, r, path); ok {
			*p = Int{i, at}
		}
		return
	case *Real:
		if x, ok := d.real(n, path); ok {
			*p = Real{x, at}
		}
		return
	case *Bool:
		if b, ok := n.(*ast.BoolNode); ok && (b.GetToken().Value == "true" || b.GetToken().Value == "false") {
			*p = Bool{b.Value, at}
		} else {
			d.addf(n, path, "%s is not allowed; write true or false", describe(n))
		}
		return
	case *Pair:
		d.pair(n, p, r, path)
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		d.decode(n, p.Elem(), r, path)
	case v.Kind() == reflect.Slice:
		d.list(n, v, r, path)
	case isMap(v.Type()):
		d.mapping(n, v, r, path)
	case v.Kind() == reflect.Struct:
		d.record(n, v, path)
	default:
		panic(fmt.Sprintf("BUG: the decoder knows no %v", v.Type()))
	}
}

// pairs lists the entries of a mapping that can be used: names that are plain text, once each.
func (d *decoder) pairs(n ast.Node, path string, want string) ([]*ast.MappingValueNode, bool) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.addf(n, path, "%s is not allowed; %s is due", describe(n), want)
		return nil, false
	}
	if len(values) == 0 {
		d.addf(n, path, "is empty; %s is due", want)
		return nil, false
	}
	seen, kept := map[string]diag.Pos{}, []*ast.MappingValueNode{}
	for _, e := range values {
		name, ok := d.name(e.Key, path)
		if !ok {
			continue
		}
		if first, twice := seen[name]; twice {
			d.addf(e.Key, join(path, name), "the key is given twice; first in line %d", first.Line)
			continue
		}
		seen[name] = position(d.file, e.Key)
		kept = append(kept, e)
	}
	return kept, true
}

var namePattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// name reads the name of a mapping's entry.
func (d *decoder) name(n ast.Node, path string) (string, bool) {
	switch k := n.(type) {
	case *ast.StringNode:
		if namePattern.MatchString(k.Value) {
			return k.Value, true
		}
		d.addf(n, path, "%s is no name; a name is letters, digits and _, and begins with no digit", strconv.Quote(clip(k.Value)))
	case *ast.MergeKeyNode:
		d.addf(n, path, "YAML merge keys (<<) are not allowed: a spec says each thing where it holds, so that an error can name one place")
	default:
		d.addf(n, path, "%s is no name; a name is letters, digits and _, and begins with no digit", describe(n))
	}
	return "", false
}

func (d *decoder) record(n ast.Node, v reflect.Value, path string) {
	keys := keysOf(v.Type())
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	slices.Sort(names)
	if at := v.FieldByName("At"); at.IsValid() && at.Type() == posType {
		at.Set(reflect.ValueOf(position(d.file, n)))
	}
	entries, ok := d.pairs(n, path, "a mapping with "+strings.Join(names, ", "))
	if !ok {
		return
	}
	given := map[string]bool{}
	for _, e := range entries {
		name := e.Key.(*ast.StringNode).Value
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			d.addf(e.Key, "", "unknown key %s%s; allowed: %s", join(path, name), diag.Meant(name, names), strings.Join(names, ", "))
			continue
		}
		given[name] = true
		d.decode(e.Value, v.FieldByIndex(keys[i].index), keys[i].rules, join(path, name))
	}
	for _, k := range keys {
		if k.rules.required && !given[k.name] {
			d.addf(n, path, "key %s is missing; %s is due", k.name, expected(v.FieldByIndex(k.index), k.rules))
		}
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, r rules, path string) {
	v.FieldByName("At").Set(reflect.ValueOf(position(d.file, n)))
	entries, ok := d.pairs(n, path, "a mapping from names")
	if !ok {
		return
	}
	list := v.FieldByName("Entries")
	for _, e := range entries {
		name := e.Key.(*ast.StringNode).Value
		entry := reflect.New(list.Type().Elem()).Elem()
		entry.FieldByName("Name").Set(reflect.ValueOf(Text{name, position(d.file, e.Key)}))
		d.decode(e.Value, entry.FieldByName("Value"), r, join(path, name))
		list.Set(reflect.Append(list, entry))
	}
}

func (d *decoder) list(n ast.Node, v reflect.Value, r rules, path string) {
	seq, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		d.addf(n, path, "%s is not allowed; %s is due", describe(n), expected(v, r))
		return
	case len(seq.Values) == 0:
		d.addf(n, path, "is empty; %s is due", expected(v, r))
		return
	}
	for i, item := range seq.Values {
		e := reflect.New(v.Type().Elem()).Elem()
		d.decode(item, e, r, fmt.Sprintf("%s[%d]", path, i))
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) pair(n ast.Node, p *Pair, r rules, path string) {
	entries, ok := d.pairs(n, path, "a mapping of one name to one integer, like {l: 16},")
	if !ok {
		return
	}
	if len(entries) != 1 {
		d.addf(n, path, "%d names in one item; write one name to an item, like [{a: 2}, {l: 16}], since the order counts", len(entries))
		return
	}
	name := entries[0].Key.(*ast.StringNode).Value
	p.Name = Text{name, position(d.file, entries[0].Key)}
	d.decode(entries[0].Value, reflect.ValueOf(&p.Value).Elem(), r, join(path, name))
}

func (d *decoder) text(n ast.Node, r rules, path string) (string, bool) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		d.addf(n, path, "%s is not allowed; %s is due", describe(n), expected(reflect.ValueOf(Text{}), r))
		return "", false
	}
	switch {
	case strings.TrimSpace(s) == "":
		d.addf(n, path, "the text is empty; %s is due", expected(reflect.ValueOf(Text{}), r))
	case r.enum != nil && !slices.Contains(r.enum, s):
		d.addf(n, path, "%q is not allowed%s; allowed: %s", clip(s), diag.Meant(s, r.enum), strings.Join(r.enum, ", "))
	case r.pattern != nil && !r.pattern.MatchString(s):
		d.addf(n, path, "%q is not allowed; a name that matches %s is due", clip(s), r.pattern)
	default:
		return s, true
	}
	return "", false
}

var integerPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// integer reads an integer in the one spelling that every reader of YAML takes for the same number.
func (d *decoder) integer(n ast.Node, r rules, path string) (int, bool) {
	raw := n.GetToken().Value
	_, isText := n.(*ast.StringNode)
	plain := !isText || n.GetToken().Type == token.StringType
	refuse := func(format string, args ...any) (int, bool) {
		d.addf(n, path, "%s", fmt.Sprintf(format, args...))
		return 0, false
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(strings.ReplaceAll(raw, "_", ""), "+"), "-")
	switch {
	case !plain || strings.Trim(digits, "0123456789.xXoObBabcdefABCDEF") != "" || digits == "" || !strings.ContainsAny(digits[:1], "0123456789."):
		return refuse("%s is not allowed; %s is due", describe(n), expected(reflect.ValueOf(Int{}), r))
	case strings.ContainsAny(digits, "."):
		return refuse("%s is no integer; %s is due", clip(raw), expected(reflect.ValueOf(Int{}), r))
	case strings.Contains(raw, "_"):
		return refuse("%s is not allowed: readers of YAML disagree on _ in a number; write %s", clip(raw), clip(strings.ReplaceAll(raw, "_", "")))
	case strings.HasPrefix(raw, "+"):
		return refuse("%s is not allowed; write %s", clip(raw), clip(raw[1:]))
	case raw == "-0":
		return refuse("-0 is not allowed; write 0")
	case strings.ContainsAny(digits, "xXoObB"):
		return refuse("%s is not allowed: readers of YAML disagree on it; write a decimal integer", clip(raw))
	case len(digits) > 1 && digits[0] == '0':
		return refuse("%s is not allowed: readers of YAML disagree on a leading 0 (octal or not); write a decimal integer without it", clip(raw))
	case !integerPattern.MatchString(raw):
		return refuse("%s is no decimal integer; %s is due", describe(n), expected(reflect.ValueOf(Int{}), r))
	}
	i, err := strconv.Atoi(raw)
	if err != nil || i < r.min || i > r.max {
		return refuse("%s is out of range; %s is due", clip(raw), expected(reflect.ValueOf(Int{}), r))
	}
	return i, true
}

var realPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (d *decoder) real(n ast.Node, path string) (float64, bool) {
	raw := n.GetToken().Value
	_, isText := n.(*ast.StringNode)
	if isText && n.GetToken().Type != token.StringType || !realPattern.MatchString(raw) {
		d.addf(n, path, "%s is not allowed; a finite decimal number like -32 or 0.125 is due", describe(n))
		return 0, false
	}
	x, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsInf(x, 0) || float64(float32(x)) != x {
		d.addf(n, path, "%s is no number that f32 holds exactly; write one, like 0.125", clip(raw))
		return 0, false
	}
	return x, true
}

// describe says in a few words what a node is.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.NullNode:
		return "null"
	case *ast.MappingKeyNode:
		return "an explicit key (?)"
	case *ast.StringNode:
		return "the text " + strconv.Quote(clip(n.Value))
	case *ast.AliasNode:
		return "an alias (*)"
	case *ast.AnchorNode:
		return "an anchor (&)"
	case *ast.TagNode:
		return "a tag"
	case *ast.MergeKeyNode:
		return "a merge key (<<)"
	}
	return clip(n.GetToken().Value)
}

// expected says in a few words what is due.
func expected(v reflect.Value, r rules) string {
	switch v.Interface().(type) {
	case Text:
		if r.enum != nil {
			return "one of " + strings.Join(r.enum, ", ")
		}
		if r.pattern != nil {
			return "a name"
		}
		return "text"
	case Int:
		switch {
		case r.min == math.MinInt32 && r.max == math.MaxInt32:
			return "an integer of 32 bits"
		case r.max == math.MaxInt32:
			return fmt.Sprintf("an integer of at least %d", r.min)
		}
		return fmt.Sprintf("an integer from %d to %d", r.min, r.max)
	case Real:
		return "a number"
	case Bool:
		return "true or false"
	case Pair:
		return "a mapping of one name to one integer"
	}
	switch {
	case v.Kind() == reflect.Slice:
		switch v.Type().Elem() {
		case reflect.TypeFor[Text]():
			return "a list of names, like [d, sc],"
		case reflect.TypeFor[Int]():
			return "a list of integers"
		case reflect.TypeFor[Real]():
			return "a list of numbers"
		case reflect.TypeFor[Pair]():
			return "a list of {digit: radix}"
		}
		return "a list of mappings"
	case isMap(v.Type()):
		return "a mapping from names"
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var names []string
	for _, k := range keysOf(t) {
		names = append(names, k.name)
	}
	return "a mapping with " + strings.Join(names, ", ")
}

func isMap(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "Map[")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// clip keeps a quoted value short enough for a line.
func clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
