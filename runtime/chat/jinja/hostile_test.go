package jinja

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile are templates that would run for ever, fill the memory or overflow the stack.
var hostile = map[string]string{
	"nested loops":              strings.Repeat("{% for x in range(100000) %}", 8) + strings.Repeat("{% endfor %}", 8),
	"loops that print":          "{% for x in range(100000) %}{% for y in range(100000) %}{{ x }}{% endfor %}{% endfor %}",
	"a large range":             "{{ range(10 ** 18) | length }}",
	"a large range backwards":   "{{ range(10 ** 18, -(10 ** 18), -1) | length }}",
	"doubling":                  "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = ns.s + ns.s %}", 60),
	"doubling with ~":           "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = ns.s ~ ns.s %}", 60),
	"doubling a list":           "{% set ns = namespace(s=[1]) %}" + strings.Repeat("{% set ns.s = ns.s + ns.s %}", 60),
	"doubling by set block":     "{% set a = 'ab' %}" + strings.Repeat("{% set a %}{{ a }}{{ a }}{% endset %}", 60),
	"doubling by format":        "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = '%s%s' % (ns.s, ns.s) %}", 60),
	"doubling by str.format":    "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = '{0}{0}'.format(ns.s) %}", 60),
	"doubling by join":          "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = [ns.s, ns.s] | join %}", 60),
	"doubling by tojson":        "{% set ns = namespace(s='\"\"') %}" + strings.Repeat("{% set ns.s = ns.s | tojson %}", 60),
	"doubling by repr":          "{% set ns = namespace(s='\\\\') %}" + strings.Repeat("{% set ns.s = [ns.s] | string %}", 60),
	"doubling by replace":       "{% set ns = namespace(s='ab') %}" + strings.Repeat("{% set ns.s = ns.s.replace('a', ns.s) %}", 60),
	"doubling a nested list":    "{% set ns = namespace(s=[1]) %}" + strings.Repeat("{% set ns.s = [ns.s, ns.s] %}", 60) + "{{ ns.s }}",
	"nested list as JSON":       "{% set ns = namespace(s=[1]) %}" + strings.Repeat("{% set ns.s = [ns.s, ns.s] %}", 60) + "{{ ns.s | tojson }}",
	"nested lists compared":     "{% set ns = namespace(s=[1], t=[1]) %}" + strings.Repeat("{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}", 60) + "{{ ns.s == ns.t }}",
	"a repeated text":           "{{ 'ab' * 10 ** 15 }}",
	"a repeated text, reversed": "{{ 10 ** 18 * 'ab' }}",
	"a repeated list":           "{{ [1] * 10 ** 15 }}",
	"wide center":               "{{ 'a' | center(10 ** 15) }}",
	"wide indent":               "{{ 'a\nb' | indent(10 ** 15) }}",
	"wide indent of JSON":       "{{ [1] | tojson(indent=10 ** 15) }}",
	"wide zfill":                "{{ 'a'.zfill(10 ** 15) }}",
	"wide ljust":                "{{ 'a'.ljust(10 ** 15) }}",
	"wide conversion":           "{{ '%999999999d' % 1 }}",
	"wide batch":                "{{ [1] | batch(10 ** 15, 'x') }}",
	"many slices":               "{{ [1] | slice(10 ** 15) }}",
	"many separators":           "{{ range(100000) | join('a' * 100000) }}",
	"replace of nothing":        "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
	"many arguments":            "{{ f(" + manyArguments() + ") }}",
	"a large power":             "{{ 10 ** 1000 }}",
	"macro calls itself":        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
	"macros call each other":    "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
	"macro handed to itself":    "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
	"caller calls the macro":    "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
	"macro tree":                "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}",
	"default calls the macro":   "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
	"loop calls itself":         "{% set l = [1] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}",
	"list in itself, printed":   "{% set l = [] %}{% do l.append(l) %}{{ l }}",
	"list in itself, as JSON":   "{% set l = [] %}{% do l.append(l) %}{{ l | tojson }}",
	"list in itself, compared":  "{% set l = [] %}{% set m = [] %}{% do l.append(m) %}{% do m.append(l) %}{{ l == m }}{{ l < m }}",
	"dict in itself":            "{% set d = {} %}{% do d.update({'d': d}) %}{{ d }}",
	"namespace in itself":       "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
	"scopes kept":               "{% set l = [] %}{% for x in range(100000) %}{% for y in range(100000) %}{% macro f() %}{% endmacro %}{% do l.append(f) %}{% endfor %}{% endfor %}",
	"a quadratic search":        "{% set a = 'a' * 1000000 %}{% for x in range(100000) %}{% for y in range(1000) %}{{ 'b' in a }}{% endfor %}{% endfor %}",
	"a quadratic strip":         "{{ ('a' * 10000000).strip('abcdefghij' * 1000000) * 100 }}",
	"unique over many":          "{{ range(1000000) | unique | list }}",
	"parentheses":               "{{ " + strings.Repeat("(", 50000),
	"brackets":                  "{{ " + strings.Repeat("[", 50000) + strings.Repeat("]", 50000) + " }}",
	"braces":                    "{{ " + strings.Repeat("{1:", 50000),
	"not":                       "{{ " + strings.Repeat("not ", 50000) + "1 }}",
	"signs":                     "{{ " + strings.Repeat("- ", 50000) + "1 }}",
	"conditions":                "{{ " + strings.Repeat("1 if 0 else ", 100000) + "1 }}",
	"ifs":                       strings.Repeat("{% if 1 %}", 100000),
	"a long sum":                "{{ 1" + strings.Repeat("+1", 50000) + " }}",
	"a long chain":              "{{ a" + strings.Repeat(".a", 50000) + " }}",
	"many filters":              "{{ 1" + strings.Repeat("|abs", 50000) + " }}",
	"many subscripts":           "{{ 'a'" + strings.Repeat("[0]", 50000) + " }}",
	"nested targets":            "{% set " + strings.Repeat("(", 50000) + " %}",
	"nested tests":              "{{ 1" + strings.Repeat(" is eq [1", 100000) + " }}",
	"a large source":            strings.Repeat("x", maxSourceBytes+1),
}

