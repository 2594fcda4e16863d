package spec_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/spec"
	"github.com/minfer/minfer/specs"
)

func compile(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	data, err := spec.Schema(kind)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate checks a YAML text by the schema.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemaAcceptsSpecs validates every spec by the schema of its kind.
func TestSchemaAcceptsSpecs(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	for _, kind := range spec.Kinds() {
		schemas[kind] = compile(t, kind)
	}
	n := 0
	err := fs.WalkDir(specs.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(specs.FS, name)
		if err != nil {
			return err
		}
		if err := validate(t, schemas[path.Dir(name)], data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n++
		return nil
	})
	if err != nil || n < 39 {
		t.Errorf("%d specs: %v", n, err)
	}
}

const good = `format: good
ggml_id: 40
block: {elems: 8, bytes: 6}
shape: [{l: 8}]
fields:
  d:  {at: 0, type: f16}
  qs: {at: 2, type: u8, count: 4}
codes:
  q: {from: qs, bits: 4, stride: {l: 4}, add: -8}
value: {scale: [d], weight: [q]}
`

// TestSchemaAndDecoderAgree damages a spec in ways that are the grammar's business; schema and decoder must both
// refuse it, and both accept the unharmed one.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema := compile(t, "formats")
	both := func(text string) (bySchema, byDecoder bool) {
		var diags diag.List
		spec.ParseFormat("specs/formats/good.yaml", []byte(text), &diags)
		return validate(t, schema, []byte(text)) != nil, len(diags) > 0
	}
	if s, d := both(good); s || d {
		t.Fatalf("the good spec is refused: schema %t, decoder %t", s, d)
	}
	for _, edit := range [][2]string{
		{"format: good\n", ""},
		{"format: good", "format: 4K"},
		{"ggml_id: 40", "ggml_id: -1"},
		{"ggml_id: 40", "ggml_id: 40.5"},
		{"block:", "blok:"},
		{"elems: 8", "elems: 0"},
		{"elems: 8, ", ""},
		{"{l: 8}", "{l: 0}"},
		{"{l: 8}", "{l: 4, k: 2}"},
		{"{l: 8}", "8"},
		{"type: f16", "type: f61"},
		{"count: 4", "count: -4"},
		{"count: 4", "cuont: 4"},
		{"bits: 4", "bits: 65"},
		{"bits: 4", "bits: four"},
		{"bits: 4", "bit: 4"},
		{"{l: 4}", "4"},
		{"add: -8", "add: x"},
		{"add: -8", "as: unsigned"},
		{"value: {scale: [d], weight: [q]}\n", ""},
		{"weight: [q]", "weights: [q]"},
		{"[q]", "q"},
		{"value:", "encode: {fit: best, round: even, code: q, scale: [d]}\nvalue:"},
		{"value:", "padded: 1\nvalue:"},
	} {
		text := strings.Replace(good, edit[0], edit[1], 1)
		if text == good {
			t.Fatalf("%q changes nothing", edit)
		}
		if s, d := both(text); !s || !d {
			t.Errorf("%q for %q: refused by schema %t, by decoder %t", edit[1], edit[0], s, d)
		}
	}
}
