package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/demo"
	"github.com/minfer/minfer/runtime/device"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/gguf"
)

// modelFlags are what every verb that runs a model takes.
type modelFlags struct {
	path      string
	device    string
	threads   int
	context   int
	batch     int
	precision string
	keys      string
	values    string
}

// The largest numbers that make any sense; what a model or machine allows is less.
const (
	maxThreads = 1024
	maxContext = 1 << 24
	maxBatch   = 1 << 16
)

func (m *modelFlags) add(f *flagSet) {
	m.path, m.device = "", "cpu"
	f.group("Model")
	m.addPath(f)
	dev := f.text(&m.device, "-dev, --device", "NAME", "what computes: cpu; cuda or cuda:N (a GPU, in a build with it); emu (kernels for GPUs on this machine: slow); see --list-devices").orEnv("LLAMA_ARG_DEVICE")
	f.complete(dev, device.Kinds())
	f.integer(&m.threads, 1, maxThreads, nil, "-t, --threads", "N", "threads of the CPU; one for each core, if not given").orEnv("LLAMA_ARG_THREADS")
	f.integer(&m.batch, 1, maxBatch, nil, "-b, --batch-size", "N", "prompt tokens computed at a time; the device's choice, if not given").orEnv("LLAMA_ARG_BATCH")
	m.addNumeric(f)
}

// addNumeric is for verbs that compute, or plan to: what is rounded to what.
func (m *modelFlags) addNumeric(f *flagSet) {
	m.precision, m.keys, m.values = string(device.Q8), device.KVTypeNames()[0], device.KVTypeNames()[0]
	f.choice(&m.precision, precisions(), "--precision", "CLASS", "activations in products with quantized weights: q8 (8 bits, a scale for each 32; bf16 where a GPU multiplies many tokens on tensor cores), f32, or auto (as measured on the device's kind, matrix by matrix)")
	f.choice(&m.keys, device.KVTypeNames(), "-ctk, --cache-type-k", "TYPE", "numbers in the cache of keys: f16, f32, or q8_0 (8 bits, a scale for each 32: about half of f16)").orEnv("LLAMA_ARG_CACHE_TYPE_K")
	f.choice(&m.values, device.KVTypeNames(), "-ctv, --cache-type-v", "TYPE", "the same of values; both must be alike").orEnv("LLAMA_ARG_CACHE_TYPE_V")
}

// checkNumeric refuses what addNumeric's flags admit one by one.
func (m *modelFlags) checkNumeric() error {
	if m.keys != m.values {
		return usagef("-ctk %s and -ctv %s differ: keys and values have one type here; give both", m.keys, m.values)
	}
	return nil
}

// precisions is the values of --precision.
func precisions() (all []string) {
	for _, p := range device.Precisions {
		all = append(all, string(p))
	}
	return all
}

func (m *modelFlags) addPath(f *flagSet) {
	f.add("-m, --model", "FILE", "GGUF file; any part of a split model opens all of it. Without -m: the demo model that is built in", &value{parse: func(s string) error {
		if s == "" {
			return rangeError{s, "a file; without -m the demo model is used"}
		}
		m.path = s
		return nil
	}}).orEnv("LLAMA_ARG_MODEL")
}

// addContext is for verbs whose context is the user's choice.
func (m *modelFlags) addContext(f *flagSet) {
	f.integer(&m.context, 2, maxContext, map[int]string{0: fmt.Sprintf("what the model was trained for, at most %d", engine.DefaultContext)},
		"-c, --ctx-size", "N", fmt.Sprintf("tokens of prompt and answer together; 0: what the model was trained for, at most %d", engine.DefaultContext)).orEnv("LLAMA_ARG_CTX_SIZE")
}

// check refuses what can be refused before the model is opened.
func (m *modelFlags) check(a *app) error {
	if err := m.checkNumeric(); err != nil {
		return err
	}
	if _, err := device.Open(m.device); err != nil {
		return usagef("--device: %v", err)
	}
	if m.device != "cpu" {
		a.checkSwitches()
	}
	return nil
}

// options for engine.Open.
func (m *modelFlags) options() engine.Options {
	return engine.Options{Device: m.device, Context: m.context, Threads: m.threads, Batch: m.batch, KVType: m.keys, Precision: device.Precision(m.precision)}
}

// file opens the model file, or the demo model.
func (m *modelFlags) file() (*gguf.File, error) {
	if m.path == "" {
		return demo.Open()
	}
	return gguf.Open(m.path)
}

// name is the model's for messages and reports.
func (m *modelFlags) name() string {
	if m.path == "" {
		return demo.Name
	}
	return filepath.Base(m.path)
}

// openModel opens the model, with a progress bar on a terminal where it is large.
func (a *app) openModel(ctx context.Context, m *modelFlags, choice chat.Choice) (*engine.Model, func() error, error) {
	if m.path == "" {
		a.note("no model given (-m): using the demo model that is built in")
	}
	f, err := m.file()
	if err != nil {
		return nil, nil, err
	}
	o := m.options()
	o.ChatTemplate = choice
	bar := a.loadBar(m.name(), f.TensorBytes())
	o.Progress = bar.set
	model, err := engine.OpenFile(ctx, f, o)
	bar.end()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	for _, w := range model.Warnings() {
		a.warn("%s", w)
	}
	return model, func() error { return errors.Join(model.Close(), f.Close()) }, nil
}

// largeBytes is the size from which loading is worth a progress bar.
const largeBytes = 256 << 20

// progress is a bar on stderr, or nothing.
type progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

// loadBar begins a bar, on a terminal that can draw one.
func (a *app) loadBar(name string, totalBytes int64) *progress {
	if totalBytes < largeBytes || !isTerminal(a.stderr) || a.dumb() {
		return &progress{}
	}
	return newBar(a.stderr, name, totalBytes)
}

func newBar(w io.Writer, name string, totalBytes int64) *progress {
	p := &progress{container: mpb.New(mpb.WithOutput(w), mpb.WithWidth(64), mpb.WithRefreshRate(100*time.Millisecond))}
	p.bar = p.container.AddBar(totalBytes,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f")))
	return p
}

func (p *progress) set(done, total int64) {
	if p.bar != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(done)
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.container.Wait()
	}
}
