// Package kernel is the vocabulary that generated gates and the plan share: what a gate is asked, what a kernel is,
// and what a launch of it takes. It imports nothing and holds no bound of its own: every number in a Variant
// was derived by the generator.
package kernel

import "fmt"

// Query is a shape to be launched on a device. Sizes that an op does not have are zero.
type Query struct {
	Rows    int64 // of a matrix: outputs
	Cols    int64 // of a matrix: inputs; the width of a vector op
	Tokens  int64 // handled at once
	Heads   int64 // query heads
	KVHeads int64 // key/value heads
	HeadDim int64 // elements of a head
	Context int64 // positions attended to
	Group   int64 // query heads that share a key/value head
	Shares  int64 // shares of a split axis, chosen by the caller
	Kept    int64 // of the numbers of a row: how many are asked for

	Weights     Layout
	Arch        int      // compute capability * 10
	SharedBytes int64    // shared memory that a block may ask for
	Features    Features // of a CPU
	Off         Switches
}

// Switches are the environment variables that turn variants off; an unset one is false.
type Switches map[string]bool

// Features are the sets of vector instructions that a CPU has, by name.
type Features map[string]bool

// Kind is how a bound compares.
type Kind string

// The kinds.
const (
	Max      Kind = "max"      // dim <= Value
	Min      Kind = "min"      // dim >= Value
	Multiple Kind = "multiple" // dim % Value == 0
	Arch     Kind = "arch"     // Query.Arch >= Value
	Only     Kind = "only"     // Query.Arch == Value
	Weights  Kind = "weights"  // Query.Weights == Layout
	Feature  Kind = "feature"  // Query.Features has Feature
	Shared   Kind = "shared"   // max(Least, Value + Per*ceil(dim/Elems)) <= Query.SharedBytes
)

// Bound is one condition of a gate with its derivation. The module exports the values in the same order, for the
// runtime to compare before it launches anything.
type Bound struct {
	Kind    Kind
	Dim     string // "cols"; "" where the kind has none
	Value   int64  // of Shared: the fixed bytes
	Per     int64  // of Shared: bytes for each Elems of the dim
	Elems   int64
	Least   int64  // of Shared: what is asked for at least
	Layout  Layout // of Weights
	Feature string // of Feature
	Source  string // what it comes from: "coverage", "grid", ...
	Chain   string // "256 threads * 2 rounds * 32 elements"
}

// String is the condition with its derivation.
func (b Bound) String() string {
	switch b.Kind {
	case Max:
		return fmt.Sprintf("%s <= %d (%s: %s)", b.Dim, b.Value, b.Source, b.Chain)
	case Min:
		return fmt.Sprintf("%s >= %d (%s: %s)", b.Dim, b.Value, b.Source, b.Chain)
	case Multiple:
		return fmt.Sprintf("%s %% %d == 0 (%s: %s)", b.Dim, b.Value, b.Source, b.Chain)
	case Arch:
		return fmt.Sprintf("arch >= sm_%d (%s: %s)", b.Value, b.Source, b.Chain)
	case Only:
		return fmt.Sprintf("arch == sm_%d (%s: %s)", b.Value, b.Source, b.Chain)
	case Feature:
		return fmt.Sprintf("cpu has %s (%s: %s)", b.Feature, b.Source, b.Chain)
	case Shared:
		if b.Per == 0 {
			return fmt.Sprintf("%d bytes of shared memory (%s: %s)", b.Value, b.Source, b.Chain)
		}
		least := ""
		if b.Least > 0 {
			least = fmt.Sprintf(", at least %d", b.Least)
		}
		return fmt.Sprintf("%d + %d * ceil(%s / %d) bytes of shared memory%s (%s: %s)", b.Value, b.Per, b.Dim, b.Elems, least, b.Source, b.Chain)
	}
	return fmt.Sprintf("weights %s (%s: %s)", b.Layout, b.Source, b.Chain)
}

// Dim is the query's size of that name.
func (q *Query) Dim(name string) int64 {
	switch name {
	case "rows":
		return q.Rows
	case "cols":
		return q.Cols
	case "tokens":
		return q.Tokens
	case "heads":
		return q.Heads
	case "kv_heads":
		return q.KVHeads
	case "head_dim":
		return q.HeadDim
	case "context":
		return q.Context
	case "group":
		return q.Group
	case "shares":
		return q.Shares
	case "kept":
		return q.Kept
	}
	panic("BUG: no dim " + name)
}

// refusal says how the query breaks the bound.
func (b Bound) refusal(q *Query) string {
	switch b.Kind {
	case Arch:
		return fmt.Sprintf("sm_%d is below %s", q.Arch, b)
	case Only:
		return fmt.Sprintf("sm_%d breaks %s", q.Arch, b)
	case Weights:
		return fmt.Sprintf("weights lie as %q, needed %s", q.Weights, b)
	case Feature:
		return fmt.Sprintf("needed %s", b)
	case Shared:
		if b.Per == 0 {
			return fmt.Sprintf("a block may have %d bytes of shared memory, needed %s", q.SharedBytes, b)
		}
		n := q.Dim(b.Dim)
		return fmt.Sprintf("%s %d needs %d bytes of shared memory of %d: %s", b.Dim, n, b.SharedBytes(n), q.SharedBytes, b)
	}
	return fmt.Sprintf("%s %d breaks %s", b.Dim, q.Dim(b.Dim), b)
}

// SharedBytes is what a Shared bound asks for n of its dim.
func (b Bound) SharedBytes(n int64) int64 { return max(b.Least, b.Value+b.Per*((n+b.Elems-1)/b.Elems)) }

