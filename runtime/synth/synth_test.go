package synth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/cpu"
	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/gguf"
	"github.com/minfer/minfer/runtime/token"
)

// tiny is a shape of every kind of row: a multiple of 256, and not.
func tiny(t testing.TB, arch, vocab, mix string) *Plan {
	t.Helper()
	i := slices.IndexFunc(mixes, func(m Mix) bool { return m.Name == mix })
	if i < 0 {
		t.Fatalf("no mix %q", mix)
	}
	p := &Plan{Mix: mixes[i], Shape: Shape{Name: "tiny", Source: "nothing", Arch: arch, Vocab: vocab, HiddenSize: 1024, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 256, IntermediateSize: 192, VocabSize: vocabularies[vocab].from + 100,
		MaxPositionEmbeddings: 4096, RopeTheta: 1e4, RMSNormEps: 1e-6}}
	if arch == "llama" {
		p.Shape.RopeFactor = 8
	}
	must(t, p.tensors())
	return p
}

// TestEveryMix writes a small model in every file type, and holds the weights of each matrix to the magnitude they stand for,
// and its rows to being different from each other.
func TestEveryMix(t *testing.T) {
	for _, m := range mixes {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			p := tiny(t, "qwen2", "qwen2.5", m.Name)
			p.Shape.VocabSize = 512 // the tokens are another test's
			p.Tensors, p.TensorBytes, p.BytesPerToken = nil, 0, 0
			must(t, p.tensors())
			f := read(t, p, 1)
			for i, tensor := range f.Tensors {
				want := p.Tensors[i]
				if tensor.Name != want.Name || tensor.Type != want.Type || !slices.Equal(tensor.Dims, want.Dims) || tensor.SizeBytes != want.SizeBytes {
					t.Fatalf("tensor %d is %v of %d bytes, want %v", i, tensor, tensor.SizeBytes, want)
				}
				x := floats(t, tensor)
				mean, sd := moments(x)
				n := float64(len(x))
				// 6 sigma for independent deviates; runs of a pool are not, nor are codebook weights normal.
				if math.Abs(mean-want.values.mean) > 0.15*want.values.sd+6*want.values.sd/math.Sqrt(n) || math.Abs(sd/want.values.sd-1) > 0.12+4/math.Sqrt(n) {
					t.Errorf("%v: mean %.4g, standard deviation %.4g, want %.4g and %.4g", tensor, mean, sd, want.values.mean, want.values.sd)
				}
				rows := map[string]int{}
				for r := range tensor.Rows() {
					if other, ok := rows[string(tensor.Row(r))]; ok {
						t.Fatalf("%v: rows %d and %d are alike", tensor, other, r)
					}
					rows[string(tensor.Row(r))] = r
				}
			}
			if f.TensorBytes() != p.TensorBytes {
				t.Errorf("%d bytes of tensors, want %d", f.TensorBytes(), p.TensorBytes)
			}
		})
	}
}

// read writes a plan's model to memory and reads it.
func read(t testing.TB, p *Plan, seed uint64) *gguf.File {
	t.Helper()
	w := gguf.NewWriter()
	must(t, p.weights(w, seed))
	b, err := w.Marshal()
	must(t, err)
	f, err := gguf.Parse("synth.gguf", b)
	must(t, err)
	return f
}

func floats(t testing.TB, tensor *gguf.Tensor) []float32 {
	t.Helper()
	k, ok := cpu.For(tensor.Type)
	if !ok {
		t.Fatalf("no kernels for %v", tensor)
	}
	x := make([]float32, tensor.Elems())
	k.Dequantize(x, tensor.Data())
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			t.Fatalf("%v: element %d is %v", tensor, i, v)
		}
	}
	return x
}

func moments(x []float32) (mean, sd float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		sd += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, math.Sqrt(sd / float64(len(x)))
}

