// Package archtest makes small models of random weights in memory, for tests. They are the same on every run.
package archtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/gguf"
)

// Model describes a model. The zero value is not usable; start from Small.
type Model struct {
	Arch                            string
	Layers, Embd, FF, Heads, KV, HD int
	Vocab, Context                  int
	Tied                            bool
	Seed                            uint64
	// Quantize is the type of the matrices whose rows are whole blocks of it, rounded by the generated kernels.
	Quantize format.Type

	Set    map[string]gguf.Value    // metadata to add or replace; keys in full
	Unset  []string                 // metadata to leave out
	Drop   []string                 // tensors to leave out
	Tensor map[string]TensorOptions // changes by tensor name; an unknown name adds a tensor
}

// TensorOptions change one tensor.
type TensorOptions struct {
	Dims []int               // instead of its own
	Type format.Type         // F32, or any type whose bytes Data gives
	Data []byte              // instead of random numbers
	Each func(i int) float32 // instead of random numbers, for F32
}

// Small is a model of an architecture, in f32.
func Small(arch string) Model {
	return Model{Arch: arch, Layers: 2, Embd: 64, FF: 96, Heads: 4, KV: 2, HD: 16, Vocab: 50, Context: 128, Seed: 1,
		Set: map[string]gguf.Value{}, Tensor: map[string]TensorOptions{}}
}

type tensor struct {
	name     string
	mean, sd float64
	dims     []int
}

// Tensors lists the tensors' names in the order of the file, for tests that walk over them.
func (m Model) Tensors() []string {
	var names []string
	for _, t := range m.tensors() {
		names = append(names, t.name)
	}
	return names
}

func (m Model) tensors() []tensor {
	matrix := func(name string, in, out int, gain float64) tensor {
		return tensor{name, 0, gain / math.Sqrt(float64(in)), []int{in, out}}
	}
	ts := []tensor{matrix("token_embd.weight", m.Embd, m.Vocab, 1), {"output_norm.weight", 1, 0.1, []int{m.Embd}}}
	if !m.Tied {
		ts = append(ts, matrix("output.weight", m.Embd, m.Vocab, 2))
	}
	for l := range m.Layers {
		b := fmt.Sprintf("blk.%d.", l)
		q, kv := m.Heads*m.HD, m.KV*m.HD
		ts = append(ts, tensor{b + "attn_norm.weight", 1, 0.1, []int{m.Embd}},
			matrix(b+"attn_q.weight", m.Embd, q, 1.5), matrix(b+"attn_k.weight", m.Embd, kv, 1.5), matrix(b+"attn_v.weight", m.Embd, kv, 1))
		switch m.Arch {
		case "qwen2":
			ts = append(ts, tensor{b + "attn_q.bias", 0, 0.3, []int{q}}, tensor{b + "attn_k.bias", 0, 0.3, []int{kv}}, tensor{b + "attn_v.bias", 0, 0.1, []int{kv}})
		case "qwen3":
			ts = append(ts, tensor{b + "attn_q_norm.weight", 1, 0.1, []int{m.HD}}, tensor{b + "attn_k_norm.weight", 1, 0.1, []int{m.HD}})
		}
		ts = append(ts, matrix(b+"attn_output.weight", q, m.Embd, 1), tensor{b + "ffn_norm.weight", 1, 0.1, []int{m.Embd}},
			matrix(b+"ffn_gate.weight", m.Embd, m.FF, 1.5), matrix(b+"ffn_up.weight", m.Embd, m.FF, 1.5), matrix(b+"ffn_down.weight", m.FF, m.Embd, 1.5))
	}
	return ts
}

// Bytes is the model as a GGUF file.
func (m Model) Bytes() ([]byte, error) {
	w := gguf.NewWriter()
	p := m.Arch + "."
	pairs := map[string]gguf.Value{
		"general.architecture":                 gguf.Of(m.Arch),
		"general.name":                         gguf.Of("archtest"),
		p + "block_count":                      gguf.Of(uint32(m.Layers)),
		p + "context_length":                   gguf.Of(uint32(m.Context)),
		p + "embedding_length":                 gguf.Of(uint32(m.Embd)),
		p + "feed_forward_length":              gguf.Of(uint32(m.FF)),
		p + "attention.head_count":             gguf.Of(uint32(m.Heads)),
		p + "attention.head_count_kv":          gguf.Of(uint32(m.KV)),
		p + "attention.layer_norm_rms_epsilon": gguf.Of(float32(1e-6)),
		p + "rope.freq_base":                   gguf.Of(float32(1e4)),
	}
	if m.Heads*m.HD != m.Embd {
		pairs[p+"attention.key_length"], pairs[p+"attention.value_length"] = gguf.Of(uint32(m.HD)), gguf.Of(uint32(m.HD))
	}
	maps.Copy(pairs, m.Set)
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if slices.Contains(m.Unset, key) {
			continue
		}
		if err := w.Set(key, pairs[key]); err != nil {
			return nil, err
		}
	}
	ts := m.tensors()
	known := m.Tensors()
	for _, name := range slices.Sorted(maps.Keys(m.Tensor)) {
		if !slices.Contains(known, name) {
			ts = append(ts, tensor{name: name, sd: 1})
		}
	}
	rng := rand.New(rand.NewPCG(m.Seed, 7))
	for _, t := range ts {
		o := m.Tensor[t.name]
		dims := t.dims
		if o.Dims != nil {
			dims = o.Dims
		}
		n, ne := 1, make([]uint64, len(dims))
		for i, d := range dims {
			n *= d
			ne[i] = uint64(d)
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(t.mean + t.sd*rng.NormFloat64()) // drawn even where it is not used: other tensors keep theirs
			if o.Each != nil {
				x[i] = o.Each(i)
			}
		}
		if slices.Contains(m.Drop, t.name) {
			continue
		}
		typ := o.Type
		if typ == format.F32 && o.Data == nil && o.Each == nil && len(dims) == 2 {
			if info, ok := format.Lookup(m.Quantize); ok && dims[0]%info.BlockElems == 0 {
				typ = m.Quantize
			}
		}
		data := o.Data
		if data == nil {
			var err error
			if data, err = Encode(typ, dims[0], x); err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
		}
		if err := w.Add(t.name, typ, ne, gguf.Bytes(data)); err != nil {
			return nil, err
		}
	}
	return w.Marshal()
}

// Encode is numbers as rows of a type: f32, or one that the generated kernels round to.
func Encode(typ format.Type, cols int, x []float32) ([]byte, error) {
	info, ok := format.Lookup(typ)
	k, known := cpu.For(typ)
	if !ok || !known || typ != format.F32 && k.Quantize == nil {
		return nil, fmt.Errorf("no rounding to type %d", typ)
	}
	rowBytes, err := info.RowBytes(cols)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, len(x)/cols*rowBytes)
	for ; len(x) > 0; x = x[cols:] {
		row := make([]byte, rowBytes)
		if typ == format.F32 {
			for i, f := range x[:cols] {
				binary.LittleEndian.PutUint32(row[4*i:], math.Float32bits(f))
			}
		} else {
			k.Quantize(row, x[:cols])
		}
		data = append(data, row...)
	}
	return data, nil
}

// File is the model parsed.
func (m Model) File() (*gguf.File, error) {
	b, err := m.Bytes()
	if err != nil {
		return nil, err
	}
	return gguf.Parse("archtest.gguf", b)
}
