package cpu

import (
	"fmt"

	"github.com/minfer/minfer/gen/model"
)

// activation is the geometry of the format that activations are quantized to: y = d*q with signed 8-bit q in
// element order, and the sum of a block's q stored beside it.
type activation struct {
	format *model.Format
	elems  int
	bytes  int
	dAt    int // offset of the f16 scale
	qAt    int // offset of the first q
	sumAt  int // offset of the i32 sum of q
}

// activationOf finds the catalog's activation format: the one that no file holds. Without one there is no 8-bit dot product.
func activationOf(c *model.Catalog) (*activation, error) {
	var found *activation
	for _, f := range c.Formats {
		if f.InFile() {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s and %s are both activation formats; the kernels use one", found.format.Name, f.Name)
		}
		a, err := newActivation(f)
		if err != nil {
			return nil, fmt.Errorf("%s: as the activation format of the 8-bit dot product: %w", f.Name, err)
		}
		found = a
	}
	return found, nil
}

func newActivation(f *model.Format) (*activation, error) {
	a := &activation{format: f, elems: f.Elems, bytes: f.Bytes, sumAt: -1}
	if len(f.Segs) != 1 {
		return nil, fmt.Errorf("it must be one segment")
	}
	v := f.Segs[0].Value
	if len(v.Scale) != 1 || len(v.Weight) != 1 || len(v.Bias)+len(v.Minus)+len(v.Plus) > 0 {
		return nil, fmt.Errorf("its value must be one scale times one code")
	}
	d, q := v.Scale[0], v.Weight[0]
	if field := d.Planes[0].Field; field == nil || d.As != model.F16 || field.Count != 1 {
		return nil, fmt.Errorf("its scale %s must be an f16 field", d.Name)
	} else {
		a.dAt = field.AtBytes
	}
	p := q.Planes[0]
	if len(q.Planes) != 1 || q.As != model.Signed || q.Bits != 8 || p.Field == nil || q.Mul != 1 || q.Add != 0 {
		return nil, fmt.Errorf("its weight %s must be a signed 8-bit code", q.Name)
	}
	shape := f.Segs[0].Shape
	for i := range shape {
		if shape[i].Radix > 1 && p.Layout.Stride[i] != 8*shape.Weight(i) {
			return nil, fmt.Errorf("its weight %s must lie in element order", q.Name)
		}
	}
	a.qAt = p.Field.AtBytes + p.Layout.Base/8
	for _, s := range f.Sums {
		if field := s.Code.Planes[0].Field; s.Of == q && len(s.Times) == 0 && field != nil && field.Type.Name == "i32" && field.Count == 1 {
			a.sumAt = field.AtBytes
		}
	}
	if a.sumAt < 0 {
		return nil, fmt.Errorf("it must store the sum of %s in an i32 field", q.Name)
	}
	return a, nil
}
