package proof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer/minfer/gen/layout"
	"github.com/minfer/minfer/gen/model"
)

// scope is the threads whose partial sums a body adds up.
type scope string

const (
	overBlock  scope = "block"
	overWarp   scope = "warp"
	overThread scope = "thread"
)

// sums says of bodies that add up an axis which threads do it together. An output is then written once only if every
// piece of the axis is dealt to those threads, and all pieces that they add belong to one output.
var sums = map[string]struct {
	axis string
	over scope
}{
	"matvec_q8":    {"unit", overBlock},
	"matvec_f32":   {"unit", overWarp},
	"matmul_q8":    {"unit", overWarp},
	"matmul_mma":   {"unit", overThread},
	"matmul_wgmma": {"unit", overThread},
	"rmsnorm":      {"elem", overBlock},
}

// oneWriter finds digits that break a body's sum: an output that several blocks or warps would write, or a sum that would
// mix two outputs.
func oneWriter(fam *model.Family, g *layout.Geometry, warp int) (flaws []string) {
	body, known := sums[fam.Template]
	if !known {
		return nil
	}
	axis := g.Axis(body.axis)
	if axis == nil {
		return []string{fmt.Sprintf("body %s adds up axis %s, which is not dealt", fam.Template, body.axis)}
	}
	lanes := 1 // threads below the digit
	for i := len(g.Digits) - 1; i >= 0; i-- {
		p := g.Digits[i]
		inside := axis.Uses(i)
		if p.Radix == 1 {
			continue
		}
		switch {
		case p.Place.Grid() && inside:
			flaws = append(flaws, fmt.Sprintf("digit %s spreads %s over blocks, each of which would write the whole sum; body %s adds within a %s", p.Name, body.axis, fam.Template, body.over))
		case p.Place != layout.Thread:
		default:
			together := body.over == overBlock || body.over == overWarp && lanes < warp
			if together && !inside {
				flaws = append(flaws, fmt.Sprintf("digit %s deals threads that body %s adds up to another axis than %s, so its sum would mix outputs", p.Name, fam.Template, body.axis))
			}
			if body.over == overWarp && together && inside && lanes*p.Radix > warp {
				flaws = append(flaws, fmt.Sprintf("digit %s spreads %s over %d threads, and body %s adds within a warp of %d", p.Name, body.axis, lanes*p.Radix, fam.Template, warp))
			}
			if !together && inside {
				flaws = append(flaws, fmt.Sprintf("digit %s spreads %s over %ss, each of which would write its own sum; body %s adds within a %s", p.Name, body.axis, body.over, fam.Template, body.over))
			}
			lanes *= p.Radix
		}
	}
	if n := g.Threads(); n%warp != 0 {
		flaws = append(flaws, fmt.Sprintf("a block has %d threads; body %s adds over whole warps of %d", n, fam.Template, warp))
	}
	return flaws
}

// products are the bodies whose tensor cores fix where a lane's sums belong: of a product of 16 by 8, lane 4*group + seat holds rows
// group + 8*half and columns 2*seat + pair (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Each names the axis of the rows and of the columns.
// A body with helpers has other warps to decode for it. One that is split has, in row group + 8, what rounding left of row group, so that half
// is no digit. Of one with widths the products are those of warpgroups, of one of these widths (PTX ISA, "Register Fragments for
// wgmma.mma_async.m64nNk16"): digit warp has 16 rows each, digit along 64, and digit column 8 columns.
var products = map[string]struct {
	rows, columns  string
	group          string // what the digit is called
	helpers, split bool
	widths         []int
}{
	"matmul_mma":      {"row", "token", "group", true, false, nil},
	"matmul_wgmma":    {"token", "row", "group", true, false, []int{64, 128, 160}},
	"attend_mma":      {"token", "position", "group", false, false, nil},
	"attend_step_mma": {"head", "position", "query", false, true, nil},
}

