package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/bench"
	"github.com/minfer/minfer/runtime/cpufeature"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/device/cuda"
	"github.com/minfer/minfer/runtime/device/gpu"
)

// root is the command tree.
func (a *app) root() *cobra.Command {
	var showVersion, devices, switches bool
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:   "minfer-run",
		Short: "Run GGUF models on kernels generated from specs",
		Example: `  minfer-run -p "What is the capital of France?"     the demo model, built in
  minfer-run -m model.gguf -p "Tell me a story"      another model
  minfer-run -m model.gguf --raw -p "Once upon" -n 32
  minfer-run bench -m model.gguf                     measure it
  minfer-run inspect model.gguf                      look inside`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case showVersion:
				return a.version()
			case devices:
				return a.listDevices()
			case switches:
				return a.listSwitches()
			}
			return cmd.Help()
		},
	}
	root.Flags().SortFlags = false
	root.Flags().BoolVar(&showVersion, "version", false, "version, build and devices")
	root.Flags().BoolVar(&devices, "list-devices", false, "devices of this build")
	root.Flags().BoolVar(&switches, "list-switches", false, "variables that turn kernels off")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) { a.help(cmd) })
	root.AddCommand(a.runCommand(), a.benchCommand(), a.dumpCommand(), a.compareCommand(), a.tokenizeCommand(), a.inspectCommand(),
		a.synthCommand(), a.auditCommand(), a.planCommand(),
		&cobra.Command{Use: "version", Short: "Show version, build and devices", Args: noWords, RunE: func(*cobra.Command, []string) error { return a.version() }})
	root.SetHelpCommand(a.helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Print a completion script for a shell"
			c.Long = "Print a completion script for a shell. How to load it is in the help of each shell: minfer-run completion bash --help."
		}
	}
	return root
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [VERB]", Short: "Show the help of a verb", RunE: func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch {
		case len(args) == 0:
			return root.Help()
		case len(args) > 1:
			return usagef("help takes one verb; %s is too much", quoted(args[1]))
		}
		c := subcommand(root, args[0])
		if c == nil {
			return usagef("there is no verb %s; minfer-run --help lists them", quoted(args[0]))
		}
		return c.Help()
	}}
}

func noWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no %s", cmd.Name(), quoted(args[0]))
	}
	return nil
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

// version is the program's: a tag, or the commit that it was built from.
func version() string {
	v := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	} else if c := bench.Commit(); c != "" {
		v = "devel-" + c
	}
	return "minfer-run " + v
}

func (a *app) version() error {
	_, err := fmt.Fprintf(a.stdout, "%s\ncommit %s\n%s %s/%s\ndevices: %s\n", version(), or(bench.Commit(), "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(device.Kinds(), ", "))
	return err
}

// deviceNotes say what the devices are that are always there.
var deviceNotes = map[string]string{
	"cpu": "this machine's processor, with kernels generated in Go",
	"emu": "kernels for GPUs, compiled for and run on this machine: slow and strict, needs a C++ compiler",
}

// listDevices names the devices of this build, and why a GPU cannot be had.
func (a *app) listDevices() error {
	var rows []string
	for _, k := range device.Kinds() {
		if note, ok := deviceNotes[k]; ok {
			rows = append(rows, k+"\t"+note)
		}
	}
	for _, seen := range cuda.List() {
		row := seen.Name + "\t" + seen.Text
		if seen.Err != nil {
			row += ": " + oneLine(seen.Err.Error())
		}
		rows = append(rows, row)
	}
	a.columns(rows...)
	return nil
}

func (a *app) listSwitches() error {
	rows := []string{"variable\tnow\tturns off where set to 0"}
	for _, s := range slices.Concat(gate.Switches, gate.CPUSwitches) {
		now := "on"
		if v, ok := a.getenv(s.Name); ok && v == "0" {
			now = "off"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s", s.Name, now, familiesOf(s.Variants)))
	}
	a.columns(rows...)
	level, err := cpufeature.Active()
	now := level.String()
	if err != nil {
		now = oneLine(err.Error())
	}
	var names []string
	for _, l := range cpufeature.Levels() {
		names = append(names, l.String())
	}
	fmt.Fprintf(a.stdout, "\n%s names the vector instructions that the cpu device uses; this CPU runs %s; now %s\n", cpufeature.Switch, strings.Join(names, ", "), now)
	return nil
}

// familiesOf sums up kernels, FAMILY/FORMAT/VARIANT, by family: the name of a single one, and how many there are of more.
func familiesOf(kernels []string) string {
	var families []string
	count, first := map[string]int{}, map[string]string{}
	for _, k := range kernels {
		family, _, _ := strings.Cut(k, "/")
		if count[family]++; count[family] == 1 {
			families, first[family] = append(families, family), k
		}
	}
	for i, f := range families {
		families[i] = fmt.Sprintf("%s (%d kernels)", f, count[f])
		if count[f] == 1 {
			families[i] = first[f]
		}
	}
	return strings.Join(families, ", ")
}

// checkSwitches warns of variables that look like switches and are none, or whose value means nothing.
func (a *app) checkSwitches() {
	known := map[string]bool{cpufeature.Switch: true, "MINFER_CACHE": true, "MINFER_NVCC": true, "MINFER_SYNC_LAUNCHES": true, gpu.NoGraph: true}
	var names []string
	for _, s := range slices.Concat(gate.Switches, gate.CPUSwitches) {
		known[s.Name] = true
		names = append(names, s.Name)
		if v, ok := a.getenv(s.Name); ok && v != "0" && v != "1" && v != "" {
			a.warn("%s=%s has no effect: 0 turns its kernels off", s.Name, quoted(v))
		}
	}
	for _, e := range a.env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "MINFER_") || known[name] {
			continue
		}
		known[name] = true
		if near := nearest(name, names); near != "" {
			a.warn("environment variable %s means nothing here; did you mean %s?", name, near)
			continue
		}
		a.warn("environment variable %s means nothing here; minfer-run --list-switches lists those that do", name)
	}
}
