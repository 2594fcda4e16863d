// Command convert makes the demo model's GGUF file of the weights that train.py wrote, quantized by the generated
// kernels. The same weights give the same bytes.
//
//	go run ./runtime/demo/convert -weights model.safetensors -o runtime/demo/demo.gguf [-format q4_K_M]
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"sync"

	"github.com/x448/float16"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/demo/corpus"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/synth"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("convert: ")
	weights := flag.String("weights", "", "model.safetensors that train.py wrote")
	out := flag.String("o", "", "GGUF file to write")
	mix := flag.String("format", "q4_K_M", "format: a file type such as q4_K_M, q8_0, f32")
	flag.Parse()
	if *weights == "" || *out == "" {
		log.Fatal("-weights FILE and -o FILE are needed")
	}
	if err := convert(*weights, *out, *mix); err != nil {
		log.Fatal(err)
	}
}

func convert(weights, out, mix string) error {
	state, err := readSafetensors(weights)
	if err != nil {
		return err
	}
	shape, err := state.shape()
	if err != nil {
		return err
	}
	plan, err := synth.Of(shape, mix)
	if err != nil {
		return err
	}
	w := gguf.NewWriter()
	metadata(w, plan)
	for _, t := range plan.Tensors {
		values, err := state.tensor(t.Name, t.Dims)
		if err != nil {
			return err
		}
		data, err := quantize(t.Type, int(t.Dims[0]), values)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		w.Add(t.Name, t.Type, t.Dims, gguf.Bytes(data)) // a refusal is Write's to repeat
	}
	var file bytes.Buffer
	if err := w.Write(context.Background(), &file, nil); err != nil {
		return err
	}
	if err := os.WriteFile(out, file.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "convert: %s: %d tensors, %d bytes\n", out, len(plan.Tensors), file.Len())
	return nil
}

// vocabulary learns the tokens from the corpus, once.
var vocabulary = sync.OnceValues(func() (t *corpus.Tokenizer, fingerprint string) {
	c := corpus.New()
	t = c.Tokenizer()
	return t, c.Fingerprint(t)
})

func metadata(w *gguf.Writer, plan *synth.Plan) {
	s := plan.Shape
	t, fingerprint := vocabulary()
	u32 := func(key string, v int) { w.Set(key, gguf.Of(uint32(v))) }
	const arch = "qwen2."
	w.Set("general.architecture", gguf.Of("qwen2"))
	w.Set("general.type", gguf.Of("model"))
	w.Set("general.name", gguf.Of("minfer demo"))
	w.Set("general.description", gguf.Of("A very small model of a small world, trained on text that a program wrote; see runtime/demo/README.md."))
	w.Set("general.license", gguf.Of("mit"))
	w.Set(corpus.FingerprintKey, gguf.Of(fingerprint))
	u32(arch+"block_count", s.NumHiddenLayers)
	u32(arch+"context_length", s.MaxPositionEmbeddings)
	u32(arch+"embedding_length", s.HiddenSize)
	u32(arch+"feed_forward_length", s.IntermediateSize)
	u32(arch+"attention.head_count", s.NumAttentionHeads)
	u32(arch+"attention.head_count_kv", s.NumKeyValueHeads)
	w.Set(arch+"rope.freq_base", gguf.Of(s.RopeTheta))
	w.Set(arch+"attention.layer_norm_rms_epsilon", gguf.Of(s.RMSNormEps))
	u32("general.file_type", int(plan.Mix.FileType))
	u32("general.quantization_version", 2)
	types := make([]int32, len(t.Tokens))
	for i := range types {
		types[i] = 1 // normal
		if i >= len(types)-3 {
			types[i] = 3 // control
		}
	}
	w.Set("tokenizer.ggml.model", gguf.Of("gpt2"))
	w.Set("tokenizer.ggml.pre", gguf.Of("qwen2"))
	w.Set("tokenizer.ggml.tokens", gguf.ArrayOf(t.Tokens))
	w.Set("tokenizer.ggml.token_type", gguf.ArrayOf(types))
	w.Set("tokenizer.ggml.merges", gguf.ArrayOf(t.Merges))
	u32("tokenizer.ggml.bos_token_id", int(t.ID(corpus.EndOfText)))
	u32("tokenizer.ggml.eos_token_id", int(t.ID(corpus.ImEnd)))
	u32("tokenizer.ggml.padding_token_id", int(t.ID(corpus.EndOfText)))
	w.Set("tokenizer.ggml.add_bos_token", gguf.Of(false))
	w.Set("tokenizer.chat_template", gguf.Of(corpus.ChatTemplate))
}

