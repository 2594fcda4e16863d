package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/arch"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/op"
	"github.com/minfer/minfer/runtime/token"
)

type inspectFlags struct {
	model modelFlags
	json  bool
	brief bool
}

func (a *app) inspectCommand() *cobra.Command {
	o := &inspectFlags{}
	cmd := &cobra.Command{
		Use:   "inspect [FILE...] [flags]",
		Short: "Show what is in model files",
		Long: `Show what is in a model file: its architecture, sizes by format, metadata and tensors. Of
several files, one line each; a file that cannot be read spoils its own line alone, and
the exit code is 1.`,
		Example: `  minfer-run inspect                     the demo model
  minfer-run inspect model.gguf
  minfer-run inspect *.gguf
  minfer-run inspect model.gguf --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.inspect(args, o) },
	}
	f := a.flags(cmd)
	f.words = "FILE..."
	f.group("Inspection")
	o.model.addPath(f)
	f.yes(&o.brief, "--brief", "one line for each file, of a single one too")
	f.yes(&o.json, "--json", "JSON: an object, or an array of them for several files")
	return cmd
}

// inspection is what there is to say about a file.
type inspection struct {
	File  string `json:"file"`
	Error string `json:"error,omitempty"` // why the file cannot be read; nothing else is set then

	Bytes       int64          `json:"bytes,omitempty"`
	Version     uint32         `json:"gguf_version,omitempty"`
	Parts       int            `json:"parts,omitempty"`
	Alignment   int64          `json:"alignment,omitempty"`
	Arch        string         `json:"architecture,omitempty"`
	Name        string         `json:"name,omitempty"`
	Params      int64          `json:"params,omitempty"`
	TensorBytes int64          `json:"tensor_bytes,omitempty"`
	Formats     []formatShare  `json:"formats,omitempty"`
	Shape       *shape         `json:"shape,omitempty"` // of a model that can be run
	CannotRun   string         `json:"cannot_run,omitempty"`
	Tokenizer   *tokenizerInfo `json:"tokenizer,omitempty"`
	Warnings    []string       `json:"warnings,omitempty"`
	Metadata    []pair         `json:"metadata,omitempty"`
	Tensors     []tensorInfo   `json:"tensors,omitempty"`
}

// formatShare is what the tensors of a format come to.
type formatShare struct {
	Format        string  `json:"format"`
	Tensors       int     `json:"tensors"`
	Params        int64   `json:"params"`
	Bytes         int64   `json:"bytes"`
	BitsPerWeight float64 `json:"bits_per_weight"`
}

// shape is the geometry of a model.
type shape struct {
	Layers    int    `json:"layers"`
	Width     int    `json:"width"`
	Heads     int    `json:"heads"`
	KVHeads   int    `json:"kv_heads"`
	HeadDim   int    `json:"head_dim"`
	FFN       int    `json:"ffn_width"`
	Vocab     int    `json:"vocab"`
	Context   int    `json:"context"`
	Rotary    string `json:"rotary"`
	TiedTable bool   `json:"tied_embeddings"`
	KVBytes   int64  `json:"kv_bytes_per_token"` // in f16
	// KVBytesIn is the same in each type that a cache of the model can have.
	KVBytesIn map[string]int64 `json:"kv_bytes_per_token_in"`
}

type tokenizerInfo struct {
	Model        string `json:"model"`
	PreTokenizer string `json:"pre_tokenizer,omitempty"`
	Tokens       int    `json:"tokens"`
	BOS          string `json:"bos,omitempty"`
	EOS          string `json:"eos,omitempty"`
	ChatTemplate bool   `json:"chat_template"`
}

type pair struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value,omitempty"` // absent for long arrays
	text  string
}

type tensorInfo struct {
	Name   string   `json:"name"`
	Format string   `json:"format"`
	Dims   []uint64 `json:"dims"`
	Bytes  int64    `json:"bytes"`
	Part   int      `json:"part"`
	Offset int64    `json:"offset"`
}

func (a *app) inspect(files []string, o *inspectFlags) error {
	// A model named by the environment stands back behind files named as words.
	if from := a.verbs["inspect"].names["-m"].from; from == fromArgs || from == fromEnv && len(files) == 0 {
		files = append([]string{o.model.path}, files...)
	}
	if len(files) == 0 {
		a.note("no model given: showing the demo model that is built in")
		files = []string{""}
	}
	var found []inspection
	failed := false
	for _, path := range files {
		m := modelFlags{path: path}
		i := inspectFile(&m)
		found = append(found, i)
		if i.Error != "" {
			failed = true
			if len(files) == 1 {
				return fmt.Errorf("%s", i.Error)
			}
		}
		if !o.json && (o.brief || len(files) > 1) {
			a.brief(i)
		}
	}
	var err error
	switch {
	case o.json && len(found) == 1:
		err = a.writeJSON(found[0])
	case o.json:
		err = a.writeJSON(found)
	case !o.brief && len(found) == 1:
		a.describe(&found[0])
	}
	if err == nil && failed {
		return errNo
	}
	return err
}

// brief writes a file's line.
func (a *app) brief(i inspection) {
	if i.Error != "" {
		fmt.Fprintf(a.stdout, "%s: cannot be read: %s\n", i.File, strings.TrimPrefix(oneLine(i.Error), i.File+": "))
		return
	}
	var formats []string
	for _, f := range i.Formats {
		formats = append(formats, f.Format)
	}
	runs := ""
	if i.CannotRun != "" {
		runs = "; cannot be run: " + strings.TrimPrefix(oneLine(i.CannotRun), i.File+": ")
	}
	fmt.Fprintf(a.stdout, "%s: %s, %s parameters, %s (%s)%s\n", i.File, orNone(i.Arch), countText(i.Params), sizeText(i.Bytes), strings.Join(formats, ", "), runs)
}

func orNone(s string) string {
	if s == "" {
		return "no architecture"
	}
	return s
}

// inspectFile reads a file. What cannot be run can still be shown.
func inspectFile(m *modelFlags) inspection {
	i := inspection{File: m.path}
	if m.path == "" {
		i.File = m.name()
	}
	f, err := m.file()
	if err != nil {
		i.Error = err.Error()
		return i
	}
	defer f.Close()
	i.Bytes, i.Version, i.Parts, i.Alignment = f.SizeBytes(), f.Version, len(f.Parts), f.Parts[0].Alignment
	i.Params, i.TensorBytes, i.Formats = params(f), f.TensorBytes(), formatShares(f)
	i.Arch, _ = f.Meta.StringOr("general.architecture", "")
	i.Name, _ = f.Meta.StringOr("general.name", "")
	if g, err := arch.Build(f); err != nil {
		i.CannotRun = err.Error()
	} else {
		i.Shape, i.Warnings = shapeOf(g), append(i.Warnings, g.Notes...)
	}
	if t, err := token.New(f.Meta); err != nil {
		if i.CannotRun == "" {
			i.CannotRun = err.Error()
		}
	} else {
		i.Tokenizer = tokenizerOf(f, t)
		i.Warnings = append(i.Warnings, t.Warnings()...)
	}
	for key, v := range f.Meta.All() {
		p := pair{Key: key, Type: v.TypeString(), text: v.String()}
		if v.Type() != gguf.TypeArray || v.Len() <= 64 {
			p.Value = finite(v)
		}
		i.Metadata = append(i.Metadata, p)
	}
	for _, t := range f.Tensors {
		i.Tensors = append(i.Tensors, tensorInfo{t.Name, t.Type.String(), t.Dims, t.SizeBytes, t.Part, t.Offset})
	}
	return i
}

// finite is a value for JSON, which has no numbers that are not finite.
func finite(v gguf.Value) any {
	x := v.Any()
	if f, ok := v.Float(); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return v.String()
	}
	if _, err := json.Marshal(x); err != nil {
		return v.String()
	}
	return x
}

