package jinja

// Expressions.
type (
	expr interface{ lineOf() int }

	at int // the line of a node

	constant struct {
		at
		value Value
	}
	name struct {
		at
		id string
	}
	attribute struct { // of.id
		at
		of expr
		id string
	}
	item struct { // of[key]
		at
		of, key expr
	}
	slice struct { // of[from:to:step]; each may be nil
		at
		of, from, to, step expr
	}
	call struct {
		at
		of   expr
		args arguments
	}
	filter struct { // of is nil in the filters of a block
		at
		of   expr
		id   string
		args arguments
	}
	test struct {
		at
		of   expr
		id   string
		args arguments
	}
	negation struct { // not
		at
		of expr
	}
	sign struct { // - or +
		at
		of    expr
		minus bool
	}
	binary struct {
		at
		op          string
		left, right expr
	}
	comparison struct { // first op[0] rest[0] op[1] rest[1] ...
		at
		first expr
		ops   []string
		rest  []expr
	}
	condition struct { // then if when else otherwise (may be nil)
		at
		when, then, otherwise expr
	}
	list struct {
		at
		items []expr
		tuple bool
	}
	dict struct {
		at
		keys, values []expr
	}

	arguments struct {
		positional []expr
		names      []string // of keywords, beside their values
		values     []expr
		spread     expr // *spread
		spreadDict expr // **spreadDict
	}
)

func (l at) lineOf() int { return int(l) }

// Statements.
type (
	stmt interface{ lineOf() int }

	output struct { // text between tags
		at
		text Text
	}
	printing struct {
		at
		of expr
	}
	branch struct {
		when expr // nil for else
		body []stmt
	}
	ifStmt struct {
		at
		branches []branch
	}
	forStmt struct {
		at
		target    target
		in        expr
		when      expr // nil without a condition
		body      []stmt
		otherwise []stmt
		recursive bool
	}
	setStmt struct {
		at
		target target
		to     expr
	}
	setBlock struct {
		at
		target target
		filter expr // chain with a nil innermost of; nil for none
		body   []stmt
	}
	macroStmt struct {
		at
		id     string
		params []param
		body   []stmt
	}
	callStmt struct {
		at
		params []param
		call   *call
		body   []stmt
	}
	filterStmt struct {
		at
		filter expr
		body   []stmt
	}
	withStmt struct {
		at
		targets []target
		values  []expr
		body    []stmt
	}
	scoped struct { // block
		at
		body []stmt
	}
	doStmt struct {
		at
		of expr
	}
	jump struct { // break or continue
		at
		signal signal
	}

	param struct {
		id       string
		fallback expr // nil without a default
	}
	// target is what an assignment binds: a name, an attribute of a namespace, or several of them.
	target struct {
		id    string
		field string // set for id.field
		items []target
	}
)
