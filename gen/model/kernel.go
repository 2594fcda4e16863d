package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
)

// Dim is a size of the shape that a gate is asked about.
type Dim string

// The dims.
const (
	Rows    Dim = "rows"     // of a matrix: outputs
	Cols    Dim = "cols"     // of a matrix: inputs; the width of a vector op
	Tokens  Dim = "tokens"   // handled at once
	Heads   Dim = "heads"    // query heads
	KVHeads Dim = "kv_heads" // key/value heads
	HeadDim Dim = "head_dim" // elements of a head
	Context Dim = "context"  // positions attended to
	Group   Dim = "group"    // query heads that share a key/value head
	ShareOf Dim = "shares"   // shares of a split, chosen at launch
	Kept    Dim = "kept"     // of the numbers of a row: how many are asked for
)

// Dims lists them.
var Dims = []Dim{Rows, Cols, Tokens, Heads, KVHeads, HeadDim, Context, Group, ShareOf, Kept}

// Device is what a class of GPUs allows: the limits that gates are derived from.
type Device struct {
	Name              string
	Spec              string
	Doc               string
	GPU               string // one of the class, which has so many multiprocessors, and streams so many 10^9 bytes a second
	SMs, StreamGB     int
	Arch              int // compute capability * 10
	Warp              int
	Threads           int // of a block
	GridX, GridY      int64
	GridZ             int64
	SharedStaticBytes int // of a block without asking
	SharedBytes       int // of a block that asks
	RegistersPerSM    int
	ThreadsPerSM      int
	SharedPerSMBytes  int
	BlocksPerSM       int
}

// Base is the device class with the least architecture: what holds there holds on all.
func (c *Catalog) Base() *Device {
	return slices.MinFunc(c.Devices, func(a, b *Device) int { return a.Arch - b.Arch })
}

// WeightLayout is how a weight lies in device memory.
type WeightLayout string

// The layouts that every format has. A spec in specs/layouts gives single formats further ones.
const (
	LayoutFile   WeightLayout = "file"   // the bytes of the file
	LayoutPadded WeightLayout = "padded" // each block padded to a multiple of 16 bytes, large fields first
	LayoutPlanes WeightLayout = "planes" // a row is, for each field, that field of all its blocks, large fields first
)

// Arg is one argument of a kernel, in order.
type Arg struct {
	Name string
	Type string // "u8*", "f32*", "f16*", "i32", "i64", "f32", ... ; const unless Out
	Out  bool
	Doc  string
}

// Shared is the shared memory of a block: Fixed bytes plus Per bytes for each index of Axis, or a ring, or tiles.
type Shared struct {
	FixedBytes int
	Axis       string
	PerBytes   int
	Ring       *Ring
	Tiles      *Tiles
}

// Tiles is shared memory for operands of products of tiles: Stages times a row for each index of each axis that a block works on.
type Tiles struct {
	Axes       []string
	Stages     int
	RowBytes   int
	AlignBytes int // 0, or the first stage begins at a multiple of it, beyond what all shared memory begins at
}

// Ring is shared memory that rows of a matrix are streamed through, and where their partial sums are left.
type Ring struct {
	Rows       []string // the digits that number the rows of a stage
	Sums       string   // the digit of the partial sums of a row
	Matrices   int
	UnitBytes  int // beside the ring, for each 32 columns
	MaxStages  int
	LeastBytes int // what a block asks for at least
	RoomBytes  int // what the device of the variant's architecture lets a block ask for
}

// Family is one kernel family: an op, a body and its variants.
type Family struct {
	Name     string
	Spec     string
	Digest   string // of the spec
	Doc      string
	Op       string
	Class    string // numeric class
	Template string
	Formats  []*Format // weight formats it is emitted for; nil when the op has no weight
	Dims     map[string]Dim
	Args     []Arg
	Cover    Cover
	CPU      bool   // it runs on the CPU
	Over     string // a family of the same op and class that this one comes before
	Awaits   bool   // the body waits for its predecessor itself: launches may overlap
	Variants []*Variant
	// Crossovers say where it comes before families of another class.
	Crossovers []Crossover
}