// TestSmallestModel writes one layer of the smallest real shape to a file, and holds it to what the real model has.
func TestSmallestModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	var last, total int64
	o := Options{Shape: "qwen2.5-0.5b", Format: "Q4_K_M", Layers: 1, Seed: 7, Progress: func(d, n int64) {
		if d < last {
			t.Errorf("progress falls from %d to %d", last, d)
		}
		last, total = d, n
	}}
	must(t, Write(t.Context(), path, o))
	info, err := os.Stat(path)
	must(t, err)
	if last != info.Size() || total != info.Size() {
		t.Errorf("progress ended at %d of %d bytes, the file has %d", last, total, info.Size())
	}
	f, err := gguf.Open(path)
	must(t, err)
	defer f.Close()
	p, err := New(o)
	must(t, err)
	// The arithmetic by hand: 896 is no multiple of 256, so q4_K falls back to q5_0 and q6_K to q8_0; 4864 is one.
	const q50, q80, q6k = 22, 34, 210
	row := int64(896 / 32)
	want := int64(151936)*row*q80 + // token_embd, the output matrix too
		row*q50*(896+128+896+2*4864) + // attn_q, attn_k, attn_output, ffn_gate, ffn_up
		row*q80*128 + // attn_v
		4864/256*q6k*896 + // ffn_down
		4*(3*896+896+2*128) // norms and biases
	if f.TensorBytes() != want || p.TensorBytes != want || p.BytesPerToken != want {
		t.Errorf("tensors have %d bytes, planned %d, %d a token, want %d", f.TensorBytes(), p.TensorBytes, p.BytesPerToken, want)
	}
	for key, want := range map[string]uint64{"block_count": 1, "embedding_length": 896, "feed_forward_length": 4864, "attention.head_count": 14,
		"attention.head_count_kv": 2, "context_length": 32768} {
		if got, err := f.Meta.Uint("qwen2." + key); err != nil || got != want {
			t.Errorf("%s = %d, %v, want %d", key, got, err, want)
		}
	}
	if _, err := f.Need("token_embd.weight", 896, 151936); err != nil {
		t.Error(err)
	}
}

// TestVocabularies: the tokenizer is one that the tokenizer package takes; texts survive it, and are shorter in tokens than in
// bytes.
func TestVocabularies(t *testing.T) {
	const text = "Hello there, the cat sat on the mat and 12 birds sang in the rain.\n\n\tÜber naïve café, 你好!\n"
	for _, v := range []struct{ arch, vocab, mark string }{{"qwen2", "qwen2.5", "<|im_start|>"}, {"qwen3", "qwen3", "<think>"}, {"llama", "llama-3", "<|eot_id|>"}} {
		p := tiny(t, v.arch, v.vocab, "q4_0")
		w := gguf.NewWriter()
		must(t, p.metadata(w))
		b, err := w.Marshal()
		must(t, err)
		f, err := gguf.Parse("synth.gguf", b)
		must(t, err)
		tokens, err := f.Meta.Strings("tokenizer.ggml.tokens")
		must(t, err)
		if len(tokens) != p.Shape.VocabSize {
			t.Errorf("%s: %d tokens, want %d", v.vocab, len(tokens), p.Shape.VocabSize)
		}
		seen := map[string]bool{}
		for i, s := range tokens {
			if s == "" || seen[s] {
				t.Fatalf("%s: token %d %q is empty or there twice", v.vocab, i, s)
			}
			seen[s] = true
		}
		tok, err := token.New(f.Meta)
		must(t, err)
		ids := tok.Encode(text, token.EncodeOptions{})
		if got := tok.Decode(ids, token.DecodeOptions{}); got != text {
			t.Errorf("%s: %q comes back as %q", v.vocab, text, got)
		}
		if len(ids) > len(text)*3/4 || len(ids) < len(text)/4 {
			t.Errorf("%s: %d bytes are %d tokens", v.vocab, len(text), len(ids))
		}
		first := int32(vocabularies[v.vocab].from)
		if ids := tok.Encode(v.mark, token.EncodeOptions{ParseSpecial: true}); len(ids) != 1 || ids[0] < first || tokens[ids[0]] != v.mark {
			t.Errorf("%s: %s is %v", v.vocab, v.mark, ids)
		}
	}
	for name, v := range vocabularies {
		for _, s := range []string{v.bos, v.eos, v.pad} {
			if !slices.ContainsFunc(v.specials, func(x special) bool { return x.text == s }) {
				t.Errorf("%s: %q is not among the special tokens", name, s)
			}
		}
	}
}

