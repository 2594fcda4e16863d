package gguf

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
)

// raw builds a header byte by byte, with no care for what it means: what the Writer refuses to make.
type raw struct{ b []byte }

func head(tensors, pairs uint64) *raw {
	r := &raw{[]byte(magic)}
	return r.u32(3).u64(tensors).u64(pairs)
}
func (r *raw) u8(v ...byte) *raw { r.b = append(r.b, v...); return r }
func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.u64(uint64(len(s))); r.b = append(r.b, s...); return r }
func (r *raw) key(s string, t ValueType) *raw {
	return r.str(s).u32(uint32(t))
}
func (r *raw) tensor(name string, t format.Type, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// data pads the header and appends n bytes of tensors.
func (r *raw) data(n int) *raw {
	r.b = append(r.b, make([]byte, -len(r.b)&31)...)
	r.b = append(r.b, make([]byte, n)...)
	return r
}

// outcome is what a file must lead to: kind nil means that it is read.
type outcome struct {
	kind error
	says []string // what the one sentence must name: field, value, offset, what is allowed
}

const (
	mostTime  = 20 * time.Second // what is quadratic or waits takes longer; what is well does not, on a slow or an emulated CPU either
	mostBytes = 100 << 20
)

// parseWithin parses and holds the limits on time and memory, on any outcome.
func parseWithin(t *testing.T, name string, data []byte) (*File, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f, err := Parse(name, data)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > mostTime {
		t.Errorf("took %v", took)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > mostBytes {
		t.Errorf("allocated %d bytes for a file of %d", n, len(data))
	}
	return f, err
}

func check(t *testing.T, data []byte, want outcome) *File {
	t.Helper()
	f, err := parseWithin(t, "model.gguf", data)
	if want.kind == nil {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return f
	}
	if !errors.Is(err, want.kind) {
		t.Fatalf("got error %v, want one of kind %v", err, want.kind)
	}
	var e *Error
	if !errors.As(err, &e) || e.File != "model.gguf" {
		t.Fatalf("error %#v does not name the file", err)
	}
	for _, s := range append(want.says, "model.gguf: ") {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\x00\x1b") || len(err.Error()) > 400 {
		t.Errorf("error %q is not one line for a person", err)
	}
	return nil
}

// seeded makes test bytes.
func seeded(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
