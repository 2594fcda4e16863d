package cpu

import (
	"go/token"
	"strconv"
	"strings"

	"github.com/minfer/minfer/gen/emit"
)

// names hands out the local identifiers of one function. Names of a spec keep their spelling where Go allows;
// a name that is taken, a keyword or a builtin gets an underscore.
type names struct{ taken map[string]bool }

func newNames() *names {
	n := &names{taken: map[string]bool{}}
	for _, s := range strings.Fields(`b x y w src dst acc n numeric binary math format int8 int32 int64 uint8 uint16 uint32 uint64
		float32 float64 byte len min max panic true false nil append copy cap new make any bool string error`) {
		n.taken[s] = true
	}
	return n
}

// numbered is the first free one of want0, want1, ...
func (n *names) numbered(want string) string {
	for i := 0; ; i++ {
		if name := emit.CamelName(want) + strconv.Itoa(i); !n.taken[name] {
			n.taken[name] = true
			return name
		}
	}
}

func (n *names) local(want string) string {
	want = emit.CamelName(want)
	for n.taken[want] || token.IsKeyword(want) {
		want += "_"
	}
	n.taken[want] = true
	return want
}