// fragments finds digits that are dealt otherwise than the tensor cores deal them.
func fragments(fam *model.Family, g *layout.Geometry) (flaws []string) {
	body, known := products[fam.Template]
	if !known {
		return nil
	}
	wants := []dealt{{body.group, body.rows, 8, 1}, {"half", body.rows, 2, 8}, {"pair", body.columns, 2, 1}, {"seat", body.columns, 4, 2}}
	last := []string{body.group, "seat"} // digits of the thread
	if body.split {
		wants = slices.Delete(wants, 1, 2)
	}
	if body.widths != nil {
		wants = append(wants, dealt{"warp", body.rows, 4, 16}, dealt{"along", body.rows, 0, 64}, dealt{"column", body.columns, 0, 8})
		last = append([]string{"along", "warp"}, last...)
		if i := slices.IndexFunc(g.Digits, func(p layout.PlacedDigit) bool { return p.Name == "column" }); i >= 0 && !slices.Contains(body.widths, 8*g.Digits[i].Radix) {
			flaws = append(flaws, fmt.Sprintf("digit column: products of %d columns; the warpgroups of body %s multiply %v", 8*g.Digits[i].Radix, fam.Template, body.widths))
		}
	}
	for _, want := range wants {
		if !want.holds(g) {
			flaws = append(flaws, fmt.Sprintf("digit %s: the tensor cores of body %s deal it with %s", want.digit, fam.Template, want))
		}
	}
	if body.helpers && g.Helpers == 0 {
		flaws = append(flaws, fmt.Sprintf("helpers are due: body %s decodes weights with threads of their own", fam.Template))
	}
	var threads []string
	for _, p := range g.Digits {
		if p.Place == layout.Thread {
			threads = append(threads, p.Name)
		}
	}
	if n := len(threads); n < len(last) || !slices.Equal(threads[n-len(last):], last) {
		flaws = append(flaws, fmt.Sprintf("the last digits of the thread are %s, which number the lanes of body %s", strings.Join(last, ", "), fam.Template))
	}
	return flaws
}

// dealt is how a body deals a digit: with a radix, 0 where it may be any, and a stride of an axis.
type dealt struct {
	digit, axis   string
	radix, stride int
}

// String is the dealing in words.
func (d dealt) String() string {
	radix := ""
	if d.radix > 0 {
		radix = fmt.Sprintf("radix %d and ", d.radix)
	}
	return fmt.Sprintf("%sstride %d of axis %s", radix, d.stride, d.axis)
}

// holds reports whether a geometry deals the digit so.
func (d dealt) holds(g *layout.Geometry) bool {
	i := slices.IndexFunc(g.Digits, func(p layout.PlacedDigit) bool { return p.Name == d.digit })
	axis := g.Axis(d.axis)
	return i >= 0 && axis != nil && (d.radix == 0 || g.Digits[i].Radix == d.radix) && axis.Stride[i] == d.stride
}

// staged are the bodies that lay stages of tiles out in shared memory, and how: rows of both operands, the first stage at a multiple of alignBytes. Of one
// with an arch no other architecture has the instructions.
var staged = map[string]struct {
	least, most, rowBytes, alignBytes, arch int
}{
	"matmul_mma":   {least: 2, most: 2, rowBytes: 256},
	"matmul_wgmma": {least: 2, most: 64, rowBytes: 256, alignBytes: 1024, arch: 90},
}

// stages finds tiles that are sized otherwise than such a body uses them, and variants for architectures that it is not for.
func stages(fam *model.Family, v *model.Variant, g *layout.Geometry) (flaws []string) {
	body, known := staged[fam.Template]
	if !known {
		return nil
	}
	flaw := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	if body.arch > 0 && (v.Arch != body.arch || !v.Only) {
		flaw("arch: %d, only: true is due: no other architecture has the instructions of body %s", body.arch, fam.Template)
	}
	t := v.Shared.Tiles
	if t == nil {
		flaw("shared.tiles is due: body %s multiplies out of them", fam.Template)
		return flaws
	}
	if axes := slices.Sorted(slices.Values(t.Axes)); !slices.Equal(axes, []string{"row", "token"}) {
		flaw("shared.tiles has axes %s; body %s has tiles of row and token", strings.Join(t.Axes, ", "), fam.Template)
	}
	if t.Stages < body.least || t.Stages > body.most {
		flaw("shared.tiles has stages: %d; body %s has %d to %d", t.Stages, fam.Template, body.least, body.most)
	}
	if t.RowBytes != body.rowBytes || t.AlignBytes != body.alignBytes {
		flaw("shared.tiles has row_bytes: %d, align_bytes: %d; body %s has %d and %d", t.RowBytes, t.AlignBytes, fam.Template, body.rowBytes, body.alignBytes)
	}
	for digit, name := range map[string]string{"block": "row", "tile": "token"} {
		i := slices.IndexFunc(g.Digits, func(p layout.PlacedDigit) bool { return p.Name == digit })
		axis := g.Axis(name)
		if i < 0 || axis == nil {
			flaw("digit %s: body %s has one of axis %s, whose tiles it numbers", digit, fam.Template, name)
		} else if n, open := g.Period(axis); open != i {
			flaw("digit %s: body %s numbers the tiles of %d %ss by it", digit, fam.Template, n, name)
		}
	}
	// A helper of a warpgroup's tile copies the same chunk of tokens that lie whole groups of eight apart.
	if token := g.Axis("token"); body.alignBytes > 0 && token != nil {
		if n, _ := g.Period(token); g.Helpers%128 != 0 || g.Helpers > 0 && n%(g.Helpers/16) != 0 {
			flaw("%d threads help with %d tokens; body %s takes whole warpgroups of them, 16 to a token, that share the tokens evenly", g.Helpers, n, fam.Template)
		}
	}
	return flaws
}