func quantize(typ format.Type, cols int, values []float32) ([]byte, error) {
	info, _ := format.Lookup(typ)
	kernels, ok := cpu.For(typ)
	if !ok || kernels.Quantize == nil {
		return nil, fmt.Errorf("no kernel quantizes to %s", info.Name)
	}
	rowBytes, err := info.RowBytes(cols)
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(values)/cols*rowBytes)
	for i := range len(values) / cols {
		kernels.Quantize(out[i*rowBytes:][:rowBytes], values[i*cols:][:cols])
	}
	return out, nil
}

// state is a safetensors file: a JSON head with the place of each tensor, then their bytes.
type state struct {
	path string
	head map[string]json.RawMessage
	meta map[string]string
	data []byte
}

func readSafetensors(path string) (*state, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return nil, fmt.Errorf("%s: not a safetensors file", path)
	}
	n := binary.LittleEndian.Uint64(file)
	s := &state{path: path, data: file[8+n:]}
	if err := json.Unmarshal(file[8:8+n], &s.head); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(s.head["__metadata__"], &s.meta); err != nil {
		return nil, fmt.Errorf("%s: __metadata__: %w", path, err)
	}
	return s, nil
}

func (s *state) entry(name string) (kind string, shape, span []int, err error) {
	var e struct {
		Dtype   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	raw, ok := s.head[name]
	if !ok {
		return "", nil, nil, fmt.Errorf("%s: no tensor %s", s.path, name)
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return "", nil, nil, fmt.Errorf("%s: %s: %w", s.path, name, err)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[0] > e.Offsets[1] || e.Offsets[1] > len(s.data) {
		return "", nil, nil, fmt.Errorf("%s: %s: offsets %v lie outside the file", s.path, name, e.Offsets)
	}
	return e.Dtype, e.Shape, e.Offsets, nil
}

// tensor reads a tensor of dims (ne order) as f32.
func (s *state) tensor(name string, dims []uint64) ([]float32, error) {
	kind, shape, span, err := s.entry(name)
	if err != nil {
		return nil, err
	}
	elems := 1
	for i, d := range dims {
		if len(shape) != len(dims) || shape[len(dims)-1-i] != int(d) {
			return nil, fmt.Errorf("%s: %s has shape %v, want %v reversed", s.path, name, shape, dims)
		}
		elems *= int(d)
	}
	data := s.data[span[0]:span[1]]
	width := map[string]int{"F16": 2, "F32": 4}[kind]
	if width == 0 || len(data) != elems*width {
		return nil, fmt.Errorf("%s: %s: %d bytes of %s for %d elements", s.path, name, len(data), kind, elems)
	}
	out := make([]float32, elems)
	for i := range out {
		if width == 2 {
			out[i] = float16.Frombits(binary.LittleEndian.Uint16(data[2*i:])).Float32()
		} else {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	return out, nil
}

// shape is the geometry of the model, from its tensors and from what train.py noted.
func (s *state) shape() (synth.Shape, error) {
	_, embd, _, err := s.entry("token_embd.weight")
	if err != nil {
		return synth.Shape{}, err
	}
	_, gate, _, err := s.entry("blk.0.ffn_gate.weight")
	if err != nil {
		return synth.Shape{}, err
	}
	if len(embd) != 2 || len(gate) != 2 {
		return synth.Shape{}, fmt.Errorf("%s: token_embd.weight %v, blk.0.ffn_gate.weight %v: matrices are needed", s.path, embd, gate)
	}
	number := func(key string) float64 {
		v, e := strconv.ParseFloat(s.meta[key], 64)
		if e != nil && err == nil {
			err = fmt.Errorf("%s: __metadata__: %s: %q is not a number", s.path, key, s.meta[key])
		}
		return v
	}
	out := synth.Shape{
		Name: "demo", Arch: "qwen2", HiddenSize: embd[1], VocabSize: embd[0], IntermediateSize: gate[0],
		NumHiddenLayers: int(number("layers")), NumAttentionHeads: int(number("heads")), NumKeyValueHeads: int(number("kv_heads")),
		RopeTheta: float32(number("theta")), RMSNormEps: float32(number("eps")),
		MaxPositionEmbeddings: corpus.RowElems, TieWordEmbeddings: true,
	}
	if err == nil && (out.NumAttentionHeads < 1 || out.VocabSize != corpus.VocabSize) {
		err = fmt.Errorf("%s: %d heads, %d tokens: the corpus has %d tokens", s.path, out.NumAttentionHeads, out.VocabSize, corpus.VocabSize)
	}
	if err != nil {
		return out, err
	}
	out.HeadDim = out.HiddenSize / out.NumAttentionHeads
	return out, nil
}
