package spec

import "github.com/minfer/minfer/gen/diag"

// Kernel is specs/kernels/NAME.yaml: one kernel family, how it deals its work and which variants there are.
type Kernel struct {
	At     diag.Pos `yaml:"-"`
	Digest string   `yaml:"-"`
	Faulty bool     `yaml:"-"` // a diagnostic says what is wrong; what could not be decoded is unset

	Doc      Text               `yaml:"doc" jsonschema:"required" jsonschema_description:"The formula that the kernels compute, with shapes."`
	Kernel   Text               `yaml:"kernel" jsonschema:"required,pattern=^[a-z][a-z0-9-]*$" jsonschema_description:"Name of the family; also the name of the file."`
	Target   Text               `yaml:"target" jsonschema:"enum=gpu,enum=cpu" jsonschema_description:"What the family runs on; gpu when left out."`
	Op       Text               `yaml:"op" jsonschema:"required,pattern=^[a-z][a-z0-9-]*$" jsonschema_description:"The operation of the plan that the family serves."`
	Class    Text               `yaml:"class" jsonschema:"required,enum=bf16,enum=f32,enum=q8" jsonschema_description:"Numeric class, one that runtime/conform judges in: kernels of different classes agree within a tolerance, not bit for bit."`
	Template Text               `yaml:"template" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"The body: a template of gen/emit/cuda/templates, without its ending."`
	Formats  []Text             `yaml:"formats" jsonschema_description:"Weight formats that the family is emitted for: names, 'blocks' for every format with a scale, 'weights' for every format that a file holds and that reads as a number. Left out when the op has no weight."`
	Except   []Text             `yaml:"except" jsonschema_description:"Formats left out of formats."`
	Dims     Map[Text]          `yaml:"dims" jsonschema:"required" jsonschema_description:"Which size of the shape each axis of the work runs over."`
	Args     []KernelArg        `yaml:"args" jsonschema:"required" jsonschema_description:"The arguments, in order."`
	Digits   []KernelDigit      `yaml:"digits" jsonschema:"required" jsonschema_description:"The digits of the dealing: where each lives and how many values it takes. Thread digits together make threadIdx.x, the first of them most significant."`
	Deal     Map[KernelDeal]    `yaml:"deal" jsonschema:"required" jsonschema_description:"Which digits make the index of each axis. Every digit belongs to one axis."`
	Cover    *KernelCover       `yaml:"cover" jsonschema:"required" jsonschema_description:"The axes that the body names in MINFER_COVER: what one count of the coverage witness stands for."`
	Helpers  Int                `yaml:"helpers" jsonschema:"minimum=32,maximum=992" jsonschema_description:"Threads of a block, after those that deal the work, that deal none of it: they copy, or add up."`
	Over     Text               `yaml:"over" jsonschema_description:"A family that serves the same op in the same class; this one is asked first."`
	Awaits   Bool               `yaml:"awaits" jsonschema_description:"true: the body waits for its predecessor itself, before it touches what that one writes or reads, so that a launch may overlap its predecessor's end (sm_90)."`
	Shared   *KernelShared      `yaml:"shared" jsonschema_description:"Shared memory of a block."`
	Options  Map[Int]           `yaml:"options" jsonschema_description:"Values that the template switches on, unless a variant says otherwise."`
	Free     Map[[]Int]         `yaml:"free" jsonschema:"minimum=0,maximum=4194304" jsonschema_description:"Values that minfer-gen tune may try for digits, options and, of a ring, stages: of every variant that has no list of its own."`
	Variants Map[KernelVariant] `yaml:"variants" jsonschema:"required" jsonschema_description:"The variants, the reference first. A gate tries them from the last to the first."`

	Crossovers []KernelCrossover `yaml:"crossovers" jsonschema_description:"Where measurements put the family before those of another numeric class, once the user leaves the class to them."`
}

// KernelArg is one argument.
type KernelArg struct {
	At diag.Pos `yaml:"-"`

	Name Text `yaml:"name" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"Name in the body; the plan binds it by this name."`
	Type Text `yaml:"type" jsonschema:"required,enum=u8*,enum=i8*,enum=u16*,enum=i32*,enum=u32*,enum=i64*,enum=f32*,enum=i32,enum=i64,enum=u32,enum=f32" jsonschema_description:"Type; a pointer is const unless out."`
	Out  Bool `yaml:"out" jsonschema_description:"true: the kernel writes through the pointer."`
	Doc  Text `yaml:"doc" jsonschema_description:"What it is, with its shape."`
}

