package engine

import "strings"

// stopper looks for stop strings in a text that comes in pieces. It holds back what may become one.
type stopper struct {
	stops []string
	held  string
}

// next takes a piece of text and gives what is sure to be before any stop string. stopped says that a stop string is
// complete: the text then ends before it. Of several it is the one that is complete first, the longest of those that are
// complete at once: the same wherever the pieces begin and end.
func (s *stopper) next(piece string) (text string, stopped bool) {
	if len(s.stops) == 0 {
		return piece, false
	}
	s.held += piece
	first, end := -1, 0
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i+len(stop) < end || i+len(stop) == end && i < first) {
			first, end = i, i+len(stop)
		}
	}
	if first >= 0 {
		text, s.held = s.held[:first], ""
		return text, true
	}
	keep := 0 // the longest end of the text that begins a stop string
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasPrefix(stop, s.held[len(s.held)-n:]) {
				keep = n
				break
			}
		}
	}
	cut := len(s.held) - keep
	text, s.held = s.held[:cut], s.held[cut:]
	return text, false
}