// found finds what body top_k cannot find the best keys of a run with.
func found(fam *model.Family, v *model.Variant, g *layout.Geometry) (flaws []string) {
	elem, rank := g.Axis("elem"), g.Axis("rank")
	if fam.Template != "top_k" || elem == nil || rank == nil {
		return nil
	}
	flaw := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	threads, slots := g.Workers(), 1
	if i := slices.IndexFunc(g.Digits, func(p layout.PlacedDigit) bool { return p.Name == "slot" }); i >= 0 {
		slots = g.Digits[i].Radix
	}
	run, open := g.Period(elem)
	if open < 0 || g.Digits[open].Place != layout.GridX || g.Digits[open].Name != "run" {
		flaw("the runs of body top_k are digit run, at grid.x")
	}
	places, _ := g.Ceiling(rank)
	need, most := 8*run, run/2
	if v.Options["sift"] != 0 {
		need, most = 8*threads+8*(threads/4)+12, threads/8 // what is listed, the sample, the bound and a count
		if threads%256 != 0 {
			flaw("%d threads sift; body top_k looks at as many keys for every four of them, whole warps of keys at a time, so multiples of 256", threads)
		}
	} else {
		if run&(run-1) != 0 || slots%2 != 0 {
			flaw("runs of %d keys, %d of a thread; body top_k sorts powers of two, pairs of a thread", run, slots)
		}
		if v.Options["lists"] != 0 {
			flaw("lists goes with sift in body top_k")
		}
	}
	if places > most {
		flaw("%d places of %d keys; body top_k has %d at most there", places, run, most)
	}
	if v.Shared.FixedBytes < need {
		flaw("shared.fixed_bytes is %d; body top_k takes %d with these digits", v.Shared.FixedBytes, need)
	}
	return flaws
}

// taken are the elements of an axis that a body takes at a time, where it is not one: so many, with the values of a digit that it takes
// together, or another number, or any multiple of them.
var taken = map[string]struct {
	axis     string
	elems    int
	other    int
	digit    string
	multiple bool
}{
	"embed":       {axis: "unit", elems: 1, multiple: true},
	"matvec_f32":  {axis: "unit", elems: 4, multiple: true}, // activations are loaded by fours
	"matvec_q8":   {axis: "unit", elems: unitElems, multiple: true},
	"matmul_q8":   {axis: "unit", elems: unitElems, multiple: true},
	"matvec_ring": {axis: "unit", elems: unitElems},
	// A row of a tile in shared memory: tile_elems of mma.cuh, as the bodies assert.
	"matmul_mma":   {axis: "unit", elems: 128, digit: "piece"},
	"matmul_wgmma": {axis: "unit", elems: 128, digit: "piece"},
	"rope":         {axis: "pair", elems: 2},
	"round_bf16":   {axis: "elem", elems: 4},
	"silu_mul":     {axis: "elem", elems: 1, other: 4},
	"tile":         {axis: "unit", elems: 1, multiple: true}, // what the layout of tiles says, which is held against it elsewhere
}

