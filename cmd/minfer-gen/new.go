package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed templates
var templates embed.FS

var (
	formatName = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)
	kernelName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

func newCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new format|kernel NAME",
		Short: "Write a commented spec to start from",
		Long: `Write a commented, valid spec to start from: specs/formats/NAME.yaml or specs/kernels/NAME.yaml in the repository around the
current folder, or in --specs. A file that is there already is left alone.`,
		Example: "  minfer-gen new format q3_x\n  minfer-gen new kernel matvec-mine",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name := args[0], args[1]
			pattern := formatName
			switch kind {
			case "format":
			case "kernel":
				pattern = kernelName
			default:
				return fmt.Errorf("there is no spec of kind %q; there are format and kernel", kind)
			}
			if !pattern.MatchString(name) {
				return fmt.Errorf("%q is no name of a %s: it must match %s", name, kind, pattern)
			}
			text, err := templates.ReadFile("templates/" + kind + ".yaml")
			if err != nil {
				return err
			}
			dir := o.specs
			if dir == "" {
				root, err := repository()
				if err != nil {
					return err
				}
				dir = filepath.Join(root, "specs")
			}
			path := filepath.Join(dir, kind+"s", name+".yaml")
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return refusal{path + " is there already"}
			}
			if err != nil {
				return err
			}
			_, err = file.WriteString(strings.ReplaceAll(string(text), "NAME", name))
			if err = errors.Join(err, file.Close()); err != nil {
				os.Remove(path)
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	return cmd
}
