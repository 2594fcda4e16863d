package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Body is what a body says of itself. The specs that name it are held against this.
type Body struct {
	CPU     bool   // it is written in gen/emit/tile; the others are templates of gen/emit/cuda
	class   string // numeric class of what it computes; "" is f32
	Args    []BodyArg
	Options []BodyOption
	// Uncounted are axes that the body does not name where it counts a piece of work: what is counted is done for all of their indices at once.
	Uncounted []string
}

// BodyArg is an argument that a body takes. Their order is the spec's.
type BodyArg struct {
	Name  string
	Types []string // it has one of them
	Out   bool
	where []string // options that must not be 0; after a !, that must be
}

// String is the argument as messages write it: "out y f32*".
func (a BodyArg) String() string {
	text := a.Name + " " + strings.Join(a.Types, " or ")
	if a.Out {
		text = "out " + text
	}
	return text
}

// BodyOption is an option that a template declares: a number that it looks at when it is printed.
type BodyOption struct {
	Name   string
	Values []int  // that it may have; 0 is what it is when nobody says otherwise
	Closed string // a digit that must have a radix of its own where the option is not 0
}

const (
	attendArgs  = "q f32*, k u8*, v u8*, positions i32*, out out f32*, tokens i32, heads i32, kv_heads i32, head_dim i32, scale f32"
	stepArgs    = "q f32*, k f32*, v f32*, q_norm f32*, k_norm f32*, out keys u8*, out values u8*, positions i32*, sines f32*, cosines f32*, out partial f32*, out arrivals u32*, out out f32*, kv_heads i32, group i32, head_dim i32, dims i32, adjacent i32, scale f32, eps f32"
	productArgs = "bias f32*, out y f32*, rows i32, cols i32, y_stride i64"
)

