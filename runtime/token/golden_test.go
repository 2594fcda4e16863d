package token

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/runtime/gguf"
)

var update = flag.Bool("update", false, "have llama.cpp make the ids in testdata/golden anew")

// oracle has llama.cpp tokenize texts with the vocabulary in a GGUF file, special tokens parsed, as the start token
// declares. The texts are joined by the special token named separator, which makes one run of the program do: no text is
// merged across it, and each begins as after the start of a text.
func oracle(t *testing.T, model string, separator string, id int32, texts []string) [][]int32 {
	t.Helper()
	bin, libs := oraclePaths(t)
	var out [][]int32
	for chunk := range slices.Chunk(texts, max(1, len(texts)*40000/(1+totalLen(texts)))) {
		path := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(path, []byte(separator+strings.Join(chunk, separator)), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, bin, libs, "tokenize", model, path)
		lines, err := cmd.Output()
		cancel()
		if err != nil {
			t.Fatalf("oracle: %v", err)
		}
		var ids [][]int32
		for _, f := range strings.Fields(string(lines)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			if int32(n) == id {
				ids = append(ids, nil)
			} else {
				ids[len(ids)-1] = append(ids[len(ids)-1], int32(n))
			}
		}
		if n := len(ids) - len(chunk); n == 1 { // the start token is the separator
			ids = ids[1:]
		} else if n != 0 {
			t.Fatalf("oracle: %d runs of ids for %d texts", len(ids), len(chunk))
		}
		out = append(out, ids...)
	}
	return out
}

func totalLen(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

// oraclePaths returns the program and its libraries that make.sh of the oracle builds, or skips the test.
func oraclePaths(t testing.TB) (bin, libs string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join("..", "..", ".golden"))
	if err == nil {
		bin, libs = filepath.Join(dir, ".peer", "oracle"), filepath.Join(dir, ".peer", "bins", "linux-x64")
		_, err = os.Stat(bin)
	}
	if err != nil {
		t.Skipf("no llama.cpp to compare with: %v", err)
	}
	return bin, libs
}

// goldenVocabularies are the vocabularies that llama.cpp's ids are kept for: the shared ones, and a made one per
// pre-tokenizer that no shared one has.
type goldenVocabulary struct {
	name      string
	separator string
	load      func(t *testing.T) *Tokenizer
	path      func(t *testing.T) string // of a GGUF file
	// skip says why llama.cpp is no judge of a text; "" if it is.
	skip func(text string) string
}

// wordAsMarker: Qwen2 has a token </s> that comes about by merging, a word like others. llama.cpp takes it for an end
// marker by its name; Qwen's own tokenizer never yields it.
func wordAsMarker(text string) string {
	if strings.Contains(text, "</s>") {
		return "llama.cpp takes the word </s> for a marker"
	}
	return ""
}

// foreignSpace: before matching a rule without \p classes llama.cpp replaces white space outside ASCII by a vertical
// tab, which DeepSeek's ranges do not have while they have most of that white space.
func foreignSpace(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf && unicode.IsSpace(r) }) {
		return "llama.cpp hides white space outside ASCII from DeepSeek's rules"
	}
	return ""
}

func goldenVocabularies() []goldenVocabulary {
	var list []goldenVocabulary
	for _, name := range vocabularies {
		separator := "<|endoftext|>"
		if name == "llama-spm" || name == "phi-3" {
			separator = "<s>"
		}
		skip := func(string) string { return "" }
		if name == "qwen2" {
			skip = wordAsMarker
		}
		list = append(list, goldenVocabulary{
			name: name, separator: separator, skip: skip,
			load: func(t *testing.T) *Tokenizer { return load(t, name) },
			path: func(t *testing.T) string { return filepath.Join(sharedDir(t), name+".gguf") },
		})
	}
	for _, p := range preTokenizers {
		pre := p.names[0]
		skip := func(string) string { return "" }
		if strings.HasPrefix(pre, "deepseek") {
			skip = foreignSpace
		}
		list = append(list, goldenVocabulary{
			skip: skip,
			name: "made-" + pre, separator: synthSeparator,
			load: func(t *testing.T) *Tokenizer { return newSynth(t, pre) },
			path: func(t *testing.T) string { return writeSynth(t, pre) },
		})
	}
	return list
}

