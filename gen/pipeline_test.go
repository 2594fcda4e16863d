package gen_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minfer/minfer/gen"
	"github.com/minfer/minfer/gen/model"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the code does now")

// TestGolden loads every folder testdata/CASE/specs: what is refused must say exactly stderr.txt, what is accepted
// must resolve to exactly want/catalog.txt.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*/specs")
	if err != nil || len(cases) < 10 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, specs := range cases {
		dir := filepath.Dir(specs)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			catalog, err := gen.Load(os.DirFS(specs))
			stderr, want := filepath.Join(dir, "stderr.txt"), filepath.Join(dir, "want", "catalog.txt")
			if err != nil {
				if gen.Faults(err) == nil {
					t.Fatalf("not a fault of the specs: %v", err)
				}
				golden(t, stderr, err.Error()+"\n")
				absent(t, want)
				return
			}
			golden(t, want, dump(catalog))
			absent(t, stderr)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; it would hold:\n%s", err, got)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func absent(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(name); err == nil {
		t.Errorf("%s is there, but the case ends the other way", name)
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// dump writes the resolved model of the formats and tables, every fact of it.
func dump(c *model.Catalog) string {
	var b strings.Builder
	for _, f := range c.Formats {
		fmt.Fprintf(&b, "format %s id %d elems %d bytes %d padded %t from %s\n", f.Name, f.ID, f.Elems, f.Bytes, f.Padded, f.Spec)
		if f.Doc != "" {
			fmt.Fprintf(&b, "  doc %q\n", f.Doc)
		}
		for _, d := range f.Fields {
			fmt.Fprintf(&b, "  field %s at %d %s[%d]\n", d.Name, d.AtBytes, d.Type.Name, d.Count)
		}
		for _, s := range f.Segs {
			fmt.Fprintf(&b, "  segment from %d shape %v\n", s.FirstElem, s.Shape)
			for _, code := range s.Codes {
				fmt.Fprintf(&b, "    code %s bits %d as %s mul %g add %g", code.Name, code.Bits, code.As, code.Mul, code.Add)
				if code.As == model.Levels {
					fmt.Fprintf(&b, " %v", code.Levels)
				}
				if x := code.Then; x != nil {
					fmt.Fprintf(&b, " then %d bits", code.ThenBits)
					if x.Table != nil {
						fmt.Fprintf(&b, " of table %s", x.Table.Name)
					}
					if x.Parity {
						fmt.Fprint(&b, " with parity")
					}
					if x.Radix != 0 {
						fmt.Fprintf(&b, " of %d digits in base %d", x.Digits, x.Radix)
					}
				}
				fmt.Fprintln(&b)
				for _, p := range code.Planes {
					source := ""
					if p.Field != nil {
						source = "field " + p.Field.Name
					} else {
						source = "code " + p.Code.Name
					}
					fmt.Fprintf(&b, "      %d bits of %s at %d stride %v shared %t\n", p.Bits, source, p.Layout.Base, p.Layout.Stride, p.Shared)
				}
			}
			v := s.Value
			fmt.Fprintf(&b, "    value scale %s weight %s bias %s minus %s plus %s\n", names(v.Scale), names(v.Weight), names(v.Bias), names(v.Minus), names(v.Plus))
		}
		for _, s := range f.Sums {
			fmt.Fprintf(&b, "  sum %s of %s times %s\n", s.Code.Name, s.Of.Name, names(s.Times))
		}
		if e := f.Encode; e != nil {
			fmt.Fprintf(&b, "  encode fit %s round %s code %s scale %s offset %s search %d\n", e.Fit, e.Round, e.Code.Name, names(e.Scale), names(e.Offset), e.Search)
		}
	}
	for _, t := range c.Tables {
		fmt.Fprintf(&b, "table %s width %d bits %d entries %x\n", t.Name, t.Width, t.Bits, t.Entries)
	}
	return b.String()
}

func names(codes []*model.Code) string {
	var list []string
	for _, c := range codes {
		list = append(list, c.Name)
	}
	return "[" + strings.Join(list, " ") + "]"
}
