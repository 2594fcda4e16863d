package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxSourceBytes = 4 << 20
	maxNesting     = 200
	maxNames       = 255 // keywords of a call, parameters of a macro
)

// Template is a template that has been read. It can be rendered by several goroutines at once.
type Template struct {
	body []stmt
}

// Parse reads a template. The error is a [*SyntaxError] or a [*UnsupportedError], each with its line.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSourceBytes {
		return nil, &SyntaxError{Line: 1, Msg: fmt.Sprintf("the template has %d bytes, more than %d", len(source), maxSourceBytes)}
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	defer func() {
		if r := recover(); r != nil {
			stop, ok := r.(halt)
			if !ok {
				panic(r)
			}
			t, err = nil, stop.err
		}
	}()
	body, _ := p.statements()
	return &Template{body: body}, nil
}

// halt carries an error up through the parser or the interpreter to the exported function, which returns it.
type halt struct{ err error }

type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // enclosing loops of the present macro
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != kindEnd {
		p.pos++
	}
	return t
}

func (p *parser) line() at { return at(p.peek().line) }

func (p *parser) fail(format string, a ...any) {
	panic(halt{&SyntaxError{Line: p.peek().line, Msg: fmt.Sprintf(format, a...)}})
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxNesting {
		p.fail("nested more than %d deep", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) is(op string) bool    { t := p.peek(); return t.kind == kindOperator && t.text == op }
func (p *parser) isName(n string) bool { t := p.peek(); return t.kind == kindName && t.text == n }

func (p *parser) skip(op string) bool {
	if p.is(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(n string) bool {
	if p.isName(n) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(op string) {
	if !p.skip(op) {
		p.fail("expected %q, found %s", op, p.peek().describe())
	}
}

func (p *parser) expectName(what string) string {
	if p.peek().kind != kindName {
		p.fail("expected %s, found %s", what, p.peek().describe())
	}
	return p.next().text
}

func (p *parser) blockTo() {
	if p.peek().kind != kindBlockTo {
		p.fail(`expected "%%}", found %s`, p.peek().describe())
	}
	p.next()
}

// statements reads until a block tag with one of the names, whose name it consumes and returns; with no names, to the
// end of the template.
func (p *parser) statements(until ...string) (body []stmt, end string) {
	p.enter()
	defer p.leave()
	for {
		t := p.next()
		switch t.kind {
		case kindEnd:
			if len(until) > 0 {
				p.fail("expected %q before the end of the template", until[len(until)-1])
			}
			return body, ""
		case kindData:
			body = append(body, &output{at(t.line), literal(t.text)})
		case kindPrint:
			e := p.tuple(true, nil)
			if p.peek().kind != kindPrintTo {
				p.fail(`expected "}}", found %s`, p.peek().describe())
			}
			p.next()
			body = append(body, &printing{at(t.line), e})
		case kindBlock:
			id := p.expectName("the name of a statement")
			if slices.Contains(until, id) {
				return body, id
			}
			if s := p.statement(at(t.line), id); s != nil {
				body = append(body, s)
			}
		default:
			panic("BUG: token outside tags: " + t.describe())
		}
	}
}

// block reads the body of a statement up to its end tag.
func (p *parser) block(end string) []stmt {
	p.blockTo()
	body, _ := p.statements(end)
	p.blockTo()
	return body
}

func (p *parser) statement(line at, id string) stmt {
	switch id {
	case "if":
		s := &ifStmt{at: line}
		for id != "endif" {
			b := branch{}
			if id != "else" {
				b.when = p.tuple(true, nil)
			}
			p.blockTo()
			ends := []string{"elif", "else", "endif"}
			if id == "else" {
				ends = ends[2:]
			}
			b.body, id = p.statements(ends...)
			s.branches = append(s.branches, b)
		}
		p.blockTo()
		return s
	case "for":
		return p.forLoop(line)
	case "set":
		return p.set(line)
	case "macro":
		s := &macroStmt{at: line, id: p.expectName("the name of a macro")}
		if !p.is("(") {
			p.fail(`expected "(", found %s`, p.peek().describe())
		}
		s.params = p.params()
		s.body = p.outsideLoops("endmacro")
		return s
	case "call":
		s := &callStmt{at: line}
		if p.is("(") {
			s.params = p.params()
		}
		c, ok := p.expression(true).(*call)
		if !ok {
			p.fail("expected a call")
		}
		s.call = c
		s.body = p.outsideLoops("endcall")
		return s
	case "filter":
		s := &filterStmt{at: line, filter: p.filterChain(nil)}
		s.body = p.block("endfilter")
		return s
	case "with":
		s := &withStmt{at: line}
		for p.peek().kind != kindBlockTo {
			if len(s.targets) > 0 {
				p.expect(",")
			}
			s.targets = append(s.targets, p.target(false))
			p.expect("=")
			s.values = append(s.values, p.expression(true))
		}
		s.body = p.block("endwith")
		return s
	case "block":
		p.expectName("the name of a block")
		for p.isName("scoped") || p.isName("required") {
			p.next()
		}
		p.blockTo()
		body, _ := p.statements("endblock")
		if p.peek().kind == kindName {
			p.next()
		}
		p.blockTo()
		return &scoped{line, body}
	case "generation":
		// A mark for training masks; it prints its body.
		p.blockTo()
		body, _ := p.statements("endgeneration")
		p.blockTo()
		return &ifStmt{line, []branch{{body: body}}}
	case "print":
		e := p.tuple(true, nil)
		p.blockTo()
		return &printing{line, e}
	case "do":
		e := p.tuple(true, nil)
		p.blockTo()
		return &doStmt{line, e}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%q outside a loop", id)
		}
		p.blockTo()
		if id == "break" {
			return &jump{line, signalBreak}
		}
		return &jump{line, signalContinue}
	case "extends", "include", "import", "from", "autoescape", "trans", "debug":
		panic(halt{&UnsupportedError{int(line), fmt.Sprintf("statement %q", id)}})
	case "endif", "else", "elif", "endfor", "endset", "endmacro", "endcall", "endfilter", "endwith", "endblock", "endgeneration", "endraw":
		p.fail("%q has no beginning", id)
	}
	panic(halt{&UnsupportedError{int(line), fmt.Sprintf("statement %q", id)}})
}

// outsideLoops reads a body from which break and continue do not reach the loops around it.
func (p *parser) outsideLoops(end string) []stmt {
	loops := p.loops
	p.loops = 0
	body := p.block(end)
	p.loops = loops
	return body
}

func (p *parser) forLoop(line at) stmt {
	s := &forStmt{at: line, target: p.target(true)}
	if !p.skipName("in") {
		p.fail(`expected "in", found %s`, p.peek().describe())
	}
	s.in = p.tuple(false, []string{"recursive"})
	if p.skipName("if") {
		s.when = p.expression(true)
	}
	s.recursive = p.skipName("recursive")
	p.blockTo()
	p.loops++
	body, end := p.statements("else", "endfor")
	p.loops--
	s.body = body
	if end == "else" {
		p.blockTo()
		s.otherwise, _ = p.statements("endfor")
	}
	p.blockTo()
	return s
}

func (p *parser) set(line at) stmt {
	t := p.target(true)
	if p.skip("=") {
		to := p.tuple(true, nil)
		p.blockTo()
		return &setStmt{line, t, to}
	}
	s := &setBlock{at: line, target: t}
	if p.is("|") {
		p.next()
		s.filter = p.filterChain(nil)
	}
	s.body = p.block("endset")
	return s
}

// target reads what an assignment binds.
func (p *parser) target(several bool) target {
	one := func() target {
		if p.skip("(") {
			p.enter()
			t := p.target(true)
			p.leave()
			p.expect(")")
			return t
		}
		t := target{id: p.expectName("a name to assign to")}
		switch t.id {
		case "true", "false", "none", "True", "False", "None":
			p.fail("%q cannot be assigned to", t.id)
		}
		if p.skip(".") {
			t.field = p.expectName("the name of a field")
		}
		return t
	}
	first := one()
	if !several || !p.is(",") {
		return first
	}
	items := []target{first}
	for p.skip(",") {
		if p.peek().kind != kindName && !p.is("(") || p.isName("in") {
			break
		}
		items = append(items, one())
	}
	return target{items: items}
}

func (p *parser) params() []param {
	var params []param
	p.expect("(")
	for !p.skip(")") {
		if len(params) > 0 {
			p.expect(",")
			if p.skip(")") {
				break
			}
		}
		a := param{id: p.expectName("the name of a parameter")}
		if p.skip("=") {
			a.fallback = p.expression(true)
		} else if len(params) > 0 && params[len(params)-1].fallback != nil {
			p.fail("parameter %q without a default follows one with a default", a.id)
		}
		if len(params) == maxNames {
			p.fail("more than %d parameters", maxNames)
		}
		params = append(params, a)
	}
	return params
}

// tuple reads one expression, or several with commas between.
func (p *parser) tuple(conditions bool, stops []string) expr {
	line := p.line()
	first := p.expression(conditions)
	if !p.is(",") {
		return first
	}
	l := &list{at: line, items: []expr{first}, tuple: true}
	for p.skip(",") {
		t := p.peek()
		if t.kind == kindPrintTo || t.kind == kindBlockTo || t.kind == kindEnd || p.is(")") || t.kind == kindName && slices.Contains(stops, t.text) {
			break
		}
		l.items = append(l.items, p.expression(conditions))
	}
	return l
}

func (p *parser) expression(conditions bool) expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for conditions && p.isName("if") {
		c := &condition{at: p.line(), then: e}
		p.next()
		c.when = p.or()
		if p.skipName("else") {
			c.otherwise = p.expression(true)
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.isName("or") {
		line := at(p.next().line)
		e = &binary{line, "or", e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.isName("and") {
		line := at(p.next().line)
		e = &binary{line, "and", e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	if p.isName("not") {
		p.enter()
		defer p.leave()
		line := at(p.next().line)
		return &negation{line, p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	c := &comparison{at: p.line(), first: p.sum()}
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == kindOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = p.next().text
		case p.isName("in"):
			op = p.next().text
		case p.isName("not") && p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind == kindName && p.tokens[p.pos+1].text == "in":
			p.next()
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
	if len(c.ops) == 0 {
		return c.first
	}
	return c
}

// chain reads operands of the next level with left-associative operators between.
func (p *parser) chain(operand func() expr, ops ...string) expr {
	e := operand()
	for p.peek().kind == kindOperator && slices.Contains(ops, p.peek().text) {
		t := p.next()
		e = &binary{at(t.line), t.text, e, operand()}
	}
	return e
}

func (p *parser) sum() expr     { return p.chain(p.joined, "+", "-") }
func (p *parser) joined() expr  { return p.chain(p.product, "~") }
func (p *parser) product() expr { return p.chain(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.chain(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	var e expr
	if p.is("-") || p.is("+") {
		p.enter()
		t := p.next()
		e = &sign{at(t.line), p.unary(false), t.text == "-"}
		p.leave()
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filtersAndTests(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.peek()
	line := at(t.line)
	switch t.kind {
	case kindName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constant{line, true}
		case "false", "False":
			return &constant{line, false}
		case "none", "None":
			return &constant{line, nil}
		}
		return &name{line, t.text}
	case kindString:
		var s strings.Builder
		for p.peek().kind == kindString {
			s.WriteString(p.next().text)
		}
		return &constant{line, literal(s.String())}
	case kindInt:
		p.next()
		base := 10
		if len(t.text) > 1 && t.text[0] == '0' {
			base = 0
		}
		v, err := strconv.ParseInt(t.text, base, 64)
		if err != nil && t.text[0] == '0' { // 000
			v = 0
		}
		return &constant{line, v}
	case kindFloat:
		p.next()
		v, _ := strconv.ParseFloat(t.text, 64)
		return &constant{line, v}
	case kindOperator:
		switch t.text {
		case "(":
			p.next()
			if p.skip(")") {
				return &list{at: line, tuple: true}
			}
			e := p.tuple(true, nil)
			p.expect(")")
			return e
		case "[":
			p.next()
			l := &list{at: line}
			for !p.skip("]") {
				if len(l.items) > 0 {
					p.expect(",")
					if p.skip("]") {
						break
					}
				}
				l.items = append(l.items, p.expression(true))
			}
			return l
		case "{":
			p.next()
			d := &dict{at: line}
			for !p.skip("}") {
				if len(d.keys) > 0 {
					p.expect(",")
					if p.skip("}") {
						break
					}
				}
				d.keys = append(d.keys, p.expression(true))
				p.expect(":")
				d.values = append(d.values, p.expression(true))
			}
			return d
		}
	}
	p.fail("expected an expression, found %s", t.describe())
	return nil
}

func (p *parser) postfix(e expr) expr {
	for {
		switch {
		case p.is("."), p.is("["):
			e = p.subscript(e)
		case p.is("("):
			e = &call{p.line(), e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) filtersAndTests(e expr) expr {
	for {
		switch {
		case p.skip("|"):
			e = p.oneFilter(e)
		case p.isName("is"):
			e = p.test(e)
		case p.is("("):
			e = &call{p.line(), e, p.arguments()}
		default:
			return e
		}
	}
}

// filterChain reads the filters of a block: the first without its bar.
func (p *parser) filterChain(of expr) expr {
	e := p.oneFilter(of)
	for p.skip("|") {
		e = p.oneFilter(e)
	}
	return e
}

func (p *parser) oneFilter(of expr) expr {
	f := &filter{at: p.line(), of: of, id: p.dotted("the name of a filter")}
	if p.is("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) dotted(what string) string {
	id := p.expectName(what)
	for p.skip(".") {
		id += "." + p.expectName(what)
	}
	return id
}

func (p *parser) test(of expr) expr {
	line := at(p.next().line)
	not := p.skipName("not")
	t := &test{at: line, of: of, id: p.dotted("the name of a test")}
	next := p.peek()
	switch {
	case p.is("("):
		t.args = p.arguments()
	case next.kind == kindName && next.text == "is":
		p.fail("tests cannot be chained")
	case next.kind == kindName && !slices.Contains([]string{"else", "or", "and", "if", "not", "in", "recursive"}, next.text),
		next.kind == kindString, next.kind == kindInt, next.kind == kindFloat, p.is("["), p.is("{"):
		p.enter()
		t.args.positional = []expr{p.postfix(p.primary())}
		p.leave()
	}
	if not {
		return &negation{line, t}
	}
	return t
}

func (p *parser) subscript(of expr) expr {
	t := p.next()
	line := at(t.line)
	if t.text == "." {
		k := p.next()
		switch k.kind {
		case kindName:
			return &attribute{line, of, k.text}
		case kindInt:
			n, _ := strconv.ParseInt(k.text, 0, 64)
			return &item{line, of, &constant{line, n}}
		}
		p.pos--
		p.fail("expected a name or a number behind the dot, found %s", k.describe())
	}
	s := &slice{at: line, of: of}
	parts := []*expr{&s.from, &s.to, &s.step}
	n := 0
	for !p.is("]") {
		if p.skip(":") {
			n++
			if n == len(parts) {
				p.fail("a slice has at most three parts")
			}
			continue
		}
		if *parts[n] != nil {
			p.fail("expected %q, found %s", "]", p.peek().describe())
		}
		*parts[n] = p.tuple(true, nil)
	}
	p.expect("]")
	if n == 0 {
		if s.from == nil {
			p.fail("expected an expression between the brackets")
		}
		return &item{line, of, s.from}
	}
	return s
}

func (p *parser) arguments() arguments {
	var a arguments
	p.expect("(")
	for first := true; !p.skip(")"); first = false {
		if !first {
			p.expect(",")
			if p.skip(")") {
				break
			}
		}
		switch {
		case p.skip("*"):
			if a.spread != nil {
				p.fail("* comes twice")
			}
			a.spread = p.expression(true)
		case p.skip("**"):
			if a.spreadDict != nil {
				p.fail("** comes twice")
			}
			a.spreadDict = p.expression(true)
		case p.peek().kind == kindName && p.tokens[p.pos+1].kind == kindOperator && p.tokens[p.pos+1].text == "=":
			id := p.next().text
			p.next()
			if slices.Contains(a.names, id) {
				p.fail("argument %q comes twice", id)
			}
			if len(a.names) == maxNames {
				p.fail("more than %d named arguments", maxNames)
			}
			a.names = append(a.names, id)
			a.values = append(a.values, p.expression(true))
		default:
			if len(a.names) > 0 || a.spreadDict != nil {
				p.fail("an argument without a name follows one with a name")
			}
			a.positional = append(a.positional, p.expression(true))
		}
	}
	return a
}