// KernelDigit is one digit of a dealing.
type KernelDigit struct {
	At diag.Pos `yaml:"-"`

	Name  Text `yaml:"name" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"Name of the digit."`
	Place Text `yaml:"at" jsonschema:"required,enum=grid.x,enum=grid.y,enum=grid.z,enum=thread,enum=lane,enum=loop,enum=slot" jsonschema_description:"Where it lives: an axis of the grid, part of the thread index, a lane of a vector (cpu alone), a loop of the thread, or an unrolled copy in it."`
	Radix Int  `yaml:"radix" jsonschema:"minimum=1,maximum=4194304" jsonschema_description:"Number of values."`
	Open  Bool `yaml:"open" jsonschema_description:"true instead of a radix: as many values as the shape needs (grid axes and loops)."`
}

// KernelDeal says which digits make the index of one axis.
type KernelDeal struct {
	At diag.Pos `yaml:"-"`

	Elems    Int      `yaml:"elems" jsonschema:"minimum=1,maximum=65536" jsonschema_description:"Elements of the shape that one index stands for; 1 when left out."`
	ElemsOf  Map[Int] `yaml:"elems_of" jsonschema_description:"The same for single formats."`
	Multiple Int      `yaml:"multiple" jsonschema:"minimum=2,maximum=65536" jsonschema_description:"The size must be a multiple of this many elements, because threads work on them together."`
	Partial  Bool     `yaml:"partial" jsonschema_description:"true: the body handles an extent that is no multiple of elems."`
	Over     []Text   `yaml:"over" jsonschema_description:"The digits, fastest first: each has the product of the radices before it as stride."`
	Stride   Map[Int] `yaml:"stride" jsonschema_description:"Instead of over: the stride of each digit."`
	Queue    Bool     `yaml:"queue" jsonschema_description:"true, with share: the runs of the blocks make up a first part of the axis, and blocks that are through with theirs take what is left, a round at a time and each round once."`
	Share    Text     `yaml:"share" jsonschema_description:"A grid digit whose value b of n owns the contiguous run [N*b/n, N*(b+1)/n); the other digits count from its start."`
}

// KernelCover says which axes the three numbers of MINFER_COVER(row, unit, token) count. A number that is made of several axes counts
// them as digits, the first most significant; one of none is 0.
type KernelCover struct {
	At diag.Pos `yaml:"-"`

	Row   []Text `yaml:"row" jsonschema_description:"Axes of the first number."`
	Unit  []Text `yaml:"unit" jsonschema:"required" jsonschema_description:"Axes of the second number."`
	Token []Text `yaml:"token" jsonschema_description:"Axes of the third number."`
}

// KernelShared is the shared memory of a block.
type KernelShared struct {
	At diag.Pos `yaml:"-"`

	Fixed Int  `yaml:"fixed_bytes" jsonschema:"minimum=0,maximum=1048576" jsonschema_description:"Bytes whatever the shape."`
	Per   Int  `yaml:"per_bytes" jsonschema:"minimum=1,maximum=1048576" jsonschema_description:"Bytes for each index of axis, asked for at launch."`
	Axis  Text `yaml:"axis" jsonschema_description:"The axis that per_bytes counts."`

	Ring  *KernelRing  `yaml:"ring" jsonschema_description:"Instead: a ring of stages, each some rows of the matrix as they lie in memory, asked for at launch."`
	Tiles *KernelTiles `yaml:"tiles" jsonschema_description:"Instead: stages of tiles, a row of a tile for each index that a block has of some axes, asked for at launch."`
}

// KernelTiles is shared memory for operands of products of tiles: so many stages, each with a row for each index of each axis that a
// block works on.
type KernelTiles struct {
	At diag.Pos `yaml:"-"`

	Axes     []Text `yaml:"axes" jsonschema:"required" jsonschema_description:"The axes whose indices have rows."`
	Stages   Int    `yaml:"stages" jsonschema:"required,minimum=1,maximum=64" jsonschema_description:"How many stages there are."`
	RowBytes Int    `yaml:"row_bytes" jsonschema:"required,minimum=16,maximum=65536" jsonschema_description:"Bytes of a row."`
	Align    Int    `yaml:"align_bytes" jsonschema:"minimum=32,maximum=1024" jsonschema_description:"The first stage begins at a multiple of so many, which room is left for; 16 when left out."`
}

