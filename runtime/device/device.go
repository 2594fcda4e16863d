// Package device is the seam between a model and what computes it. A Device loads an op.Graph and makes a Model of it;
// a Model gives Sessions, each a cache that grows by Forward. Devices register themselves by name; callers Open them.
//
// The contract that every device keeps, and that the tests of one device put to all:
//   - the logits of a token depend on the tokens before it alone: not on how Forward was called on them, on other
//     sessions or on the number of threads; on the CPU they are the same bit for bit, on a GPU, where other kernels
//     compute one token than many, within the tolerance of the numeric class;
//   - a Forward that fails, or is cancelled, leaves the session as it was;
//   - a number that is not finite ends in a *NonFiniteError, never in text; on the CPU it names the operation.
package device

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/minfer/minfer/generated/format"
	"github.com/minfer/minfer/runtime/op"
)

// Precision is how activations enter a product with a block-quantized weight: a numeric class.
type Precision string

// The precisions. Results of different classes agree within a tolerance, not bit for bit.
const (
	// Q8 is 8-bit activations, blocks of 32 with a scale of their own; the default. Where a device multiplies many tokens at a time on
	// tensor cores, activations and weights are bf16 instead, which lies nearer to the exact product.
	Q8  Precision = "q8"
	F32 Precision = "f32" // activations as they are
	// Auto is Q8 but for the products that measurements on the device's kind put before it with f32 activations.
	Auto Precision = "auto"
)

// Precisions lists them, the default first.
var Precisions = []Precision{Q8, F32, Auto}