func newSynth(t testing.TB, pre string) *Tokenizer {
	t.Helper()
	tok, err := New(gguf.NewMeta("made", synthVocabulary(pre)))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func writeSynth(t *testing.T, pre string) string {
	t.Helper()
	w := gguf.NewWriter()
	meta := synthVocabulary(pre)
	for _, k := range gguf.NewMeta("", meta).Keys() {
		if err := w.Set(k, meta[k]); err != nil {
			t.Fatal(err)
		}
	}
	data, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGolden holds Encode to the ids that llama.cpp gives for the texts of testdata/golden/texts, a quoted text a line.
func TestGolden(t *testing.T) {
	texts := readTexts(t)
	for _, g := range goldenVocabularies() {
		t.Run(g.name, func(t *testing.T) {
			tok := g.load(t)
			path := filepath.Join("testdata", "golden", g.name+".ids")
			if *update {
				id, _ := tok.ID(g.separator)
				var b bytes.Buffer
				for _, ids := range oracle(t, g.path(t), g.separator, id, texts) {
					fmt.Fprintln(&b, strings.Trim(fmt.Sprint(ids), "[]"))
				}
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			if len(lines) != len(texts) {
				t.Fatalf("%d lines of ids for %d texts", len(lines), len(texts))
			}
			for i, text := range texts {
				if g.skip(text) != "" {
					continue
				}
				if got := strings.Trim(fmt.Sprint(tok.Encode(text, EncodeOptions{ParseSpecial: true})), "[]"); got != lines[i] {
					t.Errorf("%q:\n got %s\nwant %s", text, got, lines[i])
				}
			}
		})
	}
}

func readTexts(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "golden", "texts"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var texts []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] == '"' {
			text, err := strconv.Unquote(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			texts = append(texts, text)
		}
	}
	if len(texts) < 100 {
		t.Fatalf("only %d texts", len(texts))
	}
	return texts
}

// TestAgainstLlamaCpp compares with llama.cpp itself on random texts, where the oracle is there.
func TestAgainstLlamaCpp(t *testing.T) {
	oraclePaths(t)
	for _, g := range goldenVocabularies() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			tok := g.load(t)
			id, _ := tok.ID(g.separator)
			rng := rand.New(rand.NewPCG(*seed, 0))
			var markers []string
			for id := range int32(tok.Len()) {
				if ty := tok.Type(id); (ty == Control || ty == Unknown || ty == UserDefined) && tok.Text(id) != g.separator {
					markers = append(markers, tok.Text(id))
				}
			}
			var texts []string
			for len(texts) < *rounds {
				s := randomText(rng, 1+rng.IntN(120))
				for range rng.IntN(3) * min(1, len(markers)) { // whole or cut short
					m := markers[rng.IntN(len(markers))]
					s += m[:len(m)-rng.IntN(len(m))/2] + randomText(rng, 1+rng.IntN(9))
				}
				if s = comparable(s); g.skip(s) == "" && !strings.Contains(s, g.separator) {
					texts = append(texts, s)
				}
			}
			bad := 0
			for i, want := range oracle(t, g.path(t), g.separator, id, texts) {
				if got := tok.Encode(texts[i], EncodeOptions{ParseSpecial: true}); !slices.Equal(got, want) {
					if bad++; bad <= 3 {
						t.Errorf("%q: %s\n got %q\nwant %q", texts[i], cmp.Diff(want, got), textsOf(tok, got), textsOf(tok, want))
					}
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d texts differ", bad, len(texts))
			}
		})
	}
}

var (
	seed   = flag.Uint64("seed", 1, "of the random texts compared with llama.cpp")
	rounds = flag.Int("rounds", 400, "number of random texts compared with llama.cpp, for each vocabulary")
)

// comparable drops the stray bytes that llama.cpp, unlike the Unicode Standard, takes for the beginning of a character
// (overlong forms, surrogates, code points past U+10FFFF).
func comparable(s string) string {
	var b strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		var r rune
		if r, n = utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 && strings.IndexByte("\xC0\xC1\xE0\xED\xF0\xF4\xF5\xF6\xF7", s[i]) >= 0 {
			continue
		}
		b.WriteString(s[i : i+n])
	}
	return b.String()
}

func textsOf(tok *Tokenizer, ids []int32) []string {
	var s []string
	for _, id := range ids {
		s = append(s, tok.Piece(id))
	}
	return s
}
