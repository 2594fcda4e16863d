package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/chat/jinja"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/sample"
)

// runFlags are the flags of the verb run.
type runFlags struct {
	model  modelFlags
	prompt promptFlags

	tokens    int
	stop      []string
	ignoreEnd bool
	params    sample.Params
	greedy    bool

	system       string
	systemFile   string
	raw          bool
	template     chat.Choice
	templateVars jinja.Object

	showPrompt  bool
	showSpecial bool
	timings     bool
	color       string
}

// promptFlags say where a text comes from.
type promptFlags struct {
	text, file string
	escape     bool
	set        *flagSet
}

func (p *promptFlags) add(f *flagSet, what string) {
	p.set = f
	f.text(&p.text, "-p, --prompt", "TEXT", what)
	f.text(&p.file, "-f, --file", "FILE", "read it from a file, \"-\" for standard input; without -p and -f, piped text is read. One newline at its end is dropped")
}

func (a *app) runCommand() *cobra.Command {
	o := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags]",
		Short: "Generate text (also without a verb)",
		Long: `Generate text. The prompt goes through the model's chat template, unless --raw.
The text alone goes to stdout, as it comes; timings and warnings go to stderr.`,
		Example: `  minfer-run -p "What is the capital of France?"     the demo model, built in
  minfer-run -m model.gguf -p "Tell me a story" -n 200
  minfer-run -m model.gguf -f notes.txt -sys "Summarize in one sentence."
  echo "What is 7 plus 5?" | minfer-run
  minfer-run -m model.gguf --raw --temp 0 -n 32 -p "Once upon a time"`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.generate(cmd.Context(), o) },
	}
	f := a.flags(cmd)
	f.group("Prompt")
	o.prompt.add(f, "the prompt: the user's message, or with --raw the text to go on with")
	f.yes(&o.prompt.escape, "-e, --escape", `read \n \t \r \" \' \\ in -p, -sys and -r as C does`)
	f.text(&o.system, "-sys, --system-prompt", "TEXT", "the system message before the prompt")
	f.text(&o.systemFile, "-sysf, --system-prompt-file", "FILE", "read it from a file")
	f.yes(&o.raw, "--raw, -no-cnv, --no-conversation", "no chat template; control markers in the prompt become control tokens")
	f.text(&o.template.Name, "--chat-template", "NAME", "a template of the model, a known one ("+strings.Join(chat.Builtins(), ", ")+"), or the text of one").orEnv("LLAMA_ARG_CHAT_TEMPLATE")
	f.text(&o.template.File, "--chat-template-file", "FILE", "a Jinja template").orEnv("LLAMA_ARG_CHAT_TEMPLATE_FILE")
	f.add("--chat-template-kwargs", "JSON", `variables of the template, such as {"enable_thinking": false}`, &value{parse: func(s string) (err error) {
		o.templateVars, err = parseObject(s)
		return err
	}}).orEnv("LLAMA_CHAT_TEMPLATE_KWARGS")
	f.yes(new(bool), "-st, --single-turn, --jinja, --no-display-prompt", "accepted: one answer, Jinja templates and a hidden prompt are what there is")

	f.group("Generation")
	o.tokens = -1
	f.integer(&o.tokens, 1, math.MaxInt32, map[int]string{-1: "until the model ends or the context is full"}, "-n, --predict, --n-predict", "N",
		"tokens to generate at most; -1: until the model ends or the context is full").orEnv("LLAMA_ARG_N_PREDICT")
	f.texts(&o.stop, "-r, --reverse-prompt, --stop", "TEXT", "end before this text; may be repeated")
	f.yes(&o.ignoreEnd, "--ignore-eos", "never choose an end token")
	o.model.addContext(f)

	f.group("Sampling")
	o.params = sample.Defaults()
	o.sampling(f)

	o.model.add(f)

	f.group("Output")
	f.yes(&o.showPrompt, "--verbose-prompt", "show the prompt's tokens on stderr")
	f.yes(&o.showSpecial, "-sp, --special", "write control tokens by their text")
	o.timings = true
	f.no(&o.timings, "--no-perf, --no-show-timings", "no timings")
	f.yes(&o.timings, "--perf, --show-timings", "timings on stderr, as without it")
	o.color = "auto"
	f.choice(&o.color, []string{"on", "off", "auto"}, "-co, --color", "WHEN", "colour notes on stderr: on, off, auto (a terminal; NO_COLOR and TERM=dumb turn it off)")
	return cmd
}

