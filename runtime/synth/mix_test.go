package synth

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/gguf"
)

var update = flag.Bool("update", false, "have llama.cpp choose the formats of testdata/mixes.txt anew (needs cc and .golden)")

// judged are the shapes whose formats llama.cpp has chosen: each has something that decides, or lacks it. Widths that are
// no multiple of 256, 4 or more heads that share a key, 80 layers, tied embeddings.
var judged = []string{"qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-72b", "qwen3-0.6b", "qwen3-4b", "llama-3.2-3b", "llama-3.1-8b", "llama-3.1-70b"}

// needsMatrix are the file types that llama.cpp makes with an importance matrix alone.
var needsMatrix = []string{"q2_K_S", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line prints the formats of the matrices of a model: each kind of matrix with the runs of its formats over the layers.
func line(p *Plan, typeOf func(Tensor) string) string {
	kinds := map[string][]string{}
	var order []string
	for _, t := range p.Tensors {
		if len(t.Dims) < 2 {
			continue
		}
		parts := strings.Split(t.Name, ".")
		kind := parts[len(parts)-2]
		if !slices.Contains(order, kind) {
			order = append(order, kind)
		}
		kinds[kind] = append(kinds[kind], typeOf(t))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", p.Shape.Name, p.Mix.Name)
	for _, kind := range order {
		fmt.Fprintf(&b, " %s=", kind)
		types := kinds[kind]
		for i := 0; i < len(types); {
			n := 1
			for i+n < len(types) && types[i+n] == types[i] {
				n++
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(types[i])
			if n > 1 {
				fmt.Fprintf(&b, "*%d", n)
			}
			i += n
		}
	}
	return b.String()
}

// TestMixes holds the formats of every matrix, for every file type, to those that llama.cpp chose for the same shapes.
func TestMixes(t *testing.T) {
	path := filepath.Join("testdata", "mixes.txt")
	if *update {
		must(t, os.WriteFile(path, []byte(askLlamaCpp(t)), 0o644))
	}
	b, err := os.ReadFile(path)
	must(t, err)
	want := slices.Collect(strings.Lines(string(b)))
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "#") })
	if len(want) != len(judged)*len(mixes) {
		t.Errorf("%d lines for %d shapes and %d file types", len(want), len(judged), len(mixes))
	}
	for _, w := range want {
		w = strings.TrimSuffix(w, "\n")
		f := strings.Fields(w)
		p, err := New(Options{Shape: f[0], Format: f[1]})
		must(t, err)
		got := line(p, func(t Tensor) string { return t.Type.String() })
		if got != w {
			t.Errorf("got  %s\nwant %s", got, w)
		}
	}
}

var tensorLine = regexp.MustCompile(`^\[ *\d+/ *\d+\] +(\S+) .*type = +(\S+), .*?size = +\S+ MiB(?: -> +\S+ MiB \((\S+)\))?$`)

// askLlamaCpp has llama.cpp choose: it is given the headers of models of f32, whose tensors are holes in a file.
func askLlamaCpp(t *testing.T) string {
	peer, err := filepath.Abs(filepath.Join("..", "..", ".golden", ".peer", "bins", "linux-x64"))
	must(t, err)
	bin := filepath.Join(t.TempDir(), "dryrun")
	if out, err := exec.Command("cc", "-O1", "-o", bin, filepath.Join("testdata", "dryrun.c"), "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	var text strings.Builder
	text.WriteString("# The formats that llama.cpp v0.5.0 (of @node-llama-cpp/linux-x64@3.22.1) gives each matrix: shape, file type,\n" +
		"# kind of matrix = formats over the layers. Made by: go test ./runtime/synth -run TestMixes -update\n")
	for _, shape := range judged {
		model := filepath.Join(t.TempDir(), "model.gguf")
		holes(t, Options{Shape: shape, Format: "f32"}, model)
		args := []string{peer, model}
		for _, m := range mixes {
			matrix := "0"
			if slices.Contains(needsMatrix, m.Name) {
				matrix = "1"
			}
			args = append(args, fmt.Sprint(m.FileType), matrix)
		}
		out, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", shape, err, out[max(0, len(out)-2000):])
		}
		for i, section := range strings.Split(string(out), "ftype ")[1:] {
			number, rest, _ := strings.Cut(section, "\n")
			if number != fmt.Sprint(mixes[i].FileType) {
				t.Fatalf("section %q", number)
			}
			types := map[string]string{}
			for l := range strings.Lines(rest) {
				if m := tensorLine.FindStringSubmatch(strings.TrimRight(l, "\n")); m != nil {
					if types[m[1]] = m[3]; m[3] == "" {
						types[m[1]] = m[2]
					}
				}
			}
			p, err := New(Options{Shape: shape, Format: mixes[i].Name})
			must(t, err)
			text.WriteString(line(p, func(t Tensor) string { return types[t.Name] }) + "\n")
		}
		must(t, os.Remove(model))
	}
	return text.String()
}

