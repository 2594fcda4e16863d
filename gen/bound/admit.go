package bound

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/model"
)

// Shape is a size to be launched on a device.
type Shape struct {
	Dims        map[model.Dim]int64
	Arch        int
	SharedBytes int64
	Weights     model.WeightLayout
	Features    []string // of the CPU
}

// With is a copy of the shape with one dim changed.
func (s Shape) With(d model.Dim, n int64) Shape {
	dims := map[model.Dim]int64{d: n}
	for k, v := range s.Dims {
		if k != d {
			dims[k] = v
		}
	}
	s.Dims = dims
	return s
}

// Breaks reports whether the shape breaks the term.
func (t Term) Breaks(s Shape) bool {
	n := s.Dims[t.Dim]
	switch t.Kind {
	case Max:
		return n > t.Value
	case Min:
		return n < t.Value
	case Multiple:
		return n%t.Value != 0
	case Arch:
		return int64(s.Arch) < t.Value
	case Only:
		return int64(s.Arch) != t.Value
	case Weights:
		return s.Weights != t.Layout
	case Feature:
		return !slices.Contains(s.Features, t.Feature)
	case Shared:
		return t.SharedBytes(n) > s.SharedBytes
	}
	panic("BUG: a term of kind " + string(t.Kind))
}

// Admits reports whether the shape breaks none of the terms; otherwise which one first.
func Admits(terms []Term, s Shape) (ok bool, broken Term) {
	for _, t := range terms {
		if t.Breaks(s) {
			return false, t
		}
	}
	return true, Term{}
}

// Grain is the step in which a dim's admitted sizes lie.
func Grain(terms []Term, d model.Dim) int64 {
	g := int64(1)
	for _, t := range terms {
		if t.Kind == Multiple && t.Dim == d {
			g = lcm(g, t.Value)
		}
	}
	return g
}

// Have is the shape's side of a term, for a person: "cols 18944".
func (t Term) Have(s Shape) string {
	switch t.Kind {
	case Arch, Only:
		return fmt.Sprintf("sm_%d", s.Arch)
	case Weights:
		return fmt.Sprintf("weights %s", s.Weights)
	case Feature:
		if len(s.Features) == 0 {
			return "cpu without vector instructions"
		}
		return "cpu has " + strings.Join(s.Features, ", ")
	case Shared:
		return fmt.Sprintf("%d bytes of shared memory", s.SharedBytes)
	}
	return fmt.Sprintf("%s %d", t.Dim, s.Dims[t.Dim])
}
