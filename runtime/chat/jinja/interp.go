package jinja

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Limits bound what a template may use. They are far above what templates in use need.
type Limits struct {
	Steps       int // nodes evaluated, and a share for each byte or item that an operation reads
	MemoryBytes int // of all texts and lists made, those dropped too
	OutputBytes int
	Depth       int // of nested evaluation: calls of macros count
}

// DefaultLimits are what a zero field of [Limits] means. A caller with a large conversation raises them by its size.
var DefaultLimits = Limits{Steps: 20 << 20, MemoryBytes: 128 << 20, OutputBytes: 32 << 20, Depth: 1000}

// valueBytes is what an item of a list counts for.
const valueBytes = 32

// scopeBytes is what a scope counts for: an iteration of a loop, a call of a macro.
const scopeBytes = 256

// Options are the settings of a rendering.
type Options struct {
	Limits Limits
	// Now is the clock of strftime_now; nil is time.Now.
	Now func() time.Time
}

// Render runs the template with the given variables. Texts in them count as data, see [Trusted] for those that do
// not. The error is a [*Raised] with the template's own sentence, a [*RuntimeError], an [*UnsupportedError], a
// [*LimitError], or the context's.
func (t *Template) Render(ctx context.Context, variables Object, o Options) (text Text, err error) {
	in := &interp{ctx: ctx, limits: o.Limits, now: o.Now}
	for _, l := range []struct {
		field   *int
		missing int
	}{
		{&in.limits.Steps, DefaultLimits.Steps},
		{&in.limits.MemoryBytes, DefaultLimits.MemoryBytes},
		{&in.limits.OutputBytes, DefaultLimits.OutputBytes},
		{&in.limits.Depth, DefaultLimits.Depth},
	} {
		if *l.field == 0 {
			*l.field = l.missing
		}
	}
	if in.now == nil {
		in.now = time.Now
	}
	top := &scope{}
	for _, v := range variables {
		x, err := fromGo(v.Value, 0)
		if err != nil {
			return Text{}, fmt.Errorf("template variable %q: %w", v.Key, err)
		}
		top.set(v.Key, x)
	}
	defer func() {
		if r := recover(); r != nil {
			stop, ok := r.(halt)
			if !ok {
				panic(r)
			}
			text, err = Text{}, stop.err
		}
	}()
	in.scope = top
	in.out = &builder{}
	in.run(t.body)
	return in.out.text(), nil
}

// signal says how a list of statements ended.
type signal uint8

const (
	signalNone signal = iota
	signalBreak
	signalContinue
)

type interp struct {
	ctx    context.Context
	limits Limits
	now    func() time.Time

	scope *scope
	out   *builder
	line  int

	steps, memory, depth int
}

type scope struct {
	names  map[string]Value
	parent *scope
}

func (s *scope) set(id string, v Value) {
	if s.names == nil {
		s.names = map[string]Value{}
	}
	s.names[id] = v
}

func (s *scope) get(id string) (Value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.names[id]; ok {
			return v, true
		}
	}
	return nil, false
}

func (in *interp) fail(format string, a ...any) {
	panic(halt{&RuntimeError{in.line, fmt.Sprintf(format, a...)}})
}

func (in *interp) unsupported(format string, a ...any) {
	panic(halt{&UnsupportedError{in.line, fmt.Sprintf(format, a...)}})
}

func (in *interp) over(format string, a ...any) {
	panic(halt{&LimitError{in.line, fmt.Sprintf(format, a...)}})
}

func (in *interp) step() {
	in.steps++
	if in.steps > in.limits.Steps {
		in.over("the template does more than %d steps", in.limits.Steps)
	}
	if in.steps&0x3ff == 0 {
		if err := in.ctx.Err(); err != nil {
			panic(halt{err})
		}
	}
}

// work counts an operation that reads n bytes.
func (in *interp) work(n int) {
	in.steps += n / 64
	in.step()
}

// allocate counts n bytes before they are made.
func (in *interp) allocate(n int) {
	if n < 0 || n > in.limits.MemoryBytes-in.memory {
		in.over("the template makes more than %d bytes of text and lists", in.limits.MemoryBytes)
	}
	in.memory += n
	in.work(n)
}

