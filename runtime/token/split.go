package token

import (
	"fmt"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// splitFunc cuts s, which is valid UTF-8 and not empty, into pieces: it appends the byte offset where each piece ends
// and returns the longer slice. The offsets rise strictly and the last is len(s).
type splitFunc func(s string, ends []int) []int

// handSplits are the expressions that have a splitter written by hand, several times faster than the regular expression
// engine. The expression stays the definition: tests hold each splitter to it.
var handSplits = map[string]splitFunc{
	reGPT2:   splitGPT2,
	reQwen2:  func(s string, ends []int) []int { return splitCL100K(s, ends, 1) },
	reLlama3: func(s string, ends []int) []int { return splitCL100K(s, ends, 3) },
	reDigit:  splitDigit,
}

// splitter returns the splitter of one expression: the one written by hand if there is one, or the expression itself.
func splitter(expr string) splitFunc {
	if f := handSplits[expr]; f != nil {
		return f
	}
	return regexSplit(expr)
}

var compiled sync.Map // expression -> *regexp2.Regexp

// regexSplit returns the splitter that the expression defines: each match is a piece, and so is each stretch between.
func regexSplit(expr string) splitFunc {
	re, ok := compiled.Load(expr)
	if !ok {
		re, _ = compiled.LoadOrStore(expr, regexp2.MustCompile(expr))
	}
	return func(s string, ends []int) []int {
		runes := []rune(s)
		at, pos := 0, 0 // rune index and byte offset of the last end
		advance := func(to int) {
			for ; at < to; at++ {
				pos += utf8.RuneLen(runes[at])
			}
			ends = append(ends, pos)
		}
		err := re.(*regexp2.Regexp).FindRunesMatches(runes, 0, func(v regexp2.MatchView) bool {
			i, n, _ := v.GroupRange(0)
			if n == 0 {
				return true
			}
			if i > at {
				advance(i)
			}
			advance(i + n)
			return true
		})
		if err != nil { // only a timeout can fail, and none is set
			panic(fmt.Sprintf("BUG: %s: %v", expr, err))
		}
		if at < len(runes) {
			advance(len(runes))
		}
		return ends
	}
}

// split applies the splitters one after the other and returns the ends of the pieces. buf is scratch to reuse.
func split(s string, splitters []splitFunc, buf *[2][]int) []int {
	ends := append(buf[0][:0], len(s))
	next := buf[1][:0]
	for _, f := range splitters {
		next = next[:0]
		start := 0
		for _, end := range ends {
			from := len(next)
			next = f(s[start:end], next)
			for i := from; i < len(next); i++ {
				next[i] += start
			}
			start = end
		}
		ends, next = next, ends
	}
	buf[0], buf[1] = ends, next
	return ends
}

// class is the Unicode class of a rune, as far as the splits tell them apart.
type class uint8

const (
	other  class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s
)

func classOf(r rune) class {
	if r < utf8.RuneSelf {
		return asciiClass[r]
	}
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(r):
			t[r] = letter
		case unicode.IsNumber(r):
			t[r] = number
		case unicode.IsSpace(r):
			t[r] = space
		}
	}
	return t
}()

// classAt returns the class and the length of the rune at s[i:], and 0 for the length at the end of s.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return other, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

// skip returns the offset of the first rune at or after i that is not of class c.
func skip(s string, i int, c class) int {
	for {
		k, n := classAt(s, i)
		if n == 0 || k != c {
			return i
		}
		i += n
	}
}

// contraction returns the length of one of 's 't 're 've 'm 'll 'd at the start of s, 0 if there is none. fold takes
// upper case for lower case.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	low := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return b
	}
	a := low(s[1])
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	b := low(s[2])
	if a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l' {
		return 3
	}
	return 0
}

// whitespace returns the end of the match of \s+(?!\S) at the white space s[i:], whose run ends at end: all of it at
// the end of the text, else all but its last rune. For a run of one rune before a word it returns i: no match.
func whitespace(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(s[i:end])
	return end - n
}

// splitGPT2 is reGPT2.
func splitGPT2(s string, ends []int) []int {
	for i := 0; i < len(s); {
		if n := contraction(s[i:], false); n > 0 {
			i += n
			ends = append(ends, i)
			continue
		}
		c, n := classAt(s, i)
		j, k := i+n, c
		if s[i] == ' ' { // the optional space before a word, a number or punctuation
			if k, n = classAt(s, j); n == 0 {
				k = space
			}
		}
		if k != space {
			i = skip(s, j, k)
			ends = append(ends, i)
			continue
		}
		if e := whitespace(s, i, skip(s, i, space)); e > i {
			i = e
		} else {
			i = j // one white-space rune before a word that does not take it: left over, a piece of its own
		}
		ends = append(ends, i)
	}
	return ends
}

// splitCL100K is reQwen2 for digits = 1 and reLlama3 for digits = 3.
func splitCL100K(s string, ends []int, digits int) []int {
	for i := 0; i < len(s); {
		if n := contraction(s[i:], true); n > 0 {
			i += n
			ends = append(ends, i)
			continue
		}
		c, n := classAt(s, i)
		j := i + n // after the first rune
		if c == number {
			for d := 1; d < digits; d++ {
				k, n := classAt(s, j)
				if n == 0 || k != number {
					break
				}
				j += n
			}
			i = j
			ends = append(ends, i)
			continue
		}
		// A word, with one rune before it that is no letter, no number and no line break.
		k, n := classAt(s, j)
		if c == letter || n > 0 && k == letter && s[i] != '\r' && s[i] != '\n' {
			i = skip(s, j, letter)
			ends = append(ends, i)
			continue
		}
		// Punctuation, with a space before and line breaks after it.
		if c == other || s[i] == ' ' && n > 0 && k == other {
			for i = skip(s, j, other); i < len(s) && (s[i] == '\r' || s[i] == '\n'); {
				i++
			}
			ends = append(ends, i)
			continue
		}
		// White space: up to its last line break, else all but the rune before a word, else that one rune.
		end, lineBreak := skip(s, i, space), -1
		for e := end; e > i; e-- {
			if s[e-1] == '\r' || s[e-1] == '\n' {
				lineBreak = e
				break
			}
		}
		if lineBreak > 0 {
			i = lineBreak
		} else if e := whitespace(s, i, end); e > i {
			i = e
		} else {
			i = end
		}
		ends = append(ends, i)
	}
	return ends
}

// splitDigit is reDigit.
func splitDigit(s string, ends []int) []int {
	for i := 0; i < len(s); {
		c, n := classAt(s, i)
		if c == number {
			i += n
		} else {
			for n > 0 && c != number {
				i += n
				c, n = classAt(s, i)
			}
		}
		ends = append(ends, i)
	}
	return ends
}