// params is the number of weights.
func params(f *gguf.File) int64 {
	var n int64
	for _, t := range f.Tensors {
		n += t.Elems()
	}
	return n
}

// formatShares sums the tensors by format, the largest first.
func formatShares(f *gguf.File) []formatShare {
	var shares []formatShare
	for _, t := range f.Tensors {
		name := t.Type.String()
		i := slices.IndexFunc(shares, func(s formatShare) bool { return s.Format == name })
		if i < 0 {
			info, _ := format.Lookup(t.Type)
			shares = append(shares, formatShare{Format: name, BitsPerWeight: info.BitsPerWeight()})
			i = len(shares) - 1
		}
		shares[i].Tensors++
		shares[i].Params += t.Elems()
		shares[i].Bytes += t.SizeBytes
	}
	slices.SortStableFunc(shares, func(a, b formatShare) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	return shares
}

// shapeOf reads the geometry off the graph.
func shapeOf(g *op.Graph) *shape {
	s := &shape{Layers: len(g.KV), Vocab: g.Vocab, Context: g.Context, KVBytes: g.KVBytes(format.F16), KVBytesIn: map[string]int64{}}
	for i, name := range device.KVTypeNames() {
		if _, err := device.CheckSession(g, device.SessionOptions{Context: 1, KVType: device.KVTypes[i]}, 1); err == nil {
			s.KVBytesIn[name] = g.KVBytes(device.KVTypes[i])
		}
	}
	var table, output *op.Weight
	for _, x := range g.Ops {
		switch x := x.(type) {
		case op.Embed:
			s.Width, table = g.Values[x.Out].Width, x.Table
		case op.Attend:
			s.Heads, s.KVHeads, s.HeadDim = x.Heads, x.KVHeads, x.KeyDim
		case op.RoPE:
			s.Rotary = x.Rotary.String()
		case op.SiLUMul:
			s.FFN = g.Values[x.Out].Width
		case op.MatMul:
			if x.Out == g.Logits {
				output = x.Weight
			}
		}
	}
	s.TiedTable = table == output
	return s
}

func tokenizerOf(f *gguf.File, t *token.Tokenizer) *tokenizerInfo {
	i := &tokenizerInfo{Model: t.Model(), PreTokenizer: t.PreTokenizer(), Tokens: t.Len()}
	if id, ok := t.BOS(); ok {
		i.BOS = t.Text(id)
	}
	if id, ok := t.EOS(); ok {
		i.EOS = t.Text(id)
	}
	template, _ := f.Meta.StringOr("tokenizer.chat_template", "")
	i.ChatTemplate = strings.TrimSpace(template) != ""
	return i
}

// describe writes all about a file.
func (a *app) describe(i *inspection) {
	w := a.stdout
	fmt.Fprintf(w, "%s\n", i.File)
	facts := []string{
		"  architecture\t" + orNone(i.Arch),
		"  name\t" + i.Name,
		fmt.Sprintf("  parameters\t%s (%d)", countText(i.Params), i.Params),
		fmt.Sprintf("  file\t%s, GGUF %d, %d part(s), tensors aligned to %d bytes", sizeText(i.Bytes), i.Version, i.Parts, i.Alignment),
	}
	if s := i.Shape; s != nil {
		tied := "a matrix of its own"
		if s.TiedTable {
			tied = "the token table"
		}
		var cache []string
		for _, name := range device.KVTypeNames() {
			if n, ok := s.KVBytesIn[name]; ok {
				cache = append(cache, fmt.Sprintf("%s in %s", sizeText(n), name))
			}
		}
		facts = append(facts,
			fmt.Sprintf("  layers\t%d of width %d, feed-forward %d", s.Layers, s.Width, s.FFN),
			fmt.Sprintf("  attention\t%d heads of %d, %d for keys and values", s.Heads, s.HeadDim, s.KVHeads),
			fmt.Sprintf("  rotary\t%s", s.Rotary),
			fmt.Sprintf("  vocabulary\t%d tokens; output is %s", s.Vocab, tied),
			fmt.Sprintf("  context\t%d tokens; of each the cache takes %s", s.Context, strings.Join(cache, ", ")))
	}
	if t := i.Tokenizer; t != nil {
		pre, template := t.PreTokenizer, "no chat template"
		if pre != "" {
			pre = "/" + pre
		}
		if t.ChatTemplate {
			template = "a chat template"
		}
		facts = append(facts, fmt.Sprintf("  tokenizer\t%s%s, %d tokens, %s", t.Model, pre, t.Tokens, template))
	}
	if i.CannotRun != "" {
		facts = append(facts, "  cannot be run\t"+oneLine(i.CannotRun))
	}
	a.columns(facts...)
	for _, text := range i.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", oneLine(text))
	}
	rows := []string{"  format\ttensors\tparameters\tbytes\tbits/weight"}
	for _, f := range i.Formats {
		rows = append(rows, fmt.Sprintf("  %s\t%d\t%d\t%d\t%.4g", f.Format, f.Tensors, f.Params, f.Bytes, f.BitsPerWeight))
	}
	fmt.Fprintln(w, "\nformats")
	a.columns(rows...)
	fmt.Fprintf(w, "\nmetadata (%d)\n", len(i.Metadata))
	rows = nil
	for _, p := range i.Metadata {
		rows = append(rows, fmt.Sprintf("  %s\t%s\t%s", p.Key, p.Type, oneLine(p.text)))
	}
	a.columns(rows...)
	fmt.Fprintf(w, "\ntensors (%d)\n", len(i.Tensors))
	rows = nil
	for _, t := range i.Tensors {
		rows = append(rows, fmt.Sprintf("  %s\t%s\t%v\t%d bytes", t.Name, t.Format, t.Dims, t.Bytes))
	}
	a.columns(rows...)
}
