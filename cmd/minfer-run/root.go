package main

import (
	"github.com/spf13/cobra"
)

// root is the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "minfer-run",
		Short:         "Run GGUF models on kernels generated from specs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(a.runCommand())
	return root
}

// flags begins the flags of a verb.
func (a *app) flags(cmd *cobra.Command) *flagSet {
	f := newFlags(cmd)
	if a.verbs == nil {
		a.verbs = map[string]*flagSet{}
	}
	a.verbs[cmd.Name()] = f
	return f
}
