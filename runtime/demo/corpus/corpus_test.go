package corpus

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var world = sync.OnceValue(New)

func TestExpand(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"a", []string{"a"}},
		{"[a|b] c", []string{"a c", "b c"}},
		{"[a|b [c|d]|] e", []string{"a e", "b c e", "e", "a e", "b d e", "e"}},
	} {
		if diff := cmp.Diff(c.want, expand(c.pattern)); diff != "" {
			t.Errorf("%q: %s", c.pattern, diff)
		}
	}
}

func TestFill(t *testing.T) {
	if got := fill("{X} is {y}, {x}", filling{"x": "a lemon", "y": "yellow"}); got != "A lemon is yellow, a lemon" {
		t.Errorf("got %q", got)
	}
}

// TestOneAnswer: a question that can be asked has one answer, whichever kind asks it.
func TestOneAnswer(t *testing.T) {
	answers, from := map[string]string{}, map[string]string{}
	for _, k := range world().kinds {
		for _, c := range k.cases {
			for _, p := range k.phrases {
				q, a := strings.ToLower(fill(p.text, c)), fill(k.answer, c)
				if other, ok := answers[q]; ok && other != a {
					t.Errorf("%q is answered %q (%s) and %q (%s)", q, other, from[q], a, k.name)
				}
				answers[q], from[q] = a, k.name
			}
		}
	}
	t.Logf("%d questions listed", len(answers))
	if len(answers) < 100_000 {
		t.Errorf("%d questions are listed, far fewer than the world has", len(answers))
	}
}

// TestHeldOutStaysOut: no document asks a held-out question, however dressed, and no held-out phrasing is used at all.
func TestHeldOutStaysOut(t *testing.T) {
	c := world()
	held := map[string]bool{}
	for _, q := range c.HeldOut(1000) {
		held[Normalize(q.Text)] = true
	}
	trained := map[string]string{}
	for _, k := range c.kinds {
		for _, p := range k.train {
			trained[key(p)] = k.name
		}
		if len(k.train) == 0 {
			t.Errorf("%s has no phrasing for training", k.name)
		}
	}
	for _, k := range c.kinds {
		for _, p := range k.held {
			if by := trained[key(p)]; by != "" {
				t.Errorf("%q is held out of %s and used by %s", p, k.name, by)
			}
		}
	}
	for i := range uint64(60_000) {
		for _, turn := range c.Document(Seed, i).Turns {
			if turn.Role == "user" && held[Normalize(turn.Text)] {
				t.Errorf("document %d asks the held-out question %q", i, turn.Text)
			}
		}
	}
}

func TestHeldOut(t *testing.T) {
	qs := world().HeldOut(200)
	if len(qs) != 200 {
		t.Fatalf("%d questions, want 200", len(qs))
	}
	novel, kinds := 0, map[string]bool{}
	for i, q := range qs {
		if q.Novel {
			novel++
		}
		kinds[q.Kind] = true
		if slices.ContainsFunc(qs[:i], func(p Question) bool { return Normalize(p.Text) == Normalize(q.Text) }) {
			t.Errorf("%q comes twice", q.Text)
		}
		if len(q.Accept) == 0 || q.Accept[0] == "" {
			t.Errorf("%q has no answer", q.Text)
		}
	}
	if novel != 100 {
		t.Errorf("%d of whole phrasings, want 100", novel)
	}
	if len(kinds) < 80 {
		t.Errorf("only %d kinds of question", len(kinds))
	}
}

func TestDeterministic(t *testing.T) {
	a, b := New(), New()
	for i := range uint64(2000) {
		if x, y := a.Document(Seed, i).Transcript(), b.Document(Seed, i).Transcript(); x != y {
			t.Fatalf("document %d: %q and %q", i, x, y)
		}
	}
	if diff := cmp.Diff(a.HeldOut(100), b.HeldOut(100)); diff != "" {
		t.Error(diff)
	}
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"What is the capital of France?", "what IS the  capital of france"},
		{"What's up?", "whats up"},
		{"1, 2, 3.", "1 2 3"},
	} {
		if Normalize(c.a) != Normalize(c.b) {
			t.Errorf("%q and %q differ: %q, %q", c.a, c.b, Normalize(c.a), Normalize(c.b))
		}
	}
	for _, c := range []struct{ a, b string }{
		{"The capital of France is Paris.", "The capital of France is Rome."},
		{"1, 2, 3", "1, 2"},
		{"2+2", "2-2"},
		{"12 plus 3", "1 plus 23"},
	} {
		if Normalize(c.a) == Normalize(c.b) {
			t.Errorf("%q and %q are one: %q", c.a, c.b, Normalize(c.a))
		}
	}
}