// fits checks a text in the making.
func (in *interp) fits(n int) {
	if n > in.limits.OutputBytes {
		in.over("the template makes a text of more than %d bytes", in.limits.OutputBytes)
	}
}

func (in *interp) enter() {
	in.depth++
	if in.depth > in.limits.Depth {
		in.over("the template nests evaluation more than %d deep", in.limits.Depth)
	}
}

func (in *interp) leave() { in.depth-- }

// defined fails if v is undefined, with what was not there.
func (in *interp) defined(v Value) {
	if u, ok := v.(undefined); ok {
		in.fail("%s", u.hint)
	}
}

// print adds to the output.
func (in *interp) print(t Text) {
	in.fits(in.out.s.Len() + len(t.s))
	in.allocate(len(t.s))
	in.out.add(t)
}

// capture runs f and returns what it printed.
func (in *interp) capture(f func()) Text {
	out := in.out
	in.out = &builder{}
	f()
	t := in.out.text()
	in.out = out
	return t
}

// within runs f in a scope below parent.
func (in *interp) within(parent *scope, f func()) {
	in.allocate(scopeBytes) // a macro may hold on to it
	old := in.scope
	in.scope = &scope{parent: parent}
	f()
	in.scope = old
}

func (in *interp) run(body []stmt) signal {
	for _, s := range body {
		if sig := in.exec(s); sig != signalNone {
			return sig
		}
	}
	return signalNone
}

func (in *interp) exec(s stmt) signal {
	in.enter()
	defer in.leave()
	in.step()
	in.line = s.lineOf()
	switch s := s.(type) {
	case *output:
		in.print(s.text)
	case *printing:
		in.print(in.text(in.eval(s.of)))
	case *ifStmt:
		for _, b := range s.branches {
			if b.when == nil || truth(in.eval(b.when)) {
				return in.run(b.body)
			}
		}
	case *forStmt:
		in.forLoop(s, in.eval(s.in), 0, in.scope)
	case *setStmt:
		in.assign(s.target, in.eval(s.to))
	case *setBlock:
		var t Text
		in.within(in.scope, func() { t = in.capture(func() { in.run(s.body) }) })
		in.assign(s.target, in.filtered(s.filter, t))
	case *macroStmt:
		in.scope.set(s.id, in.macro(s.id, s.params, s.body, in.scope))
	case *callStmt:
		caller := in.macro("caller", s.params, s.body, in.scope)
		a := in.arguments(s.call.args)
		a.names = append(a.names, "caller")
		a.values = append(a.values, caller)
		in.print(in.text(in.invoke(in.eval(s.call.of), a)))
	case *filterStmt:
		var t Text
		in.within(in.scope, func() { t = in.capture(func() { in.run(s.body) }) })
		in.print(in.text(in.filtered(s.filter, t)))
	case *withStmt:
		values := make([]Value, len(s.values))
		for i, v := range s.values {
			values[i] = in.eval(v)
		}
		var sig signal
		in.within(in.scope, func() {
			for i, t := range s.targets {
				in.assign(t, values[i])
			}
			sig = in.run(s.body)
		})
		return sig
	case *scoped:
		var sig signal
		in.within(in.scope, func() { sig = in.run(s.body) })
		return sig
	case *doStmt:
		in.eval(s.of)
	case *jump:
		return s.signal
	default:
		panic(fmt.Sprintf("BUG: statement %T", s))
	}
	return signalNone
}

func (in *interp) assign(t target, v Value) {
	switch {
	case t.items != nil:
		items := in.iterate(v)
		if len(items) != len(t.items) {
			in.fail("%d values for %d names", len(items), len(t.items))
		}
		for i := range items {
			in.assign(t.items[i], items[i])
		}
	case t.field != "":
		of, _ := in.scope.get(t.id)
		ns, ok := of.(*namespace)
		if !ok {
			in.fail("cannot set a field of %q: it is not a namespace", t.id)
		}
		ns.fields.set(literal(t.field), v)
	default:
		in.scope.set(t.id, v)
	}
}

// loop is the variable of that name inside a for.
type loop struct {
	items   []Value
	index   int
	depth   int
	recurse func(v Value) Value
	changed Value
}

