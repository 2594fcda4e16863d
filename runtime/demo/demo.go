// Package demo holds the demo model: a small Qwen2 model in q4_K_M, embedded in the program, that answers questions
// about a small world. How it was made, and how to make it again, is in README.md beside this file.
package demo

import (
	_ "embed"

	"github.com/minfer/minfer/runtime/gguf"
)

// Name is what the model is called where a file would have its path.
const Name = "demo"

//go:embed demo.gguf
var file string

// Bytes is the GGUF file, as a copy.
func Bytes() []byte { return []byte(file) }

// Open parses the embedded file. Each call gives a file of its own; closing it is allowed and does nothing.
func Open() (*gguf.File, error) { return gguf.Parse(Name, Bytes()) }
