// Package vocabulary holds minfer.cuh, the names that kernel templates may use beyond C++, with their definitions for nvcc.
// The emulator device defines the same names for a host compiler; the comment at the head of minfer.cuh is the reference of both.
package vocabulary

import _ "embed"

// HeaderName is the name under which emitted kernels include the vocabulary.
const HeaderName = "minfer.cuh"

// Header is the text of minfer.cuh, emitted unchanged beside the kernels.
//
//go:embed minfer.cuh
var Header []byte
