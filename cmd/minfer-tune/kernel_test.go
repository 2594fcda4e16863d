package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/generated/conform"
	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/specs"
)

func catalog(t testing.TB) *model.Catalog {
	t.Helper()
	c, err := gen.Load(specs.FS)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is made of a variant here is what its generated gate and its conformance case say: constants, refusals, grids and shared memory, at
// random shapes and around each bound.
func TestVariantsAreThoseOfTheGates(t *testing.T) {
	c := catalog(t)
	r := rand.New(rand.NewPCG(5, 6))
	n := 0
	for _, fam := range c.Families {
		for _, e := range gate.All {
			if e.Family != fam.Name {
				continue
			}
			f := formatOf(c, e.Format)
			for i := range e.Steps {
				step := &e.Steps[i]
				v := fam.Variants[slices.IndexFunc(fam.Variants, func(v *model.Variant) bool { return v.Name == step.Variant.Name })]
				have := entryOf(c, fam, v, f)
				ignore := cmpopts.IgnoreFields(kernel.Variant{}, "Grid", "Shared", "Source", "SameBits", "First", "Base")
				if diff := cmp.Diff(step.Variant, have.Steps[0].Variant, ignore); diff != "" {
					t.Errorf("%s (-gate +here):\n%s", step.Variant, diff)
				}
				if g := geometryOf(fam, v, f); !reflect.DeepEqual(g, conform.Kernels[step.Variant.Symbol]) {
					t.Errorf("%s: the case is %+v, here %+v", step.Variant, conform.Kernels[step.Variant.Symbol], g)
				}
				for range 200 {
					q := randomQuery(r, step.Variant)
					if a, b := step.Refuse(&q), have.Steps[0].Refuse(&q); a != b {
						t.Fatalf("%s: %+v: the gate refuses for %d, here for %d", step.Variant, q, a, b)
					}
					if a, b := step.Variant.Grid(&q), have.Steps[0].Variant.Grid(&q); a != b {
						t.Fatalf("%s: %+v: grid %v, here %v", step.Variant, q, a, b)
					}
					if a, b := step.Variant.Shared(&q), have.Steps[0].Variant.Shared(&q); a != b {
						t.Fatalf("%s: %+v: %d bytes of shared memory, here %d", step.Variant, q, a, b)
					}
				}
				n++
			}
		}
	}
	if n != len(conform.Kernels) {
		t.Errorf("%d variants of %d", n, len(conform.Kernels))
	}
}

// randomQuery has sizes of any magnitude, some of them at a bound of the variant or next to it.
func randomQuery(r *rand.Rand, v *kernel.Variant) kernel.Query {
	size := func() int64 { return r.Int64N(1 << r.IntN(33)) }
	q := kernel.Query{Rows: size(), Cols: size(), Tokens: size(), Heads: size(), KVHeads: size(), HeadDim: size(), Context: size(), Group: size(), Shares: 1 + r.Int64N(200),
		Weights: v.Weights, Arch: []int{80, 90}[r.IntN(2)], SharedBytes: size()}
	if r.IntN(8) == 0 {
		q.Weights = "file"
	}
	for _, b := range v.Bounds {
		if b.Dim == "" || r.IntN(2) == 0 {
			continue
		}
		n := b.Value + []int64{-b.Value / 2, -1, 0, 0, 1}[r.IntN(5)]
		switch b.Dim {
		case "rows":
			q.Rows = n
		case "cols":
			q.Cols = n / 256 * 256
		case "tokens":
			q.Tokens = n
		case "group":
			q.Group = n
		case "head_dim":
			q.HeadDim = n
		}
	}
	return q
}
