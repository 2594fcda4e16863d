package engine

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestStopper: however a text is cut into pieces, what comes out is the text before the first stop string that is
// complete in it, and nothing is held back that cannot become one.
func TestStopper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 5, -1)
		stops := rapid.SliceOfN(letters, 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOf(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 4, -1)).Draw(t, "pieces")
		text := strings.Join(pieces, "")

		want, wantStopped := text, false
	search:
		for end := range len(text) + 1 {
			for start := range end + 1 { // the longest that ends here begins first
				for _, stop := range stops {
					if text[start:end] == stop {
						want, wantStopped = text[:start], true
						break search
					}
				}
			}
		}

		s := stopper{stops: stops}
		got, stopped := "", false
		for _, p := range pieces {
			var out string
			if out, stopped = s.next(p); stopped {
				got += out
				break
			}
			got += out
			begins := s.held == ""
			for _, stop := range stops {
				begins = begins || strings.HasPrefix(stop, s.held)
			}
			if !begins {
				t.Fatalf("%q is held back, and begins none of %q", s.held, stops)
			}
		}
		if !stopped {
			got += s.held
		}
		if got != want || stopped != wantStopped {
			t.Fatalf("%q, stopped %v; want %q, %v", got, stopped, want, wantStopped)
		}
	})
}
