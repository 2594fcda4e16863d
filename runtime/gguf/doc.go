// Package gguf reads and writes GGUF files, the container that holds a language model's metadata and weights.
//
// A file is: the magic "GGUF", a version, the numbers of tensors and of metadata pairs, the pairs, the tensor
// descriptions, padding to the alignment, and the tensors' bytes. The package reads and writes versions 2 and 3
// in little-endian order. It refuses version 1 (32-bit counts) and big-endian files by name.
//
// # Untrusted input
//
// Files come from anywhere, so every number is held against what the file can hold before it is used: nothing is
// allocated, looped over or indexed because a file merely claims it. Refusals are [*Error] values that wrap one of the
// package's sentinels and name the file, the field, the value, the file offset and what is allowed.
//
// Where the format leaves room, these are the choices made here:
//
//   - A tensor of 0 dimensions is a scalar of one element, as ggml reads it. A dimension of 0 is refused: a tensor of no
//     elements has no use. More than [MaxDims] dimensions are refused.
//   - Tensors may lie in any order and leave gaps between them, but may not overlap. Offsets are multiples of the alignment.
//     The padding after the last tensor may be absent.
//   - general.alignment is a u32 power of two from [MinAlignment] to [MaxAlignment]; absent, it is [DefaultAlignment].
//   - A key or tensor name is 1 to [MaxNameBytes] bytes of valid UTF-8 without control characters; it is kept whole, never
//     cut. No key and no tensor name occurs twice, in one file or over the parts of a split model.
//   - A bool is the byte 0 or 1. Arrays nest at most [MaxNesting] deep. String values may hold any bytes: tokens are not
//     always UTF-8.
//   - A row (the first dimension) is a whole number of the type's blocks.
//   - At most [MaxPairs] metadata pairs and [MaxTensors] tensors.
//
// What a value means is for the reader of the key to judge; [Meta.UintIn] helps it to refuse, say, 0 attention heads.
//
// # Memory
//
// [Open] maps the file; tensors' bytes and metadata stay in the map until they are asked for. Slices from [Tensor.Data] and
// values from [Meta] are views of the map and end with [File.Close]; strings are copies. Another program that shortens
// the file while it is mapped makes reads of the lost pages fault, as with any memory map.
package gguf
