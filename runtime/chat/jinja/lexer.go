package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	kindEnd     kind = iota // end of the template
	kindData                // text between tags
	kindPrint               // {{
	kindPrintTo             // }}
	kindBlock               // {%
	kindBlockTo             // %}
	kindName
	kindString
	kindInt
	kindFloat
	kindOperator
)

type token struct {
	kind kind
	text string // of a string: its value; of an operator or name: its spelling
	line int
}

func (t token) describe() string {
	switch t.kind {
	case kindEnd:
		return "the end of the template"
	case kindPrintTo:
		return `"}}"`
	case kindBlockTo:
		return `"%}"`
	case kindString:
		return "a string"
	}
	return strconv.Quote(t.text)
}

// lexer cuts a template into tokens. The rules for white space are those of Jinja2 with trim_blocks and lstrip_blocks:
// the line break after a block or comment tag goes; so do the blanks before one that begins its line; a minus sign at
// a tag's edge takes all white space on that side, a plus sign keeps it.
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	// starting says that what comes next begins a line: the start, or right after a tag that took a line break.
	starting bool
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1, starting: true}
	if err := l.run(); err != nil {
		return nil, err
	}
	l.emit(kindEnd, "")
	return l.tokens, nil
}

func (l *lexer) emit(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.line})
}

func (l *lexer) fail(format string, a ...any) error {
	return &SyntaxError{Line: l.line, Msg: fmt.Sprintf(format, a...)}
}

// advance moves over the next n bytes.
func (l *lexer) advance(n int) {
	part := l.src[l.pos : l.pos+n]
	l.line += strings.Count(part, "\n")
	l.pos += n
	l.starting = strings.HasSuffix(part, "\n")
}

func (l *lexer) rest() string { return l.src[l.pos:] }

