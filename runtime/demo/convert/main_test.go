package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/x448/float16"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/demo/corpus"
	"github.com/minfer/minfer/runtime/gguf"
)

const embd, ffn, layers, heads, kvHeads = 256, 512, 3, 4, 2

// weights writes a safetensors file of random weights, as train.py would, and gives the values by name. change may
// damage the head before it is written.
func weights(t *testing.T, change func(head map[string]any)) (path string, values map[string][]float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	values = map[string][]float32{}
	head := map[string]any{"__metadata__": map[string]string{
		"layers": fmt.Sprint(layers), "heads": fmt.Sprint(heads), "kv_heads": fmt.Sprint(kvHeads), "theta": "10000", "eps": "1e-6"}}
	var data []byte
	add := func(name string, shape ...int) {
		from, n, kind := len(data), 1, "F32"
		for _, d := range shape {
			n *= d
		}
		if len(shape) == 2 {
			kind = "F16"
		}
		for range n {
			v := float32(r.NormFloat64() / 16)
			if kind == "F16" {
				h := float16.Fromfloat32(v)
				v = h.Float32()
				data = binary.LittleEndian.AppendUint16(data, h.Bits())
			} else {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
			values[name] = append(values[name], v)
		}
		head[name] = map[string]any{"dtype": kind, "shape": shape, "data_offsets": []int{from, len(data)}}
	}
	add("token_embd.weight", corpus.VocabSize, embd)
	add("output_norm.weight", embd)
	for l := range layers {
		b := fmt.Sprintf("blk.%d.", l)
		kv := embd / heads * kvHeads
		for name, shape := range map[string][]int{
			"attn_norm.weight": {embd}, "ffn_norm.weight": {embd}, "attn_q.bias": {embd}, "attn_k.bias": {kv}, "attn_v.bias": {kv},
			"attn_q.weight": {embd, embd}, "attn_k.weight": {kv, embd}, "attn_v.weight": {kv, embd}, "attn_output.weight": {embd, embd},
			"ffn_gate.weight": {ffn, embd}, "ffn_up.weight": {ffn, embd}, "ffn_down.weight": {embd, ffn},
		} {
			add(b+name, shape...)
		}
	}
	if change != nil {
		change(head)
	}
	text, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "model.safetensors")
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if err := os.WriteFile(path, append(file, data...), 0o666); err != nil {
		t.Fatal(err)
	}
	return path, values
}

func TestConvert(t *testing.T) {
	path, values := weights(t, nil)
	out := filepath.Join(t.TempDir(), "out.gguf")
	if err := convert(path, out, "q4_K_M"); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Tensors) != len(values) {
		t.Errorf("%d tensors, want %d", len(f.Tensors), len(values))
	}
	types := map[string]format.Type{ // llama.cpp's q4_K_M of three layers: q6_K in the last eighth and every third
		"token_embd.weight": format.Q6K, "blk.0.attn_v.weight": format.Q4K, "blk.1.attn_v.weight": format.Q4K, "blk.2.attn_v.weight": format.Q6K,
		"blk.2.ffn_down.weight": format.Q6K, "blk.2.ffn_up.weight": format.Q4K, "output_norm.weight": format.F32, "blk.1.attn_q.bias": format.F32,
	}
	bound := map[format.Type]float64{format.F32: 0, format.Q4K: 0.1, format.Q6K: 0.025} // relative RMS error
	for _, tensor := range f.Tensors {
		if want, ok := types[tensor.Name]; ok && tensor.Type != want {
			t.Errorf("%s is of type %d, want %d", tensor.Name, tensor.Type, want)
		}
		kernels, _ := cpu.For(tensor.Type)
		got := make([]float32, tensor.Elems())
		cols := tensor.Cols()
		for i := range tensor.Rows() {
			kernels.Dequantize(got[i*cols:][:cols], tensor.Row(i))
		}
		var diff, norm float64
		for i, v := range values[tensor.Name] {
			diff += math.Pow(float64(v-got[i]), 2)
			norm += math.Pow(float64(v), 2)
		}
		if e := math.Sqrt(diff / norm); !(e <= bound[tensor.Type]) {
			t.Errorf("%s: relative error %g, want at most %g", tensor.Name, e, bound[tensor.Type])
		}
	}
	if got, _ := f.Meta.Uint("qwen2.attention.head_count_kv"); got != kvHeads {
		t.Errorf("head_count_kv = %d, want %d", got, kvHeads)
	}
	again := filepath.Join(t.TempDir(), "again.gguf")
	if err := convert(path, again, "q4_K_M"); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(out)
	b, _ := os.ReadFile(again)
	if string(a) != string(b) {
		t.Error("converted twice, two files")
	}
}

func TestRefused(t *testing.T) {
	entry := func(head map[string]any, name string) map[string]any { return head[name].(map[string]any) }
	for _, c := range []struct {
		name, want string
		change     func(head map[string]any)
	}{
		{"a missing tensor", "no tensor blk.1.ffn_up.weight", func(h map[string]any) { delete(h, "blk.1.ffn_up.weight") }},
		{"a missing layer", "no tensor blk.3.", func(h map[string]any) { h["__metadata__"].(map[string]string)["layers"] = "4" }},
		{"offsets outside", "lie outside", func(h map[string]any) { entry(h, "output_norm.weight")["data_offsets"] = []int{0, 1 << 40} }},
		{"offsets backwards", "lie outside", func(h map[string]any) { entry(h, "output_norm.weight")["data_offsets"] = []int{8, 4} }},
		{"another type", "of BF16", func(h map[string]any) { entry(h, "output_norm.weight")["dtype"] = "BF16" }},
		{"another shape", "has shape", func(h map[string]any) { entry(h, "blk.0.attn_k.weight")["shape"] = []int{embd, 128} }},
		{"no number", "is not a number", func(h map[string]any) { h["__metadata__"].(map[string]string)["theta"] = "x" }},
		{"another vocabulary", "the corpus has", func(h map[string]any) { entry(h, "token_embd.weight")["shape"] = []int{77, embd} }},
	} {
		path, _ := weights(t, c.change)
		err := convert(path, filepath.Join(t.TempDir(), "out.gguf"), "q4_K_M")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	for _, data := range []string{"", "1234567", "\xff\xff\xff\xff\xff\xff\xff\xff{}", "\x02\x00\x00\x00\x00\x00\x00\x00{}"} {
		if err := os.WriteFile(short, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := convert(short, filepath.Join(t.TempDir(), "out.gguf"), "q4_K_M"); err == nil {
			t.Errorf("%q is taken for a safetensors file", data)
		}
	}
}
