package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/runtime/token"
)

type tokenizeFlags struct {
	model     modelFlags
	text      string
	file      string
	noSpecial bool
	bos       bool
	show      bool
	set       *flagSet
}

func (a *app) tokenizeCommand() *cobra.Command {
	o := &tokenizeFlags{}
	cmd := &cobra.Command{
		Use:   "tokenize [flags]",
		Short: "Print the token ids of a text",
		Long: `Print the token ids of a text, one a line. Control markers such as <|im_end|> become
control tokens, unless --no-special. The text is taken byte by byte, with its last
newline. A file that holds a vocabulary alone will do for -m.`,
		Example: `  minfer-run tokenize -p "Hello world"
  minfer-run tokenize -m model.gguf -f text.txt --no-special
  minfer-run tokenize -p "Hello world" --show`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.tokenize(o) },
	}
	f := a.flags(cmd)
	o.set = f
	f.group("Text")
	o.model.addPath(f)
	f.text(&o.text, "-p, --prompt", "TEXT", "the text")
	f.text(&o.file, "-f, --file", "FILE", "read it from a file, \"-\" for standard input, which is also read without -p and -f")
	f.yes(&o.noSpecial, "--no-special, --no-parse-special", "control markers are text like any other")
	f.yes(&o.bos, "--add-special", "put the start and end tokens around it that the model declares")
	f.yes(&o.show, "--show", "the text of each token after its id")
	return cmd
}

func (a *app) tokenize(o *tokenizeFlags) error {
	text, err := o.read(a)
	if err != nil {
		return err
	}
	f, err := o.model.file()
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := token.New(f.Meta)
	if err != nil {
		return err
	}
	for _, w := range t.Warnings() {
		a.warn("%s", w)
	}
	for _, id := range t.Encode(text, token.EncodeOptions{ParseSpecial: !o.noSpecial, AddSpecial: o.bos}) {
		if o.show {
			_, err = fmt.Fprintf(a.stdout, "%d %s\n", id, strconv.Quote(t.Piece(id)))
		} else {
			_, err = fmt.Fprintf(a.stdout, "%d\n", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read gives the text as it is.
func (o *tokenizeFlags) read(a *app) (string, error) {
	given := o.set.given
	switch {
	case given("-p") && given("-f"):
		return "", usagef("-p and -f exclude each other")
	case given("-p"):
		return o.text, nil
	case given("-f") && o.file != "-":
		return a.readFile("-f", o.file)
	case isTerminal(a.stdin):
		return "", usagef("no text: give -p TEXT, -f FILE or pipe text")
	}
	return a.readStdin()
}