// ParsePrecision reads a Precision; the empty string is Q8.
func ParsePrecision(s string) (Precision, error) {
	if s == "" {
		return Q8, nil
	}
	var names []string
	for _, p := range Precisions {
		if string(p) == s {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", fmt.Errorf("precision %q is none of %s", s, strings.Join(names, ", "))
}

// KVTypes lists the types that a cache can have, the default first.
var KVTypes = []format.Type{format.F16, format.F32, format.Q8_0}

// KVTypeNames lists their names.
func KVTypeNames() (names []string) {
	for _, t := range KVTypes {
		info, _ := format.Lookup(t)
		names = append(names, info.Name)
	}
	return names
}

// ParseKVType reads the type of the cache; the empty string is the default.
func ParseKVType(s string) (format.Type, error) {
	names := KVTypeNames()
	if i := slices.Index(names, s); i >= 0 {
		return KVTypes[i], nil
	}
	if s == "" {
		return KVTypes[0], nil
	}
	return 0, fmt.Errorf("cache type %q is none of %s", s, strings.Join(names, ", "))
}

// LoadOptions are the choices that hold for all sessions of a model.
type LoadOptions struct {
	Precision Precision // empty: Q8
	Threads   int       // 0: one for each CPU that this process may use; for devices that have threads
	Pin       bool      // each thread keeps to one CPU, where the system lets it: for machines that do nothing else
	Eager     bool      // never record a step's launches to replay them; for devices that can
	// Progress, if not nil, is called as weights become ready, with bytes; the last call has done == total.
	Progress func(doneBytes, totalBytes int64)
}

// Device computes.
type Device interface {
	// Name is the name that opens it: "cpu".
	Name() string
	// Load prepares a valid graph. The graph and its weights must stay as they are until the Model is closed.
	// An operation, format or shape that the device does not cover is refused by name.
	Load(ctx context.Context, g *op.Graph, o LoadOptions) (Model, error)
}

// Model is a graph that a device is ready to run. Its methods may be called from several goroutines.
type Model interface {
	NewSession(SessionOptions) (Session, error)
	// Routes lists, in the order of the graph, which kernel each matrix goes to.
	Routes() []Route
	// Close frees what Load took. Sessions must be closed before.
	Close() error
}

// Route is the kernel that multiplies by a matrix.
type Route struct {
	Weight string `json:"weight"`
	Format string `json:"format"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Kernel string `json:"kernel"`
	Class  string `json:"class"` // numeric class: across classes results agree within a tolerance, not bit for bit
	Why    string `json:"why"`
}

// SessionOptions size a session.
type SessionOptions struct {
	Context int         // tokens that the cache holds; from 1 to the graph's trained context
	KVType  format.Type // of the cache, one of KVTypes. F32 is the zero value of its type, so set it
	Batch   int         // the most tokens computed at a time; 0: the device's choice
}

// Want says for which tokens of a Forward logits are computed.
type Want uint8

// The wants.
const (
	LogitsLast Want = iota // the last token alone
	LogitsAll              // every token
	LogitsNone             // none: fill the cache
)

// Session is one sequence of tokens: a cache and the buffers to extend it. It serves one goroutine at a time.
type Session interface {
	// Forward appends the tokens and returns the wanted logits, one row of the vocabulary's width for each token.
	// The rows are valid until the next call. Tokens outside the vocabulary, and more tokens than the context holds
	// (*ContextError), are refused before anything is computed. A cancelled ctx ends it soon with ctx's error, in
	// the middle of a long prompt too.
	Forward(ctx context.Context, tokens []int32, want Want) ([][]float32, error)
	// Len is the number of tokens in the cache.
	Len() int
	// Context is the number that it can hold.
	Context() int
	// Truncate forgets all tokens but the first n.
	Truncate(n int) error
	// Close frees the cache.
	Close() error
}

// Topper is a Session that can find the largest logits where they are computed, which saves the copy of all others.
type Topper interface {
	Session
	// Tops reports whether it can find the k largest.
	Tops(k int) bool
	// ForwardTop is Forward of LogitsLast that gives the k largest logits alone, the largest first and of equal ones the lowest id, with
	// their ids. Zeros come without a sign.
	ForwardTop(ctx context.Context, tokens []int32, k int) (ids []int32, logits []float32, err error)
}

// ContextError refuses tokens that the context has no room for.
type ContextError struct {
	Tokens  int // tokens that were to be appended
	Len     int // tokens already there
	Context int
}

func (e *ContextError) Error() string {
	if e.Len == 0 {
		return fmt.Sprintf("%d tokens do not fit in a context of %d", e.Tokens, e.Context)
	}
	return fmt.Sprintf("%d tokens after %d do not fit in a context of %d", e.Tokens, e.Len, e.Context)
}

// NonFiniteError says that a computation left the range of its numbers.
type NonFiniteError struct {
	Value    string // the graph's name for what was computed, "blk.3.ffn_down"
	Position int    // of the token in the sequence
	Elem     int    // the first bad element of its row
	Reason   string // what overflowed and what to do, where it is known
}

func (e *NonFiniteError) Error() string {
	s := fmt.Sprintf("%s of the token at position %d: element %d is not a finite number", e.Value, e.Position, e.Elem)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// CheckForward makes the refusals that Session.Forward promises for a session of the given length.
func CheckForward(g *op.Graph, tokens []int32, length, context int) error {
	if len(tokens) == 0 {
		return errors.New("no tokens to compute")
	}
	if len(tokens) > context-length {
		return &ContextError{Tokens: len(tokens), Len: length, Context: context}
	}
	for i, id := range tokens {
		if id < 0 || int(id) >= g.Vocab {
			return fmt.Errorf("token %d (number %d of the input) is outside the vocabulary of %d", id, i, g.Vocab)
		}
	}
	return nil
}

// CheckSession fills in defaults and refuses options that no device accepts. batch is the device's choice.
func CheckSession(g *op.Graph, o SessionOptions, batch int) (SessionOptions, error) {
	if o.Context <= 0 || o.Context > g.Context {
		return o, fmt.Errorf("a context of %d tokens is outside 1 to %d, what the model was trained for", o.Context, g.Context)
	}
	if !slices.Contains(KVTypes, o.KVType) {
		return o, fmt.Errorf("cache type %d is none of %s", o.KVType, strings.Join(KVTypeNames(), ", "))
	}
	info, _ := format.Lookup(o.KVType)
	for _, x := range g.Ops {
		if a, ok := x.(op.Attend); ok {
			for _, dim := range []int{a.KeyDim, a.ValueDim} {
				if dim%info.BlockElems != 0 {
					return o, fmt.Errorf("a cache in %s takes heads of a multiple of %d elements; layer %d has heads of %d: use f16 or f32", info.Name, info.BlockElems, a.Layer, dim)
				}
			}
		}
	}
	if o.Batch < 0 {
		return o, fmt.Errorf("batch %d is negative", o.Batch)
	}
	if o.Batch == 0 {
		o.Batch = batch
	}
	o.Batch = min(o.Batch, o.Context)
	return o, nil
}

var registry struct {
	sync.Mutex
	open    map[string]func(arg string) (Device, error)
	missing map[string]string
}

// Register makes a kind of device known, at package initialization. open gets what follows the colon in its name:
// "0" of "cuda:0", or the empty string.
func Register(kind string, open func(arg string) (Device, error)) {
	registry.Lock()
	defer registry.Unlock()
	if registry.open == nil {
		registry.open = map[string]func(string) (Device, error){}
	}
	if registry.open[kind] != nil || strings.Contains(kind, ":") {
		panic(fmt.Sprintf("BUG: device %q registered twice or misnamed", kind))
	}
	registry.open[kind] = open
}

// RegisterMissing says how to get a kind of device that was left out of this build: "rebuild with -tags cuda".
func RegisterMissing(kind, how string) {
	registry.Lock()
	defer registry.Unlock()
	if registry.missing == nil {
		registry.missing = map[string]string{}
	}
	registry.missing[kind] = how
}

// Kinds lists the kinds of device in this build, sorted.
func Kinds() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.open))
}

// Open opens the device of a name: a kind, or a kind and an argument after a colon. An unknown name is refused with
// the known ones, one left out of the build with how to get it.
func Open(name string) (Device, error) {
	kind, arg, _ := strings.Cut(name, ":")
	registry.Lock()
	open, how := registry.open[kind], registry.missing[kind]
	registry.Unlock()
	switch {
	case open != nil:
		return open(arg)
	case how != "":
		return nil, fmt.Errorf("device %q is not in this build: %s", name, how)
	}
	return nil, fmt.Errorf("no device %q: this build has %s", name, strings.Join(Kinds(), ", "))
}