// sampling adds the flags of the sampler. The sampler itself knows the ranges.
func (o *runFlags) sampling(f *flagSet) {
	p := &o.params
	number := func(p *float64, names, usage string) {
		f.add(names, "X", usage, &value{text: formatFloat(*p), parse: func(s string) error {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return rangeError{s, "a number"}
			}
			return o.try(p, x, s)
		}})
	}
	count := func(p *int, names, usage string) {
		f.add(names, "N", usage, &value{text: strconv.Itoa(*p), parse: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil {
				return rangeError{s, "a whole number"}
			}
			return o.tryInt(p, n, s)
		}})
	}
	f.yes(&o.greedy, "--greedy", "always the most likely token, as --temp 0")
	number(&p.Temp, "--temp, --temperature", "how far to flatten the probabilities; 0: always the most likely token")
	f.add("-s, --seed", "N", "the same seed gives the same text, for any number of threads; -1: a random one, which is reported", &value{text: "-1", parse: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < -1 {
			return rangeError{s, "0 or more; -1: a random one"}
		}
		p.Seed = n
		return nil
	}})
	count(&p.TopK, "--top-k", "keep the K most likely; 0: all")
	number(&p.TopP, "--top-p", "keep the most likely, up to this sum of probabilities; 1: all")
	number(&p.MinP, "--min-p", "keep those with this share of the largest probability; 0: all")
	number(&p.Typical, "--typical, --typical-p", "keep the most typical, up to this sum of probabilities; 1: all")
	number(&p.TopNSigma, "--top-nsigma, --top-n-sigma", "keep logits within N standard deviations of the largest; -1: all")
	number(&p.XTCProbability, "--xtc-probability", "chance to drop all but the least of the likely; 0: never")
	number(&p.XTCThreshold, "--xtc-threshold", "probability from which a token is likely for that")
	number(&p.RepeatPenalty, "--repeat-penalty", "divide the logits of tokens seen; 1: off")
	number(&p.PresencePenalty, "--presence-penalty", "take this off the logits of tokens seen; 0: off")
	number(&p.FrequencyPenalty, "--frequency-penalty", "take this off for each time that they were seen; 0: off")
	count(&p.RepeatLastN, "--repeat-last-n", "tokens that count as seen; 0: none, -1: all")
	f.add("--samplers", "NAMES", "the stages and their order, as top_k;top_p;temperature", &value{text: "", parse: func(s string) (err error) {
		p.Samplers, err = sample.ParseSamplers(s)
		var e *sample.ParamError
		if errors.As(err, &e) {
			return rangeError{strings.Trim(e.Value, `"`), e.Allowed}
		}
		return err
	}})
	f.add("-l, --logit-bias", "ID+X", "add X to the logit of a token: 15043+1, 15043-1, 15043-inf (never); may be repeated", &value{parse: func(s string) error {
		b, err := parseBias(s)
		if err == nil {
			p.LogitBias = append(p.LogitBias, b)
		}
		return err
	}}).many = true
}

// try sets a number if the sampler takes it.
func (o *runFlags) try(p *float64, x float64, typed string) error {
	before := *p
	*p = x
	return o.valid(typed, func() { *p = before })
}

func (o *runFlags) tryInt(p *int, n int, typed string) error {
	before := *p
	*p = n
	return o.valid(typed, func() { *p = before })
}

func (o *runFlags) valid(typed string, undo func()) error {
	err := o.params.Validate()
	var e *sample.ParamError
	if errors.As(err, &e) {
		undo()
		return rangeError{typed, e.Allowed}
	}
	return err
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// parseBias reads llama.cpp's TOKEN_ID(+/-)BIAS.
func parseBias(s string) (sample.Bias, error) {
	allowed := rangeError{s, "a token id, then + or - and a number or inf: 15043+1, 15043-inf"}
	i := strings.IndexAny(s, "+-")
	if i <= 0 {
		return sample.Bias{}, allowed
	}
	id, err := strconv.ParseInt(s[:i], 10, 32)
	x, err2 := strconv.ParseFloat(s[i:], 64)
	if err != nil || err2 != nil || id < 0 || math.IsNaN(x) || math.IsInf(x, 1) {
		return sample.Bias{}, allowed
	}
	return sample.Bias{ID: int32(id), Value: x}, nil
}

// parseObject reads a JSON object, its order kept.
func parseObject(s string) (jinja.Object, error) {
	d := json.NewDecoder(strings.NewReader(s))
	bad := rangeError{s, "a JSON object"}
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, bad
	}
	object := jinja.Object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, bad
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, bad
		}
		object = append(object, jinja.Member{Key: key.(string), Value: raw})
	}
	if _, err := d.Token(); err != nil {
		return nil, bad
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad
	}
	return object, nil
}

// maxPromptBytes bounds what is read from a file or a pipe: more than any context holds.
const maxPromptBytes = 64 << 20

// read gives the prompt.
func (p *promptFlags) read(a *app) (string, error) {
	given := p.set.given
	switch {
	case given("-p") && given("-f"):
		return "", usagef("-p and -f exclude each other")
	case given("-p"):
		if p.escape {
			return unescape(p.text), nil
		}
		return p.text, nil
	case given("-f") && p.file != "-":
		text, err := a.readFile("-f", p.file)
		return chomp(text), err
	case isTerminal(a.stdin):
		return "", usagef("no prompt: give -p TEXT, -f FILE or pipe text; %s --help says more", p.set.cmd.CommandPath())
	}
	text, err := a.readStdin()
	if err == nil && text == "" && !given("-f") {
		return "", usagef("no prompt: give -p TEXT or -f FILE, or pipe text (standard input is empty)")
	}
	return chomp(text), err
}

