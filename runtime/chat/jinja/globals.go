package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var globals map[string]Value

func init() { // not an initializer: the functions refer to the interpreter, which refers to globals
	globals = map[string]Value{}
	for id, call := range map[string]func(in *interp, a called) Value{
		"range":           callRange,
		"namespace":       callNamespace,
		"dict":            callDict,
		"raise_exception": callRaise,
		"strftime_now":    callStrftimeNow,
		"joiner":          callJoiner,
		"cycler":          callCycler,
	} {
		globals[id] = &function{id, call}
	}
}

func (in *interp) integer(v Value, what string) int64 {
	n, ok := integer(v)
	if !ok {
		in.defined(v)
		in.fail("%s is an integer, not %s", what, typeName(v))
	}
	return n
}

func (in *interp) str(v Value, what string) Text {
	t, ok := v.(Text)
	if !ok {
		in.defined(v)
		in.fail("%s is a str, not %s", what, typeName(v))
	}
	return t
}

func callRange(in *interp, a called) Value {
	if len(a.positional) == 0 || len(a.positional) > 3 || len(a.names) > 0 {
		in.fail("range takes one to three numbers")
	}
	n := make([]int64, len(a.positional))
	for i, v := range a.positional {
		n[i] = in.integer(v, "an argument of range")
	}
	from, to, step := int64(0), n[0], int64(1)
	if len(n) > 1 {
		from, to = n[0], n[1]
	}
	if len(n) > 2 {
		step = n[2]
	}
	if step == 0 {
		in.fail("the step of range is 0")
	}
	l := listOf()
	for i := from; step > 0 && i < to || step < 0 && i > to; {
		in.allocate(valueBytes)
		l.items = append(l.items, i)
		if step > 0 && step > to-i && to-i > 0 || step < 0 && step < to-i && to-i < 0 {
			break
		}
		i += step
	}
	return l
}

func keywords(in *interp, id string, a called) mapping {
	var m mapping
	if len(a.positional) > 0 {
		from, ok := a.positional[0].(*mapping)
		if !ok || len(a.positional) > 1 {
			in.fail("%s takes one dict and keywords", id)
		}
		in.allocate(2 * valueBytes * len(from.keys))
		for i, k := range from.keys {
			m.set(k, from.values[i])
		}
	}
	for i, n := range a.names {
		m.set(literal(n), a.values[i])
	}
	return m
}

func callNamespace(in *interp, a called) Value {
	return &namespace{keywords(in, "namespace", a)}
}

func callDict(in *interp, a called) Value {
	m := keywords(in, "dict", a)
	return &m
}

func callRaise(in *interp, a called) Value {
	msg := in.text(a.bind(in, "raise_exception", "message")[0])
	panic(halt{&Raised{msg.s}})
}

func callJoiner(in *interp, a called) Value {
	sep := in.text(or(a.bind(in, "joiner", "sep")[0], literal(", ")))
	used := false
	return &function{"joiner", func(in *interp, a called) Value {
		if !used {
			used = true
			return Text{}
		}
		return sep
	}}
}

func callCycler(in *interp, a called) Value {
	if len(a.positional) == 0 {
		in.fail("cycler has no items")
	}
	at := 0
	ns := &namespace{}
	show := func() { ns.fields.set(literal("current"), a.positional[at]) }
	show()
	ns.fields.set(literal("next"), &function{"cycler.next", func(in *interp, _ called) Value {
		v := a.positional[at]
		at = (at + 1) % len(a.positional)
		show()
		return v
	}})
	ns.fields.set(literal("reset"), &function{"cycler.reset", func(in *interp, _ called) Value {
		at = 0
		show()
		return nil
	}})
	return ns
}

func callStrftimeNow(in *interp, a called) Value {
	v := a.bind(in, "strftime_now", "format")[0]
	if !given(v) {
		in.fail("strftime_now takes a format")
	}
	format := in.str(v, "the format of strftime_now")
	return literal(in.strftime(format.s, in.now()))
}

// strftime writes t as C's strftime does in the C locale.
func (in *interp) strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // %-d: without padding
		if bare {
			i++
		}
		pad := func(n, width int) {
			if bare {
				width = 0
			}
			fmt.Fprintf(&b, "%0*d", width, n)
		}
		blank := func(n int) {
			if bare {
				b.WriteString(strconv.Itoa(n))
			} else {
				fmt.Fprintf(&b, "%2d", n)
			}
		}
		hour12 := (t.Hour()+11)%12 + 1
		switch c := format[i]; c {
		case 'Y':
			b.WriteString(strconv.Itoa(t.Year()))
		case 'C':
			pad(t.Year()/100, 2)
		case 'y':
			pad(t.Year()%100, 2)
		case 'm':
			pad(int(t.Month()), 2)
		case 'd':
			pad(t.Day(), 2)
		case 'e':
			blank(t.Day())
		case 'H':
			pad(t.Hour(), 2)
		case 'I':
			pad(hour12, 2)
		case 'k':
			blank(t.Hour())
		case 'l':
			blank(hour12)
		case 'M':
			pad(t.Minute(), 2)
		case 'S':
			pad(t.Second(), 2)
		case 'f':
			pad(t.Nanosecond()/1000, 6)
		case 'j':
			pad(t.YearDay(), 3)
		case 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case 'w':
			b.WriteString(strconv.Itoa(int(t.Weekday())))
		case 'U':
			pad((t.YearDay()+6-int(t.Weekday()))/7, 2)
		case 'W':
			pad((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2)
		case 'V':
			_, week := t.ISOWeek()
			pad(week, 2)
		case 'G':
			year, _ := t.ISOWeek()
			b.WriteString(strconv.Itoa(year))
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case '%':
			b.WriteByte('%')
		default:
			layout := map[byte]string{
				'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'p': "PM", 'Z': "MST", 'z': "-0700",
				'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06",
				'r': "03:04:05 PM", 'c': "Mon Jan _2 15:04:05 2006",
			}[c]
			if layout == "" {
				in.unsupported("directive %%%c of strftime_now", c)
			}
			b.WriteString(t.Format(layout))
		}
		in.fits(b.Len())
	}
	return b.String()
}