func (in *interp) forLoop(s *forStmt, over Value, depth int, outer *scope) {
	items := in.iterate(over)
	if s.when != nil {
		var kept []Value
		for _, v := range items {
			in.within(outer, func() {
				in.assign(s.target, v)
				if truth(in.eval(s.when)) {
					in.allocate(valueBytes)
					kept = append(kept, v)
				}
			})
		}
		items = kept
	} else if q, ok := over.(*sequence); ok && !q.tuple {
		in.allocate(valueBytes * len(items))
		items = slices.Clone(items) // the body may append to the list
	}
	l := &loop{items: items, depth: depth, changed: absent{}}
	if s.recursive {
		l.recurse = func(v Value) Value {
			return in.capture(func() { in.forLoop(s, v, depth+1, outer) })
		}
	}
	complete := false // an iteration came to its end: Jinja2 asks this, not whether there were items
	for i, v := range items {
		in.step()
		l.index = i
		var sig signal
		in.within(outer, func() {
			in.scope.set("loop", l)
			in.assign(s.target, v)
			sig = in.run(s.body)
		})
		complete = complete || sig == signalNone
		if sig == signalBreak {
			break
		}
	}
	if !complete && s.otherwise != nil {
		in.within(outer, func() { in.run(s.otherwise) })
	}
}

func (l *loop) attribute(in *interp, id string) Value {
	n := len(l.items)
	switch id {
	case "index":
		return int64(l.index + 1)
	case "index0":
		return int64(l.index)
	case "revindex":
		return int64(n - l.index)
	case "revindex0":
		return int64(n - l.index - 1)
	case "first":
		return l.index == 0
	case "last":
		return l.index == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1]
		}
		return undefined{"there is no previous item"}
	case "nextitem":
		if l.index < n-1 {
			return l.items[l.index+1]
		}
		return undefined{"there is no next item"}
	case "cycle":
		return &function{"loop.cycle", func(in *interp, a called) Value {
			if len(a.positional) == 0 {
				in.fail("loop.cycle has no items")
			}
			return a.positional[l.index%len(a.positional)]
		}}
	case "changed":
		return &function{"loop.changed", func(in *interp, a called) Value {
			now := &sequence{items: a.positional, tuple: true}
			if old, ok := l.changed.(*sequence); ok && in.equal(old, now) {
				return false
			}
			l.changed = now
			return true
		}}
	}
	return undefined{fmt.Sprintf("'loop' has no attribute %q", id)}
}

// macro makes the function of a macro, or of the caller that a call block hands to one.
func (in *interp) macro(id string, params []param, body []stmt, outer *scope) *function {
	return &function{id, func(in *interp, a called) Value {
		line := in.line
		var t Text
		in.within(outer, func() {
			if len(a.positional) > len(params) {
				in.scope.set("varargs", &sequence{items: a.positional[len(params):], tuple: true})
			} else {
				in.scope.set("varargs", &sequence{tuple: true})
			}
			more := &mapping{}
			in.scope.set("kwargs", more)
			for i, n := range a.names {
				switch j := slices.IndexFunc(params, func(p param) bool { return p.id == n }); {
				case j >= 0 && j < len(a.positional):
					in.fail("argument %q of macro %q is given twice", n, id)
				case j >= 0 || n == "caller":
					in.scope.set(n, a.values[i])
				default:
					more.set(literal(n), a.values[i])
				}
			}
			for i, p := range params {
				switch {
				case i < len(a.positional):
					in.scope.set(p.id, a.positional[i])
				case slices.Contains(a.names, p.id):
				case p.fallback != nil:
					in.scope.set(p.id, in.eval(p.fallback))
				default:
					in.scope.set(p.id, undefined{fmt.Sprintf("parameter %q was not provided", p.id)})
				}
			}
			t = in.capture(func() { in.run(body) })
		})
		in.line = line
		return t
	}}
}

