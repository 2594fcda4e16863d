package demo

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/demo/corpus"
	"github.com/minfer/minfer/runtime/engine"
	"github.com/minfer/minfer/runtime/sample"
	"github.com/minfer/minfer/runtime/token"
)

const maxBytes = 6_000_000 // of the embedded file

var open = sync.OnceValues(func() (*engine.Model, error) {
	f, err := Open()
	if err != nil {
		return nil, err
	}
	return engine.OpenFile(context.Background(), f, engine.Options{})
})

func model(t testing.TB) *engine.Model {
	t.Helper()
	m, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var world = sync.OnceValue(corpus.New)

func greedy(t testing.TB, m *engine.Model, r engine.Request) string {
	t.Helper()
	p := sample.Defaults()
	p.Temp = 0
	r.Params, r.MaxTokens = &p, 200
	g, err := m.Generate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for piece, err := range g.Pieces {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(piece.Text)
	}
	if g.Result().Reason != engine.ReasonEnd {
		t.Errorf("%q: the answer ended with reason %q: %q", r.Prompt, g.Result().Reason, b.String())
	}
	return b.String()
}

func TestFile(t *testing.T) {
	if n := len(file); n > maxBytes {
		t.Errorf("the demo model has %d bytes, more than %d", n, maxBytes)
	}
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ key, value string }{{"general.architecture", "qwen2"}, {"tokenizer.ggml.pre", "qwen2"}} {
		if got, err := f.Meta.String(want.key); err != nil || got != want.value {
			t.Errorf("%s = %q, %v, want %q", want.key, got, err, want.value)
		}
	}
	if got, err := f.Meta.Uint("general.file_type"); err != nil || got != 15 {
		t.Errorf("general.file_type = %d, %v, want 15 (q4_K_M)", got, err)
	}
	count := map[format.Type]int{}
	for _, tensor := range f.Tensors {
		count[tensor.Type]++
	}
	if count[format.Q4K] == 0 || count[format.Q6K] == 0 || count[format.Q4K] < count[format.Q6K] || count[format.F16] > 0 {
		t.Errorf("tensors by format: %v, want mostly q4_K with some q6_K", count)
	}
}

// TestCorpus holds the model to the corpus beside it: held-out questions are only held out if training used this corpus.
func TestCorpus(t *testing.T) {
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	c := world()
	own := c.Tokenizer()
	got, err := f.Meta.String(corpus.FingerprintKey)
	if err != nil {
		t.Fatal(err)
	}
	if want := c.Fingerprint(own); got != want {
		t.Errorf("the demo model was trained on corpus %s, this is corpus %s: train it anew (README.md), or undo the change", got, want)
	}
	// The runtime's tokenizer cuts the corpus as the trainer's did.
	tk, err := token.New(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(500) {
		for _, turn := range c.Document(corpus.Seed+1, i).Turns {
			want := own.Encode(nil, turn.Text)
			if got := tk.Encode(turn.Text, token.EncodeOptions{}); !slices.Equal(got, want) {
				t.Fatalf("%q: the runtime has ids %v, the trainer had %v", turn.Text, got, want)
			}
		}
	}
}

// TestHeldOut asks questions that training never saw, half of them in phrasings that it never saw with any content, and
// wants the whole answer.
func TestHeldOut(t *testing.T) {
	const n, least = 200, 95 // questions; percent
	m := model(t)
	right, novel, novelRight := 0, 0, 0
	start := time.Now()
	for _, q := range world().HeldOut(n) {
		got := greedy(t, m, engine.Request{Prompt: q.Text})
		ok := slices.ContainsFunc(q.Accept, func(a string) bool { return corpus.Normalize(a) == corpus.Normalize(got) })
		if ok {
			right++
		} else {
			t.Logf("[%s] %q: got %q, want %q", q.Kind, q.Text, got, q.Accept[0])
		}
		if q.Novel {
			novel++
			if ok {
				novelRight++
			}
		}
	}
	t.Logf("%d of %d right, of whole phrasings held out %d of %d, in %v", right, n, novelRight, novel, time.Since(start).Round(time.Millisecond))
	if right*100 < least*n {
		t.Errorf("%d of %d held-out questions are answered right, fewer than %d %%", right, n, least)
	}
}

// TestAnswers wants these answers letter by letter.
func TestAnswers(t *testing.T) {
	m := model(t)
	for _, c := range []struct{ system, prompt, want string }{
		{"", "What is the capital of France?", "The capital of France is Paris."},
		{"You are a helpful assistant.", "What is the capital of France?", "The capital of France is Paris."},
		{"", "what is the capital of japan", "The capital of Japan is Tokyo."},
		{"", "Which country is Nairobi the capital of?", "Nairobi is the capital of Kenya."},
		{"", "What is the opposite of hot?", "The opposite of hot is cold."},
		{"", "What color is the sky?", "The sky is blue."},
		{"", "What is 7 plus 5?", "7 plus 5 is 12."},
		{"", "2+2", "2 plus 2 is 4."},
		{"", "Count from 3 to 8.", "3, 4, 5, 6, 7, 8."},
		{"", "What day comes after Monday?", "The day after Monday is Tuesday."},
		{"", "How many months are in a year?", "A year has 12 months."},
		{"", "Tom has a red ball. Anna has a blue kite. What colour is Anna's kite?", "Anna's kite is blue."},
		{"", "What is the capital of Blorvia?", corpus.Unknown},
		{"", "Who is the president of France?", corpus.Unknown},
	} {
		if got := greedy(t, m, engine.Request{Prompt: c.prompt, System: c.system}); got != c.want {
			t.Errorf("%q (system %q): got %q, want %q", c.prompt, c.system, got, c.want)
		}
	}
}

// TestConversation follows one over three turns.
func TestConversation(t *testing.T) {
	m := model(t)
	var talk []chat.Message
	for _, turn := range []struct{ say, want string }{
		{"My name is Anna.", "Hello, Anna! Nice to meet you."},
		{"What is the capital of Italy?", "The capital of Italy is Rome."},
		{"And of Spain?", "The capital of Spain is Madrid."},
		{"What is my name?", "Your name is Anna."},
	} {
		talk = append(talk, chat.Message{Role: "user", Content: turn.say})
		got := greedy(t, m, engine.Request{Messages: talk})
		if got != turn.want {
			t.Errorf("%q: got %q, want %q", turn.say, got, turn.want)
		}
		talk = append(talk, chat.Message{Role: "assistant", Content: got})
	}
}

func ExampleOpen() {
	f, err := Open()
	if err != nil {
		log.Fatal(err)
	}
	m, err := engine.OpenFile(context.Background(), f, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	p := sample.Defaults()
	p.Temp = 0
	g, err := m.Generate(context.Background(), engine.Request{Prompt: "What is the capital of France?", Params: &p})
	if err != nil {
		log.Fatal(err)
	}
	for piece, err := range g.Pieces {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	// Output: The capital of France is Paris.
}