// Along is the dim along which the blocks of a format follow each other: columns, or where there are none the elements of a head.
func (f *Family) Along() Dim {
	for _, d := range f.Dims {
		if d == Cols {
			return Cols
		}
	}
	return HeadDim
}

// Cover is the axes that the numbers of MINFER_COVER count, the first of each most significant.
type Cover struct{ Row, Unit, Token []string }

// Variant is one row of a family.
type Variant struct {
	Name     string
	Doc      string
	Digits   []layout.PlacedDigit
	Deal     []Deal
	Helpers  int      // threads of a block that deal no work
	Formats  []string // that it is emitted for; none: all of the family
	Weights  WeightLayout
	Arch     int      // least architecture; 0 is the baseline
	Only     bool     // for Arch alone
	Features []string // vector instructions that the body needs, on the CPU
	Shared   Shared
	Options  map[string]int // what the template switches on: "hoist": 1, ...
	Switch   string         // environment variable that turns the variant off with "0"
	SameBits []string       // variants that must agree bit for bit where both are admitted
	Ceiling  map[Dim]int    // stated by the spec; must equal the derived one
	Routes   []Route
	Free     []Free   // what may be tuned, by name
	First    []*First // the shapes that it was measured to be the fastest for
	Base     *Variant // nil, or the variant of the spec that this one is with other values of free parameters: it runs where it comes first alone
}

// Deal is a dealing before a format decides the elements of a unit.
type Deal struct {
	Axis     string
	Elems    int            // of one index, unless the format says otherwise
	ByFmt    map[string]int // format name -> elems
	Over     []string       // the digits, fastest first, whose strides follow from their radices; none: Stride is stated
	Stride   map[string]int
	Share    string
	Queue    bool // with a share: see layout.Dealing
	Multiple int  // the extent must be a multiple of this many elements; 0: of Elems alone
	Partial  bool // the extent need not be a multiple of Elems: the body handles the tail
}

// deal gives each digit of Over the product of the radices before it as stride.
func (d *Deal) deal(digits []layout.PlacedDigit) {
	if len(d.Over) == 0 {
		return
	}
	strides, stride := map[string]int{}, 1
	for _, name := range d.Over {
		strides[name] = stride
		stride *= digits[slices.IndexFunc(digits, func(p layout.PlacedDigit) bool { return p.Name == name })].Radix
	}
	d.Stride = strides
}

// RunsOn reports whether the variant's code is for a device of an architecture.
func (v *Variant) RunsOn(arch int) bool { return arch == v.Arch || arch > v.Arch && !v.Only }

// Deals reports whether the digits deal more than one index of an axis.
func (v *Variant) Deals(axis string) bool {
	return slices.ContainsFunc(v.Deal, func(d Deal) bool {
		return d.Axis == axis && slices.ContainsFunc(v.Digits, func(p layout.PlacedDigit) bool {
			_, uses := d.Stride[p.Name]
			return (uses || d.Share == p.Name) && p.Radix != 1
		})
	})
}

// Route is a measured preference: within it the variant comes before the ones that follow. It never widens a bound.
type Route struct {
	Formats []string // none: every format of the family
	Arch    int      // 0: every architecture
	Dim     Dim      // the preference holds while Above < dim <= UpTo (0: no limit)
	Above   int64
	UpTo    int64
	Tokens  int64  // and there are more tokens than this
	Why     string // device, date, command, figure
}

// Crossover is a measured preference of a family over those of another numeric class.
type Crossover struct {
	Class   string   // of the others
	Formats []string // none: every format of the family
	Arch    int
	// The sizes that it holds for; 0 is no limit.
	RowsAbove, ColsUpTo, ElemsUpTo int64
	Why                            string // device, date, command, figure
}

