package synth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/gguf"
)

// Options says what to write.
type Options struct {
	Shape  string // a name of Shapes
	Format string // a name of Mixes, in any case
	Layers int    // 0: as many as the real model has; fewer make a smaller file
	Seed   uint64
	// Progress, if not nil, hears how much is written, from 0 to the whole.
	Progress func(doneBytes, totalBytes int64)
}

// Plan is a model before it is written.
type Plan struct {
	Shape         Shape // with the layers asked for
	Mix           Mix
	Tensors       []Tensor // in the file's order
	TensorBytes   int64    // of all tensors
	BytesPerToken int64    // read to generate a token: all tensors, but of the embeddings one row where the output matrix is another
}

// Tensor is a tensor of a plan.
type Tensor struct {
	Name      string
	Type      format.Type
	Dims      []uint64 // ne order
	SizeBytes int64
	values    values
}

// values says what a tensor's elements are: mean + sd*N(0,1), or given.
type values struct {
	mean, sd float64
	given    []float32
}

// New plans a model. The error names what is unknown and what there is.
func New(o Options) (*Plan, error) {
	shape, err := lookup("shape", o.Shape, shapes, func(s Shape) string { return s.Name })
	if err != nil {
		return nil, err
	}
	mix, err := lookup("format", o.Format, mixes, func(m Mix) string { return m.Name })
	if err != nil {
		return nil, err
	}
	if o.Layers < 0 || o.Layers > shape.NumHiddenLayers {
		return nil, fmt.Errorf("layers %d: %s has 1 to %d", o.Layers, shape.Name, shape.NumHiddenLayers)
	}
	if o.Layers > 0 {
		shape.NumHiddenLayers = o.Layers
	}
	return planned(shape, mix)
}

// Of plans a model of any shape, in a format of Mixes: its tensors with their types, for weights that come from elsewhere.
func Of(shape Shape, formatName string) (*Plan, error) {
	mix, err := lookup("format", formatName, mixes, func(m Mix) string { return m.Name })
	if err != nil {
		return nil, err
	}
	return planned(shape, mix)
}

func planned(shape Shape, mix Mix) (*Plan, error) {
	p := &Plan{Shape: shape, Mix: mix}
	if err := p.tensors(); err != nil {
		return nil, err
	}
	return p, nil
}

func lookup[T any](what, name string, all []T, nameOf func(T) string) (T, error) {
	var names []string
	for _, v := range all {
		if strings.EqualFold(nameOf(v), name) {
			return v, nil
		}
		names = append(names, nameOf(v))
	}
	var none T
	return none, fmt.Errorf("%s %q is unknown: there are %s", what, name, strings.Join(names, ", "))
}

// The gains keep a forward pass in range, and attention and the output peaked enough to prefer some tokens over others.
const (
	gainAttention = 1.5 // of attn_q, attn_k
	gainValue     = 1   // of attn_v, attn_output
	gainFFN       = 1.5
	gainOutput    = 2
)

