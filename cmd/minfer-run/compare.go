package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

type compareFlags struct {
	tolerance float64
	steps     int
	all       bool
	json      bool
}

func (a *app) compareCommand() *cobra.Command {
	o := &compareFlags{steps: 1}
	cmd := &cobra.Command{
		Use:   "compare DIR_A DIR_B [flags]",
		Short: "Compare the logits of two dumps",
		Long: `Compare two dumps: the largest difference of their logits, and whether the most likely
token is the same. Only the first step is compared: a later one follows from tokens
and cache that the earlier ones left, so its difference says nothing about a kernel.
Ends with 1 if the difference is over the tolerance.`,
		Example: `  minfer-run compare a b                     the same bits?
  minfer-run compare a b --tolerance 0.25`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.compare(args, o) },
	}
	f := a.flags(cmd)
	f.words = "DIR_A DIR_B"
	f.group("Comparison")
	f.add("--tolerance", "X", "largest difference that is still well; 0: none", &value{text: "0", parse: func(s string) error {
		return parseNonNegative(s, &o.tolerance)
	}})
	f.integer(&o.steps, 1, maxContext, nil, "-n, --steps", "N", "steps to compare; more than the first need --all-steps")
	f.yes(&o.all, "--all-steps", "compare later steps too, up to the one after which the tokens differ")
	f.yes(&o.json, "--json", "the findings as JSON")
	return cmd
}

// comparison is what two dumps differ by in one step.
type comparison struct {
	Step       int     `json:"step"`
	MaxDiff    float64 `json:"max_difference"`
	Token      int     `json:"token"` // whose logits differ most
	Offset     int64   `json:"offset"`
	A          float64 `json:"a"` // its logits
	B          float64 `json:"b"`
	ArgmaxA    int     `json:"argmax_a"`
	ArgmaxB    int     `json:"argmax_b"`
	SameArgmax bool    `json:"same_argmax"`
}

func (a *app) compare(dirs []string, o *compareFlags) error {
	if len(dirs) != 2 {
		return usagef("compare takes two folders that dump wrote; there are %d", len(dirs))
	}
	if o.steps > 1 && !o.all {
		return usagef("-n %d: steps after the first follow from tokens and cache that the earlier ones left, so their differences say nothing about a kernel; --all-steps compares them all the same", o.steps)
	}
	var dumps [2]*dump
	var logits [2]*os.File
	for i, dir := range dirs {
		var err error
		if dumps[i], logits[i], err = openDump(dir); err != nil {
			return err
		}
		defer logits[i].Close()
	}
	x, y := dumps[0], dumps[1]
	names := [2]string{filepath.Join(dirs[0], dumpFile), filepath.Join(dirs[1], dumpFile)}
	switch {
	case x.Vocab != y.Vocab:
		return fmt.Errorf("nothing to compare: %s has n_vocab %d, %s %d", names[0], x.Vocab, names[1], y.Vocab)
	case !slices.Equal(x.PromptTokens, y.PromptTokens):
		return fmt.Errorf("nothing to compare: prompt_tokens of %s and %s differ", names[0], names[1])
	}
	if !slices.Equal(x.ModelSHA256, y.ModelSHA256) {
		a.warn("the dumps are of different model files")
	}
	n := min(x.Steps, y.Steps)
	switch {
	case !o.all:
		n = 1
	case o.steps > n:
		return fmt.Errorf("-n %d: %s has %d steps, %s %d", o.steps, names[0], x.Steps, names[1], y.Steps)
	case o.steps > 1:
		n = o.steps
	}
	var found []comparison
	for step := range n {
		c, err := compareStep(dirs, logits, step, x.Vocab)
		if err != nil {
			return err
		}
		found = append(found, c)
		if x.GreedyTokens[step] != y.GreedyTokens[step] {
			break
		}
	}
	over := slices.IndexFunc(found, func(c comparison) bool { return c.MaxDiff > o.tolerance })
	if o.json {
		if err := a.writeJSON(struct {
			A         string       `json:"dir_a"`
			B         string       `json:"dir_b"`
			Tolerance float64      `json:"tolerance"`
			Within    bool         `json:"within"`
			Steps     []comparison `json:"steps"`
		}{dirs[0], dirs[1], o.tolerance, over < 0, found}); err != nil {
			return err
		}
	} else {
		for _, c := range found {
			same := fmt.Sprintf("the same most likely token %d", c.ArgmaxA)
			if !c.SameArgmax {
				same = fmt.Sprintf("the most likely token is %d in one, %d in the other", c.ArgmaxA, c.ArgmaxB)
			}
			fmt.Fprintf(a.stdout, "step %d: largest difference %.6g, token %d (%.7g and %.7g, at byte %d of %s); %s\n", c.Step, c.MaxDiff, c.Token, c.A, c.B, c.Offset, logitsFile, same)
		}
		if len(found) < n {
			fmt.Fprintf(a.stdout, "not compared: steps from %d, which follow from different tokens\n", len(found))
		}
	}
	if over >= 0 {
		c := found[over]
		a.complain(fmt.Errorf("%s and %s: step %d, byte %d differs by %.6g, over the tolerance of %g", filepath.Join(dirs[0], logitsFile), filepath.Join(dirs[1], logitsFile), c.Step, c.Offset, c.MaxDiff, o.tolerance))
		return errNo
	}
	return nil
}

