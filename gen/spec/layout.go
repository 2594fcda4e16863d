package spec

import "github.com/minfer/minfer/gen/diag"

// Layout is specs/layouts/FORMAT_WEIGHTS.yaml: where the codes of a format lie in device memory, for kernels that read them so. It is
// a description of the format's block at other bit addresses; what the codes mean stays as the format says.
type Layout struct {
	At     diag.Pos `yaml:"-"`
	Digest string   `yaml:"-"`
	Faulty bool     `yaml:"-"`

	Doc     Text           `yaml:"doc" jsonschema:"required" jsonschema_description:"What the order is good for."`
	Format  Text           `yaml:"format" jsonschema:"required,pattern=^[a-z][a-zA-Z0-9_]*$" jsonschema_description:"The format whose codes are moved."`
	Weights Text           `yaml:"weights" jsonschema:"required,pattern=^[a-z][a-z0-9]*$" jsonschema_description:"Name of the layout: what a kernel variant asks for."`
	Order   Text           `yaml:"order" jsonschema:"required,enum=blocks,enum=planes" jsonschema_description:"blocks: a row is its blocks. planes: a row is, for each field, that field of all its blocks, larger fields first."`
	Bytes   Int            `yaml:"block_bytes" jsonschema:"required,minimum=1,maximum=1048576" jsonschema_description:"Bytes of a block."`
	Shape   []Pair         `yaml:"shape" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"The digits of an element's index, most significant first; they may be finer than the format's."`
	Fields  Map[Field]     `yaml:"fields" jsonschema:"required" jsonschema_description:"The parts of a block. They tile it: no gap, no overlap (unless padded). A field that the format's value names keeps its name and type."`
	Codes   Map[MovedCode] `yaml:"codes" jsonschema:"required" jsonschema_description:"Where each code that reads fields lies now."`
	Padded  Bool           `yaml:"padded" jsonschema_description:"true: the fields leave gaps on purpose."`
}

// MovedCode is where a code lies. A code of one plane may put the plane's keys in the code itself.
type MovedCode struct {
	Plane  `yaml:",inline"`
	Planes []Plane `yaml:"planes" jsonschema_description:"The parts of the word, least significant first."`
}
