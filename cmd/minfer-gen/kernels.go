package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/gen/bound"
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/mutate"
	"github.com/minfer/minfer/gen/route"
)

// format finds a format by name.
func format(c *model.Catalog, name string) (*model.Format, error) {
	var names []string
	for _, f := range c.Formats {
		if strings.EqualFold(f.Name, name) {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("there is no format %q%s; there are %s", name, diag.Meant(name, names), strings.Join(names, ", "))
}

// device finds the description of an architecture: the newest that is not newer.
func deviceFor(c *model.Catalog, arch int) *model.Device {
	dev := c.Base()
	for _, d := range c.Devices {
		if d.Arch <= arch {
			dev = d
		}
	}
	return dev
}

// portable is a CPU of which no vector instruction is asked.
const portable = "portable"

func whyCommand(o *options) *cobra.Command {
	var tokens int64
	var arch int
	var ops, off, cpu []string
	cmd := &cobra.Command{
		Use:   "why FORMAT ROWSxCOLS",
		Short: "Say why a matrix takes the kernel that it takes",
		Long: `Say why a matrix takes the kernel that it takes: for each family that multiplies by the format, the variants in the
order in which its gate tries them, every term of the gate with its derivation, and what a refused variant would do to
the work if it ran all the same.`,
		Example: "  minfer-gen why q6_K 3584x18944\n  minfer-gen why q4_K 152064x5120 --arch 90 --tokens 8\n  minfer-gen why q4_K 8960x1536 --cpu avx2,avx512,avx512vnni --tokens 16",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.catalog()
			if err != nil {
				return err
			}
			f, err := format(c, args[0])
			if err != nil {
				return err
			}
			rows, cols, err := matrix(args[1])
			if err != nil {
				return err
			}
			if tokens < 1 {
				return fmt.Errorf("--tokens %d: at least 1 is due", tokens)
			}
			fams, has := route.Families(c, ops, f), []string(nil)
			if len(cpu) > 0 {
				fams = route.CPUFamilies(c, ops, f)
				for _, x := range cpu {
					switch {
					case slices.Contains(load.CPUFeatures, x):
						has = append(has, x)
					case x != portable:
						return fmt.Errorf("--cpu: no feature is called %q%s; the features are %s, or %s for none of them", x, diag.Meant(x, load.CPUFeatures), strings.Join(load.CPUFeatures, ", "), portable)
					}
				}
			}
			if len(fams) == 0 {
				return refusal{fmt.Sprintf("no kernel family computes %s of %s", strings.Join(ops, ", "), f.Name)}
			}
			chosen := 0
			shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: rows, model.Cols: cols, model.Tokens: tokens}, Arch: arch, SharedBytes: int64(deviceFor(c, arch).SharedBytes), Features: has}
			for i, fam := range fams {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				chosen += explain(cmd.OutOrStdout(), c, fam, f, shape, off)
			}
			if chosen == 0 {
				return refusal{fmt.Sprintf("no kernel runs %s of %s %s", strings.Join(ops, ", "), f.Name, args[1])}
			}
			return nil
		},
	}
	cmd.Flags().Int64Var(&tokens, "tokens", 1, "tokens multiplied at once")
	cmd.Flags().IntVar(&arch, "arch", 90, "architecture of the device, compute capability times 10")
	cmd.Flags().StringSliceVar(&cpu, "cpu", nil, "instead of a GPU, a CPU with these vector instructions: "+strings.Join(load.CPUFeatures, ", ")+", or "+portable)
	cmd.Flags().StringSliceVar(&ops, "op", []string{"matmul"}, "operations of the plan to look at")
	cmd.Flags().StringSliceVar(&off, "off", nil, "switches that are set to 0, such as MINFER_Q6K_PF")
	return cmd
}

// matrix reads ROWSxCOLS.
func matrix(s string) (rows, cols int64, err error) {
	r, c, ok := strings.Cut(s, "x")
	rows, err1 := strconv.ParseInt(r, 10, 64)
	cols, err2 := strconv.ParseInt(c, 10, 64)
	if !ok || err1 != nil || err2 != nil || rows < 1 || cols < 1 {
		return 0, 0, fmt.Errorf("%q is no shape; write rows and columns as 3584x18944", s)
	}
	return rows, cols, nil
}

