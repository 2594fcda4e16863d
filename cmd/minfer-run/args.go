package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// prepare reads the flags and leaves to cobra the verb (run, where none is given) and its words. It refuses unknown
// flags and stray words, says when a flag is repeated, and takes environment variables for flags that are not there.
func (a *app) prepare(root *cobra.Command, args []string) ([]string, error) {
	verb := "run"
	switch {
	case len(args) == 0:
	case !strings.HasPrefix(args[0], "-"):
		c := subcommand(root, args[0])
		if c == nil {
			return nil, strayWord(root, args[0])
		}
		verb, args = args[0], args[1:]
		if c.DisableFlagParsing || a.verbs[verb] == nil {
			return append([]string{verb}, args...), nil
		}
	case slices.Contains(rootFlags, args[0]):
		if len(args) > 1 {
			return nil, usagef("%s comes alone; %s is too much", args[0], quoted(args[1]))
		}
		return args, nil
	}
	f := a.verbs[verb]
	words, help, err := a.spell(f, args)
	if err != nil {
		return nil, err
	}
	if help {
		return []string{verb, "--help"}, nil
	}
	if len(words) > 0 && f.words == "" {
		return nil, strayWord(root, words[0])
	}
	return slices.Concat([]string{verb, "--"}, words), nil
}

// rootFlags are the flags that stand alone, without a verb.
var rootFlags = []string{"-h", "--help", "--version", "--list-devices", "--list-switches"}

func subcommand(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// strayWord refuses a word that no flag takes, with what it may have been meant for.
func strayWord(root *cobra.Command, word string) error {
	if strings.HasSuffix(strings.ToLower(word), ".gguf") {
		return usagef("unexpected %s; a model is named with -m: -m %s", quoted(word), quoted(word))
	}
	if subcommand(root, word) != nil {
		return usagef("%s comes too late: the verb is the first argument", word)
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	if near := nearest(word, names); near != "" {
		return usagef("there is no verb %s; did you mean %s?", quoted(word), near)
	}
	return usagef("unexpected %s; a prompt is given with -p, a model with -m", quoted(word))
}

// spell reads flags in every spelling, and the environment variables of flags that are not there. help reports that
// help is asked for, and then nothing else counts.
func (a *app) spell(f *flagSet, args []string) (words []string, help bool, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			continue
		}
		name, val, has := strings.Cut(arg, "=")
		if name == "-h" || name == "--help" {
			return nil, true, nil
		}
		info := f.names[name]
		if info == nil {
			skip, err := a.foreign(f, name, val, has, args[i+1:])
			if err != nil {
				return nil, false, err
			}
			i += skip
			continue
		}
		switch {
		case has:
		case !info.takesValue():
			val = info.flag.NoOptDefVal
		case i+1 < len(args):
			i++
			val = args[i]
		default:
			return nil, false, usagef("%s needs a value: %s", name, info.flag.Value.Type())
		}
		if info.from == fromArgs && !info.many && info.flag.Value.String() != val {
			a.warn("%s is given more than once; the last counts: %s", info, quoted(val))
		}
		if err := info.flag.Value.Set(val); err != nil {
			return nil, false, usagef("%s %v", name, err)
		}
		info.from = fromArgs
	}
	for _, info := range f.list {
		if info.from == fromArgs || info.env == "" {
			continue
		}
		val, ok := a.getenv(info.env)
		if !ok || val == "" {
			continue
		}
		if err := info.flag.Value.Set(val); err != nil {
			return nil, false, usagef("environment variable %s, for %s: %v", info.env, info, err)
		}
		info.from = fromEnv
	}
	return words, false, nil
}

// unknown refuses a flag, with the near name.
func (f *flagSet) unknown(name string) error {
	if slices.Contains(rootFlags, name) {
		return usagef("%s comes alone: minfer-run %s", name, name)
	}
	var names []string
	for n := range f.names {
		names = append(names, n)
	}
	slices.Sort(names)
	long := "--" + strings.TrimLeft(name, "-")
	for _, n := range []string{long, "-" + strings.TrimLeft(name, "-")} {
		if f.names[n] != nil {
			return usagef("there is no flag %s; did you mean %s?", name, n)
		}
	}
	if near := nearest(name, names); near != "" {
		return usagef("there is no flag %s; did you mean %s?", name, near)
	}
	return usagef("there is no flag %s; see %s --help", name, f.cmd.CommandPath())
}

// nearest finds the name that differs from a word in the fewest letters, if those are few.
func nearest(word string, names []string) string {
	best, found := 1+len(word)/4, ""
	for _, n := range names {
		if d := editDistance(word, n); d < best || d == best && found == "" {
			best, found = d, n
		}
	}
	return found
}

// editDistance counts the bytes to insert, delete or replace to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := before
			if a[i] != b[j] {
				d++
			}
			before = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// completionArgs turns the arguments of a completion request into those that cobra understands: the verb first, flags by
// the names that pflag has. The last one is what is being typed.
func (a *app) completionArgs(root *cobra.Command, args []string) []string {
	typed := args[1:]
	verb := "run"
	switch {
	case len(typed) == 0:
		return args
	case !strings.HasPrefix(typed[0], "-"):
		if len(typed) == 1 || a.verbs[typed[0]] == nil {
			return args
		}
		verb, typed = typed[0], typed[1:]
	}
	out := []string{args[0], verb}
	for i, arg := range typed {
		name, val, has := strings.Cut(arg, "=")
		if info := a.verbs[verb].names[name]; info != nil && (has || i+1 < len(typed)) {
			arg = "--" + info.flag.Name
			if has {
				arg += "=" + val
			}
		}
		out = append(out, arg)
	}
	return out
}
