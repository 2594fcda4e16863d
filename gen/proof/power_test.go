package proof_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/internal/shared"
	"github.com/minfer/minfer/gen/interp"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// mutant is one small damage to a spec.
type mutant struct {
	name        string
	apply, undo func()
}

// mutants lists every damage: each number of the spec one up and one down (levels, mul and add also by a quarter),
// strides given to digits that have none, and every two strides of a plane swapped.
func mutants(s *spec.Format) []mutant {
	var out []mutant
	// integer stays within what the decoder lets through: from least on.
	integer := func(name string, n *spec.Int, def, least int) {
		old := *n
		for _, d := range []int{-1, 1} {
			if old.Or(def)+d < least {
				continue
			}
			out = append(out, mutant{fmt.Sprintf("%s %+d", name, d), func() {
				*n = spec.Int{Value: old.Or(def) + d, At: s.At}
			}, func() { *n = old }})
		}
	}
	real := func(name string, x *spec.Real, def float64) {
		old := *x
		for _, d := range []float64{-1, 1, -0.25, 0.25} {
			out = append(out, mutant{fmt.Sprintf("%s %+g", name, d), func() {
				*x = spec.Real{Value: old.Or(def) + d, At: s.At}
			}, func() { *x = old }})
		}
	}
	plane := func(name string, p *spec.Plane, shape []spec.Pair) {
		integer(name+".bits", &p.Bits, 0, 1)
		integer(name+".base", &p.Base, 0, math.MinInt)
		strides := p.Stride.Entries
		for i := range strides {
			integer(name+".stride."+strides[i].Name.Value, &strides[i].Value, 0, math.MinInt)
			for j := range i {
				swap := func() {
					strides[i].Value.Value, strides[j].Value.Value = strides[j].Value.Value, strides[i].Value.Value
				}
				if strides[i].Value.Value != strides[j].Value.Value {
					out = append(out, mutant{fmt.Sprintf("%s.stride swaps %s and %s", name, strides[i].Name.Value, strides[j].Name.Value), swap, swap})
				}
			}
		}
		old := p.Stride
		for _, d := range shape {
			if d.Value.Value == 1 || contains(old.Names(), d.Name.Value) {
				continue
			}
			out = append(out, mutant{fmt.Sprintf("%s.stride.%s from none to 1", name, d.Name.Value), func() {
				p.Stride.Entries = append(append([]spec.Entry[spec.Int](nil), old.Entries...), spec.Entry[spec.Int]{Name: d.Name, Value: spec.Int{Value: 1, At: s.At}})
			}, func() { p.Stride = old }})
		}
	}
	codes := func(prefix string, m spec.Map[spec.Code], shape []spec.Pair) {
		for i := range m.Entries {
			e := &m.Entries[i]
			name := prefix + e.Name.Value
			if e.Value.From.Set() {
				plane(name, &e.Value.Plane, shape)
			}
			for j := range e.Value.Planes {
				plane(fmt.Sprintf("%s.planes[%d]", name, j), &e.Value.Planes[j], shape)
			}
			for j := range e.Value.Levels {
				real(fmt.Sprintf("%s.levels[%d]", name, j), &e.Value.Levels[j], 0)
			}
			// The numbers of a code that only feeds other codes, or whose value is redundant, are not seen anywhere.
			if e.Value.Then == nil && !contains(s.Sums.Names(), e.Name.Value) {
				real(name+".mul", &e.Value.Mul, 1)
				real(name+".add", &e.Value.Add, 0)
			}
			if t := e.Value.Then; t != nil && t.Radix.Set() {
				integer(name+".then.radix", &t.Radix, 0, 2)
				integer(name+".then.digits", &t.Digits, 0, 1)
			}
		}
	}
	integer("ggml_id", &s.ID, 0, 0)
	integer("block.elems", &s.Block.Elems, 0, 1)
	integer("block.bytes", &s.Block.Bytes, 0, 1)
	for i := range s.Shape {
		integer("shape."+s.Shape[i].Name.Value, &s.Shape[i].Value, 0, 1)
	}
	for i := range s.Fields.Entries {
		e := &s.Fields.Entries[i]
		integer(e.Name.Value+".at", &e.Value.Bytes, 0, 0)
		integer(e.Name.Value+".count", &e.Value.Count, 1, 1)
	}
	shape := s.Shape
	codes("", s.Codes, shape)
	for i := range s.Segments {
		g := &s.Segments[i]
		prefix := fmt.Sprintf("segments[%d].", i)
		integer(prefix+"elems", &g.Elems, 0, 1)
		for j := range g.Shape {
			integer(prefix+"shape."+g.Shape[j].Name.Value, &g.Shape[j].Value, 0, 1)
		}
		codes(prefix, g.Codes, g.Shape)
	}
	return out
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestPower damages every spec in every small way and demands that the loader, a rule or a golden block notices.
func TestPower(t *testing.T) {
	golden := shared.Path(t, "golden", "dequant")
	set, diags, err := spec.Read(specs.FS)
	if err != nil || len(diags) > 0 {
		t.Fatal(err, diags.Err())
	}
	total, noticed := 0, map[string]int{}
	for _, s := range set.Formats {
		if !s.ID.Set() {
			continue // no golden: nothing but this project knows the format
		}
		name := s.Format.Value
		if _, err := os.Stat(path.Join(golden, name+".bin")); err != nil {
			t.Logf("%s: no golden blocks, so nobody judges the values of its mutants", name)
			continue
		}
		blocks, want := readFile(t, path.Join(golden, name+".bin")), readFile(t, path.Join(golden, name+".f32"))
		id := s.ID.Value
		judge := func() string {
			catalog, pos, diags := load.Load(&spec.Set{Formats: []*spec.Format{s}, Tables: set.Tables})
			switch {
			case len(diags) > 0:
				return "loader" + unplaced(diags)
			case len(proof.Prove(catalog, pos)) > 0:
				return "proof" + unplaced(proof.Prove(catalog, pos))
			case !sameAsGolden(catalog.Formats[0], blocks, want) || catalog.Formats[0].ID != id:
				return "golden"
			}
			return ""
		}
		if by := judge(); by != "" {
			t.Fatalf("%s: the unharmed spec is refused by %s", name, by)
		}
		for _, m := range mutants(s) {
			m.apply()
			by := judge()
			m.undo()
			total++
			noticed[by]++
			if (by == "") != equivalent[name+": "+m.name] || strings.Contains(by, "without") {
				t.Errorf("%s: %s was noticed by %q", name, m.name, by)
			}
		}
	}
	t.Logf("%d mutants, noticed by: %v", total, noticed)
	if total < 1500 {
		t.Errorf("only %d mutants", total)
	}
}

// equivalent lists the mutants that change nothing that can be seen, each for a reason.
var equivalent = map[string]bool{
	// The bytes of the last segment hold a fifth digit that no element reads.
	"tq1_0: segments[2].b.then.digits -1": true,
}

// unplaced marks diagnostics that do not say where.
func unplaced(diags diag.List) string {
	for _, d := range diags {
		if !d.Pos.IsValid() {
			return " without a position: " + d.Message
		}
	}
	return ""
}

// sameAsGolden dequantizes block by block until one differs.
func sameAsGolden(f *model.Format, blocks, want []byte) bool {
	if len(blocks)%f.Bytes != 0 || len(blocks)/f.Bytes*f.Elems*4 != len(want) {
		return false
	}
	for ; len(blocks) > 0; blocks = blocks[f.Bytes:] {
		y, err := interp.Dequantize(f, blocks[:f.Bytes])
		if err != nil {
			return false
		}
		for _, v := range y {
			if math.Float32bits(v) != binary.LittleEndian.Uint32(want) {
				return false
			}
			want = want[4:]
		}
	}
	return true
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
