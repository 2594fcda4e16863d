// Command minfer-gen turns specs into code.
//
//	minfer-gen generate    write generated/ from the specs
//	minfer-gen check       say whether specs and generated/ are right
//	minfer-gen diff        print what generate would change
//	minfer-gen list        print the formats and the facts that follow from their specs
//	minfer-gen dequant     dequantize blocks by a spec alone
//	minfer-gen why         say why a matrix takes the kernel that it takes
//	minfer-gen cover       print which variant covers which matrix of the known models
//	minfer-gen mutate      damage every gate and geometry, and count what notices
//	minfer-gen tune        measure which kernels are the fastest, and write routes
//	minfer-gen new         write a commented spec to start from
//
// It ends with 0 when all is well; 1 when the answer is no: a spec is at fault, generated/ is not what the specs make
// of it, a file is no whole number of blocks; 2 when it could not do its work: wrong usage, a file that cannot be read
// or written.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// The exit codes.
const (
	exitOK     = 0
	exitNo     = 1
	exitFailed = 2
)

// errNo ends with exit code 1, errSaid with 2; what there is to say has been said.
var (
	errNo   = errors.New("no")
	errSaid = errors.New("failed")
)

// run is the whole command: it reads and writes only what it is given, beside the files that the arguments name.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := command()
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &written{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil || errors.Is(err, errNo) {
		if out.err != nil {
			err = fmt.Errorf("writing the output: %w", out.err)
		}
	}
	var no refusal
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo):
		return exitNo
	case errors.Is(err, errSaid):
		return exitFailed
	case errors.As(err, &no):
		fmt.Fprintln(stderr, no.text)
		return exitNo
	}
	fmt.Fprintf(stderr, "minfer-gen: %v\n", err)
	return exitFailed
}

// written remembers the first error of its writer, so that verbs may print without looking at each line.
type written struct {
	w   io.Writer
	err error
}

func (o *written) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// refusal is an answer of no, with its reason.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "minfer-gen",
		Short: "Turn specs into code",
		Long: `Turn specs into code: specs/formats/*.yaml say how a weight format packs its bits,
specs/kernels/*.yaml how a kernel deals its work over threads. minfer-gen proves them and
writes the kernels, the dispatch gates and the Go code into generated/.

Exit codes: 0 all is well; 1 the answer is no (a spec is at fault, generated/ is not
what the specs make of it, a file is no whole number of blocks); 2 the work could not
be done (wrong usage, a file that cannot be read or written).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no verb %q; see minfer-gen --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().StringVar(&o.specs, "specs", "", "folder of specs to use instead of the built-in ones")
	root.AddCommand(generateCommand(&o), checkCommand(&o), diffCommand(&o), listCommand(&o), dequantCommand(&o),
		whyCommand(&o), coverCommand(&o), mutateCommand(&o), tuneCommand(), newCommand(&o))
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}