// KernelRing is shared memory that rows of a matrix are streamed through: as many stages as the device of the variant's architecture has
// room for when rows are as long as the variant covers. A later device with less room is refused by the bound of shared memory.
type KernelRing struct {
	At diag.Pos `yaml:"-"`

	Rows     []Text `yaml:"rows" jsonschema:"required" jsonschema_description:"The digits that number the rows of a stage."`
	Sums     Text   `yaml:"sums" jsonschema:"required" jsonschema_description:"The digit whose values each leave a partial sum of every row: a float for each, an odd number of them to a row."`
	Stages   Int    `yaml:"stages" jsonschema:"required,minimum=2,maximum=64" jsonschema_description:"At most this many stages."`
	Matrices Int    `yaml:"matrices" jsonschema:"minimum=1,maximum=2" jsonschema_description:"A stage has the rows of so many matrices; 1 when left out."`
	Unit     Int    `yaml:"unit_bytes" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Bytes beside the ring for each 32 columns: activations that the block prepares."`
	Least    Int    `yaml:"least_bytes" jsonschema:"minimum=0,maximum=1048576" jsonschema_description:"A block asks for at least this much, so that no two of them share a multiprocessor."`
}

// KernelVariant is one row of a family. What it leaves out it takes from the family.
type KernelVariant struct {
	At diag.Pos `yaml:"-"`

	Doc      Text            `yaml:"doc" jsonschema_description:"What is different about it and why it is there."`
	Formats  []Text          `yaml:"formats" jsonschema_description:"Formats that it is emitted for; all of the family's when left out."`
	Weights  Text            `yaml:"weights" jsonschema:"pattern=^[a-z][a-z0-9]*$" jsonschema_description:"How the weights must lie: file, padded, planes, or a layout of specs/layouts; file when left out."`
	Radix    Map[Int]        `yaml:"radix" jsonschema_description:"Radices of digits, instead of the family's; a digit given one is no longer open."`
	Deal     Map[KernelDeal] `yaml:"deal" jsonschema_description:"Dealings of axes, instead of the family's."`
	Arch     Int             `yaml:"arch" jsonschema:"minimum=50,maximum=200" jsonschema_description:"Least architecture that the body compiles for, compute capability times 10; the baseline when left out."`
	Only     Bool            `yaml:"only" jsonschema_description:"The body compiles for this architecture alone, not for later ones."`
	Features []Text          `yaml:"features" jsonschema:"pattern=^[a-z][a-z0-9]*$" jsonschema_description:"Sets of vector instructions that the body needs (cpu alone); a body that needs none is portable."`
	Shared   *KernelShared   `yaml:"shared" jsonschema_description:"Shared memory of a block, instead of the family's."`
	Options  Map[Int]        `yaml:"options" jsonschema_description:"Values that the template switches on."`
	Free     Map[[]Int]      `yaml:"free" jsonschema:"minimum=0,maximum=4194304" jsonschema_description:"Values that minfer-gen tune may try, instead of the family's lists."`
	Switch   Text            `yaml:"switch" jsonschema:"pattern=^MINFER_[A-Z0-9_]*([{]format[}])?[A-Z0-9_]*$" jsonschema_description:"Environment variable that turns the variant off when set to 0; {format} stands for the format's name in capitals."`
	SameBits []Text          `yaml:"same_bits" jsonschema_description:"Variants that must give the same bits wherever both are admitted."`
	Ceiling  Map[Int]        `yaml:"ceiling" jsonschema_description:"The largest size of a dim that the variant covers, stated to be checked against the derived one."`
	Routes   []KernelRoute   `yaml:"routes" jsonschema_description:"Where measurements put the variant before those listed above it. Left out: everywhere that it is admitted."`
}

// Provenance says where a measured preference comes from.
type Provenance struct {
	Device  Text `yaml:"device" jsonschema:"required" jsonschema_description:"The device it was measured on."`
	Date    Text `yaml:"date" jsonschema:"required" jsonschema_description:"The day, year-month-day, quoted."`
	Command Text `yaml:"command" jsonschema:"required" jsonschema_description:"The command that measured it."`
	Figure  Text `yaml:"figure" jsonschema:"required" jsonschema_description:"What it measured."`
}

