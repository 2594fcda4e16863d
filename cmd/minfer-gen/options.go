package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// options are the flags that verbs share.
type options struct {
	specs string
	out   string
}

func (o *options) addOut(flags *pflag.FlagSet) {
	flags.StringVar(&o.out, "out", "", "folder of generated files (default: generated/ of the repository around the current folder)")
}

// fs is the specs to use.
func (o *options) fs() (fs.FS, error) {
	if o.specs == "" {
		return specs.FS, nil
	}
	info, err := os.Stat(o.specs)
	if err != nil {
		return nil, fmt.Errorf("--specs: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("--specs: %s is no folder", o.specs)
	}
	return os.DirFS(o.specs), nil
}

// refuse turns an error of gen into one to end with: faults of the specs are listed, named where the specs lie.
func (o *options) refuse(err error) error {
	faults := gen.Faults(err)
	if faults == nil {
		return err
	}
	faults = o.rebased(faults)
	noun := "fault"
	if len(faults) > 1 {
		noun = "faults"
	}
	return refusal{fmt.Sprintf("%v\n%d %s in the specs", faults.Err(), len(faults), noun)}
}

// rebased is what there is to say of specs, named where they lie.
func (o *options) rebased(list diag.List) diag.List {
	if o.specs == "" {
		return list
	}
	return list.Rebase(spec.Root, filepath.ToSlash(filepath.Clean(o.specs)))
}

// outDir is the folder of generated files.
func (o *options) outDir() (string, error) {
	if o.out != "" {
		return o.out, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	if o.specs == "" {
		if err := builtInMatch(root); err != nil {
			return "", err
		}
	}
	return filepath.Join(root, "generated"), nil
}

// repository finds the folder with go.generate.go, the current one or one above, as a path that is short to print.
func repository() (string, error) {
	for dir, abs := ".", ""; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.generate.go")); err == nil {
			return dir, nil
		}
		next, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if next == abs {
			return "", errors.New("the current folder is in no minfer repository (no go.generate.go above it); name the folder of generated files with --out")
		}
		abs = next
	}
}

// builtInMatch refuses to generate for a repository from other specs than it holds, as a binary built from older
// sources would.
func builtInMatch(root string) error {
	disk := os.DirFS(filepath.Join(root, "specs"))
	differs := func(name, why string) error {
		return fmt.Errorf("%s %s this minfer-gen was built with; use go generate ./..., or --specs %s",
			filepath.ToSlash(filepath.Join(root, "specs", filepath.FromSlash(name))), why, filepath.ToSlash(filepath.Join(root, "specs")))
	}
	seen := map[string]bool{}
	err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen[name] = true
		built, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			return err
		}
		now, err := fs.ReadFile(disk, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return differs(name, "is gone, one of the specs that")
		case err != nil:
			return err
		case !bytes.Equal(lf(now), lf(built)):
			return differs(name, "is not the spec that")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fs.WalkDir(disk, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && strings.HasSuffix(name, ".yaml") && slices.Contains(spec.Kinds(), path.Dir(name)) && !seen[name] {
			return differs(name, "is not among the specs that")
		}
		return nil
	})
}

func lf(data []byte) []byte { return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) }