func (l *lexer) run() error {
	for l.pos < len(l.src) {
		open := nextTag(l.rest())
		if open < 0 {
			l.text(l.rest())
			return nil
		}
		text := l.rest()[:open]
		tag := l.rest()[open : open+2]
		sign := byte(0)
		if open+2 < len(l.rest()) {
			if c := l.rest()[open+2]; c == '-' || c == '+' {
				sign = c
			}
		}
		kept := text
		switch {
		case sign == '-':
			kept = strings.TrimRightFunc(text, isSpace)
		case sign != '+' && tag != "{{":
			bol := strings.LastIndexByte(text, '\n') + 1
			if (bol > 0 || l.starting) && strings.Trim(text[bol:], " \t") == "" {
				kept = text[:bol]
			}
		}
		if kept != "" {
			l.emit(kindData, kept)
		}
		l.advance(len(text))
		size := 2
		if sign != 0 {
			size = 3
		}
		var err error
		switch tag {
		case "{#":
			err = l.comment(size)
		case "{%":
			if ok, e := l.raw(size); ok || e != nil {
				err = e
				break
			}
			l.emit(kindBlock, "{%")
			l.advance(size)
			err = l.expression("%}", kindBlockTo)
		case "{{":
			l.emit(kindPrint, "{{")
			l.advance(size)
			err = l.expression("}}", kindPrintTo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lexer) text(s string) {
	if s != "" {
		l.emit(kindData, s)
	}
	l.advance(len(s))
}

// nextTag returns where the next tag opens, or -1.
func nextTag(s string) int {
	for i := 0; ; {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 || i+j+1 >= len(s) {
			return -1
		}
		i += j
		switch s[i+1] {
		case '{', '%', '#':
			return i
		}
		i++
	}
}

// after moves over what a closing tag takes with it, by its sign: all white space, nothing, or one line break where
// breaks says so.
func (l *lexer) after(sign byte, breaks bool) {
	switch {
	case sign == '-':
		rest := l.rest()
		if n := len(rest) - len(strings.TrimLeftFunc(rest, isSpace)); n > 0 {
			l.advance(n)
		}
	case sign != '+' && breaks && strings.HasPrefix(l.rest(), "\n"):
		l.advance(1)
	}
}

func (l *lexer) comment(size int) error {
	start := l.line
	l.advance(size)
	end := strings.Index(l.rest(), "#}")
	if end < 0 {
		l.line = start
		return l.fail("a comment is not closed")
	}
	sign := byte(0)
	if end > 0 {
		if c := l.rest()[end-1]; c == '-' || c == '+' {
			sign = c
		}
	}
	l.advance(end + 2)
	l.after(sign, true)
	return nil
}

// raw reads {% raw %} to {% endraw %} as text, if that is what begins here.
func (l *lexer) raw(size int) (bool, error) {
	body, sign, ok := tagNamed(l.rest()[size:], "raw")
	if !ok || sign == '+' {
		return false, nil
	}
	start := l.line
	l.advance(size + body)
	l.after(sign, false)
	for from := 0; ; {
		i := strings.Index(l.rest()[from:], "{%")
		if i < 0 {
			l.line = start
			return true, l.fail("a raw block is not closed")
		}
		i += from
		inner, open := l.rest()[i+2:], byte(0)
		if inner != "" && (inner[0] == '-' || inner[0] == '+') {
			open, inner = inner[0], inner[1:]
		}
		n, sign, ok := tagNamed(inner, "endraw")
		if !ok {
			from = i + 2
			continue
		}
		text := l.rest()[:i]
		kept := text
		switch {
		case open == '-':
			kept = strings.TrimRightFunc(text, isSpace)
		case open != '+':
			bol := strings.LastIndexByte(text, '\n') + 1
			if (bol > 0 || l.starting) && strings.Trim(text[bol:], " \t") == "" {
				kept = text[:bol]
			}
		}
		if kept != "" {
			l.emit(kindData, kept)
		}
		l.advance(len(l.rest()) - len(inner) + n)
		l.after(sign, true)
		return true, nil
	}
}

// tagNamed reports whether s, from behind an opening tag, is the tag of that name alone: how long it is with its
// closing, and the sign of that.
func tagNamed(s, name string) (n int, sign byte, ok bool) {
	rest := strings.TrimLeftFunc(s, isSpace)
	if !strings.HasPrefix(rest, name) {
		return 0, 0, false
	}
	rest = strings.TrimLeftFunc(rest[len(name):], isSpace)
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, "%}") {
		return 0, 0, false
	}
	return len(s) - len(rest) + 2, sign, true
}

// operators, the longest first.
var operators = []string{"==", "!=", "<=", ">=", "**", "//", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "|"}

// expression cuts up the inside of a tag, to its closing.
func (l *lexer) expression(closing string, closes kind) error {
	start := l.line
	var open []byte
	for {
		for l.pos < len(l.src) {
			r, n := utf8.DecodeRuneInString(l.rest())
			if !isSpace(r) {
				break
			}
			l.advance(n)
		}
		rest := l.rest()
		if rest == "" {
			l.line = start
			return l.fail("a tag is not closed: %q is missing", closing)
		}
		if len(open) == 0 {
			sign := byte(0)
			tail := rest
			if rest[0] == '-' || rest[0] == '+' && closes == kindBlockTo {
				sign, tail = rest[0], rest[1:]
			}
			if strings.HasPrefix(tail, closing) {
				l.emit(closes, closing)
				l.advance(len(rest) - len(tail) + len(closing))
				l.after(sign, closes == kindBlockTo)
				return nil
			}
		}
		c := rest[0]
		r, _ := utf8.DecodeRuneInString(rest)
		switch {
		case c == '\'' || c == '"':
			if err := l.str(c); err != nil {
				return err
			}
			continue
		case c >= '0' && c <= '9':
			if err := l.number(); err != nil {
				return err
			}
			continue
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(rest)
			}
			l.emit(kindName, rest[:n])
			l.advance(n)
			continue
		}
		op := ""
		for _, o := range operators {
			if strings.HasPrefix(rest, o) {
				op = o
				break
			}
		}
		switch op {
		case "":
			return l.fail("unexpected character %q", r)
		case "(", "[", "{":
			open = append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
		case ")", "]", "}":
			if len(open) == 0 {
				return l.fail("unexpected %q", op)
			}
			if want := open[len(open)-1]; want != op[0] {
				return l.fail("unexpected %q where %q closes", op, string(want))
			}
			open = open[:len(open)-1]
		}
		l.emit(kindOperator, op)
		l.advance(len(op))
	}
}

func (l *lexer) number() error {
	rest := l.rest()
	afterDot := len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind == kindOperator && l.tokens[len(l.tokens)-1].text == "."
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_' && i > 0 && i+1 < len(rest) && rest[i+1] >= '0' && rest[i+1] <= '9') {
			i++
		}
		return i
	}
	n, k := digits(0), kindInt
	if len(rest) > 2 && rest[0] == '0' && strings.ContainsRune("xXoObB", rune(rest[1])) {
		n = 2
		for n < len(rest) && (rest[n] == '_' || rest[n] < utf8.RuneSelf && strings.ContainsRune("0123456789abcdefABCDEF", rune(rest[n]))) {
			n++
		}
	} else if !afterDot {
		if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
			n, k = digits(n+1), kindFloat
		}
		if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			e := n + 1
			if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
				e++
			}
			if end := digits(e); end > e {
				n, k = end, kindFloat
			}
		}
	}
	text := strings.ReplaceAll(rest[:n], "_", "")
	var err error
	if k == kindInt {
		base := 10
		if strings.ContainsAny(text, "xXoObB") {
			base = 0
		} else if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != "" {
			return l.fail("the number %s begins with 0", text)
		}
		_, err = strconv.ParseInt(text, base, 64)
	} else {
		if _, err = strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrRange) {
			err = nil // infinity, as in Python
		}
	}
	if err != nil {
		return l.fail("the number %s is not readable or too large", text)
	}
	l.emit(k, text)
	l.advance(n)
	return nil
}

func (l *lexer) str(quote byte) error {
	rest := l.rest()
	i := 1
	for i < len(rest) && rest[i] != quote {
		if rest[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(rest) {
		return l.fail("a string is not closed")
	}
	value, err := unescape(rest[1:i])
	if err != nil {
		return l.fail("%v", err)
	}
	l.emit(kindString, value)
	l.advance(i + 1)
	return nil
}

// unescape reads Python's escapes. An unknown one stays as it is, as in Python.
func unescape(s string) (string, error) {
	if !strings.ContainsRune(s, '\\') {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if j := strings.IndexByte("abfnrtv\\'\"", c); j >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v\\'\""[j])
			continue
		}
		size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		switch {
		case c == '\n':
		case size > 0:
			if i+size >= len(s) {
				return "", fmt.Errorf("the escape \\%c wants %d hexadecimal digits", c, size)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+size], 16, 32)
			if err != nil || v > unicode.MaxRune {
				return "", fmt.Errorf("the escape \\%c%s is not a character", c, s[i+1:i+1+size])
			}
			b.WriteRune(rune(v))
			i += size
		case c >= '0' && c <= '7':
			j := i
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			v, _ := strconv.ParseUint(s[i:j], 8, 32)
			b.WriteRune(rune(v))
			i = j - 1
		case c == 'N':
			return "", fmt.Errorf("the escape \\N is not supported")
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}
