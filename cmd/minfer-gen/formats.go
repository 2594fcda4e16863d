package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/interp"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
)

func listCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print the formats and the facts that follow from their specs",
		Long: `Print the formats, one a line:
  id      type number in GGUF files; - for a format that no file holds
  elems   elements of a block
  bytes   bytes of a block
  bpw     bits per weight
  align   alignment in bytes of every block of a row that is aligned to 16
  stride  distance in bytes of blocks padded for 16-byte loads
  group   least number of blocks that are a multiple of 16 bytes
  closed  elements of the shortest aligned run that shares no weight byte
  weight  range of the weight before scaling
  encode  how numbers are rounded to it: fit/rounding; - when the spec does not say`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalog, err := o.catalog()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "name\tid\telems\tbytes\tbpw\talign\tstride\tgroup\tclosed\tweight\tencode")
			for _, f := range catalog.Formats {
				x := proof.FactsOf(f)
				id, weight, encode := "-", "-", "-"
				if f.InFile() {
					id = fmt.Sprint(f.ID)
				}
				if x.WeightKnown && !f.Plain() {
					weight = fmt.Sprintf("%g..%g", x.WeightLo, x.WeightHi)
				}
				if e := f.Encode; e != nil {
					encode = fmt.Sprintf("%s/%s", e.Fit, e.Round)
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%g\t%d\t%d\t%d\t%d\t%s\t%s\n",
					f.Name, id, f.Elems, f.Bytes, x.BitsPerWeight, x.AlignBytes, x.StrideBytes, x.GroupBlocks, x.ClosedElems, weight, encode)
			}
			return w.Flush()
		},
	}
}

func dequantCommand(o *options) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "dequant --format NAME FILE",
		Short: "Dequantize the blocks in a file: what a spec makes of bytes",
		Long: `Dequantize the blocks in FILE (- for standard input) and write them to standard output
as little-endian f32. It reads the spec alone, by a slow interpreter, so it works for a new
spec before anything is generated.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			catalog, err := o.catalog()
			if err != nil {
				return err
			}
			f, err := find(catalog, format)
			if err != nil {
				return err
			}
			in, name := cmd.InOrStdin(), "standard input"
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				info, err := file.Stat()
				if err != nil {
					return err
				}
				if info.Mode().IsRegular() && info.Size()%int64(f.Bytes) != 0 {
					return partial(args[0], f, info.Size())
				}
				in, name = file, args[0]
			}
			return dequantize(f, in, name, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "name of the format (see minfer-gen list)")
	if err := cmd.MarkFlagRequired("format"); err != nil {
		panic("BUG: " + err.Error())
	}
	return cmd
}

// dequantize streams the blocks of in as f32.
func dequantize(f *model.Format, in io.Reader, name string, out io.Writer) error {
	r, w := bufio.NewReader(in), bufio.NewWriter(out)
	chunk := make([]byte, max(1, 65536/f.Bytes)*f.Bytes)
	var size int64
	for {
		n, err := io.ReadFull(r, chunk)
		size += int64(n)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		whole := n / f.Bytes * f.Bytes
		values, bad := interp.Dequantize(f, chunk[:whole])
		if bad != nil {
			panic("BUG: " + bad.Error())
		}
		var b [4]byte
		for _, y := range values {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(y))
			if _, err := w.Write(b[:]); err != nil {
				return fmt.Errorf("writing the values: %w", err)
			}
		}
		if whole < n {
			return errors.Join(w.Flush(), partial(name, f, size))
		}
		if err != nil {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("writing the values: %w", err)
			}
			return nil
		}
	}
}

func partial(name string, f *model.Format, size int64) error {
	return refusal{fmt.Sprintf("%s has %d bytes: %d blocks of %s and %d bytes more; a whole number of blocks of %d bytes is due",
		name, size, size/int64(f.Bytes), f.Name, size%int64(f.Bytes), f.Bytes)}
}

func (o *options) catalog() (*model.Catalog, error) {
	fsys, err := o.fs()
	if err != nil {
		return nil, err
	}
	catalog, err := gen.Load(fsys)
	if err != nil {
		return nil, o.refuse(err)
	}
	return catalog, nil
}

func find(catalog *model.Catalog, name string) (*model.Format, error) {
	var names []string
	for _, f := range catalog.Formats {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("there is no format %q%s; there are %s", name, diag.Meant(name, names), strings.Join(names, ", "))
}
