package gguf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// repoFile is a path from the root of the repository; the test is skipped where nothing is there.
func repoFile(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", ".."}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("not there: %v", err)
	}
	return path
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	must(t, err)
	if len(paths) == 0 {
		t.Fatalf("nothing is called %s", pattern)
	}
	return paths
}

// TestFilesOfOthers reads all that llama.cpp and its converters wrote, and writes each file again, byte for byte.
func TestFilesOfOthers(t *testing.T) {
	for kind, pattern := range map[string][]string{
		"models":       {".golden"},
		"vocabularies": {"..", "shared", "vocab"},
	} {
		t.Run(kind, func(t *testing.T) {
			for _, path := range glob(t, filepath.Join(repoFile(t, pattern...), "*.gguf")) {
				b, err := os.ReadFile(path)
				must(t, err)
				f, err := Open(path)
				must(t, err)
				exercise(f)
				if kind == "models" && len(f.Tensors) == 0 {
					t.Errorf("%s: no tensors", path)
				}
				again, err := rewrite(f)
				must(t, err)
				if !bytes.Equal(bytes.TrimRight(again, "\x00"), bytes.TrimRight(b, "\x00")) {
					t.Errorf("%s: written again, it is another file", path)
				}
				must(t, f.Close())
			}
		})
	}
}

// TestVocabularies: the tokens, their types and the merges are as many as the models are known to have.
func TestVocabularies(t *testing.T) {
	dir := repoFile(t, "..", "shared", "vocab")
	for name, want := range map[string]struct {
		model          string
		tokens, merges int
	}{
		"gpt-2":     {"gpt2", 50257, 50000},
		"llama-spm": {"llama", 32000, 0},
		"phi-3":     {"llama", 32064, 0},
		"qwen2":     {"gpt2", 151669, 151387},
		"starcoder": {"gpt2", 49152, 48872},
	} {
		f, err := Open(filepath.Join(dir, name+".gguf"))
		must(t, err)
		model, err := f.Meta.String("tokenizer.ggml.model")
		must(t, err)
		tokens, err := f.Meta.Strings("tokenizer.ggml.tokens")
		must(t, err)
		types, err := f.Meta.Ints("tokenizer.ggml.token_type")
		must(t, err)
		var merges []string
		if want.merges > 0 {
			merges, err = f.Meta.Strings("tokenizer.ggml.merges")
			must(t, err)
		}
		if model != want.model || len(tokens) != want.tokens || len(types) != want.tokens || len(merges) != want.merges {
			t.Errorf("%s: model %q, %d tokens, %d types, %d merges, want %+v", name, model, len(tokens), len(types), len(merges), want)
		}
		must(t, f.Close())
	}
}

// TestCutModels: a download that stopped is refused wherever it stopped, and a whole one is not.
func TestCutModels(t *testing.T) {
	for _, path := range glob(t, filepath.Join(repoFile(t, ".golden"), "*.gguf")) {
		b, err := os.ReadFile(path)
		must(t, err)
		whole := int(tensorsEnd(t, path))
		for _, n := range []int{0, 4, 23, len(b) / 2, whole - 1} {
			cut := filepath.Join(t.TempDir(), "cut.gguf")
			must(t, os.WriteFile(cut, b[:n], 0o644))
			if f, err := Open(cut); f != nil || !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCount) {
				t.Errorf("%s cut to %d of %d bytes: %v", path, n, len(b), err)
			}
		}
	}
}

// tensorsEnd is where the last tensor ends; padding may follow.
func tensorsEnd(t *testing.T, path string) (end int64) {
	f, err := Open(path)
	must(t, err)
	defer f.Close()
	for _, tensor := range f.Tensors {
		end = max(end, tensor.Offset+tensor.SizeBytes)
	}
	return end
}
