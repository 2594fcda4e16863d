package token

import (
	"cmp"
	"slices"
	"strings"
)

// Part is a stretch of text that is encoded together with its neighbours, as one text. Control tokens are recognized
// only where they lie within parts that have ParseSpecial set: so a chat template may write markers and the user's text
// between them may not, and yet the ids are those of the whole text.
type Part struct {
	Text         string
	ParseSpecial bool
}

// marker is a token that is looked for in text before anything else.
type marker struct {
	id         int32
	text       string
	always     bool // a user-defined token, matched wherever it stands
	stripRight bool
}

// markers finds markers in text. Of markers that overlap, the longest wins wherever it stands, the lower id among
// equals, and the leftmost occurrence of one.
type markers struct {
	list []marker // longest first
	// heads maps the first two bytes (one byte for a text of one) to indices in list, so that a text is searched for
	// the markers that occur in it and no others.
	heads map[[2]byte][]int
	first [256]bool
}

func newMarkers(v *vocabulary) *markers {
	m := &markers{heads: map[[2]byte][]int{}}
	for i, t := range v.types {
		if (t == Control || t == Unknown || t == UserDefined) && v.texts[i] != "" {
			m.list = append(m.list, marker{
				id: int32(i), text: v.texts[i], always: t == UserDefined,
				stripRight: v.stripRight != nil && v.stripRight[i],
			})
		}
	}
	slices.SortStableFunc(m.list, func(a, b marker) int { return cmp.Compare(len(b.text), len(a.text)) })
	for i, k := range m.list {
		h := [2]byte{k.text[0]}
		if len(k.text) > 1 {
			h[1] = k.text[1]
		}
		m.heads[h] = append(m.heads[h], i)
		m.first[k.text[0]] = true
	}
	return m
}

// fragment is a stretch of text, or a token if id is one.
type fragment struct {
	from, to int
	id       int32
}

// span is the half-open range of bytes [from, to).
type span struct{ from, to int }

// trustedSpans returns the text of the parts and the ranges of it where control tokens are recognized, neighbours
// joined.
func trustedSpans(parts []Part) (text string, trusted []span) {
	if len(parts) == 1 {
		text = parts[0].Text
	} else {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		text = b.String()
	}
	at := 0
	for _, p := range parts {
		end := at + len(p.Text)
		if p.ParseSpecial && end > at {
			if n := len(trusted); n > 0 && trusted[n-1].to == at {
				trusted[n-1].to = end
			} else {
				trusted = append(trusted, span{at, end})
			}
		}
		at = end
	}
	return text, trusted
}

// within reports whether [from, to) lies in one of the spans, which rise.
func within(spans []span, from, to int) bool {
	i, _ := slices.BinarySearchFunc(spans, from, func(s span, at int) int {
		if s.to <= at {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].from <= from && to <= spans[i].to
}

// cut splits text into fragments of text and markers.
func (m *markers) cut(text string, trusted []span) []fragment {
	if text == "" {
		return nil
	}
	frags := []fragment{{0, len(text), noToken}}
	for _, i := range m.present(text, len(trusted) > 0) {
		k := m.list[i]
		next := make([]fragment, 0, len(frags)+2)
		for _, f := range frags {
			if f.id != noToken {
				next = append(next, f)
				continue
			}
			for from := f.from; ; {
				at := strings.Index(text[from:f.to], k.text)
				if at < 0 {
					break
				}
				at += from
				end := at + len(k.text)
				if !k.always && !within(trusted, at, end) {
					from = at + 1
					continue
				}
				if at > f.from {
					next = append(next, fragment{f.from, at, noToken})
				}
				next = append(next, fragment{id: k.id})
				if k.stripRight {
					for end < f.to && isSpaceC(text[end]) {
						end++
					}
				}
				f.from, from = end, end
			}
			if f.from < f.to {
				next = append(next, f)
			}
		}
		frags = next
	}
	return frags
}

// present returns the indices, rising, of the markers that occur in text.
func (m *markers) present(text string, special bool) []int {
	var found []int
	for at := range len(text) {
		if !m.first[text[at]] {
			continue
		}
		h := [2]byte{text[at]}
		found = m.match(found, text[at:], h, special)
		if at+1 < len(text) {
			h[1] = text[at+1]
			if h[1] != 0 {
				found = m.match(found, text[at:], h, special)
			}
		}
	}
	slices.Sort(found)
	return found
}

func (m *markers) match(found []int, text string, head [2]byte, special bool) []int {
	for _, i := range m.heads[head] {
		k := m.list[i]
		if (k.always || special) && strings.HasPrefix(text, k.text) && !slices.Contains(found, i) {
			found = append(found, i)
		}
	}
	return found
}

// isSpaceC is isspace of C's default locale.
func isSpaceC(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }
