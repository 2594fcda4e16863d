// Package schema emits the JSON Schema of each kind of spec, so that editors complete and check specs as they are typed.
package schema

import (
	"strings"

	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/spec"
)

// Emitter emits generated/schema.
type Emitter struct{}

// Name is the emitter's name.
func (Emitter) Name() string { return "schema" }

// Emit yields schema/KIND.schema.json for each kind of spec, which follows from the decoder's structs alone.
func (Emitter) Emit(*model.Catalog) ([]emit.File, error) {
	var files []emit.File
	for _, kind := range spec.Kinds() {
		data, err := spec.Schema(kind)
		if err != nil {
			return nil, err
		}
		files = append(files, emit.File{Path: "schema/" + strings.ReplaceAll(kind, "/", "-") + ".schema.json", Data: data})
	}
	return files, nil
}