// TestDeterministic: the same options make the same bytes, here and everywhere, and another seed makes others.
func TestDeterministic(t *testing.T) {
	for mix, want := range map[string]string{
		"q4_K_M":  "f05fbcca91e55805",
		"iq2_xxs": "34bddbaf52e513fd",
	} {
		sum := func(seed uint64) string {
			h := sha256.New()
			p := tiny(t, "llama", "llama-3", mix)
			p.Shape.VocabSize = 512
			p.Tensors = nil
			must(t, p.tensors())
			w := gguf.NewWriter()
			must(t, p.weights(w, seed))
			must(t, w.Write(t.Context(), h, nil))
			return hex.EncodeToString(h.Sum(nil))[:16]
		}
		if got := sum(1); got != want || sum(1) != got {
			t.Errorf("%s: the digest is %s and %s, want %s (it changes with the rounding schemes of generated/cpu)", mix, got, sum(1), want)
		}
		if sum(2) == sum(1) {
			t.Errorf("%s: the seed makes no difference", mix)
		}
	}
}

// TestOptions: what is unknown is named, with what there is.
func TestOptions(t *testing.T) {
	tests := []struct {
		o    Options
		says string
	}{
		{Options{Shape: "qwen2.5-8b", Format: "q4_0"}, `shape "qwen2.5-8b" is unknown: there are llama-3.1-8b, `},
		{Options{Shape: "qwen2.5-7b", Format: "q4_K_L"}, `format "q4_K_L" is unknown: there are f32, `},
		{Options{Shape: "qwen2.5-7b", Format: "q4_0", Layers: 29}, "layers 29: qwen2.5-7b has 1 to 28"},
		{Options{Shape: "qwen2.5-7b", Format: "q4_0", Layers: -1}, "layers -1: qwen2.5-7b has 1 to 28"},
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	for _, test := range tests {
		if err := Write(t.Context(), path, test.o); err == nil || !strings.HasPrefix(err.Error(), test.says) {
			t.Errorf("%+v: %v, want %q", test.o, err, test.says)
		}
	}
	if free, ok := freeBytes(filepath.Dir(path)); ok {
		err := fits(path, free+1e15)
		if err == nil || !strings.HasPrefix(err.Error(), path+": the model takes 1000") || !strings.HasSuffix(err.Error(), " free") {
			t.Errorf("a model larger than the disk: %v", err)
		}
		if err := fits(path, free/2); err != nil {
			t.Errorf("a model of half the disk: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Write(ctx, path, Options{Shape: "qwen2.5-0.5b", Format: "q4_0", Layers: 1, Progress: func(done, _ int64) {
		if done > 0 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("after failing, the folder holds %v", left)
	}
}

// TestShapes: the sizes follow from the numbers of the models' configurations. The bytes are those of the real models' tensors,
// counted by hand.
func TestShapes(t *testing.T) {
	params := map[string]float64{ // in 1e9, as the model cards give them
		"qwen2.5-0.5b": 0.49, "qwen2.5-1.5b": 1.54, "qwen2.5-3b": 3.09, "qwen2.5-7b": 7.61, "qwen2.5-14b": 14.7, "qwen2.5-32b": 32.5, "qwen2.5-72b": 72.7,
		"qwen3-0.6b": 0.6, "qwen3-1.7b": 1.7, "qwen3-4b": 4.0, "qwen3-8b": 8.2, "qwen3-14b": 14.8, "qwen3-32b": 32.8,
		"llama-3.2-1b": 1.23, "llama-3.2-3b": 3.21, "llama-3.1-8b": 8.03, "llama-3.1-70b": 70.6,
	}
	if len(params) != len(shapes) {
		t.Errorf("%d shapes, %d counts", len(shapes), len(params))
	}
	for _, s := range shapes {
		p, err := New(Options{Shape: s.Name, Format: "f32"})
		must(t, err)
		if got := float64(p.TensorBytes) / 4e9; math.Abs(got/params[s.Name]-1) > 0.015 {
			t.Errorf("%s has %.3fe9 weights, want %.2fe9", s.Name, got, params[s.Name])
		}
		if s.NumAttentionHeads%s.NumKeyValueHeads != 0 || s.Arch != "qwen3" && s.NumAttentionHeads*s.HeadDim != s.HiddenSize {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
	for shape, want := range map[string]float64{"qwen2.5-7b": 4.37, "qwen2.5-14b": 8.54} { // GB
		p, err := New(Options{Shape: shape, Format: "q4_K_M"})
		must(t, err)
		t.Logf("%s q4_K_M: %d bytes of tensors, %d read for a token", shape, p.TensorBytes, p.BytesPerToken)
		if got := float64(p.BytesPerToken) / 1e9; math.Abs(got-want) > 0.005 {
			t.Errorf("%s reads %.3f GB a token, want %.2f", shape, got, want)
		}
	}
}

// TestRopeFactors: the ends and the middle of Llama 3's scaling.
func TestRopeFactors(t *testing.T) {
	p, err := New(Options{Shape: "llama-3.1-8b", Format: "f16", Layers: 1})
	must(t, err)
	f := ropeFactors(p.Shape)
	if len(f) != 64 || f[0] != 1 || f[63] != 8 || !slices.IsSorted(f) {
		t.Errorf("factors %v", f)
	}
	var between int
	for _, v := range f {
		if v > 1 && v < 8 {
			between++
		}
	}
	// Waves of 2048 to 8192: theta^(i/64) from 326 to 1304, i from 28.2 to 35.
	if between != 6 {
		t.Errorf("%d factors between 1 and 8: %v", between, f)
	}
}

// TestTernaryPools: the ternary formats hold nothing but -d, 0 and d, and all of them.
func TestTernaryPools(t *testing.T) {
	for _, typ := range []format.Type{format.TQ1_0, format.TQ2_0} {
		p, err := makePool(typ, 0.02, stream(1, "pool"))
		must(t, err)
		k, _ := cpu.For(typ)
		x := make([]float32, poolElems)
		k.Dequantize(x, p.blocks)
		var seen []float32
		for _, v := range x {
			if !slices.Contains(seen, v) {
				seen = append(seen, v)
			}
		}
		slices.Sort(seen)
		if len(seen) != 3 || seen[0] != -seen[2] || seen[1] != 0 {
			t.Errorf("%v holds %v", typ, seen[:min(9, len(seen))])
		}
	}
}

// BenchmarkWeights writes to nowhere: how fast weights are made.
func BenchmarkWeights(b *testing.B) {
	for _, mix := range []string{"f16", "q8_0", "q4_0", "q4_K_M", "iq2_xs"} {
		b.Run(mix, func(b *testing.B) {
			p, err := New(Options{Shape: "qwen2.5-7b", Format: mix, Layers: 4})
			must(b, err)
			b.SetBytes(p.TensorBytes)
			for b.Loop() {
				w := gguf.NewWriter()
				must(b, p.weights(w, 1))
				must(b, w.Write(b.Context(), io.Discard, nil))
			}
		})
	}
}

// BenchmarkPool makes one pool.
func BenchmarkPool(b *testing.B) {
	for _, typ := range []format.Type{format.Q4_0, format.Q4K, format.Q6K, format.Q8_0, format.IQ2XXS} {
		b.Run(fmt.Sprint(typ), func(b *testing.B) {
			for b.Loop() {
				_, err := makePool(typ, 0.02, stream(1, "pool"))
				must(b, err)
			}
		})
	}
}
