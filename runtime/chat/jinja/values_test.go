package jinja

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestVariables: Go data as a template sees it, by its JSON.
func TestVariables(t *testing.T) {
	type tool struct {
		Name string `json:"name"`
		Args []int  `json:"args"`
	}
	deep := json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300))
	loop := []any{nil}
	loop[0] = loop
	for _, tt := range []struct {
		value     any
		want, err string
	}{
		{nil, "null", ""},
		{true, "true", ""},
		{int(-1), "-1", ""},
		{int32(7), "7", ""},
		{int64(1 << 60), "1152921504606846976", ""},
		{float32(0.5), "0.5", ""},
		{1e300, "1e+300", ""},
		{"é\"\n", `"é\"\n"`, ""},
		{Trusted("x"), `"x"`, ""},
		{json.Number("12"), "12", ""},
		{json.Number("1.50"), "1.5", ""},
		{json.Number("1e999"), "", `template variable "v": the number 1e999 is too large`},
		{[]any{1, "a", nil}, `[1, "a", null]`, ""},
		{map[string]any{"b": 1, "a": []any{}}, `{"a": [], "b": 1}`, ""},
		{Object{{"b", 1}, {"a", Object{}}}, `{"b": 1, "a": {}}`, ""},
		{json.RawMessage(`{"b": [1, 2.0, "x"], "a": {"d": null, "c": false}}`), `{"b": [1, 2.0, "x"], "a": {"d": null, "c": false}}`, ""},
		{json.RawMessage(`9007199254740993`), "9007199254740993", ""},
		{json.RawMessage(`[1,`), "", `template variable "v": unexpected EOF`},
		{json.RawMessage(`1 2`), "", `template variable "v": more than one JSON value`},
		{deep, "", `template variable "v": nested more than 200 deep`},
		{loop, "", `template variable "v": nested more than 200 deep`},
		{tool{"f", []int{1, 2}}, `{"name": "f", "args": [1, 2]}`, ""},
		{[]string{"a"}, `["a"]`, ""},
		{map[string]int{"b": 1, "a": 2}, `{"a": 2, "b": 1}`, ""},
		{func() {}, "", `template variable "v": json: unsupported type: func()`},
	} {
		got, err := render("{{ v | tojson }}", Object{{"v", tt.value}})
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%v: %v, want %s", tt.value, err, tt.err)
			}
			continue
		}
		if err != nil || got.String() != tt.want {
			t.Errorf("%v: %q %v, want %q", tt.value, got.String(), err, tt.want)
		}
	}
}

// TestBeyondTheSandbox: what Jinja2 knows too but its sandbox forbids, and what other renderers add. The results are
// Python's.
func TestBeyondTheSandbox(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{"{% set l = [1] %}{% do l.extend([2, 3]) %}{% do l.insert(0, 9) %}{% do l.insert(-1, 8) %}{% do l.insert(99, 7) %}{{ l }}", "[9, 1, 2, 8, 3, 7]"},
		{"{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "31[2]"},
		{"{% set l = [1, 2, 3] %}{% do l.reverse() %}{{ l }}{% set m = l.copy() %}{% do m.append(4) %}{{ l|length }}{{ m|length }}", "[3, 2, 1]34"},
		{"{% set d = {'a': 1, 'b': 2, 'c': 3} %}{{ d.pop('a') }}{{ d.pop('z', 9) }}{% do d.update({'b': 5, 'e': 6}) %}{{ d }}{{ d['c'] }}", "19{'b': 5, 'c': 3, 'e': 6}3"},
		{"{% set d = {'a': 1} %}{{ d.setdefault('a', 2) }}{{ d.setdefault('b', 3) }}{{ d }}{% set e = d.copy() %}{% do e.update({'z': 1}) %}{{ d|length }}{{ e|length }}", "13{'a': 1, 'b': 3}23"},
		{"{% set l = [1, 2] %}{% for x in l %}{% do l.append(x) %}{% endfor %}{{ l }}", "[1, 2, 1, 2]"},
		{`{% set j = '{"b": [1, 2.5], "a": null}' | fromjson %}{{ j }}{{ j.b[1] + 1 }}`, "{'b': [1, 2.5], 'a': None}3.5"},
		{"{% do messages.append({'role': 'x'}) %}{{ messages|length }}", "4"},
	} {
		for range 2 { // the caller's values are not what is changed
			if got, err := render(tt.template, variables); err != nil || got.String() != tt.want {
				t.Errorf("%s: %q %v, want %q", tt.template, got.String(), err, tt.want)
			}
		}
	}
	for template, want := range map[string]string{
		"{{ [].pop() }}":                         "template line 1: pop() finds no item",
		"{{ {}.pop('a') }}":                      "template line 1: pop() finds no such key",
		"{{ (1, 2).append(3) }}":                 "template line 1: a tuple cannot be changed",
		"{{ '[1' | fromjson }}":                  "template line 1: fromjson: unexpected EOF",
		"{{ {}.update(5) }}":                     "template line 1: update() takes a dict",
		"\n{{ [1].index(2) }}":                   "template line 2: the value is not in the list",
		"{{ 9223372036854775807 + 1 }}":          "template line 1: the result of 9223372036854775807 + 1 is too large",
		"{{ -9223372036854775807 - 2 }}":         "template line 1: the result of -9223372036854775807 - 2 is too large",
		"{{ 9223372036854775807 * 2 }}":          "template line 1: the result of 9223372036854775807 * 2 is too large",
		"{{ (-9223372036854775807 - 1) * -1 }}":  "template line 1: the result of -9223372036854775808 * -1 is too large",
		"{{ (-9223372036854775807 - 1) // -1 }}": "template line 1: the result of -9223372036854775808 // -1 is too large",
		"{{ 9223372036854775808 }}":              "template line 1: the number 9223372036854775808 is not readable or too large",
		"{{ 1e20|int }}":                         "template line 1: 1e+20 is too large for an integer here",
		"{{ '99999999999999999999'|int }}":       "template line 1: 99999999999999999999 is too large for an integer here",
		"{{ '{:>5}'.format(1) }}":                "template line 1: field {:>5} of a format is not supported",
		"{{ '%5s' % 'a' }}":                      `template line 1: conversion "%5s" of a format is not supported`,
	} {
		if got, err := render(template, variables); err == nil || err.Error() != want {
			t.Errorf("%s: %q %v, want %s", template, got.String(), err, want)
		}
	}
}

// TestRaised: the error of raise_exception is its sentence alone, wherever it is called.
func TestRaised(t *testing.T) {
	_, err := render("{% macro f() %}{{ raise_exception('no ' ~ messages[0].role) }}{% endmacro %}{% for m in messages %}{{ f() | upper }}{% endfor %}", variables)
	var raised *Raised
	if !errors.As(err, &raised) || err.Error() != "no user" {
		t.Errorf("%v", err)
	}
}
