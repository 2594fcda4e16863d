package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/minfer/minfer/runtime/chat"
	"github.com/minfer/minfer/runtime/token"
)

// Encode is the prompt of a request as token ids, with what a user should know about it.
func (m *Model) Encode(ctx context.Context, r Request) (ids []int32, warnings []string, err error) {
	switch {
	case r.Tokens != nil && (r.Messages != nil || r.Prompt != "") || r.Messages != nil && r.Prompt != "":
		return nil, nil, errors.New("a request has one of a prompt, messages and tokens")
	case r.Raw && (r.System != "" || r.Messages != nil):
		return nil, nil, errors.New("a raw prompt has no messages and no system message")
	case r.Tokens != nil:
		ids = slices.Clone(r.Tokens)
	case r.Raw:
		ids, warnings = m.encodeRaw(r.Prompt)
	default:
		if ids, err = m.encodeChat(ctx, r); err != nil {
			return nil, nil, err
		}
	}
	if len(ids) == 0 {
		return nil, nil, errors.New("the prompt is empty, and the model has no start token to begin with")
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.graph.Vocab {
			return nil, nil, fmt.Errorf("token %d (number %d of the prompt) is outside the vocabulary of %d", id, i, m.graph.Vocab)
		}
	}
	return ids, warnings, nil
}

// encodeRaw puts the start token first where the model declares one, as asked, even if the text begins with it too.
func (m *Model) encodeRaw(text string) (ids []int32, warnings []string) {
	ids = m.tokenizer.Encode(text, token.EncodeOptions{ParseSpecial: true})
	bos, ok := m.tokenizer.BOS()
	if !ok || !m.tokenizer.AddsBOS() {
		return ids, nil
	}
	if m.tokenizer.BeginsWithBOS(text) {
		warnings = append(warnings, fmt.Sprintf("the prompt begins with the start token %s, and the model has one put before every prompt: it now begins with two", m.tokenizer.Text(bos)))
	}
	return append([]int32{bos}, ids...), warnings
}

func (m *Model) encodeChat(ctx context.Context, r Request) ([]int32, error) {
	t, err := m.chatTemplate()
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, fmt.Errorf("%w: ask with a raw prompt, or give a template", err)
	}
	if err != nil {
		return nil, err
	}
	messages := r.Messages
	if messages == nil {
		if r.System != "" {
			messages = append(messages, chat.Message{Role: "system", Content: r.System})
		}
		messages = append(messages, chat.Message{Role: "user", Content: r.Prompt})
	} else if r.System != "" {
		return nil, errors.New("a request with messages has its system message among them")
	}
	o := chat.Options{AddGenerationPrompt: true, Tools: r.Tools, Variables: r.Variables}
	if id, ok := m.tokenizer.BOS(); ok {
		o.BOS = m.tokenizer.Text(id)
	}
	if id, ok := m.tokenizer.EOS(); ok {
		o.EOS = m.tokenizer.Text(id)
	}
	prompt, err := t.Render(ctx, messages, o)
	if err != nil {
		return nil, err
	}
	return prompt.Encode(m.tokenizer), nil
}

// chatTemplate reads the template when it is first asked for: a model whose template is broken still completes text.
func (m *Model) chatTemplate() (*chat.Template, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.template == nil {
		t, err := chat.Choose(m.file.Meta, m.tokenizer, m.choice)
		if err != nil {
			return nil, err
		}
		m.template = t
	}
	return m.template, nil
}
