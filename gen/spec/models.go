package spec

import "github.com/minfer/minfer/gen/diag"

// Models is specs/models/NAME.yaml: the shapes of a model family, under the names of its config.json at the source.
type Models struct {
	At     diag.Pos `yaml:"-"`
	Faulty bool     `yaml:"-"`

	Doc       Text        `yaml:"doc" jsonschema:"required" jsonschema_description:"Which models, and where their numbers are from."`
	Models    Text        `yaml:"models" jsonschema:"required,pattern=^[a-z][a-z0-9._-]*$" jsonschema_description:"Name of the family; also the name of the file."`
	Source    Text        `yaml:"source" jsonschema:"required" jsonschema_description:"The repository that config.json is from; * stands for the size."`
	Arch      Text        `yaml:"arch" jsonschema:"required,enum=llama,enum=qwen2,enum=qwen3" jsonschema_description:"general.architecture of a GGUF file, one that runtime/arch builds."`
	Vocab     Text        `yaml:"vocab" jsonschema:"required,enum=llama-3,enum=qwen2.5,enum=qwen3" jsonschema_description:"The vocabulary, one that runtime/synth makes."`
	Positions Int         `yaml:"max_position_embeddings" jsonschema:"required,minimum=1,maximum=16777216" jsonschema_description:"Tokens that the models were trained for."`
	Theta     Real        `yaml:"rope_theta" jsonschema:"required" jsonschema_description:"Base of the rotary embedding."`
	Eps       Text        `yaml:"rms_norm_eps" jsonschema:"required,pattern=^[1-9]e-[1-9][0-9]?$" jsonschema_description:"Added to the mean square, as decimal text: it need not be exact in f32."`
	Sizes     []ModelSize `yaml:"sizes" jsonschema:"required" jsonschema_description:"The members."`
}

// ModelSize is one member of a family.
type ModelSize struct {
	At diag.Pos `yaml:"-"`

	Size       Text `yaml:"size" jsonschema:"required" jsonschema_description:"The size as the source writes it, quoted."`
	Hidden     Int  `yaml:"hidden_size" jsonschema:"required,minimum=1,maximum=1048576" jsonschema_description:"Width of the residual stream."`
	Layers     Int  `yaml:"num_hidden_layers" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Layers."`
	Heads      Int  `yaml:"num_attention_heads" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Query heads."`
	KVHeads    Int  `yaml:"num_key_value_heads" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Key/value heads."`
	HeadDim    Int  `yaml:"head_dim" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Elements of a head."`
	FFN        Int  `yaml:"intermediate_size" jsonschema:"required,minimum=1,maximum=16777216" jsonschema_description:"Width of the feed-forward layer."`
	Vocab      Int  `yaml:"vocab_size" jsonschema:"required,minimum=1,maximum=16777216" jsonschema_description:"Rows of the token table, padding included."`
	Tied       Bool `yaml:"tie_word_embeddings" jsonschema_description:"true: the token table is the head."`
	RopeFactor Int  `yaml:"rope_factor" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Factor of Llama 3's rope_scaling; left out without one."`
}