// bodies lists them by name. A spec that names another, or gives one other arguments, is refused, and so is a template that asks for an option
// which is not here.
var bodies = map[string]*Body{
	"add":             {Args: args("a f32*, b f32*, out out f32*, cols i32")},
	"argmax":          {Args: args("x f32*, out out i64*, cols i32")},
	"attend_combine":  {Args: args("partial f32*, out out f32*, heads i32, shares i32, head_dim i32")},
	"attend_mma":      {Args: args(attendArgs), Uncounted: []string{"elem"}},
	"attend_prefill":  {Args: args(attendArgs), Uncounted: []string{"elem"}},
	"attend_split":    {Args: args("q f32*, k u8*, v u8*, positions i32*, out partial f32*, kv_heads i32, group i32, head_dim i32, scale f32"), Uncounted: []string{"head", "elem"}},
	"attend_step":     {Args: args(stepArgs), Uncounted: []string{"head", "elem"}},
	"attend_step_mma": {Args: args(stepArgs), Uncounted: []string{"head", "elem"}},
	"embed":           {Args: args("w u8*, ids i32*, out out f32*, cols i32")},
	"kv_append":       {Args: args("x f32*, out cache u8*, positions i32*, cols i32")},
	"matmul_mma": {
		class:   "bf16",
		Args:    args("w u8*, x u16*, tokens i32, " + productArgs),
		Options: []BodyOption{{Name: "ahead", Values: []int{1, 2, 4}}}, // so many units of a helper are on their way at a time
	},
	"matmul_q8": {class: "q8", Args: args("w u8*, x u8*, tokens i32, " + productArgs)},
	"matmul_wgmma": {
		class:   "bf16",
		Args:    args("w u8*, x u16*, tokens i32, " + productArgs),
		Options: []BodyOption{{Name: "ahead", Values: []int{1, 2}}}, // loads of weights are asked for so many rounds ahead
	},
	"matvec_f32": {Args: args("w u8*, x f32*, " + productArgs)},
	"matvec_q8": {
		class:   "q8",
		Args:    args("w u8*, x u8*, " + productArgs),
		Options: []BodyOption{{Name: "hoist", Values: []int{0, 1}, Closed: "round"}}, // the loads of all rounds come first
	},
	"matvec_ring": {
		class: "q8",
		Args: slices.Concat(args("cols i32, out claims u32*"),
			args("x u8*", "!quantize"), args("x f32*, norm f32*, eps f32", "quantize"),
			args("w u8*, out y f32*, rows i32", "!parts"), args("bias f32*", "!parts", "!pairs"), args("w_up u8*", "pairs"),
			args("w0 u8*, w1 u8*, w2 u8*, bias0 f32*, bias1 f32*, bias2 f32*, residual f32*, out y0 f32*, out y1 f32*, out y2 f32*, rows0 i32, rows1 i32, rows2 i32", "parts")),
		Options: []BodyOption{
			{Name: "quantize", Values: []int{0, 1}}, // blocks round the activations
			{Name: "parts", Values: []int{0, 3}},    // matrices, one after the other; 0 is one that is called w
			{Name: "pairs", Values: []int{0, 1}},    // a row of each of two matrices at a time
		},
	},
	"plain":       {CPU: true, Args: args("w u8*, x f32*, out y f32*")},
	"quantize_a8": {class: "q8", Args: args("x f32*, out out u8*, cols i32")},
	"rmsnorm":     {Args: args("x f32*, w f32*, out out f32*, out halves u16*, cols i32, eps f32")},
	"rope":        {Args: args("x f32*, out out f32*, positions i32*, sines f32*, cosines f32*, heads i32, head_dim i32, dims i32, adjacent i32")},
	"round_bf16":  {class: "bf16", Args: args("x f32*, out out u16*, cols i32")},
	"select_rows": {Args: args("x f32*, index i32*, out out f32*, cols i32")},
	"silu_mul":    {Args: args("gate f32*, up f32*, out out f32*, out halves u16*, cols i32")},
	"tile":        {CPU: true, class: "q8", Args: args("w u8*, x u8*, bias f32*, out y f32*")},
	"top_k": {
		Args: args("x f32*|i64*, out out i64*, cols i32, kept i32"), // numbers, or keys of them
		Options: []BodyOption{
			{Name: "sift", Values: []int{0, 1}},  // bounds and counting instead of sorting
			{Name: "lists", Values: []int{0, 1}}, // with sift: a row is lists of k, each the best first
		},
		Uncounted: []string{"rank"},
	},
}

// args reads a list of arguments, each "name type" or "out name type", that are taken where the options are as they must be.
func args(list string, where ...string) (all []BodyArg) {
	for text := range strings.SplitSeq(list, ", ") {
		f := strings.Fields(text)
		all = append(all, BodyArg{f[len(f)-2], strings.Split(f[len(f)-1], "|"), len(f) == 3, where})
	}
	return all
}

// Class is the numeric class of what the body computes.
func (b *Body) Class() string { return cmp.Or(b.class, "f32") }

// BodyOf is what a body says of itself, or nil where there is none of this name.
func BodyOf(name string) *Body { return bodies[name] }

// BodyNames lists the bodies of the CPU, or of GPUs.
func BodyNames(cpu bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(bodies)), func(name string) bool { return bodies[name].CPU != cpu })
}

// Takes is the arguments that the body takes with these options.
func (b *Body) Takes(options map[string]int) (all []BodyArg) {
	for _, a := range b.Args {
		if !slices.ContainsFunc(a.where, func(o string) bool {
			name, none := strings.CutPrefix(o, "!")
			return (options[name] == 0) != none
		}) {
			all = append(all, a)
		}
	}
	return all
}

// Option is an option of the body, or nil.
func (b *Body) Option(name string) *BodyOption {
	if i := slices.IndexFunc(b.Options, func(o BodyOption) bool { return o.Name == name }); i >= 0 {
		return &b.Options[i]
	}
	return nil
}

// OptionNames lists the options.
func (b *Body) OptionNames() (names []string) {
	for _, o := range b.Options {
		names = append(names, o.Name)
	}
	return names
}
