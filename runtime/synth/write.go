package synth

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/minfer/minfer/runtime/gguf"
)

// Write plans a model and writes it to a path. It holds some megabytes in memory however large the model is. The
// file appears whole or not at all; the context ends the writing early.
func Write(ctx context.Context, path string, o Options) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	w, err := p.Writer(o.Seed)
	if err != nil {
		return err
	}
	size, err := w.SizeBytes()
	if err != nil {
		return err
	}
	if err := fits(path, size); err != nil {
		return err
	}
	return w.WriteFile(ctx, path, o.Progress)
}

// fits refuses a file larger than what the disk has room for, where the system says how much that is.
func fits(path string, size int64) error {
	dir := filepath.Dir(path)
	if free, ok := freeBytes(dir); ok && free < size {
		return fmt.Errorf("%s: the model takes %s and the disk of %s has %s free", path, bytesText(size), dir, bytesText(free))
	}
	return nil
}

// Writer is the model ready to be written, its weights drawn from a seed while it is written.
func (p *Plan) Writer(seed uint64) (*gguf.Writer, error) {
	w := gguf.NewWriter()
	if err := p.metadata(w); err != nil {
		return nil, err
	}
	return w, p.weights(w, seed)
}

// weights adds the tensors.
func (p *Plan) weights(w *gguf.Writer, seed uint64) error {
	made := &pools{seed: seed, made: map[poolKey]*pool{}}
	for _, t := range p.Tensors {
		source := func(ctx context.Context, out io.Writer) error {
			if len(t.Dims) == 1 {
				return t.vector(seed, out)
			}
			pool, err := made.get(t.Type, t.values.sd)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			return pool.source(stream(seed, t.Name), int(t.Dims[0]), t.SizeBytes)(ctx, out)
		}
		if err := w.Add(t.Name, t.Type, t.Dims, source); err != nil {
			return err
		}
	}
	return nil
}

// vector writes a tensor of f32.
func (t Tensor) vector(seed uint64, out io.Writer) error {
	rng := stream(seed, t.Name)
	b := make([]byte, 0, t.SizeBytes)
	for i := range t.Dims[0] {
		v := float32(t.values.mean + float64(t.values.sd*gaussian(rng)))
		if t.values.given != nil {
			v = t.values.given[i]
		}
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	_, err := out.Write(b)
	return err
}

// bytesText prints a size for a person.
func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}
