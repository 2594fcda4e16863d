package conform

import (
	"bytes"
	"fmt"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
)

// kernelCase is what the conformance suite knows of one kernel beside its gate.
type kernelCase struct {
	Symbol string
	Axes   []axisCase
	Cover  model.Cover
}

type axisCase struct {
	Name                   string
	Dim                    model.Dim
	Elems, Period, Ceiling int
	Share                  bool
}

// floatCode is a code of a format that is read as floating point: where its bits lie in a block.
type floatCode struct {
	As     model.Number
	Planes []bitRun
}

type bitRun struct{ At, Count int }

// kernels writes package generated/conform: the table that the conformance suite of the kernels runs over. It is data with a runner
// elsewhere, unlike the tests of the formats, because one runner serves every device that kernels run on.
func kernels(c *model.Catalog) (emit.File, error) {
	var data struct {
		Cases  []kernelCase
		Floats []struct {
			Name  string
			Codes []floatCode
		}
	}
	for _, fam := range c.Families {
		formats := fam.Formats
		if len(formats) == 0 {
			formats = []*model.Format{nil}
		}
		for _, f := range formats {
			for _, v := range fam.VariantsFor(f) {
				data.Cases = append(data.Cases, caseOf(fam, v, f))
			}
		}
	}
	for _, f := range c.Formats {
		if f.InFile() && !f.Plain() {
			data.Floats = append(data.Floats, struct {
				Name  string
				Codes []floatCode
			}{f.Name, floatsOf(f)})
		}
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "kernels.go.tmpl", data); err != nil {
		return emit.File{}, fmt.Errorf("generated/conform: %w", err)
	}
	return emit.GoFile("conform/kernels.go", b.Bytes())
}

func caseOf(fam *model.Family, v *model.Variant, f *model.Format) kernelCase {
	k := kernelCase{Symbol: model.Symbol(fam, f, v), Cover: fam.Cover}
	geo := v.Geometry(f)
	for i := range geo.Axes {
		d := &geo.Axes[i]
		a := axisCase{Name: d.Axis, Dim: fam.Dims[d.Axis], Elems: d.Elems, Share: d.Share >= 0}
		a.Period, _ = geo.Period(d)
		if ceiling, bounded := geo.Ceiling(d); bounded && !a.Share {
			a.Ceiling = ceiling
		}
		k.Axes = append(k.Axes, a)
	}
	return k
}

// floatsOf lists the codes of a block that are read as floating point, each place once.
func floatsOf(f *model.Format) (codes []floatCode) {
	seen := map[string]bool{}
	for _, s := range f.Segs {
		for _, c := range s.Codes {
			if !floating(c.As) || c.Planes[0].Field == nil {
				continue
			}
			for e := range s.Elems() {
				digits := s.Shape.Digits(e)
				code := floatCode{As: c.As, Planes: runs(c, digits)}
				if key := fmt.Sprint(code); !seen[key] {
					seen[key] = true
					codes = append(codes, code)
				}
			}
		}
	}
	return codes
}

func runs(c *model.Code, digits []int) (planes []bitRun) {
	for _, p := range c.Planes {
		planes = append(planes, bitRun{8*p.Field.AtBytes + p.Layout.At(digits), p.Bits})
	}
	return planes
}

func floating(n model.Number) bool {
	switch n {
	case model.F16, model.BF16, model.F32, model.F64, model.E8M0, model.UE4M3:
		return true
	}
	return false
}
