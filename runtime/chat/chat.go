package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minfer/minfer/runtime/chat/jinja"
	"github.com/minfer/minfer/runtime/token"
)

// ErrNoMessages says that a conversation is empty.
var ErrNoMessages = errors.New("the conversation has no messages")

// RefusedError is a template's refusal of a conversation, in the template's own words.
type RefusedError struct {
	Sentence string
}

func (e *RefusedError) Error() string { return e.Sentence }

// Message is a turn of a conversation.
type Message struct {
	Role    string // system, user, assistant, tool: what the template knows
	Content string
	// Extra are further members that some templates read, such as reasoning_content and tool_calls; they win over
	// role and content of the same name. Values are as in [Options.Tools].
	Extra jinja.Object
}

// Options are the settings of a rendering.
type Options struct {
	// AddGenerationPrompt asks for the beginning of the assistant's turn at the end.
	AddGenerationPrompt bool
	// BOS and EOS are the texts of the model's start and end token, empty if it has none. They count as the template's.
	BOS, EOS string
	// Tools is a list of tool descriptions: JSON as [json.RawMessage] (order kept), a [jinja.Object], or Go data.
	Tools any
	// Variables are further variables, such as enable_thinking; they win over those of the same name.
	Variables jinja.Object
	// Now is the clock of strftime_now; nil is the time of day.
	Now func() time.Time
}

// Segment is a stretch of a prompt of one origin.
type Segment struct {
	Text         string
	FromTemplate bool
}

// Prompt is what a template makes of a conversation.
type Prompt []Segment

// String returns the whole text.
func (p Prompt) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Parts are the segments for the tokenizer: special tokens are parsed where the template wrote them.
func (p Prompt) Parts() []token.Part {
	parts := make([]token.Part, len(p))
	for i, s := range p {
		parts[i] = token.Part{Text: s.Text, ParseSpecial: s.FromTemplate}
	}
	return parts
}

// Encode returns the ids of the prompt. It begins with one start token if the model wants one, whether the template
// wrote it or not, and has no end token added.
func (p Prompt) Encode(t *token.Tokenizer) []int32 {
	return t.WithBOS(t.EncodeParts(p.Parts(), false))
}

// Template is a chat template that has been read.
type Template struct {
	// Source says where the template is from, for messages to the user.
	Source string
	// Text is the template itself.
	Text string

	compiled *jinja.Template
}

// Parse reads a template; source names it in errors.
func Parse(source, text string) (*Template, error) {
	compiled, err := jinja.Parse(text)
	if err != nil {
		return nil, wrap(source, err)
	}
	return &Template{Source: source, Text: text, compiled: compiled}, nil
}

const instead = "take another with --chat-template or --chat-template-file, or send the prompt as it is with --raw"

func wrap(source string, err error) error {
	return fmt.Errorf("chat template from %s: %w; %s", source, err, instead)
}

// knownRole are the roles that count as the template's own text: templates build markers of them, as in
// '<|' + message.role + '|>'. Any other role is the caller's text like a content.
var knownRole = map[string]bool{
	"system": true, "developer": true, "user": true, "assistant": true, "model": true, "tool": true, "function": true, "ipython": true,
}

// renderTime bounds a rendering where the context does not: templates in use need milliseconds.
const renderTime = 20 * time.Second

// Render makes the prompt of a conversation. The errors are [ErrNoMessages], a [*RefusedError], the context's, or one
// that names the template's source and line.
func (t *Template) Render(ctx context.Context, messages []Message, o Options) (Prompt, error) {
	if len(messages) == 0 {
		return nil, ErrNoMessages
	}
	sizeBytes := 0
	list := make([]any, len(messages))
	for i, m := range messages {
		if m.Role == "" {
			return nil, fmt.Errorf("message %d has no role", i+1)
		}
		sizeBytes += len(m.Role) + len(m.Content)
		var role any = m.Role
		if knownRole[m.Role] {
			role = jinja.Trusted(m.Role)
		}
		list[i] = append(jinja.Object{{Key: "role", Value: role}, {Key: "content", Value: m.Content}}, m.Extra...)
	}
	variables := append(jinja.Object{
		{Key: "messages", Value: list},
		{Key: "add_generation_prompt", Value: o.AddGenerationPrompt},
		{Key: "bos_token", Value: jinja.Trusted(o.BOS)},
		{Key: "eos_token", Value: jinja.Trusted(o.EOS)},
		{Key: "tools", Value: o.Tools}, // None without tools, as the reference renderer has it
		{Key: "documents", Value: nil},
	}, o.Variables...)

	limits := jinja.DefaultLimits
	limits.Steps += 4 * sizeBytes
	limits.MemoryBytes += 64 * sizeBytes
	limits.OutputBytes += 4 * sizeBytes

	bounded, cancel := context.WithTimeout(ctx, renderTime)
	defer cancel()
	text, err := t.compiled.Render(bounded, variables, jinja.Options{Limits: limits, Now: o.Now})
	if err != nil {
		var raised *jinja.Raised
		switch {
		case errors.As(err, &raised):
			return nil, &RefusedError{raised.Msg}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case bounded.Err() != nil:
			err = fmt.Errorf("it ran for more than %v", renderTime)
		}
		return nil, wrap(t.Source, err)
	}
	runs := text.Runs()
	prompt := make(Prompt, len(runs))
	for i, r := range runs {
		prompt[i] = Segment{Text: r.Text, FromTemplate: r.FromTemplate}
	}
	return prompt, nil
}

// Render reads a template and renders a conversation with it.
func Render(template string, messages []Message, o Options) (Prompt, error) {
	t, err := Parse("the caller", template)
	if err != nil {
		return nil, err
	}
	return t.Render(context.Background(), messages, o)
}
