package token

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/runtime/gguf"
)

// vocabularies are the shared vocabulary files, all that llama.cpp's tests have for the tokenizers known here.
var vocabularies = []string{"gpt-2", "llama-spm", "phi-3", "qwen2", "starcoder"}

// sharedDir returns the folder of vocabularies beside the repository, or skips the test.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "vocab")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no shared vocabularies: %v", err)
	}
	return dir
}

var loaded sync.Map // name -> func() (*Tokenizer, error)

// load returns the tokenizer of a shared vocabulary, read once for all tests.
func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	path := filepath.Join(sharedDir(t), name+".gguf")
	once, _ := loaded.LoadOrStore(name, sync.OnceValues(func() (*Tokenizer, error) {
		f, err := gguf.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return New(f.Meta)
	}))
	tok, err := once.(func() (*Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestSharedVocabularies holds every line of the files that llama.cpp tests its tokenizers with: texts parted by a line
// of their own, and the ids of each text on a line, made without a start token.
func TestSharedVocabularies(t *testing.T) {
	for _, name := range vocabularies {
		t.Run(name, func(t *testing.T) {
			tok := load(t, name)
			dir := sharedDir(t)
			in, err := os.ReadFile(filepath.Join(dir, name+".inp"))
			if err != nil {
				t.Fatal(err)
			}
			out, err := os.ReadFile(filepath.Join(dir, name+".out"))
			if err != nil {
				t.Fatal(err)
			}
			texts := strings.Split(string(in), "\n__ggml_vocab_test__\n")
			lines := strings.Split(string(out), "\n")
			if len(texts) != len(lines) || len(texts) < 40 {
				t.Fatalf("%d texts and %d lines of ids", len(texts), len(lines))
			}
			for i, text := range texts {
				var want []int32
				for _, f := range strings.Fields(lines[i]) {
					id, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				for _, o := range []EncodeOptions{{}, {ParseSpecial: true}} {
					if got := tok.Encode(text, o); !slices.Equal(got, want) {
						t.Errorf("%q %+v: %s", text, o, cmp.Diff(want, got))
					}
				}
				if got := tok.Decode(want, DecodeOptions{}); got != text {
					t.Errorf("decoded %q, want %q", got, text)
				}
			}
		})
	}
}
