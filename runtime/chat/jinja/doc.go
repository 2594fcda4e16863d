// Package jinja renders the chat templates that model files carry.
//
// It is the part of Jinja2 that such templates use, with the settings of the reference renderer: trim_blocks,
// lstrip_blocks, loop controls, tojson as plain JSON, raise_exception and strftime_now. What it prints is what Jinja2
// prints, to the byte; goldens made by Jinja2 hold it to that. It is a package of its own, and not one of the
// Go libraries for Jinja, for three reasons, each kept true by a test (docs/chat-templates.md has the comparison):
//
//   - Every character knows whether the template wrote it or a caller's value brought it ([Text]), through slices,
//     splits, trims, replacements and JSON. That is what keeps a control marker in a user's text from becoming a
//     control token, and it cannot be added from outside.
//   - A template comes out of a downloaded file and may be hostile. Steps, memory and nesting are bounded ([Limits])
//     inside the operators; a string doubled forty times, or a macro that calls itself, ends a program that can bound
//     its output alone.
//   - None differs from undefined, expressions may span lines and hold conditions, integer division rounds down,
//     mappings keep their order. Each library misses some of these, which templates in use rely on.
//
// Statements: for (with if, else, recursive), if, set (also as a block), macro, call, filter, with, do, print, block, raw,
// break, continue; generation is accepted and prints its body. Template inheritance and imports are not supported:
// they need other files.
package jinja
