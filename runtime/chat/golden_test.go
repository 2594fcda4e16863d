package chat

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/runtime/chat/jinja"
	"github.com/minfer/minfer/runtime/gguf"
)

const sharedVocab = "../../../shared/vocab"

func readFile(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// openVocab opens a shared vocabulary file, or skips the test with the reason.
func openVocab(t testing.TB, name string) *gguf.File {
	t.Helper()
	path := filepath.Join(sharedVocab, name+".gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the shared vocabularies are not here: %v", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// conversation is a file of testdata/conversations.
type conversation struct {
	messages []Message
	options  Options
}

// member is a key of a JSON object with its value as it stands.
type member struct {
	key   string
	value json.RawMessage
}

// members reads an object in its order.
func members(t testing.TB, raw json.RawMessage) []member {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var all []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, member{key.(string), value})
	}
	return all
}

func readConversation(t testing.TB, name string) conversation {
	t.Helper()
	var file struct {
		Messages            []json.RawMessage
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		Tools               json.RawMessage
		Variables           json.RawMessage
	}
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join("testdata/conversations", name+".json"))), &file); err != nil {
		t.Fatal(err)
	}
	c := conversation{options: Options{
		AddGenerationPrompt: file.AddGenerationPrompt,
		BOS:                 "<s>", EOS: "</s>",
		Now: func() time.Time { return time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC) },
	}}
	for _, raw := range file.Messages {
		var m Message
		for _, f := range members(t, raw) {
			switch f.key {
			case "role", "content":
				into := &m.Role
				if f.key == "content" {
					into = &m.Content
				}
				if err := json.Unmarshal(f.value, into); err != nil {
					t.Fatal(err)
				}
			default:
				m.Extra = append(m.Extra, jinja.Member{Key: f.key, Value: f.value})
			}
		}
		c.messages = append(c.messages, m)
	}
	if file.Tools != nil {
		c.options.Tools = file.Tools
	}
	if file.Variables != nil {
		for _, f := range members(t, file.Variables) {
			c.options.Variables = append(c.options.Variables, jinja.Member{Key: f.key, Value: f.value})
		}
	}
	return c
}

func templateText(t testing.TB, name string) string {
	t.Helper()
	if model, ok := strings.CutPrefix(name, "vocab-"); ok {
		text, err := openVocab(t, model).Meta.String(templateKey)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if builtin, ok := strings.CutPrefix(name, "builtin-"); ok {
		return readFile(t, "templates/"+builtin+".jinja")
	}
	return readFile(t, "testdata/templates/"+name+".jinja")
}

// TestGolden renders each template with each conversation and compares with the bytes that Jinja2 makes, see
// testdata/make.py. Where Jinja2 fails this package must; where the template raises, its sentence is the whole error.
func TestGolden(t *testing.T) {
	folders, err := os.ReadDir("testdata/want")
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 30 {
		t.Fatalf("only %d templates", len(folders))
	}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			template, err := Parse(folder.Name(), templateText(t, folder.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files, err := os.ReadDir(filepath.Join("testdata/want", folder.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				name, kind, _ := strings.Cut(f.Name(), ".")
				want := readFile(t, filepath.Join("testdata/want", folder.Name(), f.Name()))
				c := readConversation(t, name)
				got, err := template.Render(context.Background(), c.messages, c.options)
				switch kind {
				case "txt":
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if diff := cmp.Diff(want, got.String()); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
				case "raised.txt":
					var refused *RefusedError
					if !errors.As(err, &refused) || err.Error() != want {
						t.Errorf("%s: error %v, want the sentence %q", name, err, want)
					}
				case "fails.txt":
					var refused *RefusedError
					if err == nil || errors.As(err, &refused) {
						t.Errorf("%s: got %q, %v; Jinja2 fails", name, got, err)
					}
				default:
					t.Errorf("file %s is of no known kind", f.Name())
				}
			}
		})
	}
}
