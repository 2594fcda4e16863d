package model

// Tiling is how rows of a matrix lie side by side for vector kernels of a CPU.
type Tiling struct {
	Name      string
	Spec      string
	Doc       string
	Rows      int // of a tile
	LaneElems int // adjacent elements of a row that share a lane of a vector
	UnitElems int // elements of a row that kernels take at a time: an activation block
}
