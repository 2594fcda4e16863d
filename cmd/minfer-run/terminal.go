package main

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
