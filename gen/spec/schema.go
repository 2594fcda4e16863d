package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// Kinds names the kinds of spec, each by the folder below specs/ that its files are in.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.dir)
	}
	return names
}

// Schema is the JSON Schema of the specs of one kind, made from the structs that decode them: editors complete and
// check with the rules of this package. It knows the grammar alone; names and layouts are checked by minfer-gen.
func Schema(kind string) ([]byte, error) {
	for _, k := range kinds {
		if k.dir == kind {
			return schemaOf(reflect.TypeOf(k.proto), path.Join(Root, kind))
		}
	}
	return nil, fmt.Errorf("there is no kind of spec called %q; there are %s", kind, strings.Join(Kinds(), ", "))
}

func schemaOf(t reflect.Type, title string) ([]byte, error) {
	s := reflector().ReflectFromType(t)
	s.Title = title + "/*.yaml"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", title, err)
	}
	return b.Bytes(), nil
}

func reflector() *jsonschema.Reflector {
	return &jsonschema.Reflector{
		Anonymous:                  true,
		DoNotReference:             true,
		ExpandedStruct:             true,
		RequiredFromJSONSchemaTags: true,
		FieldNameTag:               "yaml",
		Mapper:                     leafSchema,
	}
}

// leafSchema describes the types that hold a value and its position, which look like records by reflection.
func leafSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Text]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[Int]():
		return &jsonschema.Schema{Type: "integer"}
	case reflect.TypeFor[Real]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[Bool]():
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.TypeFor[Pair]():
		one := uint64(1)
		return &jsonschema.Schema{
			Type: "object", MinProperties: &one, MaxProperties: &one,
			PropertyNames:        &jsonschema.Schema{Pattern: namePattern.String()},
			AdditionalProperties: &jsonschema.Schema{Type: "integer", Minimum: "1"},
		}
	}
	if !isMap(t) {
		return nil
	}
	entry, _ := t.FieldByName("Entries")
	value, _ := entry.Type.Elem().FieldByName("Value")
	inner := leafSchema(value.Type)
	if inner == nil {
		inner = reflector().ReflectFromType(value.Type)
		inner.Version = ""
	}
	return &jsonschema.Schema{
		Type:                 "object",
		PropertyNames:        &jsonschema.Schema{Pattern: namePattern.String()},
		AdditionalProperties: inner,
	}
}
