package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var clock = func() time.Time { return time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC) }

var variables = Object{
	{"messages", []any{
		Object{{"role", "user"}, {"content", "u1"}},
		Object{{"role", "assistant"}, {"content", "a1"}},
		Object{{"role", "user"}, {"content", "u2"}},
	}},
	{"args", Object{{"b", 1}, {"a", "x"}}},
}

func render(template string, v Object) (Text, error) {
	return renderWithin(template, v, Limits{})
}

func renderWithin(template string, v Object, limits Limits) (Text, error) {
	t, err := Parse(template)
	if err != nil {
		return Text{}, err
	}
	return t.Render(context.Background(), v, Options{Now: clock, Limits: limits})
}

// differs are the snippets where this package is meant to differ from Jinja2: what it prints where Jinja2 prints
// something else or refuses, or "" with an error that it gives where Jinja2 accepts.
var differs = map[string]struct{ want, err string }{
	// Jinja2's sandbox keeps templates from changing lists and dicts; other renderers let them, and templates do.
	"{{ [1,2].append(3) }}": {want: "None"},
	"{% set x = [] %}{% for i in range(3) %}{% set _ = x.append(i) %}{% endfor %}{{ x }}": {want: "[0, 1, 2]"},
	"{{ {'a': 1}.update({'b': 2}) }}": {want: "None"},
	// The extension is off there.
	"{% do [1] %}": {},
	// Equal constants are one object or not by chance there.
	"{{ 'abc' is sameas 'abc' }}":               {want: "True"},
	"{{ \"\\N{BULLET}\" }}":                     {err: `template line 1: the escape \N is not supported`},
	"{% autoescape true %}x{% endautoescape %}": {err: `template line 1: statement "autoescape" is not supported`},
	"{#":                    {err: "template line 1: a comment is not closed"},
	"{{ 'x'|truncate(5) }}": {err: `template line 1: filter "truncate" is not supported`},
}

// TestSnippets holds the package to what Jinja2 prints, and to refusing what Jinja2 refuses. testdata/make.py made the
// expected texts.
func TestSnippets(t *testing.T) {
	raw, err := os.ReadFile("testdata/snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var snippets []struct {
		Template string
		Want     *string
	}
	if err := json.Unmarshal(raw, &snippets); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, s := range snippets {
		got, err := render(s.Template, variables)
		if d, ok := differs[s.Template]; ok {
			used++
			if s.Want != nil && d.err == "" && *s.Want == d.want {
				t.Errorf("%q does not differ any more", s.Template)
			}
			if (err != nil) != (d.err != "") || err != nil && err.Error() != d.err || got.s != d.want {
				t.Errorf("%q:\ngot  %q %v\nwant %q %v", s.Template, got.s, err, d.want, d.err)
			}
			continue
		}
		switch {
		case err != nil && s.Want != nil:
			t.Errorf("%q: %v\nwant %q", s.Template, err, *s.Want)
		case err == nil && s.Want == nil:
			t.Errorf("%q printed %q, Jinja2 refuses it", s.Template, got.s)
		case err == nil && got.s != *s.Want:
			t.Errorf("%q (-want +got):\n%s", s.Template, cmp.Diff(*s.Want, got.s))
		}
		var unsupported *UnsupportedError
		if err != nil && s.Want == nil && errors.As(err, &unsupported) && unsupported.Line < 1 {
			t.Errorf("%q: %v has no line", s.Template, err)
		}
	}
	if used != len(differs) {
		t.Errorf("%d of %d differing snippets were met", used, len(differs))
	}
}