// openDump reads what dump wrote, and holds the files against each other.
func openDump(dir string) (*dump, *os.File, error) {
	path := filepath.Join(dir, dumpFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	d := &dump{}
	if err := json.Unmarshal(data, d); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.Steps == 0 {
		d.Steps = len(d.GreedyTokens) // of another program
	}
	if d.Vocab <= 0 || d.Steps <= 0 || len(d.GreedyTokens) != d.Steps {
		return nil, nil, fmt.Errorf("%s: n_vocab %d, steps %d and %d greedy_tokens make no dump", path, d.Vocab, d.Steps, len(d.GreedyTokens))
	}
	f, err := os.Open(filepath.Join(dir, logitsFile))
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if want := 4 * int64(d.Steps) * int64(d.Vocab); err == nil && info.Size() != want {
		err = fmt.Errorf("%s: %d bytes; %d steps of n_vocab %d take %d", f.Name(), info.Size(), d.Steps, d.Vocab, want)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return d, f, nil
}

// compareStep compares a row of both files. A number that is not finite is an error.
func compareStep(dirs []string, files [2]*os.File, step, vocab int) (comparison, error) {
	c := comparison{Step: step, Token: -1}
	at := 4 * int64(step) * int64(vocab)
	var rows [2][]float32
	for i, f := range files {
		data := make([]byte, 4*vocab)
		if _, err := f.ReadAt(data, at); err != nil && err != io.EOF {
			return c, err
		}
		for t := range vocab {
			l := math.Float32frombits(binary.LittleEndian.Uint32(data[4*t:]))
			if math.IsNaN(float64(l)) || math.IsInf(float64(l), 0) {
				return c, fmt.Errorf("%s: step %d, token %d (byte %d) is %v", filepath.Join(dirs[i], logitsFile), step, t, at+4*int64(t), l)
			}
			rows[i] = append(rows[i], l)
		}
	}
	for t := range vocab {
		x, y := float64(rows[0][t]), float64(rows[1][t])
		if d := math.Abs(x - y); d > c.MaxDiff || c.Token < 0 {
			c.MaxDiff, c.Token, c.Offset, c.A, c.B = d, t, at+4*int64(t), x, y
		}
	}
	c.ArgmaxA, c.ArgmaxB = argmax(rows[0]), argmax(rows[1])
	c.SameArgmax = c.ArgmaxA == c.ArgmaxB
	return c, nil
}

func argmax(row []float32) int {
	best := 0
	for i, l := range row {
		if l > row[best] {
			best = i
		}
	}
	return best
}