// explain tells the story of one family: each layout of the weights that a variant reads is a gate of its own.
// It returns the number of layouts for which a variant is chosen.
func explain(w io.Writer, c *model.Catalog, fam *model.Family, f *model.Format, shape bound.Shape, off []string) (chosen int) {
	fmt.Fprintf(w, "%s of %s [%d, %d] for %d token", fam.Name, f.Name, shape.Dims[model.Rows], shape.Dims[model.Cols], shape.Dims[model.Tokens])
	if shape.Dims[model.Tokens] != 1 {
		fmt.Fprint(w, "s")
	}
	where := fmt.Sprintf("sm_%d", shape.Arch)
	if fam.CPU {
		where = "a CPU without vector instructions"
		if len(shape.Features) > 0 {
			where = "a CPU with " + strings.Join(shape.Features, ", ")
		}
	}
	fmt.Fprintf(w, " on %s (class %s)\n", where, fam.Class)
	for _, x := range fam.CrossoversFor(f) {
		does := "does not come"
		if x.Holds(shape.Arch, shape.Dims[model.Rows], shape.Dims[model.Cols]) {
			does = "comes"
		}
		fmt.Fprintf(w, "  with --precision auto it %s before class %s here, measured for %s: %s\n", does, x.Class, x.Where(), x.Why)
	}
	for _, l := range weightLayouts(fam, f) {
		shape.Weights = l
		fmt.Fprintf(w, "  weights %s\n", l)
		verdicts := route.Choose(c, fam, f, route.Query{Shape: shape, Off: off})
		for i := range verdicts {
			v := &verdicts[i]
			if v.Variant.Weights != l {
				continue
			}
			state := "covers, but another comes first"
			switch {
			case v.Chosen:
				state = "CHOSEN"
				chosen++
			case v.Off:
				state = "switched off by " + v.Variant.SwitchFor(f) + "=0"
			case v.Broken != nil:
				state = "refused"
			case v.Variant.Base != nil && v.First == nil:
				state = "covers, but runs where it was measured to be the fastest alone"
			case !v.Preferred && v.First == nil:
				state = "covers, but no measurement prefers it here"
			}
			fmt.Fprintf(w, "    %s: %s\n", v.Variant.Name, state)
			for _, t := range v.Terms {
				mark := "ok"
				if t.Breaks(shape) {
					mark = "NO"
				}
				fmt.Fprintf(w, "      %s  %s: %s\n", mark, t.Have(shape), t)
			}
			for i := range v.Geometry.Axes {
				d := &v.Geometry.Axes[i]
				fmt.Fprintf(w, "      %s = %s\n", d.Axis, v.Geometry.Index(d, func(p layout.PlacedDigit) string { return p.Name }))
			}
			if v.First != nil {
				fmt.Fprintf(w, "      first for %s: %s\n", v.First.Shape(), v.First.Why)
			}
			if v.Route != nil {
				fmt.Fprintf(w, "      preferred: %s\n", v.Route.Why)
			}
			if n, axis := v.Units(fam, shape); n > 0 && !fam.CPU {
				fmt.Fprintf(w, "      %d threads for %d %ss of a row\n", v.Geometry.Threads(), n, axis)
			}
			for _, fault := range v.Faults {
				fmt.Fprintf(w, "      if it ran: %s\n", fault)
			}
		}
	}
	return chosen
}

func weightLayouts(fam *model.Family, f *model.Format) (all []model.WeightLayout) {
	for _, v := range fam.VariantsFor(f) {
		if !slices.Contains(all, v.Weights) {
			all = append(all, v.Weights)
		}
	}
	slices.Reverse(all)
	return all
}