func (in *interp) eval(e expr) Value {
	in.enter()
	defer in.leave()
	in.step()
	switch e := e.(type) {
	case *constant:
		if s, ok := e.value.(Text); ok {
			return s
		}
		return e.value
	case *name:
		if v, ok := in.scope.get(e.id); ok {
			return v
		}
		if v, ok := globals[e.id]; ok {
			return v
		}
		return undefined{fmt.Sprintf("%q is undefined", e.id)}
	case *attribute:
		of := in.eval(e.of)
		in.line = e.lineOf()
		return in.attribute(of, e.id)
	case *item:
		of, key := in.eval(e.of), in.eval(e.key)
		in.line = e.lineOf()
		return in.item(of, key)
	case *slice:
		return in.slice(e)
	case *call:
		of := in.eval(e.of)
		a := in.arguments(e.args)
		in.line = e.lineOf()
		return in.invoke(of, a)
	case *filter:
		return in.filtered(e, nil)
	case *test:
		v := in.eval(e.of)
		a := in.arguments(e.args)
		in.line = e.lineOf()
		return in.test(e.id, v, a)
	case *negation:
		return !truth(in.eval(e.of))
	case *sign:
		v := in.eval(e.of)
		in.line = e.lineOf()
		if n, ok := integer(v); ok {
			if e.minus {
				return -n
			}
			return n
		}
		if f, ok := v.(float64); ok {
			if e.minus {
				return -f
			}
			return f
		}
		in.defined(v)
		in.fail("%s has no sign", typeName(v))
	case *binary:
		left := in.eval(e.left)
		switch {
		case e.op == "and" && !truth(left), e.op == "or" && truth(left):
			return left
		case e.op == "and", e.op == "or":
			return in.eval(e.right)
		}
		right := in.eval(e.right)
		in.line = e.lineOf()
		return in.operate(e.op, left, right)
	case *comparison:
		left := in.eval(e.first)
		for i, op := range e.ops {
			right := in.eval(e.rest[i])
			in.line = e.lineOf()
			ok := false
			switch op {
			case "==":
				ok = in.equal(left, right)
			case "!=":
				ok = !in.equal(left, right)
			case "in":
				ok = in.contains(right, left)
			case "not in":
				ok = !in.contains(right, left)
			default:
				c := in.compare(left, right, op)
				ok = c == -1 && op[0] == '<' || c == 1 && op[0] == '>' || c == 0 && len(op) == 2
			}
			if !ok {
				return false
			}
			left = right
		}
		return true
	case *condition:
		if truth(in.eval(e.when)) {
			return in.eval(e.then)
		}
		if e.otherwise != nil {
			return in.eval(e.otherwise)
		}
		return undefined{"the condition has no else"}
	case *list:
		in.allocate(valueBytes * len(e.items))
		items := make([]Value, len(e.items))
		for i, x := range e.items {
			items[i] = in.eval(x)
		}
		return &sequence{items: items, tuple: e.tuple}
	case *dict:
		in.allocate(2 * valueBytes * len(e.keys))
		m := &mapping{}
		for i := range e.keys {
			k := in.eval(e.keys[i])
			in.setKey(m, k, in.eval(e.values[i]))
		}
		return m
	}
	panic(fmt.Sprintf("BUG: expression %T", e))
}

func (in *interp) setKey(m *mapping, k, v Value) {
	if t, ok := k.(Text); ok {
		in.work(len(t.s))
	}
	if !m.set(k, v) {
		in.defined(k)
		in.fail("%s cannot be the key of a dict", typeName(k))
	}
}

func (in *interp) arguments(a arguments) called {
	c := called{names: slices.Clone(a.names)}
	for _, e := range a.positional {
		c.positional = append(c.positional, in.eval(e))
	}
	for _, e := range a.values {
		c.values = append(c.values, in.eval(e))
	}
	if a.spread != nil {
		items := in.iterate(in.eval(a.spread))
		in.allocate(valueBytes * len(items))
		c.positional = append(c.positional, items...)
	}
	if a.spreadDict != nil {
		m, ok := in.eval(a.spreadDict).(*mapping)
		if !ok {
			in.fail("** takes a dict")
		}
		in.allocate(valueBytes * len(m.keys))
		for i, k := range m.keys {
			c.names = append(c.names, in.text(k).s)
			c.values = append(c.values, m.values[i])
		}
	}
	return c
}

func (in *interp) invoke(f Value, a called) Value {
	in.step()
	switch f := f.(type) {
	case *function:
		return f.call(in, a)
	case *loop:
		if f.recurse == nil {
			in.fail("the loop is not recursive")
		}
		return f.recurse(a.bind(in, "loop", "iterable")[0])
	}
	in.defined(f)
	in.fail("%s cannot be called", typeName(f))
	return nil
}

