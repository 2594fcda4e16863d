package spec

import "github.com/minfer/minfer/gen/diag"

// Text is a string and where it stands; At is invalid when the key was left out.
type Text struct {
	Value string
	At    diag.Pos
}

// Int is an integer and where it stands; At is invalid when the key was left out.
type Int struct {
	Value int
	At    diag.Pos
}

// Real is a finite number and where it stands; At is invalid when the key was left out.
type Real struct {
	Value float64
	At    diag.Pos
}

// Bool is true or false and where it stands; At is invalid when the key was left out.
type Bool struct {
	Value bool
	At    diag.Pos
}

// Map is a mapping from names of the author's choosing, in file order (which carries no meaning).
type Map[T any] struct {
	At      diag.Pos
	Entries []Entry[T]
}

// Entry is a name and what it stands for.
type Entry[T any] struct {
	Name  Text
	Value T
}

// Pair is a mapping of one name to one integer, an item of an ordered list: {name: 16}.
type Pair struct {
	Name  Text
	Value Int
}

// Set reports whether the key was given.
func (t Text) Set() bool { return t.At.IsValid() }

// Set reports whether the key was given.
func (n Int) Set() bool { return n.At.IsValid() }

// Or is the value, or def when the key was left out.
func (n Int) Or(def int) int {
	if n.Set() {
		return n.Value
	}
	return def
}

// Set reports whether the key was given.
func (n Real) Set() bool { return n.At.IsValid() }

// Or is the value, or def when the key was left out.
func (n Real) Or(def float64) float64 {
	if n.Set() {
		return n.Value
	}
	return def
}

// Set reports whether the key was given.
func (b Bool) Set() bool { return b.At.IsValid() }

// Set reports whether the mapping was given.
func (m Map[T]) Set() bool { return m.At.IsValid() }

// Names lists the names in file order.
func (m Map[T]) Names() []string {
	names := make([]string, len(m.Entries))
	for i, e := range m.Entries {
		names[i] = e.Name.Value
	}
	return names
}
