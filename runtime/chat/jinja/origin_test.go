package jinja

import (
	"strings"
	"testing"
)

// TestOrigins pins the origin of each byte: upper case for the template's, in the second column, lower for data.
func TestOrigins(t *testing.T) {
	const c = "\na\"b,c\\ "
	for _, tt := range []struct{ expression, want, origins string }{
		{"c", "\na\"b,c\\ ", "dddddddd"},
		{"'T' ~ c|trim ~ 1", "Ta\"b,c\\1", "TddddddT"},
		{"c|tojson", `"\na\"b,c\\ "`, "TdddddddddddT"},
		{"[c]", `['\na"b,c\\ ']`, "TT" + "dddddddddd" + "TT"},
		{"c.split(',')", `['\na"b', 'c\\ ']`, "TT" + "ddddd" + "TTTT" + "dddd" + "TT"},
		{"c.replace('a', 'XY')", "\nXY\"b,c\\ ", "dTTdddddd"},
		{"'AaB'.replace('a', c)", "A" + c + "B", "TddddddddT"},
		{"c|replace('', '-')", "-\n-a-\"-b-,-c-\\- -", "TdTdTdTdTdTdTdTdT"},
		{"c[1:3]|upper", "A\"", "dd"},
		{"c|escape", "\na&#34;b,c\\ ", "dddddddddddd"},
		{"'%s|%r' % (c[1], c[1])", "a|'a'", "dTTdT"},
		{"'{}{{'.format(c[1])", "a{", "dT"},
		{"c[1].center(3) if false else c[1]|center(3)", " a ", "TdT"},
		{"c|length", "8", "T"},
		{"c[1] == 'a'", "True", "TTTT"},
		{"'a' if 'a' in c", "a", "T"},
		{"(c[1] * 2)", "aa", "dd"},
		{"'T'|indent(c[1])", "T", "T"},
		{"'X\nY'|indent(c[1])", "X\naY", "TTdT"},
		{"['X', 'Y']|join(c[1])", "XaY", "TdT"},
		{"c[1].join(['X', 'Y'])", "XaY", "TdT"},
		{"{c[1]: 'X'}|tojson", `{"a": "X"}`, "TTdTTTTTTT"},
		{"trusted ~ c[1]", "Ta", "Td"},
		{"c.partition('b')[1] ~ 'b'", "bb", "dT"},
		{"(c ~ 'T')[-2:]", " T", "dT"},
		{"(c ~ 'T')[::-1][:2]", "T ", "Td"},
	} {
		got, err := render("{{ "+tt.expression+" }}", Object{{"c", c}, {"trusted", Trusted("T")}})
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		origins := ""
		for _, r := range got.Runs() {
			mark := "d"
			if r.FromTemplate {
				mark = "T"
			}
			origins += strings.Repeat(mark, len(r.Text))
		}
		if got.s != tt.want || origins != tt.origins {
			t.Errorf("%s:\ngot  %q %s\nwant %q %s", tt.expression, got.s, origins, tt.want, tt.origins)
		}
	}
}