// attribute is v.id: a method or field first, then an item.
func (in *interp) attribute(v Value, id string) Value {
	switch v := v.(type) {
	case undefined:
		in.defined(v)
	case Text:
		if f, ok := textMethods[id]; ok {
			return f.of(id, v)
		}
		if id == "format" {
			return &function{id, func(in *interp, a called) Value { return in.format(v, a) }}
		}
	case *sequence:
		if f, ok := listMethods[id]; ok {
			return f.of(id, v)
		}
	case *mapping:
		if f, ok := dictMethods[id]; ok {
			return f.of(id, v)
		}
		if x, ok := v.get(literal(id)); ok {
			return x
		}
	case *namespace:
		if x, ok := v.fields.get(literal(id)); ok {
			return x
		}
	case *loop:
		return v.attribute(in, id)
	}
	return undefined{fmt.Sprintf("'%s object' has no attribute '%s'", typeName(v), id)}
}

// item is v[key]: an item first, then a method.
func (in *interp) item(v, key Value) Value {
	if t, ok := key.(Text); ok {
		in.work(len(t.s))
	}
	switch v := v.(type) {
	case undefined:
		in.defined(v)
	case *mapping:
		if x, ok := v.get(key); ok {
			return x
		}
	case *sequence:
		if i, ok := integer(key); ok {
			if i < 0 {
				i += int64(len(v.items))
			}
			if i >= 0 && i < int64(len(v.items)) {
				return v.items[i]
			}
		}
	case Text:
		if i, ok := integer(key); ok {
			in.work(len(v.s))
			n := int64(v.chars())
			if i < 0 {
				i += n
			}
			if i >= 0 && i < n {
				in.allocate(8 * int(n))
				at := v.offsets()
				return v.slice(at[i], at[i+1])
			}
		}
	}
	if id, ok := key.(Text); ok {
		return in.attribute(v, id.s)
	}
	return undefined{fmt.Sprintf("'%s object' has no item %s", typeName(v), in.text(key).s)}
}

func (in *interp) slice(e *slice) Value {
	of := in.eval(e.of)
	wrong := false // a bound that is no integer: the slice is undefined, as in Jinja2
	bound := func(x expr) (int64, bool) {
		if x == nil {
			return 0, false
		}
		v := in.eval(x)
		if v == nil {
			return 0, false
		}
		n, ok := integer(v)
		if !ok {
			in.defined(v)
			wrong = true
		}
		return n, true
	}
	from, hasFrom := bound(e.from)
	to, hasTo := bound(e.to)
	step, hasStep := bound(e.step)
	in.line = e.lineOf()
	if !hasStep {
		step = 1
	}
	in.defined(of)
	if wrong {
		return undefined{"a slice takes integers"}
	}
	if step == 0 {
		in.fail("the step of a slice is 0")
	}
	var at []int
	n := int64(0)
	switch of := of.(type) {
	case *sequence:
		n = int64(len(of.items))
	case Text:
		in.allocate(8 * len(of.s))
		at = of.offsets()
		n = int64(len(at) - 1)
	default:
		return undefined{typeName(of) + " cannot be sliced"}
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return max(low, min(high, i))
	}
	switch {
	case hasFrom:
		from = clamp(from)
	case step < 0:
		from = high
	}
	switch {
	case hasTo:
		to = clamp(to)
	case step < 0:
		to = low
	default:
		to = high
	}
	if t, ok := of.(Text); ok && step == 1 {
		return t.slice(at[min(from, to)], at[to])
	}
	var picked []int64
	for i := from; step > 0 && i < to || step < 0 && i > to; {
		picked = append(picked, i)
		if step > 0 && step > to-i || step < 0 && step < to-i {
			break // i + step would pass the end, perhaps the range of int64
		}
		i += step
	}
	in.allocate(valueBytes * len(picked))
	switch of := of.(type) {
	case *sequence:
		l := &sequence{tuple: of.tuple, items: make([]Value, len(picked))}
		for j, i := range picked {
			l.items[j] = of.items[i]
		}
		return l
	case Text:
		var b builder
		for _, i := range picked {
			b.add(of.slice(at[i], at[i+1]))
		}
		return b.text()
	}
	panic("BUG: slice of " + typeName(of))
}

