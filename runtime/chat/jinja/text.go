package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Text is a string that knows, for each byte, where it came from: written by the template (or by a caller who
// vouches for it), or brought in by a caller's value.
type Text struct {
	s string
	m string // empty if all of s is the template's; else one byte for each of s: fromTemplate or fromData
}

const (
	fromTemplate = 0
	fromData     = 1
)

// Trusted is a string given by the caller that counts as written by the template, such as the text of the start token.
type Trusted string

func literal(s string) Text { return Text{s: s} }

func data(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{s: s, m: strings.Repeat("\x01", len(s))}
}

// String returns the text without its origins.
func (t Text) String() string { return t.s }

// Run is a stretch of text of one origin.
type Run struct {
	Text         string
	FromTemplate bool
}

// Runs splits t into its longest stretches of one origin.
func (t Text) Runs() []Run {
	if t.s == "" {
		return nil
	}
	if t.m == "" {
		return []Run{{t.s, true}}
	}
	var runs []Run
	for i := 0; i < len(t.s); {
		j := i + 1
		for j < len(t.m) && t.m[j] == t.m[i] {
			j++
		}
		runs = append(runs, Run{t.s[i:j], t.m[i] == fromTemplate})
		i = j
	}
	return runs
}

func (t Text) slice(i, j int) Text {
	if t.m == "" {
		return Text{s: t.s[i:j]}
	}
	return Text{s: t.s[i:j], m: t.m[i:j]}
}

// origin returns the mask for something that stands for byte i of t.
func (t Text) origin(i int) byte {
	if t.m == "" {
		return fromTemplate
	}
	return t.m[i]
}

// offsets returns the byte offset of each character, and the length at the end.
func (t Text) offsets() []int {
	at := make([]int, 0, len(t.s)+1)
	for i := 0; i < len(t.s); {
		at = append(at, i)
		_, n := utf8.DecodeRuneInString(t.s[i:])
		i += n
	}
	return append(at, len(t.s))
}

func (t Text) chars() int { return utf8.RuneCountInString(t.s) }

// builder joins texts.
type builder struct {
	s strings.Builder
	m []byte // nil while all is the template's
}

func (b *builder) add(t Text) {
	if t.m != "" && b.m == nil {
		b.m = make([]byte, b.s.Len(), b.s.Len()+len(t.s))
	}
	if b.m != nil {
		if t.m != "" {
			b.m = append(b.m, t.m...)
		} else {
			b.m = append(b.m, make([]byte, len(t.s))...)
		}
	}
	b.s.WriteString(t.s)
}

// addAs adds s with the given origin.
func (b *builder) addAs(s string, origin byte) {
	if origin != fromTemplate {
		b.add(data(s))
		return
	}
	b.add(literal(s))
}

func (b *builder) text() Text {
	return Text{s: b.s.String(), m: string(b.m)}
}

func concat(parts ...Text) Text {
	var b builder
	for _, p := range parts {
		b.add(p)
	}
	return b.text()
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	switch {
	case r >= 0x09 && r <= 0x0d, r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// strip removes from the ends what in holds for.
func (t Text) strip(left, right bool, in func(rune) bool) Text {
	i, j := 0, len(t.s)
	for left && i < j {
		r, n := utf8.DecodeRuneInString(t.s[i:j])
		if !in(r) {
			break
		}
		i += n
	}
	for right && i < j {
		r, n := utf8.DecodeLastRuneInString(t.s[i:j])
		if !in(r) {
			break
		}
		j -= n
	}
	return t.slice(i, j)
}

// splitOn cuts t at each separator, at most limit times if limit is not negative.
func (t Text) splitOn(sep string, limit int) []Text {
	var parts []Text
	start := 0
	for limit != 0 {
		i := strings.Index(t.s[start:], sep)
		if i < 0 {
			break
		}
		parts = append(parts, t.slice(start, start+i))
		start += i + len(sep)
		limit--
	}
	return append(parts, t.slice(start, len(t.s)))
}

// rsplitOn cuts as splitOn does, from the right.
func (t Text) rsplitOn(sep string, limit int) []Text {
	var parts []Text
	end := len(t.s)
	for limit != 0 {
		i := strings.LastIndex(t.s[:end], sep)
		if i < 0 {
			break
		}
		parts = append(parts, t.slice(i+len(sep), end))
		end = i
		limit--
	}
	parts = append(parts, t.slice(0, end))
	slices.Reverse(parts)
	return parts
}

// fields cuts t at runs of white space, at most limit times if limit is not negative.
func (t Text) fields(limit int) []Text {
	var parts []Text
	rest := t.strip(true, false, isSpace)
	for rest.s != "" {
		if limit == 0 {
			return append(parts, rest)
		}
		i := strings.IndexFunc(rest.s, isSpace)
		if i < 0 {
			return append(parts, rest)
		}
		parts = append(parts, rest.slice(0, i))
		rest = rest.slice(i, len(rest.s)).strip(true, false, isSpace)
		limit--
	}
	return parts
}

// lines cuts t as Python's splitlines does; the ends stay if keep.
func (t Text) lines(keep bool) []Text {
	var parts []Text
	start := 0
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		end := i + n
		switch r {
		case '\r':
			if strings.HasPrefix(t.s[end:], "\n") {
				end++
			}
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		default:
			i = end
			continue
		}
		if keep {
			parts = append(parts, t.slice(start, end))
		} else {
			parts = append(parts, t.slice(start, i))
		}
		start, i = end, end
	}
	if start < len(t.s) {
		parts = append(parts, t.slice(start, len(t.s)))
	}
	return parts
}

// convert applies f to each stretch of one origin.
func (t Text) convert(f func(string) string) Text {
	var b builder
	for _, r := range t.Runs() {
		origin := byte(fromData)
		if r.FromTemplate {
			origin = fromTemplate
		}
		b.addAs(f(r.Text), origin)
	}
	return b.text()
}