// readFile gives the text of a file that a flag names.
func (a *app) readFile(flag, path string) (string, error) {
	return a.await(func() (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		defer f.Close()
		return readText(f, flag+" "+path)
	})
}

// readStdin gives the text that is piped in.
func (a *app) readStdin() (string, error) {
	return a.await(func() (string, error) { return readText(a.stdin, "standard input") })
}

// await waits for a text, or for an interrupt: a pipe may never be written to, nor be opened at its other end.
func (a *app) await(read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-a.ctx.Done():
		return "", a.ctx.Err()
	}
}

func readText(r io.Reader, name string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPromptBytes+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, cause(err))
	}
	if len(data) > maxPromptBytes {
		return "", fmt.Errorf("%s: more than %d bytes, which no context holds", name, maxPromptBytes)
	}
	return string(data), nil
}

// chomp drops one newline at the end, which editors and echo put there.
func chomp(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return strings.TrimSuffix(s, "\r")
}

var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\'`, `'`)

func unescape(s string) string { return escapes.Replace(s) }

// generate is the verb run.
func (a *app) generate(ctx context.Context, o *runFlags) error {
	a.setColor(o.color)
	if err := o.model.check(a); err != nil {
		return err
	}
	switch {
	case o.template.Name != "" && o.template.File != "":
		return usagef("--chat-template and --chat-template-file exclude each other")
	case o.system != "" && o.systemFile != "":
		return usagef("-sys and -sysf exclude each other")
	case o.raw && (o.system != "" || o.systemFile != ""):
		return usagef("--raw has no system message: -sys needs a chat template")
	case o.raw && (o.template.Name != "" || o.template.File != ""):
		return usagef("--raw and a chat template exclude each other")
	}
	prompt, err := o.prompt.read(a)
	if err != nil {
		return err
	}
	if o.systemFile != "" {
		text, err := a.readFile("-sysf", o.systemFile)
		if err != nil {
			return err
		}
		o.system = chomp(text)
	}
	if o.prompt.escape {
		o.system = unescape(o.system)
		for i, s := range o.stop {
			o.stop[i] = unescape(s)
		}
	}
	if o.greedy {
		o.params.Temp = 0
	}
	model, done, err := a.openModel(ctx, &o.model, o.template)
	if err != nil {
		return err
	}
	defer done()
	g, err := model.Generate(ctx, engine.Request{
		Prompt: prompt, Raw: o.raw, System: o.system, Variables: o.templateVars,
		Params: &o.params, MaxTokens: max(0, o.tokens), Stop: o.stop, IgnoreEnd: o.ignoreEnd, ShowSpecial: o.showSpecial,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.model.name(), err)
	}
	for _, w := range g.Warnings() {
		a.warn("%s", w)
	}
	if o.showPrompt {
		a.showPrompt(model, g.Prompt())
	}
	ends := true // with a newline
	for piece, err := range g.Pieces {
		if err != nil {
			a.endLine(ends)
			if ctx.Err() != nil {
				a.timings(o, model, g.Result())
			}
			return err
		}
		if piece.Text == "" {
			continue
		}
		ends = strings.HasSuffix(piece.Text, "\n")
		if _, err := a.stdout.WriteString(piece.Text); err != nil {
			return err
		}
		if err := a.stdout.Flush(); err != nil {
			return err
		}
	}
	a.endLine(ends)
	a.timings(o, model, g.Result())
	return nil
}

// endLine ends the line of the answer where it is on the same terminal as what follows; the answer itself is the same
// bytes wherever it goes.
func (a *app) endLine(ended bool) {
	if !ended && isTerminal(a.stdout.to) && isTerminal(a.stderr) {
		fmt.Fprintln(a.stderr)
	}
}

func (a *app) timings(o *runFlags, m *engine.Model, r engine.Result) {
	if !o.timings {
		return
	}
	why := map[engine.Reason]string{
		engine.ReasonEnd: "end of text", engine.ReasonStop: "stop text", engine.ReasonLength: "-n", engine.ReasonCancel: "interrupted",
	}[r.Reason]
	if r.ContextFull {
		why = fmt.Sprintf("context of %d is full", m.Context())
	}
	seed := ""
	if o.params.Temp > 0 {
		seed = fmt.Sprintf(" | seed %d", r.Seed)
	}
	if r.WhyAll != "" {
		a.note("all logits were copied from the device for each token: %s", r.WhyAll)
	}
	a.note("load %s | prompt %d tokens%s | answer %d tokens%s | stop: %s%s",
		m.LoadTime().Round(time.Millisecond), r.Prompt, rateText(r.PromptRate()), r.Generated, rateText(r.GenerateRate()), why, seed)
}

// rateText is a speed for the timings; the first token comes with the prompt, so a single one has none.
func rateText(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f tok/s", perSecond)
}

// showPrompt lists the prompt's tokens, one a line: id and text.
func (a *app) showPrompt(m *engine.Model, ids []int32) {
	a.note("prompt: %d tokens", len(ids))
	for _, id := range ids {
		a.note("%7d %s", id, strconv.Quote(m.Tokenizer().Piece(id)))
	}
}
