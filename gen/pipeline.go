// Package gen is the generator: specs in, files out. Generate is a pure function without clock, environment or disk.
package gen

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"github.com/minfer/minfer/gen/diag"
	"github.com/minfer/minfer/gen/emit"
	"github.com/minfer/minfer/gen/emit/conform"
	"github.com/minfer/minfer/gen/emit/cpu"
	"github.com/minfer/minfer/gen/emit/cuda"
	"github.com/minfer/minfer/gen/emit/format"
	"github.com/minfer/minfer/gen/emit/gate"
	"github.com/minfer/minfer/gen/emit/machine"
	"github.com/minfer/minfer/gen/emit/report"
	"github.com/minfer/minfer/gen/emit/schema"
	"github.com/minfer/minfer/gen/emit/shape"
	"github.com/minfer/minfer/gen/emit/tile"
	"github.com/minfer/minfer/gen/emit/vec"
	"github.com/minfer/minfer/gen/load"
	"github.com/minfer/minfer/gen/model"
	"github.com/minfer/minfer/gen/output"
	"github.com/minfer/minfer/gen/proof"
	"github.com/minfer/minfer/gen/spec"
)

// emitters turn the proved catalog into files, each into its own folders of generated/.
var emitters = []emit.Emitter{
	format.Emitter{},  // generated/format: ids, sizes and block types
	cpu.Emitter{},     // generated/cpu: kernels in portable Go
	tile.Emitter{},    // generated/tile: matrix kernels of the CPU in assembly, and the layout that they read
	vec.Emitter{},     // generated/vec: vector assembly of what runs beside products with weights
	cuda.Emitter{},    // generated/cuda: GPU kernels and the headers that they include
	gate.Emitter{},    // generated/gate: which kernel may run a shape
	conform.Emitter{}, // generated/cpu, generated/conform: the tests of the kernels
	report.Emitter{},  // generated/FORMATS.md: what follows from each spec
	shape.Emitter{},   // generated/shape: the shapes of real models
	machine.Emitter{}, // generated/machine: GPUs that plans are made for
	schema.Emitter{},  // generated/schema: JSON Schema of the specs, for editors
}

// Files are generated files, ordered by path.
type Files []emit.File

// Load reads, resolves and proves the specs in fsys (the specs folder). Faults of the specs are a diag.List with every
// one of them; any other error is one of reading.
func Load(fsys fs.FS) (*model.Catalog, error) {
	set, diags, err := spec.Read(fsys) // parse: YAML to structs, positions kept
	if err != nil {
		return nil, err
	}
	catalog, positions, faults := load.Load(set) // resolve: names bound, defaults filled in, sorted
	diags.Add(faults)
	diags.Add(proof.Prove(catalog, positions)) // prove: layouts, ranges, sums, rounding schemes
	diags.Add(cuda.Names(catalog, positions))  // and that what kernels declare has names that are free
	return catalog, diags.Err()
}

// Stale names what was measured with other kernels than the specs in fsys, which Load takes, make now.
func Stale(fsys fs.FS) (diag.List, error) {
	set, _, err := spec.Read(fsys)
	if err != nil {
		return nil, err
	}
	catalog, positions, _ := load.Load(set)
	return load.Stale(catalog, positions), nil
}

// Generate makes every generated file from the specs in fsys. The same specs give the same bytes.
func Generate(fsys fs.FS) (Files, error) {
	catalog, err := Load(fsys)
	if err != nil {
		return nil, err // stop before anything is emitted
	}
	files, err := emitAll(catalog) // emit: catalog to files
	if err != nil {
		return nil, err
	}
	return append(files, output.Manifest(files)), nil // sign: the hash of every file, to tell hand edits by
}

// emitAll runs the emitters and orders their files.
func emitAll(catalog *model.Catalog) (Files, error) {
	var files Files
	for _, e := range emitters {
		more, err := e.Emit(catalog)
		if err != nil {
			return nil, fmt.Errorf("emitting %s: %w", e.Name(), err)
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b emit.File) int { return cmp.Compare(a.Path, b.Path) })
	for i, f := range files {
		if !fs.ValidPath(f.Path) || i > 0 && f.Path == files[i-1].Path {
			panic("BUG: two emitters yield " + f.Path + ", or it is no path inside the folder")
		}
	}
	return files, nil
}

// Faults returns the diagnostics in an error of Load or Generate; nil when the specs are not what is wrong.
func Faults(err error) diag.List {
	list, _ := err.(diag.List)
	return list
}