func (in *interp) operate(op string, a, b Value) Value {
	if op == "~" {
		x, y := in.text(a), in.text(b)
		in.allocate(len(x.s) + len(y.s))
		return concat(x, y)
	}
	in.defined(a)
	in.defined(b)
	switch x := a.(type) {
	case Text:
		switch y := b.(type) {
		case Text:
			if op == "+" {
				in.allocate(len(x.s) + len(y.s))
				return concat(x, y)
			}
		}
		if op == "%" {
			return in.percent(x, b)
		}
		if n, ok := integer(b); ok && op == "*" {
			return in.repeat(x, n)
		}
	case *sequence:
		if y, ok := b.(*sequence); ok && op == "+" && x.tuple == y.tuple {
			in.allocate(valueBytes * (len(x.items) + len(y.items)))
			return &sequence{items: append(slices.Clone(x.items), y.items...), tuple: x.tuple}
		}
		if n, ok := integer(b); ok && op == "*" {
			return in.repeatList(x, n)
		}
	}
	if n, ok := integer(a); ok && op == "*" {
		switch y := b.(type) {
		case Text:
			return in.repeat(y, n)
		case *sequence:
			return in.repeatList(y, n)
		}
	}
	x, okX := integer(a)
	y, okY := integer(b)
	if okX && okY {
		return in.integers(op, x, y)
	}
	f, okF := number(a)
	g, okG := number(b)
	if !okF || !okG {
		in.fail("%q has no meaning between %s and %s", op, typeName(a), typeName(b))
	}
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		return math.Pow(f, g)
	}
	if g == 0 {
		in.fail("division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	}
	m := math.Mod(f, g)
	if m != 0 && (m < 0) != (g < 0) {
		m += g
	}
	return m
}

// times counts the size of n copies, and returns n cut to what Python makes of it.
func (in *interp) times(n int64, size int) int {
	if n <= 0 || size == 0 {
		return 0
	}
	if n > int64(in.limits.MemoryBytes/size) {
		n = int64(in.limits.MemoryBytes/size) + 1
	}
	in.allocate(int(n) * size)
	return int(n)
}

func (in *interp) repeat(t Text, n int64) Value {
	count := in.times(n, len(t.s))
	return Text{s: strings.Repeat(t.s, count), m: strings.Repeat(t.m, count)}
}

func (in *interp) repeatList(l *sequence, n int64) Value {
	return &sequence{items: slices.Repeat(l.items, in.times(n, valueBytes*len(l.items))), tuple: l.tuple}
}

func (in *interp) integers(op string, x, y int64) Value {
	large := func() { in.fail("the result of %d %s %d is too large", x, op, y) }
	switch op {
	case "+":
		if z := x + y; (z > x) == (y > 0) {
			return z
		}
		large()
	case "-":
		if z := x - y; (z < x) == (y > 0) {
			return z
		}
		large()
	case "*":
		return in.product(x, y, large)
	case "**":
		if y < 0 {
			if x == 0 {
				in.fail("division by zero")
			}
			return math.Pow(float64(x), float64(y))
		}
		z := int64(1)
		for base := x; y > 0; y >>= 1 {
			if y&1 != 0 {
				z = in.product(z, base, large)
			}
			if y > 1 {
				base = in.product(base, base, large)
			}
		}
		return z
	}
	if y == 0 {
		in.fail("division by zero")
	}
	if op == "/" {
		return float64(x) / float64(y)
	}
	if y == -1 {
		if op == "%" {
			return int64(0)
		}
		if x == math.MinInt64 {
			large()
		}
		return -x
	}
	q, r := x/y, x%y
	if r != 0 && (r < 0) != (y < 0) {
		q--
		r += y
	}
	if op == "//" {
		return q
	}
	return r
}

func (in *interp) product(x, y int64, large func()) int64 {
	if x == 0 || y == 0 {
		return 0
	}
	z := x * y
	if z/y != x || x == -1 && y == math.MinInt64 || y == -1 && x == math.MinInt64 {
		large()
	}
	return z
}
