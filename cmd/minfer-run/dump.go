package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/demo"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/gguf"
)

// The files of a dump.
const (
	logitsFile = "logits.f32" // steps x n_vocab, f32, little-endian
	dumpFile   = "dump.json"
)

// dump is DIR/dump.json.
type dump struct {
	Model        string         `json:"model"`
	ModelBytes   int64          `json:"model_bytes"`
	ModelSHA256  []string       `json:"model_sha256"` // of each part
	Arch         string         `json:"architecture"`
	Prompt       string         `json:"prompt"`
	PromptTokens []int32        `json:"prompt_tokens"`
	GreedyTokens []int32        `json:"greedy_tokens"`
	Steps        int            `json:"steps"`
	Vocab        int            `json:"n_vocab"`
	Device       string         `json:"device"`
	Precision    string         `json:"precision"`
	KVType       string         `json:"kv_type"`
	Routes       []device.Route `json:"routes"`
	Version      string         `json:"version"`
}

type dumpFlags struct {
	model  modelFlags
	prompt promptFlags
	steps  int
	dir    string
}

func (a *app) dumpCommand() *cobra.Command {
	o := &dumpFlags{}
	cmd := &cobra.Command{
		Use:   "dump -o DIR [flags]",
		Short: "Write the logits of a greedy run to files",
		Long: `Feed a raw prompt and then, step by step, the most likely token. DIR/logits.f32 gets the
logits of each step (steps x n_vocab numbers, f32, little-endian), DIR/dump.json the
tokens, the kernel of every matrix, and what they were computed with.`,
		Example: `  minfer-run dump -m model.gguf -p "Hello world" -n 1 -o a
  minfer-run dump -m model.gguf -p "Hello world" -n 1 -o b --precision f32
  minfer-run compare a b --tolerance 0.5`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.dump(cmd.Context(), o) },
	}
	f := a.flags(cmd)
	f.group("Dump")
	o.prompt.add(f, "the prompt, taken as it is: control markers become control tokens")
	o.steps = 1
	f.integer(&o.steps, 1, maxContext, nil, "-n, --predict, --n-predict", "N", "steps; the first has the logits after the prompt")
	f.text(&o.dir, "-o, --output", "DIR", "folder to write to; it is made if it is not there")
	o.model.addContext(f)
	o.model.add(f)
	return cmd
}

func (a *app) dump(ctx context.Context, o *dumpFlags) error {
	if err := o.model.check(a); err != nil {
		return err
	}
	if o.dir == "" {
		return usagef("dump needs a folder: -o DIR")
	}
	prompt, err := o.prompt.read(a)
	if err != nil {
		return err
	}
	model, done, err := a.openModel(ctx, &o.model, chat.Choice{})
	if err != nil {
		return err
	}
	defer done()
	ids, warnings, err := model.Encode(ctx, engine.Request{Prompt: prompt, Raw: true})
	if err != nil {
		return fmt.Errorf("%s: %w", o.model.name(), err)
	}
	for _, w := range warnings {
		a.warn("%s", w)
	}
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return err
	}
	d := dump{Model: o.model.name(), ModelBytes: model.File().SizeBytes(), Arch: model.Graph().Arch, Prompt: prompt, PromptTokens: ids, Steps: o.steps,
		Vocab: model.Graph().Vocab, Device: model.DeviceName(), Precision: o.model.precision, KVType: model.KVType(), Routes: model.Routes(), Version: version()}
	if d.ModelSHA256, err = hashModel(ctx, &o.model, model.File()); err != nil {
		return err
	}
	// A dump of an earlier run must not be taken for this one's if this one fails.
	if err := os.Remove(filepath.Join(o.dir, dumpFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = writeWhole(filepath.Join(o.dir, logitsFile), func(w io.Writer) error {
		var row []byte
		return model.Greedy(ctx, ids, o.steps, func(step int, logits []float32, id int32) error {
			row = row[:0]
			for _, l := range logits {
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(l))
			}
			d.GreedyTokens = append(d.GreedyTokens, id)
			_, err := w.Write(row)
			return err
		})
	})
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(o.dir, dumpFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(d)
	})
}

// writeWhole writes a file that appears whole or not at all.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// hashModel is the SHA-256 of each part of a model.
func hashModel(ctx context.Context, m *modelFlags, f *gguf.File) ([]string, error) {
	if m.path == "" {
		sum := sha256.Sum256(demo.Bytes())
		return []string{hex.EncodeToString(sum[:])}, nil
	}
	var sums []string
	for _, p := range f.Parts {
		sum, err := hashFile(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
	}
	return sums, nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buffer := make([]byte, 1<<20)
	for {
		n, err := f.Read(buffer)
		h.Write(buffer[:n])
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", err
		}
	}
}