// qwen2 is the expression that split stands for.
var qwen2 = regexp2.MustCompile(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, regexp2.None)

func checkSplit(t interface{ Errorf(string, ...any) }, text string) {
	var got, want []string
	split(text, func(p string) { got = append(got, p) })
	for m, _ := qwen2.FindStringMatch(text); m != nil; m, _ = qwen2.FindNextMatch(m) {
		want = append(want, m.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: split %q, want %q", text, got, want)
	}
}

func TestSplit(t *testing.T) {
	for _, s := range []string{"", " ", "  ", "a", "I'll go", "we'Re", "'sky", "x  y", "a \n\n b", "\n", " \n ", "12+3=15?!\n\n", "a\tb", "\t\tb", "  12", "(hello)", " !?", "Größe 3½ km²", "日本 語"} {
		checkSplit(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		checkSplit(t, rapid.StringOf(rapid.SampledFrom([]rune("ab s'tTl1 2\n\r\t.,!é日 "))).Draw(t, "text"))
	})
}

func TestTokenizer(t *testing.T) {
	c := world()
	tk := c.Tokenizer()
	if len(tk.Tokens) != VocabSize || len(tk.Merges) != VocabSize-256-3 {
		t.Fatalf("%d tokens, %d merges", len(tk.Tokens), len(tk.Merges))
	}
	if again := New().Tokenizer(); !slices.Equal(again.Merges, tk.Merges) {
		t.Error("training the tokenizer twice gives two vocabularies")
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got := tk.Decode(tk.Encode(nil, text)); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	})
	text, tokens := 0, 0
	for i := range uint64(1000) {
		for _, turn := range c.Document(Seed+1, i).Turns {
			text += len(turn.Text)
			tokens += len(tk.Encode(nil, turn.Text))
		}
	}
	if per := float64(text) / float64(tokens); per < 3 {
		t.Errorf("%.2f bytes a token: the merges hardly help", per)
	}
}

// TestRows unpacks what WriteRows packed.
func TestRows(t *testing.T) {
	c := world()
	tk := c.Tokenizer()
	var buf, again bytes.Buffer
	const n = 5000
	stats, err := c.WriteRows(&buf, tk, Seed, n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteRows(&again, tk, Seed, n); err != nil || !bytes.Equal(buf.Bytes(), again.Bytes()) {
		t.Errorf("written twice, two results (%v)", err)
	}
	if stats.Documents != n || stats.Rows*RowElems*2 != buf.Len() {
		t.Errorf("%+v, %d bytes", stats, buf.Len())
	}
	var docs [][]uint16
	b := buf.Bytes()
	for i := 0; i < len(b); i += 2 {
		x := uint16(b[i]) | uint16(b[i+1])<<8
		if x&start != 0 {
			if i/2%RowElems == 0 && int32(x&^start) == tk.ID(EndOfText) {
				t.Fatalf("row %d begins with padding", i/2/RowElems)
			}
			docs = append(docs, nil)
		} else if i/2%RowElems == 0 {
			t.Fatalf("row %d begins inside a document", i/2/RowElems)
		}
		docs[len(docs)-1] = append(docs[len(docs)-1], x)
	}
	docs = slices.DeleteFunc(docs, func(d []uint16) bool { return int32(d[0]&^start) == tk.ID(EndOfText) }) // padding
	if len(docs) != n {
		t.Fatalf("%d documents in the rows, want %d", len(docs), n)
	}
	for i, d := range docs[:200] {
		want := c.Document(Seed, uint64(i))
		var learn []int32
		for _, x := range d {
			if x&learnt != 0 {
				learn = append(learn, int32(x&(start-1)))
			}
		}
		text := tk.Decode(learn)
		var answers strings.Builder
		answers.WriteString(want.Plain)
		for _, turn := range want.Turns {
			if turn.Role == "assistant" {
				answers.WriteString(turn.Text)
			}
		}
		if len(d) < RowElems/2 && text != answers.String() {
			t.Errorf("document %d teaches %q, want %q", i, text, answers.String())
		}
	}
}