// Arg is one argument of a kernel.
type Arg struct {
	Name string
	Type string // "u8*", "f32*", "i32", ...
	Out  bool
}

// Variant is an emitted kernel: constants of the generator.
type Variant struct {
	Family  string // "matvec-q8"
	Format  string // weight format, "" without weights
	Name    string // "v2_pf"
	Symbol  string // in the module
	Source  string // file in generated/cuda
	Class   string // numeric class
	Weights Layout
	Arch    int
	Threads uint32
	// UnitElems is how many elements of Query.Cols one unit of the dealing takes; 0 where columns are not dealt.
	UnitElems int
	// RowTile and TokenTile are how many rows and tokens a kernel of the CPU computes at once: sizes are multiples of them, or
	// fill the last tile up. 0 for other kernels.
	RowTile, TokenTile int
	Args               []Arg
	Awaits             bool    // the body waits for its predecessor itself, so that its launch may overlap that one's end
	Bounds             []Bound // in the order that the module exports them
	Switch             string
	SameBits           []string
	First              []First // shapes that it was measured to be the fastest for
	Base               string  // "", or the variant that it is with other values of free parameters: then it runs where it comes first alone
	Grid               func(*Query) [3]uint32
	Shared             func(*Query) uint32 // dynamic bytes
}

// String is the variant's full name, family/format/name.
func (v *Variant) String() string {
	if v.Format == "" {
		return v.Family + "/" + v.Name
	}
	return v.Family + "/" + v.Format + "/" + v.Name
}

// Note is told of every variant that a gate looks at: the reason why it was passed over, or "" for the one chosen.
type Note func(v *Variant, reason string)

// Step is one row of a gate: a variant, what refuses it, and where it is preferred.
type Step struct {
	Variant *Variant
	// Refuse returns the index in Variant.Bounds of the first bound that the query breaks, or -1.
	Refuse func(*Query) int
	// Prefer reports whether measurements put this variant first for the query; nil is always. Preference orders
	// the variants that cover a query and never admits one that does not.
	Prefer func(*Query) bool
}

// First is a shape for which measurements put a variant before all others. Like every preference it admits nothing.
type First struct {
	When func(*Query) bool
	Why  string // what measured it
}

// Measured is what puts the variant before all others for a query, or nil.
func (v *Variant) Measured(q *Query) *First {
	for i := range v.First {
		if v.First[i].When(q) {
			return &v.First[i]
		}
	}
	return nil
}

// rank is when Choose tries a step: 0 where it was measured to be the fastest, 1 where it is preferred, 2 where it is not; -1 never.
func (s *Step) rank(q *Query) int {
	switch {
	case s.Variant.Measured(q) != nil:
		return 0
	case s.Variant.Base != "":
		return -1
	case s.Prefer == nil || s.Prefer(q):
		return 1
	}
	return 2
}

// Crossover is a measured preference of one numeric class over another.
type Crossover struct {
	Class string // that comes second
	When  func(*Query) bool
	Why   string // what measured it
}

// Choose is the one way through a gate: of the steps that admit the query the first that was measured to be the fastest for it, else the
// first that is preferred, else the first. It returns nil when no step may run the query. note may be nil.
func Choose(q *Query, note Note, steps []Step) *Variant {
	for rank := range 3 {
		for i := range steps {
			s := &steps[i]
			if s.rank(q) != rank {
				continue
			}
			reason := ""
			if s.Variant.Switch != "" && q.Off[s.Variant.Switch] {
				reason = "switched off by " + s.Variant.Switch + "=0"
			} else if b := s.Refuse(q); b >= 0 {
				if note == nil {
					continue
				}
				reason = s.Variant.Bounds[b].refusal(q)
			}
			if note != nil {
				note(s.Variant, reason)
			}
			if reason == "" {
				return s.Variant
			}
		}
	}
	return nil
}

// Entry is one gate in the generated table.
type Entry struct {
	Op     string // "matmul"
	Family string
	Format string // "" without weights
	Class  string
	Steps  []Step // in the order in which they are tried
	// Crossovers say where measurements put this gate before those of another class. Classes differ in what they round, so that
	// this is followed only where the user leaves the class to the measurements.
	Crossovers []Crossover
}

// Overtakes is the crossover that puts this gate before those of a class for the query, or nil.
func (e *Entry) Overtakes(class string, q *Query) *Crossover {
	for i := range e.Crossovers {
		if x := &e.Crossovers[i]; x.Class == class && x.When(q) {
			return x
		}
	}
	return nil
}

// Choose applies the gate.
func (e *Entry) Choose(q *Query, note Note) *Variant { return Choose(q, note, e.Steps) }

// Pick applies the gate and turns a refusal by all variants into an error with each one's reason.
func (e *Entry) Pick(q *Query) (*Variant, error) {
	if v := e.Choose(q, nil); v != nil {
		return v, nil
	}
	err := &RefusedError{Op: e.Op, Format: e.Format}
	e.Choose(q, func(v *Variant, reason string) { err.Reasons = append(err.Reasons, v.Name+": "+reason) })
	return nil, err
}

// RefusedError says that no variant of a gate admits a query, with each variant's reason.
type RefusedError struct {
	Op, Format string
	Reasons    []string
}

func (e *RefusedError) Error() string {
	s := "no kernel for " + e.Op
	if e.Format != "" {
		s += " of " + e.Format
	}
	for i, r := range e.Reasons {
		if i == 0 {
			s += ": " + r
		} else {
			s += "; " + r
		}
	}
	return s
}
