// Package diag holds what the generator has to say to the author of a spec: positioned diagnostics, collected
// all at once and printed one a line as file:line:col: what is wrong, what is allowed.
package diag

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pos is a place in a spec. Line and Col count from 1; a Line of 0 means the file as a whole.
type Pos struct {
	File      string
	Line, Col int
}

// IsValid reports whether the position names a file.
func (p Pos) IsValid() bool { return p.File != "" }

// String writes file:line:col, or the file alone.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Diagnostic is one thing that is wrong.
type Diagnostic struct {
	Pos     Pos
	Message string
}

// String writes the diagnostic as one line.
func (d Diagnostic) String() string {
	text := strings.ReplaceAll(d.Message, "\n", " ")
	if !d.Pos.IsValid() {
		return text
	}
	return d.Pos.String() + ": " + text
}

// List is diagnostics in the order in which they were found; Err sorts them.
type List []Diagnostic

// Addf adds a diagnostic at a position.
func (l *List) Addf(at Pos, format string, args ...any) {
	*l = append(*l, Diagnostic{at, fmt.Sprintf(format, args...)})
}

// Add adds the diagnostics of another list.
func (l *List) Add(more List) { *l = append(*l, more...) }

// Sort orders by file, line, column and message and drops repetitions.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
			cmp.Compare(a.Message, b.Message))
	})
	*l = slices.Compact(*l)
}

// Rebase returns the list with the folder from replaced by to, in positions and where messages name a file: specs that were read from another
// folder are named where they lie.
func (l List) Rebase(from, to string) List {
	named := regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(from) + `/`)
	out := slices.Clone(l)
	for i, d := range out {
		if rest, ok := strings.CutPrefix(d.Pos.File, from); ok {
			out[i].Pos.File = to + rest
		}
		out[i].Message = named.ReplaceAllString(d.Message, "${1}"+strings.ReplaceAll(to, "$", "$$")+"/")
	}
	return out
}

// Err is the sorted list as an error, or nil for an empty list. errors.As recovers the List.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	out := slices.Clone(l)
	out.Sort()
	return out
}

// Error writes one diagnostic a line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, d := range l {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Nearest is the candidate that word was probably meant to be, or "" when none is close.
func Nearest(word string, candidates []string) string {
	best, bestDist := "", max(1, len(word)/2)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// Meant is " (meant NEAREST?)" for use in a message, or "" where nothing is near or the word is itself a candidate.
func Meant(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" && n != word {
		return fmt.Sprintf(" (meant %s?)", n)
	}
	return ""
}

// distance is the number of single-character edits and swaps of neighbours between two words.
func distance(a, b string) int {
	var before, prev []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, prev, row = prev, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			edit := 1
			if a[i-1] == b[j-1] {
				edit = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+edit)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
