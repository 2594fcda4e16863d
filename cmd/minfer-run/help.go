package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of the help in columns, for a terminal of 80.
const helpWidth = 79

// nameWidth is the width of the column of flags.
const nameWidth = 28

// help writes the help of a verb, or of the program.
func (a *app) help(cmd *cobra.Command) {
	if cmd == cmd.Root() {
		a.rootHelp(a.stdout, cmd)
		return
	}
	verbHelp(a.stdout, cmd, a.verbs[cmd.Name()])
}

func (a *app) rootHelp(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "%s.\n\nUsage:\n  minfer-run [run] [flags]\n  minfer-run VERB [flags]\n\nExamples:\n%s\n\nVerbs:\n", root.Short, root.Example)
	for _, c := range root.Commands() {
		if !c.Hidden {
			fmt.Fprintf(w, "  %-12s%s\n", c.Name(), c.Short)
		}
	}
	fmt.Fprintf(w, "\nFlags:\n")
	fmt.Fprintf(w, "  %-*s%s\n", nameWidth, "-h, --help", "this; the flags of a verb: minfer-run VERB --help")
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			fmt.Fprintf(w, "  %-*s%s\n", nameWidth, "--"+f.Name, f.Usage)
		}
	})
	flagHelp(w, a.verbs["run"], " (run)")
	fmt.Fprint(w, helpEnd)
}

const helpEnd = `
Flags are spelled as llama.cpp's where it has them; those of its flags that mean
nothing here are said to have no effect, or refused. If a flag is repeated, the
last counts, with a warning. An environment variable in [brackets] stands in for
a flag that is not given.

Exit codes: 0 done; 1 failed, or the answer is no; 2 wrong usage, refused before
a model is opened; 130 interrupted; 143 terminated; 141 nobody reads the output.
`

func verbHelp(w io.Writer, cmd *cobra.Command, f *flagSet) {
	if cmd.Long != "" {
		fmt.Fprintf(w, "%s\n\n", reflow(cmd.Long))
	} else {
		fmt.Fprintf(w, "%s.\n\n", cmd.Short)
	}
	fmt.Fprintf(w, "Usage:\n  minfer-run %s\n", strings.TrimPrefix(cmd.UseLine(), "minfer-run "))
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if f == nil {
		if cmd.HasAvailableSubCommands() {
			fmt.Fprintf(w, "\nVerbs:\n")
			for _, c := range cmd.Commands() {
				fmt.Fprintf(w, "  %-12s%s\n", c.Name(), c.Short)
			}
		}
		if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(w, "\nFlags:\n%s", flags)
		}
		return
	}
	flagHelp(w, f, "")
}

// flagHelp lists the flags of a verb by group.
func flagHelp(w io.Writer, f *flagSet, prefix string) {
	for _, group := range f.groups {
		title := group
		if prefix != "" {
			title = group + prefix
		}
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, info := range f.list {
			if info.group != group {
				continue
			}
			names := strings.Join(info.names, ", ")
			if meta := info.flag.Value.Type(); meta != "" {
				names += " " + meta
			}
			lines := wrap(info.usage(), helpWidth-nameWidth-2)
			if len(names) > nameWidth-2 {
				fmt.Fprintf(w, "  %s\n", names)
				names = ""
			}
			for _, l := range lines {
				fmt.Fprintf(w, "  %-*s%s\n", nameWidth, names, l)
				names = ""
			}
		}
	}
}

// usage is what the help says of a flag, with its default and its environment variable.
func (f *flagInfo) usage() string {
	s := f.flag.Usage
	if f.takesValue() && f.flag.DefValue != "" && !strings.Contains(s, "if not given") {
		s += " (default " + f.flag.DefValue + ")"
	}
	if f.env != "" {
		s += " [" + f.env + "]"
	}
	return s
}

// reflow breaks the paragraphs of a text into lines; indented lines stay.
func reflow(text string) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, wrap(strings.Join(paragraph, " "), helpWidth)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") || strings.HasSuffix(line, ":") {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}

// wrap breaks a text into lines.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