// takenElems finds what is wrong with the elements of an axis that one index stands for: a body that takes others would drop some, or
// process some twice.
func takenElems(fam *model.Family, g *layout.Geometry, d *layout.Dealing) string {
	body, known := taken[fam.Template]
	if !known || body.axis != d.Axis {
		if d.Elems != 1 {
			return fmt.Sprintf("a %s of %d elements; body %s takes one at a time", d.Axis, d.Elems, fam.Template)
		}
		return ""
	}
	have, together := d.Elems, ""
	if i := slices.IndexFunc(g.Digits, func(p layout.PlacedDigit) bool { return p.Name == body.digit }); i >= 0 {
		have, together = have*g.Digits[i].Radix, fmt.Sprintf(" in each of %d %ss", g.Digits[i].Radix, body.digit)
	}
	switch {
	case body.multiple && have%body.elems != 0:
		return fmt.Sprintf("a %s of %d elements%s; body %s takes a multiple of %d", d.Axis, d.Elems, together, fam.Template, body.elems)
	case body.other > 0 && have != body.elems && have != body.other:
		return fmt.Sprintf("a %s of %d elements%s; body %s takes %d or %d", d.Axis, d.Elems, together, fam.Template, body.elems, body.other)
	case body.other == 0 && !body.multiple && have != body.elems:
		return fmt.Sprintf("a %s of %d elements%s; body %s takes %d", d.Axis, d.Elems, together, fam.Template, body.elems)
	}
	return ""
}

// octets are the bodies whose threads work by eights: the lanes of an octet, digit seat, have the units of a column, which is a digit too, and
// add up what each has of the rows of digit slot, which lie next to each other; a helping warp adds the columns.
var octets = map[string][]dealt{
	"matvec_ring": {{"seat", "unit", 8, 1}, {"column", "unit", 0, 8}, {"slot", "row", 0, 1}},
}

// inOctets finds digits that are dealt otherwise than such a body adds them up.
func inOctets(fam *model.Family, g *layout.Geometry, warp int) (flaws []string) {
	wants, known := octets[fam.Template]
	if !known {
		return nil
	}
	if g.Helpers != warp {
		flaws = append(flaws, fmt.Sprintf("%d threads help; in body %s a warp of %d copies rows and adds columns", g.Helpers, fam.Template, warp))
	}
	for _, want := range wants {
		if !want.holds(g) {
			flaws = append(flaws, fmt.Sprintf("digit %s: the octets of body %s deal it with %s", want.digit, fam.Template, want))
		}
	}
	lowest := true // of the thread's digits
	for i, p := range slices.Backward(g.Digits) {
		if p.Radix == 1 {
			continue
		}
		if p.Place == layout.Thread && lowest {
			lowest = false
			if p.Name != "seat" {
				flaws = append(flaws, fmt.Sprintf("digit %s is the lowest of the thread, where the octets of body %s have digit seat, so their sums would mix outputs", p.Name, fam.Template))
			}
		}
		if unit := g.Axis("unit"); unit != nil && unit.Uses(i) && (p.Place != layout.Thread || p.Name != "seat" && p.Name != "column") {
			flaws = append(flaws, fmt.Sprintf("digit %s deals unit on %s; the octets of body %s have no units but those of the thread's digits seat and column", p.Name, p.Place, fam.Template))
		}
	}
	return flaws
}

// queue says which axis a body deals out by a queue.
var queue = map[string]string{"matvec_ring": "row"}

// wholeWarps finds helpers that would share a warp with threads that deal work: barriers of parts of a block count whole warps.
func wholeWarps(g *layout.Geometry, warp int) (flaws []string) {
	if g.Helpers > 0 && (g.Workers()%warp != 0 || g.Helpers%warp != 0) {
		flaws = append(flaws, fmt.Sprintf("%d threads deal work and %d help; both are whole warps of %d", g.Workers(), g.Helpers, warp))
	}
	return flaws
}

// queues finds axes that digits deal by a queue and the body does not, or the other way round.
func queues(fam *model.Family, g *layout.Geometry) (flaws []string) {
	for _, d := range g.Axes {
		if by := queue[fam.Template] == d.Axis; by != d.Queue {
			flaws = append(flaws, fmt.Sprintf("axis %s has queue: %t, and body %s says %t", d.Axis, d.Queue, fam.Template, by))
		}
	}
	return flaws
}