func coverCommand(o *options) *cobra.Command {
	var name, svg, variant string
	var arch int
	cmd := &cobra.Command{
		Use:   "cover",
		Short: "Print which variant covers which matrix of the known models",
		Long: `Print, for every format and every width of a matrix in the known models (specs/models), the units of a row and what each
variant of each family makes of them: * chosen, + covers, and the ceiling in units where it does not reach.
With --svg, also draw which thread covers which unit of a row and where the gate ends.`,
		Example: "  minfer-gen cover --format q6_K\n  minfer-gen cover --format q6_K --variant matvec-q8/v2_pf --svg v2_pf.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.catalog()
			if err != nil {
				return err
			}
			formats := c.Formats
			if name != "" {
				f, err := format(c, name)
				if err != nil {
					return err
				}
				formats = []*model.Format{f}
			}
			if svg != "" {
				return draw(c, formats, variant, svg)
			}
			for _, f := range formats {
				if err := coverTable(cmd.OutOrStdout(), c, f, arch); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "format", "", "one format instead of all")
	cmd.Flags().IntVar(&arch, "arch", 90, "architecture of the device, compute capability times 10")
	cmd.Flags().StringVar(&svg, "svg", "", "file to draw into; needs --format and --variant")
	cmd.Flags().StringVar(&variant, "variant", "", "family/variant to draw")
	return cmd
}

// width is a width of matrices and who has it.
type width struct {
	cols, rows int
	who        []string
}

// widths lists the distinct widths of all models' matrices that a format can hold.
func widths(c *model.Catalog, f *model.Format) (all []width) {
	at := map[int]int{}
	for _, m := range c.Models {
		for _, x := range m.Matrices() {
			if x.Cols%f.Elems != 0 {
				continue
			}
			i, known := at[x.Cols]
			if !known {
				i = len(all)
				at[x.Cols] = i
				all = append(all, width{cols: x.Cols, rows: x.Rows})
			}
			all[i].rows = max(all[i].rows, x.Rows)
			if !slices.Contains(all[i].who, m.Name) {
				all[i].who = append(all[i].who, m.Name)
			}
		}
	}
	slices.SortFunc(all, func(a, b width) int { return a.cols - b.cols })
	return all
}

func coverTable(w io.Writer, c *model.Catalog, f *model.Format, arch int) error {
	fams := route.Families(c, []string{"matmul", "matmul-tile"}, f)
	if len(fams) == 0 {
		return nil
	}
	fmt.Fprintf(w, "%s\n", f.Name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "  cols\tunits"
	for _, fam := range fams {
		for _, v := range fam.VariantsFor(f) {
			head += "\t" + fam.Name + "/" + v.Name
		}
	}
	fmt.Fprintln(t, head+"\tmodels")
	for _, x := range widths(c, f) {
		line := fmt.Sprintf("  %d", x.cols)
		for k, fam := range fams {
			shape := bound.Shape{Dims: map[model.Dim]int64{model.Rows: int64(x.rows), model.Cols: int64(x.cols), model.Tokens: 1}, Arch: arch, SharedBytes: int64(deviceFor(c, arch).SharedBytes)}
			cells := map[string]string{}
			for _, l := range weightLayouts(fam, f) {
				shape.Weights = l
				verdicts := route.Choose(c, fam, f, route.Query{Shape: shape})
				for i := range verdicts {
					v := &verdicts[i]
					if v.Variant.Weights != l {
						continue
					}
					if k == 0 && len(cells) == 0 {
						n, _ := v.Units(fam, shape)
						line += fmt.Sprintf("\t%d", n)
					}
					cell := "+"
					switch {
					case v.Chosen:
						cell = "*"
					case v.Broken != nil && v.Broken.Source == bound.Coverage:
						d := v.Geometry.Axis("unit")
						ceiling, _ := v.Geometry.Ceiling(d)
						cell = fmt.Sprintf("<= %d", ceiling)
					case v.Broken != nil:
						cell = string(v.Broken.Source)
					}
					cells[v.Variant.Name] = cell
				}
			}
			for _, v := range fam.VariantsFor(f) {
				line += "\t" + cells[v.Name]
			}
		}
		fmt.Fprintf(t, "%s\t%s\n", line, strings.Join(x.who, " "))
	}
	return t.Flush()
}

func mutateCommand(o *options) *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "mutate",
		Short: "Damage every gate and geometry, and count what notices",
		Long: `Damage every gate and every kernel geometry, one fact at a time (each bound dropped and moved by one unit, each stride
and radix changed), and hold each mutant against a launch on paper that knows no bounds. A mutant that nothing
notices is a hole in the proof; the exit code is then 1.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.catalog()
			if err != nil {
				return err
			}
			mutants, wrong := mutate.All(c)
			out := cmd.OutOrStdout()
			alive := 0
			for _, m := range mutants {
				if m.Killer == "" {
					alive++
					fmt.Fprintf(out, "ALIVE %s: %s\n", m.Kernel, m.Change)
				} else if list {
					fmt.Fprintf(out, "%s: %s\n  killed: %s\n", m.Kernel, m.Change, m.Killer)
				}
			}
			for _, w := range wrong {
				fmt.Fprintf(out, "WRONG %s\n", w)
			}
			for _, m := range mutate.Historical(c) {
				fmt.Fprintf(out, "%s of %s: %s\n", m.Change, m.Kernel, m.Killer)
			}
			fmt.Fprintf(out, "%d mutants, %d killed, %d alive\n", len(mutants), len(mutants)-alive, alive)
			if alive+len(wrong) > 0 {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "print every mutant with what killed it")
	return cmd
}

// draw writes the picture of a variant.
func draw(c *model.Catalog, formats []*model.Format, name, path string) error {
	famName, variant, ok := strings.Cut(name, "/")
	if !ok || len(formats) != 1 {
		return fmt.Errorf("--svg needs one --format and a --variant such as matvec-q8/v2_pf")
	}
	f := formats[0]
	for _, fam := range route.Families(c, nil, f) {
		for _, v := range fam.VariantsFor(f) {
			if fam.Name == famName && v.Name == variant {
				text, err := picture(c, fam, v, f)
				if err != nil {
					return err
				}
				return os.WriteFile(path, []byte(text), 0o644)
			}
		}
	}
	return fmt.Errorf("--variant %s: %s has no such kernel", name, f.Name)
}