// holes writes a model without its tensors' bytes: they read as zeros and take no room.
func holes(t *testing.T, o Options, path string) {
	p, err := New(o)
	must(t, err)
	w := gguf.NewWriter()
	must(t, p.metadata(w))
	stop := errors.New("the header is complete")
	for _, t2 := range p.Tensors {
		must(t, w.Add(t2.Name, t2.Type, t2.Dims, func(context.Context, io.Writer) error { return stop }))
	}
	var head bytes.Buffer
	if err := w.Write(t.Context(), &head, nil); err != stop {
		t.Fatal(err)
	}
	size, err := w.SizeBytes()
	must(t, err)
	must(t, os.WriteFile(path, head.Bytes(), 0o644))
	must(t, os.Truncate(path, size))
}

// TestGoldenMixes holds the names, order, types and sizes of tensors to files that llama.cpp quantized.
func TestGoldenMixes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", ".golden", "*.gguf"))
	must(t, err)
	if len(paths) == 0 {
		t.Skip("no golden models: .golden is absent")
	}
	for _, path := range paths {
		f, err := gguf.Open(path)
		must(t, err)
		kind, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".gguf"), "-")
		_, name, _ = strings.Cut(name, "-")
		i := slices.IndexFunc(mixes, func(m Mix) bool { return m.Name == name })
		if i < 0 {
			t.Errorf("%s: no mix is called %q", path, name)
			continue
		}
		num := func(key string) int {
			n, err := f.Meta.Uint(kind + "." + key)
			must(t, err)
			return int(n)
		}
		_, untied := f.Tensor("output.weight")
		s := Shape{Name: name, Arch: kind, HiddenSize: num("embedding_length"), NumHiddenLayers: num("block_count"), NumAttentionHeads: num("attention.head_count"),
			NumKeyValueHeads: num("attention.head_count_kv"), IntermediateSize: num("feed_forward_length"), VocabSize: 384, TieWordEmbeddings: !untied}
		k, err := f.Need("blk.0.attn_k.weight")
		must(t, err)
		s.HeadDim = k.Rows() / s.NumKeyValueHeads
		p := &Plan{Shape: s, Mix: mixes[i]}
		must(t, p.tensors())
		if name != "f32" { // those llama.cpp has not sorted
			var got, want []string
			for _, tensor := range f.Tensors {
				want = append(want, tensor.String())
			}
			for _, tensor := range p.Tensors {
				got = append(got, (&gguf.Tensor{Name: tensor.Name, Type: tensor.Type, Dims: tensor.Dims}).String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if p.TensorBytes != f.TensorBytes() {
			t.Errorf("%s: %d bytes of tensors, want %d", path, p.TensorBytes, f.TensorBytes())
		}
		if ft, err := f.Meta.Uint("general.file_type"); err != nil || ft != uint64(mixes[i].FileType) {
			t.Errorf("%s: file type %d, %v, want %d", path, ft, err, mixes[i].FileType)
		}
		must(t, f.Close())
	}
}

// TestFallbacks: every format with blocks of more than 32 elements has a fallback with smaller ones, and each mix uses formats
// that exist.
func TestFallbacks(t *testing.T) {
	check := func(m Mix, typ format.Type) {
		info, ok := format.Lookup(typ)
		if !ok {
			t.Fatalf("%s uses type %d", m.Name, typ)
		}
		if info.BlockElems <= 32 {
			return
		}
		small, ok := format.Lookup(fallbacks[typ])
		if _, has := fallbacks[typ]; !has || !ok || small.BlockElems != 32 {
			t.Errorf("%s falls back to %s", info.Name, small.Name)
		}
	}
	seen := map[uint32]string{}
	for _, m := range mixes {
		if other, ok := seen[m.FileType]; ok {
			t.Errorf("%s and %s have file type %d", m.Name, other, m.FileType)
		}
		seen[m.FileType] = m.Name
		check(m, m.Base)
		check(m, m.output)
		check(m, m.embd)
		for _, r := range m.rules {
			check(m, r.typ)
		}
	}
}
