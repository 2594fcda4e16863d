package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/runtime/synth"
)

func (a *app) synthCommand() *cobra.Command {
	var o synth.Options
	var out string
	cmd := &cobra.Command{
		Use:   "synth --shape NAME --format NAME -o FILE [flags]",
		Short: "Write a model of random weights with a real model's shape",
		Long: `Write a model of random weights: as large as a real one, in the same mix of formats, with
its shape and a vocabulary of its size. It says nothing of sense, but loads, runs and
measures alike. The same flags write the same bytes.

Shapes:
  ` + wrapNames(shapeNames(), 2) + `
Formats:
  ` + wrapNames(mixNames(), 2),
		Example: `  minfer-run synth --shape qwen2.5-7b --format q4_K_M -o 7b.gguf
  minfer-run synth --shape qwen2.5-1.5b --format q8_0 --layers 2 -o small.gguf`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.synth(cmd.Context(), o, out) },
	}
	f := a.flags(cmd)
	f.group("Model")
	f.complete(f.text(&o.Shape, "--shape", "NAME", "the model whose shape it gets"), shapeNames())
	f.complete(f.text(&o.Format, "--format", "NAME", "the mix of formats"), mixNames())
	f.integer(&o.Layers, 1, 10000, map[int]string{0: "as many as the real model"}, "--layers", "N", "fewer layers make a smaller file; 0: as many as the real model has")
	f.add("-s, --seed", "N", "of the weights", &value{text: "0", parse: func(s string) (err error) {
		if o.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			return rangeError{s, "0 or more"}
		}
		return nil
	}})
	f.text(&out, "-o, --output", "FILE", "where to write it; a file that is there is replaced once the new one is whole")
	return cmd
}

func shapeNames() []string {
	var names []string
	for _, s := range synth.Shapes() {
		names = append(names, s.Name)
	}
	return names
}

func mixNames() []string {
	var names []string
	for _, m := range synth.Mixes() {
		names = append(names, m.Name)
	}
	return names
}

// wrapNames lists names in lines of the help.
func wrapNames(names []string, indent int) string {
	return strings.Join(wrap(strings.Join(names, " "), helpWidth-indent), "\n"+strings.Repeat(" ", indent))
}

func (a *app) synth(ctx context.Context, o synth.Options, out string) error {
	switch {
	case o.Shape == "":
		return usagef("synth needs a shape: --shape, one of %s", strings.Join(shapeNames(), ", "))
	case o.Format == "":
		return usagef("synth needs a format: --format, one of %s", strings.Join(mixNames(), ", "))
	case out == "" || out == "-":
		return usagef("synth needs a file to write: -o FILE")
	}
	plan, err := synth.New(o)
	if err != nil {
		return usageError{err.Error()}
	}
	bar := a.loadBar(out, plan.TensorBytes)
	o.Progress = bar.set
	err = synth.Write(ctx, out, o)
	bar.end()
	if err != nil {
		return err
	}
	a.note("%s: %s of weights, %d layers, %s read for each token", out, sizeText(plan.TensorBytes), plan.Shape.NumHiddenLayers, sizeText(plan.BytesPerToken))
	return nil
}

func parseNonNegative(s string, p *float64) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0) || x > 1e300 {
		return rangeError{s, "a number from 0"}
	}
	*p = x
	return nil
}
