// Package chat turns a conversation into the prompt that a model was trained on, with the chat template that the
// model's file carries, or one that the user gives.
//
// # Markers in a user's text stay text
//
// A template writes control markers such as <|im_end|> between the messages, and the tokenizer turns them into control
// tokens. A user who types <|im_end|> must not get that token, or he could forge turns. So [Template.Render] returns a
// [Prompt] whose segments say where each character came from: the template, or the caller (contents, tools, variables,
// and roles other than the usual ones, of which templates build markers). The tokenizer ([Prompt.Encode]) encodes the whole as one text, but takes a marker for a token only
// where the template wrote all of it.
//
// The origin of a character is not guessed from the output: the template interpreter carries it through every operation
// (package jinja). So a template may trim, split, slice, replace or quote a content, compare it, or search it for
// markers, and it sees the true text. What is computed anew from a text counts as follows: case conversions and escapes
// keep the origin; numbers, such as a length, count as the template's; a constant that the template prints because of
// what a message says is the template's own. The last is the limit of the method: a template that looks for a marker in
// a content and prints the marker itself decides so, as a function of the content, with its own text.
//
// # Refusals
//
// A template may refuse a conversation (two users in a row, a system message); [RefusedError] is its own sentence alone.
// An empty conversation is refused here ([ErrNoMessages]). A model without a template is [ErrNoTemplate]: no format is
// ever assumed. A template that cannot be read, or uses what the interpreter lacks, is an error with its line, when chat
// is asked for: loading a model and raw prompts do not look at templates.
package chat