// KernelRoute is one measured preference with its provenance.
type KernelRoute struct {
	At diag.Pos `yaml:"-"`

	Formats []Text `yaml:"formats" jsonschema_description:"Formats that it holds for; all when left out."`
	Arch    Int    `yaml:"arch" jsonschema:"minimum=50,maximum=200" jsonschema_description:"Architecture that it holds for; all when left out."`
	Dim     Text   `yaml:"dim" jsonschema:"enum=rows,enum=cols,enum=tokens,enum=heads,enum=kv_heads,enum=head_dim,enum=context,enum=group" jsonschema_description:"The size that decides."`
	Above   Int    `yaml:"above" jsonschema:"minimum=0,maximum=2147483647" jsonschema_description:"Preferred for sizes above this."`
	UpTo    Int    `yaml:"up_to" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"Preferred for sizes up to this."`
	Tokens  Int    `yaml:"tokens_above" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"And for more tokens than this."`

	Provenance `yaml:",inline"`
}

// KernelCrossover says for which matrices measurements put a family before those of another numeric class. It is followed where the user
// leaves the class to the measurements.
type KernelCrossover struct {
	At diag.Pos `yaml:"-"`

	Class   Text   `yaml:"class" jsonschema:"required,enum=q8,enum=f32" jsonschema_description:"The numeric class of the families that it comes before."`
	Formats []Text `yaml:"formats" jsonschema_description:"Formats that it holds for; all when left out."`
	Arch    Int    `yaml:"arch" jsonschema:"required,minimum=50,maximum=200" jsonschema_description:"Architecture that it holds for."`
	Rows    Int    `yaml:"rows_above" jsonschema:"minimum=0,maximum=2147483647" jsonschema_description:"Matrices of more rows than this; any number when left out."`
	Cols    Int    `yaml:"cols_up_to" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"Matrices of up to so many columns; any number when left out."`
	Elems   Int    `yaml:"elems_up_to" jsonschema:"minimum=1,maximum=2147483647" jsonschema_description:"Matrices of up to so many elements, rows times columns; any number when left out."`

	Provenance `yaml:",inline"`
}

// Routes is specs/routes/DEVICE.yaml: for which shapes measurements put a variant, or one with other values of its free parameters, before
// all others. minfer-gen tune writes it.
type Routes struct {
	At     diag.Pos `yaml:"-"`
	Faulty bool     `yaml:"-"`

	Doc    Text  `yaml:"doc" jsonschema_description:"What the file is."`
	Routes Text  `yaml:"routes" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"The device of specs/devices whose architecture the routes hold for; also the name of the file."`
	Runs   []Run `yaml:"runs" jsonschema:"required" jsonschema_description:"What was measured, run by run."`
}

// Run is what one run of a measurement found.
type Run struct {
	At diag.Pos `yaml:"-"`

	Device  Text  `yaml:"device" jsonschema:"required" jsonschema_description:"The device that it ran on."`
	Date    Text  `yaml:"date" jsonschema:"required,pattern=^[0-9]{4}-[0-9]{2}-[0-9]{2}$" jsonschema_description:"The day, year-month-day, quoted."`
	Command Text  `yaml:"command" jsonschema:"required" jsonschema_description:"The command that measured it."`
	First   []Win `yaml:"first" jsonschema:"required" jsonschema_description:"What comes first where."`
}

// Win is a variant that was the fastest for a shape.
type Win struct {
	At diag.Pos `yaml:"-"`

	Kernel  Text     `yaml:"kernel" jsonschema:"required,pattern=^[a-z][a-z0-9-]*$" jsonschema_description:"Name of the family."`
	Format  Text     `yaml:"format" jsonschema:"pattern=^[a-z][a-zA-Z0-9_]*$" jsonschema_description:"The format; left out where the family has none."`
	Variant Text     `yaml:"variant" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"The variant, one of the family's spec."`
	Set     Map[Int] `yaml:"set" jsonschema:"minimum=0,maximum=4194304" jsonschema_description:"Values of its free parameters that differ from its own; each is in the list of free."`
	Shape   Map[Int] `yaml:"shape" jsonschema:"required,minimum=1,maximum=2147483647" jsonschema_description:"The sizes that it was measured at; one left out is any."`
	Figure  Text     `yaml:"figure" jsonschema:"required" jsonschema_description:"What it measured."`

	Geometry Text `yaml:"geometry" jsonschema:"pattern=^[0-9a-f]{8}$" jsonschema_description:"Fingerprint of how the variant dealt when it was measured, quoted; minfer-gen check names the figures that are older than the geometry."`
}

