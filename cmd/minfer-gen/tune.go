package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func tuneCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tune (--model FILE | --shape NAME) [flags]",
		Short: "Measure which kernels are the fastest for the shapes of a model",
		Long: `Measure which kernels are the fastest for the shapes of a model, values of the specs' free parameters among them, and write
what wins as routes. It builds and runs cmd/minfer-tune with the tags of this build: unlike the generator that one launches
kernels, so it needs generated/. minfer-gen tune --help has the flags.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := repository()
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "minfer-gen-tune-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			program := filepath.Join(dir, "minfer-tune")
			build := exec.Command("go", "build", "-o", program)
			build.Args = append(build.Args, tags()...)
			build.Args = append(build.Args, "./cmd/minfer-tune")
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("building cmd/minfer-tune: %w\n%s", err, out)
			}
			// An interrupt reaches the program too, which ends by itself.
			interrupts := make(chan os.Signal, 1)
			signal.Notify(interrupts, os.Interrupt)
			defer signal.Stop(interrupts)
			run := exec.Command(program, args...)
			run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			err = run.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return errSaid
			}
			return err
		},
	}
}

// tags are the flags that give another program the build tags of this one.
func tags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return []string{"-tags", s.Value}
		}
	}
	return nil
}