// tensors lists the tensors in llama.cpp's order: what belongs to no layer first, then layer by layer, by name in each.
func (p *Plan) tensors() error {
	s := p.Shape
	t := traits{layers: s.NumHiddenLayers, gqa: s.NumAttentionHeads / s.NumKeyValueHeads, tied: s.TieWordEmbeddings,
		seventyB: s.Arch != "qwen3" && s.NumHiddenLayers == 80}
	vector := func(name string, n int, v values) {
		p.Tensors = append(p.Tensors, Tensor{Name: name, Type: format.F32, Dims: []uint64{uint64(n)}, values: v})
	}
	matrix := func(name string, r role, layer, cols, rows int, gain float64) {
		p.Tensors = append(p.Tensors, Tensor{Name: name, Type: p.Mix.choose(t, r, layer, cols), Dims: []uint64{uint64(cols), uint64(rows)},
			values: values{sd: gain / math.Sqrt(float64(cols))}})
	}
	norm := values{mean: 1, sd: 0.1}
	hidden, q, kv := s.HiddenSize, s.NumAttentionHeads*s.HeadDim, s.NumKeyValueHeads*s.HeadDim
	if !s.TieWordEmbeddings {
		matrix("output.weight", output, 0, hidden, s.VocabSize, gainOutput)
	}
	vector("output_norm.weight", hidden, norm)
	if s.RopeFactor > 0 {
		f := ropeFactors(s)
		vector("rope_freqs.weight", len(f), values{given: f})
	}
	matrix("token_embd.weight", tokenEmbd, 0, hidden, s.VocabSize, gainOutput)
	for l := range s.NumHiddenLayers {
		at := len(p.Tensors)
		b := fmt.Sprintf("blk.%d.", l)
		vector(b+"attn_norm.weight", hidden, norm)
		matrix(b+"attn_q.weight", attnQ, l, hidden, q, gainAttention)
		matrix(b+"attn_k.weight", attnK, l, hidden, kv, gainAttention)
		matrix(b+"attn_v.weight", attnV, l, hidden, kv, gainValue)
		matrix(b+"attn_output.weight", attnOutput, l, q, hidden, gainValue)
		switch s.Arch {
		case "qwen2":
			vector(b+"attn_q.bias", q, values{sd: 0.3})
			vector(b+"attn_k.bias", kv, values{sd: 0.3})
			vector(b+"attn_v.bias", kv, values{sd: 0.1})
		case "qwen3":
			vector(b+"attn_q_norm.weight", s.HeadDim, norm)
			vector(b+"attn_k_norm.weight", s.HeadDim, norm)
		}
		vector(b+"ffn_norm.weight", hidden, norm)
		matrix(b+"ffn_gate.weight", ffnGate, l, hidden, s.IntermediateSize, gainFFN)
		matrix(b+"ffn_up.weight", ffnUp, l, hidden, s.IntermediateSize, gainFFN)
		matrix(b+"ffn_down.weight", ffnDown, l, s.IntermediateSize, hidden, gainFFN)
		slices.SortFunc(p.Tensors[at:], func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		info, _ := format.Lookup(t.Type)
		row, err := info.RowBytes(int(t.Dims[0]))
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		t.SizeBytes = int64(row)
		for _, d := range t.Dims[1:] {
			t.SizeBytes *= int64(d)
		}
		p.TensorBytes += t.SizeBytes
		if t.Name == "token_embd.weight" && !s.TieWordEmbeddings {
			p.BytesPerToken += int64(row)
		} else {
			p.BytesPerToken += t.SizeBytes
		}
	}
	return nil
}

// ropeFactors are the divisors of the rotary frequencies that Llama 3's rope_scaling stands for, for each pair of a head's
// elements: 1 where a wave is short against the original context, the factor where it is long, smoothly between.
func ropeFactors(s Shape) []float32 {
	out := make([]float32, s.HeadDim/2)
	const lowWave, highWave = float64(ropeOriginalPosition) / ropeLowFreqFactor, float64(ropeOriginalPosition) / ropeHighFreqFactor
	for i := range out {
		wave := 2 * math.Pi * math.Pow(float64(s.RopeTheta), float64(2*i)/float64(s.HeadDim))
		switch {
		case wave < highWave:
			out[i] = 1
		case wave > lowWave:
			out[i] = s.RopeFactor
		default:
			smooth := (ropeOriginalPosition/wave - ropeLowFreqFactor) / (ropeHighFreqFactor - ropeLowFreqFactor)
			out[i] = float32(1 / (float64((1-smooth)/float64(s.RopeFactor)) + smooth))
		}
	}
	return out
}

// metadata sets the keys in the order of llama.cpp's converter.
func (p *Plan) metadata(w *gguf.Writer) error {
	s := p.Shape
	set := func(key string, v gguf.Value) { w.Set(key, v) } // a refusal is the writer's to repeat
	u32 := func(key string, v int) { set(key, gguf.Of(uint32(v))) }
	a := s.Arch + "."
	set("general.architecture", gguf.Of(s.Arch))
	set("general.type", gguf.Of("model"))
	set("general.name", gguf.Of("random weights in the shape of "+s.Source))
	u32(a+"block_count", s.NumHiddenLayers)
	u32(a+"context_length", s.MaxPositionEmbeddings)
	u32(a+"embedding_length", s.HiddenSize)
	u32(a+"feed_forward_length", s.IntermediateSize)
	u32(a+"attention.head_count", s.NumAttentionHeads)
	u32(a+"attention.head_count_kv", s.NumKeyValueHeads)
	set(a+"rope.freq_base", gguf.Of(s.RopeTheta))
	set(a+"attention.layer_norm_rms_epsilon", gguf.Of(s.RMSNormEps))
	switch s.Arch {
	case "qwen3":
		u32(a+"attention.key_length", s.HeadDim)
		u32(a+"attention.value_length", s.HeadDim)
	case "llama":
		u32(a+"vocab_size", s.VocabSize)
		u32(a+"rope.dimension_count", s.HeadDim)
	}
	u32("general.file_type", int(p.Mix.FileType))
	u32("general.quantization_version", 2)
	return vocabularies[s.Vocab].metadata(w, s.VocabSize)
}
