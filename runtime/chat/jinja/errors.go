package jinja

import "fmt"

// SyntaxError says that a template cannot be read.
type SyntaxError struct {
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("template line %d: %s", e.Line, e.Msg) }

// UnsupportedError says that a template uses something that this package lacks.
type UnsupportedError struct {
	Line      int
	Construct string // such as `statement "include"` or `filter "xmlattr"`
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("template line %d: %s is not supported", e.Line, e.Construct)
}

// RuntimeError says that a template went wrong while it was rendered.
type RuntimeError struct {
	Line int
	Msg  string
}

func (e *RuntimeError) Error() string { return fmt.Sprintf("template line %d: %s", e.Line, e.Msg) }

// LimitError says that a template passed one of the [Limits].
type LimitError struct {
	Line int
	Msg  string
}

func (e *LimitError) Error() string { return fmt.Sprintf("template line %d: %s", e.Line, e.Msg) }

// Raised is the template's own refusal: raise_exception with this sentence.
type Raised struct {
	Msg string
}

func (e *Raised) Error() string { return e.Msg }
