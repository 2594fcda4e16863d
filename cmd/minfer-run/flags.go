package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagSet is the flags of a verb. pflag holds each under one name; this adds what pflag cannot say: every spelling
// (llama.cpp's -ngl is no run of one-letter flags), the environment variable, the group for the help.
type flagSet struct {
	cmd    *cobra.Command
	list   []*flagInfo
	names  map[string]*flagInfo // by spelling, "-m" and "--model"
	groups []string             // in the order of the help
	words  string               // what words without a flag mean; empty: they are refused
}

// flagInfo is a flag.
type flagInfo struct {
	flag  *pflag.Flag
	names []string // "-m", "--model"; the last long one is pflag's name
	env   string   // environment variable that stands in for it, or ""
	group string
	many  bool // may be repeated; otherwise the last counts
	from  source
}

// source is where a flag's value comes from.
type source int

const (
	fromDefault source = iota
	fromEnv
	fromArgs
)

// String is the spelling of a flag in messages.
func (f *flagInfo) String() string { return f.names[0] }

func (f *flagInfo) takesValue() bool { return f.flag.NoOptDefVal == "" }

func newFlags(cmd *cobra.Command) *flagSet {
	cmd.Flags().SortFlags = false
	return &flagSet{cmd: cmd, names: map[string]*flagInfo{}}
}

// value is a pflag.Value made of functions.
type value struct {
	text  string
	kind  string
	parse func(string) error
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }
func (v *value) Set(s string) error {
	if err := v.parse(s); err != nil {
		return err
	}
	v.text = s
	return nil
}

// rangeError says what a flag takes; the flag's name is put before it.
type rangeError struct{ value, allowed string }

func (e rangeError) Error() string {
	return fmt.Sprintf("%s is not allowed; give %s", quoted(e.value), e.allowed)
}

// quoted shows a value, quoted where it would not stand out from the sentence.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\r\"'") || s != strings.ToValidUTF8(s, "") {
		return strconv.Quote(s)
	}
	return s
}

// group begins a group of the help.
func (f *flagSet) group(title string) { f.groups = append(f.groups, title) }

// add adds a flag. names is "-m, --model", meta what the help calls its value.
func (f *flagSet) add(names, meta, usage string, v *value) *flagInfo {
	info := &flagInfo{names: strings.Split(names, ", "), group: f.groups[len(f.groups)-1]}
	long, short := "", ""
	for _, n := range info.names {
		if name, ok := strings.CutPrefix(n, "--"); ok {
			if long == "" {
				long = name
			}
		} else if len(n) == 2 {
			short = n[1:]
		}
		if f.names[n] != nil {
			panic("BUG: flag " + n + " added twice")
		}
		f.names[n] = info
	}
	v.kind = meta
	info.flag = f.cmd.Flags().VarPF(v, long, short, usage)
	if meta == "" {
		info.flag.NoOptDefVal = "true"
	}
	f.list = append(f.list, info)
	return info
}

func (f *flagInfo) orEnv(name string) *flagInfo { f.env = name; return f }

func (f *flagSet) text(p *string, names, meta, usage string) *flagInfo {
	return f.add(names, meta, usage, &value{text: *p, parse: func(s string) error { *p = s; return nil }})
}

// texts is a flag that may be repeated.
func (f *flagSet) texts(p *[]string, names, meta, usage string) *flagInfo {
	info := f.add(names, meta, usage, &value{parse: func(s string) error {
		if s == "" {
			return rangeError{s, "a text that is not empty"}
		}
		*p = append(*p, s)
		return nil
	}})
	info.many = true
	return info
}

// integer is a flag for numbers from lo to hi, and the single numbers that special names.
func (f *flagSet) integer(p *int, lo, hi int, special map[int]string, names, meta, usage string) *flagInfo {
	allowed := fmt.Sprintf("%d to %d", lo, hi)
	for _, n := range slices.Sorted(maps.Keys(special)) {
		allowed += fmt.Sprintf("; %d: %s", n, special[n])
	}
	return f.add(names, meta, usage, &value{text: strconv.Itoa(*p), parse: func(s string) error {
		n, err := strconv.Atoi(s)
		if _, ok := special[n]; err != nil || !ok && (n < lo || n > hi) {
			return rangeError{s, allowed}
		}
		*p = n
		return nil
	}})
}

func (f *flagSet) choice(p *string, choices []string, names, meta, usage string) *flagInfo {
	info := f.add(names, meta, usage, &value{text: *p, parse: func(s string) error {
		if !slices.Contains(choices, s) {
			return rangeError{s, strings.Join(choices, ", ")}
		}
		*p = s
		return nil
	}})
	f.complete(info, choices)
	return info
}

// complete tells shells which values a flag takes.
func (f *flagSet) complete(info *flagInfo, choices []string) {
	if err := f.cmd.RegisterFlagCompletionFunc(info.flag.Name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("BUG: " + err.Error())
	}
}

// given reports whether a flag was given, in the arguments or by its environment variable.
func (f *flagSet) given(name string) bool { return f.names[name].from != fromDefault }

// yes is a flag without a value. off, if given, is its opposite.
func (f *flagSet) yes(p *bool, names, usage string) *flagInfo {
	return f.add(names, "", usage, &value{text: "false", parse: func(s string) error {
		b, err := parseBool(s)
		*p = b
		return err
	}})
}

func (f *flagSet) no(p *bool, names, usage string) *flagInfo {
	return f.add(names, "", usage, &value{text: "false", parse: func(s string) error {
		b, err := parseBool(s)
		*p = !b
		return err
	}})
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1", "on", "enabled":
		return true, nil
	case "false", "0", "off", "disabled":
		return false, nil
	}
	return false, rangeError{s, "true, false"}
}
