package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/output"
)

func generateCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write the generated files from the specs",
		Long: `Write the generated files from the specs: files that changed are replaced, each whole
or not at all, and files that are generated no more are removed. When a spec is at fault
nothing is written.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, files, err := o.generate()
			if err != nil {
				return err
			}
			changes, err := output.Write(dir, files)
			if err != nil {
				return err
			}
			listed := false // by go generate, which looks into every Go file after this
			for _, c := range changes {
				did := "wrote"
				switch {
				case c.New == nil:
					did = "removed"
					listed = listed || os.Getenv("GOFILE") != "" && filepath.Ext(c.Path) == ".go"
				case c.Reason == output.Edited:
					did = "overwrote edits of"
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", did, show(dir, c.Path))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d files, %d changed\n", len(files), len(changes))
			if listed {
				fmt.Fprintln(cmd.ErrOrStderr(), "all is done; go generate will not find a Go file that was removed, says so this once and ends with 1")
			}
			return nil
		},
	}
	o.addOut(cmd.Flags())
	return cmd
}

func checkCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the specs hold and the generated files are up to date",
		Long: `Say whether the specs hold and the generated files are up to date. Every fault of a
spec is listed as file:line:col; every generated file that is not what the specs make is
named with the reason, and so is every figure of specs/routes that was measured with another
geometry of its kernel. Nothing is written. Exit code 1 when something is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, changes, err := o.changes()
			if err != nil {
				return err
			}
			fsys, err := o.fs()
			if err != nil {
				return err
			}
			stale, err := gen.Stale(fsys)
			if err != nil {
				return err
			}
			if len(changes)+len(stale) == 0 {
				return nil
			}
			if len(stale) > 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), o.rebased(stale).Err())
			}
			for _, c := range changes {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", show(dir, c.Path), reasons[c.Reason])
				if c.Reason == output.Edited {
					printEdits(cmd.ErrOrStderr(), c)
				}
			}
			if len(changes) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d generated files are not what the specs make; see them with: %s\nbring them in line with: %s\n",
					len(changes), o.command("diff"), o.command("generate"))
			}
			return errNo
		},
	}
	o.addOut(cmd.Flags())
	return cmd
}

// reasons are what check says of a file.
var reasons = map[output.Reason]string{
	output.Missing: "missing: the specs make it, but it is not there",
	output.Stale:   "stale: made from other specs, or by another version of the generator",
	output.Edited:  "edited by hand: it is not what the generator wrote; change the spec or the emitter instead",
	output.Orphan:  "orphaned: generated once, by no spec any more",
	output.Foreign: "foreign: not a generated file; put it elsewhere",
}

func diffCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Print what generate would change, as a unified diff",
		Long: `Print what generate would change, as a unified diff from the files on disk to the
generated ones. Nothing is written. Exit code 1 when there is a difference.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, changes, err := o.changes()
			if err != nil {
				return err
			}
			for _, c := range changes {
				if err := printDiff(cmd.OutOrStdout(), show(dir, c.Path), c); err != nil {
					return err
				}
			}
			if len(changes) > 0 {
				return errNo
			}
			return nil
		},
	}
	o.addOut(cmd.Flags())
	return cmd
}

func printDiff(w io.Writer, name string, c output.Change) error {
	from, to := path.Join("a", name), path.Join("b", name)
	if c.Old == nil {
		from = "/dev/null"
	}
	if c.New == nil {
		to = "/dev/null"
	}
	if bytes.IndexByte(c.Old, 0) >= 0 || !utf8.Valid(c.Old) || bytes.IndexByte(c.New, 0) >= 0 || !utf8.Valid(c.New) {
		_, err := fmt.Fprintf(w, "Binary files %s and %s differ\n", from, to)
		return err
	}
	text := diff.Diff(from, c.Old, to, c.New)
	if i := bytes.IndexByte(text, '\n'); bytes.HasPrefix(text, []byte("diff ")) {
		text = text[i+1:] // the command line of diff, which no tool needs
	}
	_, err := w.Write(text)
	return err
}

// printEdits names the first lines that a hand has taken out of a generated file or put into it.
func printEdits(w io.Writer, c output.Change) {
	const most = 6
	lines := 0
	for line := range strings.Lines(string(diff.Diff("", c.Old, "", c.New))) {
		var what string
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			continue
		case line[0] == '+':
			what = "taken out"
		case line[0] == '-':
			what = "put in"
		default:
			continue
		}
		if lines++; lines > most {
			fmt.Fprintln(w, "    and more")
			return
		}
		fmt.Fprintf(w, "    %s: %s\n", what, strings.TrimSpace(line[1:]))
	}
}

// generate makes the files and names the folder that they belong in.
func (o *options) generate() (string, gen.Files, error) {
	dir, err := o.outDir()
	if err != nil {
		return "", nil, err
	}
	fsys, err := o.fs()
	if err != nil {
		return "", nil, err
	}
	files, err := gen.Generate(fsys)
	if err != nil {
		return "", nil, o.refuse(err)
	}
	return dir, files, nil
}

// changes is what is not as generated. Mere CRLF line ends, as a checkout may make them, do not count.
func (o *options) changes() (string, []output.Change, error) {
	dir, files, err := o.generate()
	if err != nil {
		return "", nil, err
	}
	changes, err := output.Diff(dir, files)
	if err != nil {
		return "", nil, err
	}
	return dir, slices.DeleteFunc(changes, func(c output.Change) bool { return c.Reason == output.LineEnds }), nil
}

// command spells a command with the flags of this run.
func (o *options) command(verb string) string {
	if verb == "generate" && o.specs == "" && o.out == "" {
		return "go generate ./..."
	}
	text := "go run ./cmd/minfer-gen " + verb
	if o.specs != "" {
		text += " --specs " + o.specs
	}
	if o.out != "" {
		text += " --out " + o.out
	}
	return text
}

// show is a file of the folder as messages name it.
func show(dir, name string) string {
	return filepath.ToSlash(filepath.Join(dir, filepath.FromSlash(name)))
}
