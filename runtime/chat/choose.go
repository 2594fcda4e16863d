package chat

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/minfer/minfer/runtime/gguf"
)

// ErrNoTemplate says that a model has no chat template and none was given.
var ErrNoTemplate = errors.New("the model has no chat template")

const (
	templateKey      = "tokenizer.chat_template"  // the default template
	namedTemplateKey = "tokenizer.chat_template." // followed by a name
)

// Choice is what the user says about the template.
type Choice struct {
	// Name is --chat-template: the name of a template of the model (tokenizer.chat_template.NAME), a built-in one, or
	// the text of a template.
	Name string
	// File is --chat-template-file: the path of a template.
	File string
}

// Vocabulary finds the token of a text; a *token.Tokenizer is one.
type Vocabulary interface {
	ID(text string) (id int32, ok bool)
}

// builtin is a format that many models share.
type builtin struct {
	name    string
	markers []string // that the vocabulary must have, each as one token; the last ends a turn
}

var builtins = []builtin{
	{"chatml", []string{"<|im_start|>", "<|im_end|>"}},
	{"gemma", []string{"<start_of_turn>", "<end_of_turn>"}},
	{"llama2", []string{"<s>", "</s>"}},
	{"llama3", []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
	{"mistral", []string{"<s>", "</s>"}},
	{"phi3", []string{"<|user|>", "<|assistant|>", "<|end|>"}},
	{"zephyr", []string{"</s>"}},
}

//go:embed templates/*.jinja
var builtinFiles embed.FS

// Builtins lists the names of the built-in templates.
func Builtins() []string {
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.name
	}
	return names
}

// Named lists the names of the further templates that a model carries.
func Named(meta *gguf.Meta) []string {
	var names []string
	for _, key := range meta.Keys() {
		if name, ok := strings.CutPrefix(key, namedTemplateKey); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Choose reads the template to use: the user's choice, else the model's default. A model without a default, or with an
// empty one, is [ErrNoTemplate]. A built-in template is refused if the vocabulary lacks one of its markers as one token:
// the answer would never end.
func Choose(meta *gguf.Meta, v Vocabulary, c Choice) (*Template, error) {
	switch {
	case c.Name != "" && c.File != "":
		return nil, errors.New("--chat-template and --chat-template-file exclude each other")
	case c.File != "":
		text, err := os.ReadFile(c.File)
		if err != nil {
			return nil, fmt.Errorf("--chat-template-file: %w", err)
		}
		return Parse(c.File, string(text))
	case c.Name != "":
		return named(meta, v, c.Name)
	}
	text, err := meta.StringOr(templateKey, "")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		has := ""
		if names := Named(meta); len(names) > 0 {
			has = fmt.Sprintf("; it has others, to take with --chat-template: %s", strings.Join(names, ", "))
		}
		return nil, fmt.Errorf("%w%s; %s", ErrNoTemplate, has, instead)
	}
	return Parse(templateKey, text)
}

func named(meta *gguf.Meta, v Vocabulary, name string) (*Template, error) {
	if strings.Contains(name, "{%") || strings.Contains(name, "{{") {
		return Parse("--chat-template", name)
	}
	if key := namedTemplateKey + name; meta.Has(key) {
		text, err := meta.String(key)
		if err != nil {
			return nil, err
		}
		return Parse(key, text)
	}
	i := slices.IndexFunc(builtins, func(b builtin) bool { return b.name == name })
	if i < 0 {
		names := append(Named(meta), Builtins()...)
		return nil, fmt.Errorf("--chat-template %s: no such template; there are %s, or give the text of one", name, strings.Join(names, ", "))
	}
	for _, marker := range builtins[i].markers {
		if _, ok := v.ID(marker); !ok {
			return nil, fmt.Errorf("--chat-template %s does not fit this model: its vocabulary has no token %s", name, marker)
		}
	}
	text, err := builtinFiles.ReadFile("templates/" + name + ".jinja")
	if err != nil {
		panic("BUG: no file of the built-in template " + name)
	}
	return Parse("the built-in "+name, string(text))
}