// Holds reports whether the family comes first for a matrix.
func (x *Crossover) Holds(arch int, rows, cols int64) bool {
	return arch == x.Arch && rows > x.RowsAbove && (x.ColsUpTo == 0 || cols <= x.ColsUpTo) && (x.ElemsUpTo == 0 || rows*cols <= x.ElemsUpTo)
}

// Where says in words what it holds for.
func (x *Crossover) Where() string {
	s := fmt.Sprintf("sm_%d", x.Arch)
	if x.RowsAbove > 0 {
		s += fmt.Sprintf(", more than %d rows", x.RowsAbove)
	}
	if x.ColsUpTo > 0 {
		s += fmt.Sprintf(", up to %d columns", x.ColsUpTo)
	}
	if x.ElemsUpTo > 0 {
		s += fmt.Sprintf(", up to %d elements", x.ElemsUpTo)
	}
	return s
}

// CrossoversFor is those that hold for a format.
func (fam *Family) CrossoversFor(f *Format) []Crossover {
	var all []Crossover
	for _, x := range fam.Crossovers {
		if len(x.Formats) == 0 || f != nil && slices.Contains(x.Formats, f.Name) {
			all = append(all, x)
		}
	}
	return all
}

// VariantsFor is the variants that a format has: those for it whose layout it has.
func (fam *Family) VariantsFor(f *Format) []*Variant {
	if f == nil {
		return fam.Variants
	}
	var kept []*Variant
	for _, v := range fam.Variants {
		if f.Has(v.Weights) && (len(v.Formats) == 0 || slices.Contains(v.Formats, f.Name)) {
			kept = append(kept, v)
		}
	}
	return kept
}

// SwitchFor is the environment variable that turns the variant off for a format: "{format}" in Switch stands for the
// format's name in capitals, so that one switch never governs two formats.
func (v *Variant) SwitchFor(f *Format) string {
	if f == nil {
		return v.Switch
	}
	return strings.ReplaceAll(v.Switch, "{format}", strings.ToUpper(strings.ReplaceAll(f.Name, "_", "")))
}

// RoutesFor is the measured preferences that hold for a format.
func (v *Variant) RoutesFor(f *Format) []Route {
	var routes []Route
	for _, r := range v.Routes {
		if len(r.Formats) == 0 || f != nil && slices.Contains(r.Formats, f.Name) {
			routes = append(routes, r)
		}
	}
	return routes
}

// Symbol is the kernel's name in the module, family_format_variant.
func Symbol(fam *Family, f *Format, v *Variant) string {
	n := strings.ReplaceAll(fam.Name, "-", "_")
	if f != nil {
		n += "_" + f.Name
	}
	return n + "_" + v.Name
}

// SourceFile is the .cu file that holds a family's kernels for a format, relative to generated/cuda.
func SourceFile(fam *Family, f *Format) string {
	n := strings.ReplaceAll(fam.Name, "-", "_")
	if f != nil {
		n += "_" + f.Name
	}
	return n + ".cu"
}

// Geometry is the variant's dealing for one format (nil for a family without weights).
func (v *Variant) Geometry(f *Format) *layout.Geometry {
	g := &layout.Geometry{Digits: v.Digits, Helpers: v.Helpers}
	for _, d := range v.Deal {
		elems := d.Elems
		if f != nil {
			if e, ok := d.ByFmt[f.Name]; ok {
				elems = e
			}
		}
		dealt := layout.Dealing{Axis: d.Axis, Elems: elems, Stride: make([]int, len(v.Digits)), Share: -1, Queue: d.Queue}
		for i, digit := range v.Digits {
			dealt.Stride[i] = d.Stride[digit.Name]
			if d.Share == digit.Name && d.Share != "" {
				dealt.Share = i
			}
		}
		g.Axes = append(g.Axes, dealt)
	}
	return g
}
