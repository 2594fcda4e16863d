package synth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/minfer/minfer/runtime/gguf"
)

// WriteHollow writes a file that opens as the model does, whose matrices are all zero. It is as long as the model, but where the file
// system knows holes it takes no more room than its header: for what asks a model for its shape alone.
func (p *Plan) WriteHollow(ctx context.Context, path string) (err error) {
	w := gguf.NewWriter()
	if err := p.metadata(w); err != nil {
		return err
	}
	for _, t := range p.Tensors {
		source := func(_ context.Context, out io.Writer) error {
			if len(t.Dims) == 1 {
				return t.vector(0, out)
			}
			for left := t.SizeBytes; left > 0; {
				n, err := out.Write(zeros[:min(left, int64(len(zeros)))])
				if err != nil {
					return err
				}
				left -= int64(n)
			}
			return nil
		}
		if err := w.Add(t.Name, t.Type, t.Dims, source); err != nil {
			return err
		}
	}
	size, err := w.SizeBytes()
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := w.Write(ctx, sparse{f}, nil); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Truncate(size)
}

var zeros = make([]byte, 1<<20)

// sparse leaves out what is zero.
type sparse struct{ f *os.File }

func (h sparse) Write(b []byte) (int, error) {
	if len(b) == 0 || len(b) > len(zeros) || !bytes.Equal(b, zeros[:len(b)]) {
		return h.f.Write(b)
	}
	_, err := h.f.Seek(int64(len(b)), io.SeekCurrent)
	return len(b), err
}