func manyArguments() string {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "a%d=1,", i)
	}
	return b.String()
}

// tight are the limits of the tests: the defaults over 16. Time and memory grow with the limits alone.
var tight = Limits{
	Steps: DefaultLimits.Steps / 16, MemoryBytes: DefaultLimits.MemoryBytes / 16, OutputBytes: DefaultLimits.OutputBytes / 16, Depth: DefaultLimits.Depth,
}

// TestHostile: each is an error, soon and in bounded memory, and none ends the program.
func TestHostile(t *testing.T) {
	for name, template := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			got, err := renderWithin(template, variables, tight)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("rendered %d bytes", len(got.s))
			}
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 400<<20 {
				t.Errorf("made %d MB", made>>20)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes: %.100s", len(err.Error()), err)
			}
			t.Logf("%v, %d MB: %v", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, err)
		})
	}
}

func TestCancelled(t *testing.T) {
	template, err := Parse(hostile["nested loops"])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err = template.Render(ctx, nil, Options{Limits: Limits{Steps: math.MaxInt, MemoryBytes: math.MaxInt}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		template string
		limits   Limits
		want     string
	}{
		{"a\n{% for x in range(50) %}{% endfor %}", Limits{Steps: 40}, "template line 2: the template does more than 40 steps"},
		{"{{ 'abc' * 40 }}", Limits{MemoryBytes: 100}, "template line 1: the template makes more than 100 bytes of text and lists"},
		{"\n\n{{ 'abc' * 40 }}", Limits{OutputBytes: 100}, "template line 3: the template makes a text of more than 100 bytes"},
		{"{{ [[[[1]]]] }}", Limits{Depth: 4}, "template line 1: the template nests evaluation more than 4 deep"},
	} {
		template, err := Parse(tt.template)
		if err != nil {
			t.Fatal(err)
		}
		_, err = template.Render(context.Background(), nil, Options{Limits: tt.limits})
		var limit *LimitError
		if !errors.As(err, &limit) || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.template, err, tt.want)
		}
	}
}
