// Command minfer-run runs GGUF models on kernels generated from the format specs.
//
//	minfer-run -p "What is the capital of France?"
//
// answers from the model that is built in; -m names another. See minfer-run --help.
//
// Exit codes: 0 done; 1 the work failed, or the answer is no; 2 wrong usage, refused before any model is opened;
// 130 and 143 ended by an interrupt or by SIGTERM; 141 nobody reads the output any more.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/minfer/minfer/runtime/device/emu" // --device emu
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitNoReader    = 141
	exitTerminated  = 143
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals) // the second one ends the process at once
		cancel(signalError{s})
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// signalError is the cause of a cancelled context.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return e.signal.String() }

// usageError is refused before any work is done.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errNo ends with exit code 1; what there is to say has been said.
var errNo = errors.New("no")

// app is what a run of the program may touch.
type app struct {
	ctx    context.Context
	stdin  io.Reader
	stdout *output
	stderr io.Writer
	env    []string
	color  bool // escape codes may go to stderr
	verbs  map[string]*flagSet
}

// run is the whole command: it reads and writes only what it is given, beside the files that the arguments name.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: newOutput(stdout), stderr: stderr, env: env}
	a.setColor("auto")
	err := a.execute(args)
	if flushed := a.stdout.Flush(); flushed != nil {
		err = flushed // whatever else went wrong followed from it, or was said
	}
	var usage usageError
	var by signalError
	switch {
	case err == nil:
		return exitOK
	case noReader(err):
		return exitNoReader
	case errors.Is(err, errNo):
		return exitFailed
	case errors.As(err, &usage):
		a.complain(err)
		return exitUsage
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &by):
		a.note("stopped: %v", by)
		if by.signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupted
	}
	a.complain(err)
	return exitFailed
}

// complain writes an error as one line.
func (a *app) complain(err error) {
	fmt.Fprintf(a.stderr, "minfer-run: %s\n", oneLine(err.Error()))
}

// note writes a line to stderr that is no part of the result.
func (a *app) note(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	if a.color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.stderr, text)
}

// warn writes what the user should know.
func (a *app) warn(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	if a.color {
		text = "\x1b[33mwarning:\x1b[0m " + text
	} else {
		text = "warning: " + text
	}
	fmt.Fprintln(a.stderr, text)
}

// oneLine joins the lines of a text, as errors.Join makes them.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}

func (a *app) getenv(name string) (string, bool) {
	for i := len(a.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// setColor decides on escape codes: auto is for a terminal that takes them.
func (a *app) setColor(when string) {
	switch when {
	case "on":
		a.color = true
	case "off":
		a.color = false
	default:
		no, _ := a.getenv("NO_COLOR")
		a.color = isTerminal(a.stderr) && no == "" && !a.dumb()
	}
}

func (a *app) dumb() bool {
	term, _ := a.getenv("TERM")
	return term == "dumb"
}

// output is stdout: the first error of a write sticks and is the command's.
type output struct {
	*bufio.Writer
	to  io.Writer
	err error
}

func newOutput(w io.Writer) *output {
	o := &output{to: w}
	o.Writer = bufio.NewWriterSize(writerFunc(o.write), 1<<16)
	return o
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *output) write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.to.Write(p)
	if err != nil && !noReader(err) {
		err = fmt.Errorf("cannot write the output: %w", cause(err))
	}
	o.err = err
	return n, err
}

// cause strips the wrapping of a system call that names no file a user knows.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func noReader(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// execute finds the verb and runs it.
func (a *app) execute(args []string) error {
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		root.SetArgs(a.completionArgs(root, args))
		return root.ExecuteContext(a.ctx)
	}
	args, err := a.prepare(root, args)
	if err != nil {
		return err
	}
	root.SetArgs(args)
	return root.ExecuteContext(a.ctx)
}