// Device is specs/devices/NAME.yaml: what a class of GPUs allows.
type Device struct {
	At     diag.Pos `yaml:"-"`
	Faulty bool     `yaml:"-"`

	Doc               Text `yaml:"doc" jsonschema:"required" jsonschema_description:"What the class is and where its numbers come from."`
	Device            Text `yaml:"device" jsonschema:"required,pattern=^[a-z][a-z0-9_]*$" jsonschema_description:"Name of the class; also the name of the file."`
	GPU               Text `yaml:"gpu" jsonschema:"required" jsonschema_description:"A GPU of the class, for what is planned without one."`
	SMs               Int  `yaml:"sms" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Multiprocessors of that GPU."`
	StreamGB          Int  `yaml:"stream_gb_per_s" jsonschema:"required,minimum=1,maximum=1000000" jsonschema_description:"10^9 bytes that its memory streams in a second."`
	Arch              Int  `yaml:"arch" jsonschema:"required,minimum=50,maximum=200" jsonschema_description:"Compute capability times 10."`
	Warp              Int  `yaml:"warp" jsonschema:"required,minimum=1,maximum=1024" jsonschema_description:"Threads of a warp."`
	Threads           Int  `yaml:"threads" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Most threads of a block."`
	GridX             Int  `yaml:"grid_x" jsonschema:"required,minimum=1,maximum=2147483647" jsonschema_description:"Most blocks along grid.x."`
	GridY             Int  `yaml:"grid_y" jsonschema:"required,minimum=1,maximum=2147483647" jsonschema_description:"Most blocks along grid.y."`
	GridZ             Int  `yaml:"grid_z" jsonschema:"required,minimum=1,maximum=2147483647" jsonschema_description:"Most blocks along grid.z."`
	SharedStaticBytes Int  `yaml:"shared_static_bytes" jsonschema:"required,minimum=0,maximum=16777216" jsonschema_description:"Shared memory of a block that needs no opt-in."`
	SharedBytes       Int  `yaml:"shared_bytes" jsonschema:"required,minimum=0,maximum=16777216" jsonschema_description:"Shared memory that a block may opt in to."`
	SharedPerSMBytes  Int  `yaml:"shared_per_sm_bytes" jsonschema:"required,minimum=0,maximum=16777216" jsonschema_description:"Shared memory of a multiprocessor."`
	RegistersPerSM    Int  `yaml:"registers_per_sm" jsonschema:"required,minimum=1,maximum=16777216" jsonschema_description:"32-bit registers of a multiprocessor."`
	ThreadsPerSM      Int  `yaml:"threads_per_sm" jsonschema:"required,minimum=1,maximum=65536" jsonschema_description:"Resident threads of a multiprocessor."`
	BlocksPerSM       Int  `yaml:"blocks_per_sm" jsonschema:"required,minimum=1,maximum=1024" jsonschema_description:"Resident blocks of a multiprocessor."`
}

// Tiling is specs/tiles/NAME.yaml: how rows of a matrix lie side by side for vector kernels of the CPU. Every format with a scale
// that fits such kernels gets a layout of this name.
type Tiling struct {
	At     diag.Pos `yaml:"-"`
	Faulty bool     `yaml:"-"`

	Doc       Text `yaml:"doc" jsonschema:"required" jsonschema_description:"What lies where, and why."`
	Tiling    Text `yaml:"tiling" jsonschema:"required,pattern=^[a-z][a-z0-9]*$" jsonschema_description:"Name of the layout; also the name of the file."`
	Rows      Int  `yaml:"rows" jsonschema:"required,minimum=16,maximum=256" jsonschema_description:"Rows of a tile, whole vectors of 16."`
	LaneElems Int  `yaml:"lane_elems" jsonschema:"required,minimum=4,maximum=4" jsonschema_description:"Neighbouring elements of a row that share a 32-bit lane, a byte each."`
	UnitElems Int  `yaml:"unit_elems" jsonschema:"required,minimum=32,maximum=32" jsonschema_description:"Elements that kernels take at a time: an activation block."`
	Spare     Int  `yaml:"spare" jsonschema:"minimum=1,maximum=100" jsonschema_description:"Makes it a layout that keeps indices of codebooks and packs trits, for formats that then take so many percent more than in the file at most."`
}
