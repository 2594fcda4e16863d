package load_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/interp"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

// FuzzFormat takes any bytes as the spec of a format: it is refused with positions, or it resolves, is proved or
// refused, and what is proved dequantizes any block. Nothing panics.
func FuzzFormat(f *testing.F) {
	set, _, err := spec.Read(specs.FS)
	if err != nil {
		f.Fatal(err)
	}
	names, err := fs.Glob(specs.FS, "formats/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	refused, err := filepath.Glob("../testdata/*/specs/formats/*.yaml")
	if err != nil || len(refused) < 40 {
		f.Fatal(len(refused), err)
	}
	for _, name := range refused {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer time.AfterFunc(5*time.Second, func() { panic("reading the spec takes for ever") }).Stop()
		var diags diag.List
		s := spec.ParseFormat("specs/formats/q.yaml", data, &diags)
		if s == nil {
			if len(diags) == 0 {
				t.Fatal("no spec and no diagnostic")
			}
			return
		}
		catalog, pos, more := load.Load(&spec.Set{Formats: []*spec.Format{s}, Tables: set.Tables})
		diags.Add(more)
		// A fault of the name alone hides nothing: go on to the proof.
		for _, m := range catalog.Formats {
			diags.Add(proveAndRead(t, m, pos))
		}
		for _, d := range diags {
			if d.Pos.File != "specs/formats/q.yaml" || d.Pos.Line < 0 || strings.TrimSpace(d.Message) == "" {
				t.Fatalf("a diagnostic that helps nobody: %q", d)
			}
			if lines := strings.Count(string(data), "\n") + 1; d.Pos.Line > lines {
				t.Fatalf("%q points behind the last of %d lines", d, lines)
			}
		}
	})
}

func proveAndRead(t *testing.T, f *model.Format, pos *load.Positions) diag.List {
	if f.Elems > 1024 || f.Bytes > 4096 {
		return nil // the proof is by enumeration; keep the fuzzer going
	}
	if diags := proof.Format(f, pos); len(diags) > 0 {
		return diags
	}
	y, err := interp.Dequantize(f, make([]byte, 2*f.Bytes))
	if err != nil || len(y) != 2*f.Elems {
		t.Fatalf("two blocks give %d values: %v", len(y), err)
	}
	proof.FactsOf(f)
	return nil
}

// FuzzTable takes any bytes as a codebook.
func FuzzTable(f *testing.F) {
	names, err := fs.Glob(specs.FS, "formats/tables/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer time.AfterFunc(5*time.Second, func() { panic("reading the spec takes for ever") }).Stop()
		var diags diag.List
		s := spec.ParseTable("specs/formats/tables/t.yaml", data, &diags)
		if s == nil {
			if len(diags) == 0 {
				t.Fatal("no table and no diagnostic")
			}
			return
		}
		catalog, _, more := load.Load(&spec.Set{Tables: []*spec.Table{s}})
		if len(diags)+len(more) == 0 && len(catalog.Tables) != 1 {
			t.Fatal("no table and no diagnostic")
		}
	})
}
