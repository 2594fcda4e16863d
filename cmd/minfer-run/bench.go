package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/runtime/bench"
	"github.com/minfer/minfer/runtime/chat"
)

// benchFlags are the flags of the verb bench.
type benchFlags struct {
	model       modelFlags
	prompt      []int
	generate    []int
	depth       []int
	repetitions int
	warmup      bool
	output      string
	seed        int
}

func (a *app) benchCommand() *cobra.Command {
	o := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "Measure tokens per second",
		Long: `Measure how many tokens a second a model computes: of a prompt (pp) and after it (tg).
Timed is what a run with default sampling has the device do: a GPU finds the largest
logits and gives those alone. Tokenizing, sampling and loading are not part of it. Each
figure is the median of -r samples, after one that does not count. With lists, the
first of -p goes with the first of -n, and so on, at each depth.`,
		Example: `  minfer-run bench                                      the demo model
  minfer-run bench -m model.gguf -p 512 -n 128
  minfer-run bench -m model.gguf -p 512,1024 -n 0 -d 0,4096 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.bench(cmd.Context(), o) },
	}
	f := a.flags(cmd)
	f.group("Measurement")
	o.prompt, o.generate, o.depth = []int{512}, []int{128}, []int{0}
	list := func(p *[]int, text, names, usage string) {
		f.add(names, "LIST", usage, &value{text: text, parse: func(s string) error {
			l, err := bench.ParseList(s, maxContext)
			if err != nil {
				return rangeError{s, fmt.Sprintf("numbers from 0 to %d as 512,1024 or 128-512+128 or 128-512*2, none twice", maxContext)}
			}
			*p = l
			return nil
		}})
	}
	list(&o.prompt, "512", "-p, --n-prompt", "tokens of the prompt; 0: none is measured")
	list(&o.generate, "128", "-n, --n-gen", "tokens generated; 0: none are")
	list(&o.depth, "0", "-d, --n-depth", "tokens that are in the cache before")
	o.repetitions = 5
	f.integer(&o.repetitions, 1, 1000, nil, "-r, --repetitions", "N", "samples of each figure")
	o.warmup = true
	f.no(&o.warmup, "--no-warmup", "every run counts, the first too")
	f.integer(&o.seed, 0, 1<<31-1, nil, "-s, --seed", "N", "of the tokens, which are drawn at random")
	o.output = "md"
	f.choice(&o.output, []string{"md", "json", "jsonl", "csv"}, "-o, --output", "FORMAT", "md, csv, or, with every sample and where it was taken, json or jsonl")
	o.model.add(f)
	return cmd
}

// benchReport is a result as JSON has it. pp and tg are medians in tokens/s, null where not measured.
type benchReport struct {
	Model       string    `json:"model"`
	ModelFile   string    `json:"model_file"`
	ModelBytes  int64     `json:"model_bytes"`
	Params      int64     `json:"params"`
	Arch        string    `json:"architecture"`
	Device      string    `json:"device"`
	Precision   string    `json:"precision"`
	KVType      string    `json:"kv_type"`
	Threads     int       `json:"threads"`
	Batch       int       `json:"batch"` // 0: the device's choice
	Prompt      int       `json:"n_prompt"`
	Generate    int       `json:"n_gen"`
	Depth       int       `json:"n_depth"`
	Top         int       `json:"n_top"` // logits that came back for each token, the largest; 0: all
	Repetitions int       `json:"repetitions"`
	Warmup      bool      `json:"warmup"`
	PP          *float64  `json:"pp"`
	PPMean      *float64  `json:"pp_mean"`
	PPStdDev    *float64  `json:"pp_stddev"`
	PPSamples   []float64 `json:"pp_samples"`
	TG          *float64  `json:"tg"`
	TGMean      *float64  `json:"tg_mean"`
	TGStdDev    *float64  `json:"tg_stddev"`
	TGSamples   []float64 `json:"tg_samples"`
	bench.Machine
	Version string    `json:"version"`
	Date    time.Time `json:"date"`
}

func (a *app) bench(ctx context.Context, o *benchFlags) error {
	if err := o.model.check(a); err != nil {
		return err
	}
	var cases []bench.Case
	for _, d := range o.depth {
		for i := range max(len(o.prompt), len(o.generate)) {
			c := bench.Case{Depth: d}
			if i < len(o.prompt) {
				c.Prompt = o.prompt[i]
			}
			if i < len(o.generate) {
				c.Generate = o.generate[i]
			}
			if c.Prompt == 0 && c.Generate == 0 {
				return usagef("-p 0 with -n 0 leaves nothing to measure")
			}
			cases = append(cases, c)
			o.model.context = max(o.model.context, c.Context(), 2)
		}
	}
	if o.model.context > maxContext {
		return usagef("-p, -n and -d ask for a context of %d tokens; the most is %d", o.model.context, maxContext)
	}
	model, done, err := a.openModel(ctx, &o.model, chat.Choice{})
	if err != nil {
		return fmt.Errorf("-p, -n and -d ask for a context of %d tokens: %w", o.model.context, err)
	}
	defer done()
	line := a.statusLine()
	defer line.clear()
	var reports []benchReport
	for _, c := range cases {
		r, err := bench.Run(ctx, model, c, bench.Options{Repetitions: o.repetitions, NoWarmup: !o.warmup, Seed: uint64(o.seed), Progress: line.show})
		if err != nil {
			return err
		}
		report := benchReport{Model: o.model.name(), ModelFile: o.model.path, ModelBytes: model.File().SizeBytes(), Params: params(model.File()), Arch: model.Graph().Arch,
			Device: model.DeviceName(), Precision: o.model.precision, KVType: model.KVType(), Threads: o.model.threads, Batch: o.model.batch,
			Prompt: c.Prompt, Generate: c.Generate, Depth: c.Depth, Top: r.Top, Repetitions: o.repetitions, Warmup: o.warmup,
			Machine: bench.Here(), Version: version(), Date: time.Now().UTC().Truncate(time.Second)}
		if report.Threads == 0 {
			report.Threads = runtime.GOMAXPROCS(0)
		}
		report.PP, report.PPMean, report.PPStdDev, report.PPSamples = figures(r.PP)
		report.TG, report.TGMean, report.TGStdDev, report.TGSamples = figures(r.TG)
		reports = append(reports, report)
	}
	line.clear()
	return a.writeBench(o.output, reports)
}

func figures(r *bench.Rate) (median, mean, stdDev *float64, samples []float64) {
	if r == nil {
		return nil, nil, nil, []float64{}
	}
	m, n, d := r.Median(), r.Mean(), r.StdDev()
	return &m, &n, &d, r.Samples
}

func (a *app) writeBench(form string, reports []benchReport) error {
	switch form {
	case "json":
		if len(reports) == 1 {
			return a.writeJSON(reports[0])
		}
		return a.writeJSON(reports)
	case "jsonl":
		for _, r := range reports {
			data, err := json.Marshal(r)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s\n", data)
		}
		return nil
	case "csv":
		return a.writeCSV(reports)
	}
	var rows [][]string
	for _, r := range reports {
		at := ""
		if r.Depth > 0 {
			at = fmt.Sprintf(" @ d%d", r.Depth)
		}
		row := func(test string, n int, median, stdDev *float64) {
			if median != nil {
				rows = append(rows, []string{r.Model, sizeText(r.ModelBytes), countText(r.Params), r.Device, strconv.Itoa(r.Threads), fmt.Sprintf("%s%d%s", test, n, at), fmt.Sprintf("%.2f ± %.2f", *median, *stdDev)})
			}
		}
		row("pp", r.Prompt, r.PP, r.PPStdDev)
		row("tg", r.Generate, r.TG, r.TGStdDev)
	}
	a.table([]string{"model", "size", "params", "device", "threads", "test", "tok/s"}, 1, rows)
	r := reports[0]
	fmt.Fprintf(a.stdout, "\nmedian ± standard deviation of %d samples; %s, %d cores, %s, %s/%s, %s\n", r.Repetitions, r.CPU, r.Cores, r.Go, r.OS, r.Machine.Arch, r.Version)
	return nil
}

// table writes a Markdown table; the columns from the right-th on are numbers.
func (a *app) table(head []string, right int, rows [][]string) {
	width := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i, c := range r {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	line := func(r []string) {
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if i < right {
				c += pad
			} else {
				c = pad + c
			}
			fmt.Fprintf(a.stdout, "| %s ", c)
		}
		fmt.Fprintln(a.stdout, "|")
	}
	line(head)
	for i, w := range width {
		if i < right {
			fmt.Fprintf(a.stdout, "| %s ", strings.Repeat("-", w))
		} else {
			fmt.Fprintf(a.stdout, "| %s: ", strings.Repeat("-", w-1))
		}
	}
	fmt.Fprintln(a.stdout, "|")
	for _, r := range rows {
		line(r)
	}
}

func (a *app) writeCSV(reports []benchReport) error {
	w := csv.NewWriter(a.stdout)
	w.Write([]string{"model", "model_bytes", "params", "device", "precision", "kv_type", "threads", "batch", "n_prompt", "n_gen", "n_depth", "repetitions",
		"pp", "pp_stddev", "pp_samples", "tg", "tg_stddev", "tg_samples", "cpu", "cores", "go_version", "commit", "version", "date"})
	number := func(x *float64) string {
		if x == nil {
			return ""
		}
		return formatFloat(*x)
	}
	numbers := func(xs []float64) string {
		var s []string
		for _, x := range xs {
			s = append(s, formatFloat(x))
		}
		return strings.Join(s, ";")
	}
	for _, r := range reports {
		w.Write([]string{r.Model, strconv.FormatInt(r.ModelBytes, 10), strconv.FormatInt(r.Params, 10), r.Device, r.Precision, r.KVType, strconv.Itoa(r.Threads), strconv.Itoa(r.Batch),
			strconv.Itoa(r.Prompt), strconv.Itoa(r.Generate), strconv.Itoa(r.Depth), strconv.Itoa(r.Repetitions),
			number(r.PP), number(r.PPStdDev), numbers(r.PPSamples), number(r.TG), number(r.TGStdDev), numbers(r.TGSamples),
			r.CPU, strconv.Itoa(r.Cores), r.Go, r.Commit, r.Version, r.Date.Format(time.RFC3339)})
	}
	w.Flush()
	return w.Error()
}

// statusLine is a line on a terminal that is overwritten; elsewhere it is nothing.
type statusLine struct {
	a     *app
	on    bool
	width int
}

func (a *app) statusLine() *statusLine {
	return &statusLine{a: a, on: isTerminal(a.stderr) && !a.dumb()}
}

func (s *statusLine) show(text string) {
	if s.on {
		fmt.Fprintf(s.a.stderr, "\r%-*s", s.width, text)
		s.width = len(text)
	}
}

func (s *statusLine) clear() {
	if s.on && s.width > 0 {
		fmt.Fprintf(s.a.stderr, "\r%*s\r", s.width, "")
		s.width = 0
	}
}

// writeJSON writes a value, indented.
func (a *app) writeJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// columns aligns tab-separated lines.
func (a *app) columns(lines ...string) {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
	w.Flush()
}

// sizeText is a number of bytes for a person.
func sizeText(bytes int64) string {
	x, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && x >= 1024 {
		x, units = x/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.2f %s", x, units[0])
}

// countText is a large number for a person.
func countText(n int64) string {
	x, units := float64(n), []string{"", " K", " M", " B", " T"}
	for len(units) > 1 && x >= 1000 {
		x, units = x/1000, units[1:]
	}
	if units[0] == "" {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%.2f%s", x, units[0])
}
