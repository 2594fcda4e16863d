package resource

import "fmt"

// Limits are what a multiprocessor offers.
type Limits struct {
	Arch        int // compute capability, major*10 + minor
	Warp        int // threads
	Threads     int // resident on a multiprocessor
	Blocks      int // resident on a multiprocessor
	Registers   int // of 32 bits
	SharedBytes int // of all resident blocks, the reserved part included
}

// How the hardware deals resources out, the same on every architecture from 8.0 to 9.0 (cuda_occupancy.h of the toolkit).
const (
	registerUnit   = 256  // registers are given to a warp in multiples of this
	partitions     = 4    // of a multiprocessor; each has a quarter of the registers and of the warps
	sharedUnit     = 128  // bytes of shared memory are given to a block in multiples of this
	sharedReserved = 1024 // bytes of shared memory that each block takes for the system
)

// Occupancy is how many blocks of a kernel a multiprocessor holds at once, and what keeps it from holding more.
type Occupancy struct {
	Blocks                                             int
	ByRegisters, ByThreads, ByShared, ByMultiprocessor int // blocks that each resource allows
}

// Occupancy of blocks of some threads, each with some registers, which share sharedBytes of static and dynamic memory:
//
//	min(registers, threads, shared memory, blocks of a multiprocessor)
//
// where registers are given out by warp and partition. It agrees with the calculator of the CUDA toolkit.
func (l Limits) Occupancy(threads, registers, sharedBytes int) Occupancy {
	warps := ceilDiv(threads, l.Warp)
	o := Occupancy{ByThreads: l.Threads / l.Warp / max(warps, 1), ByMultiprocessor: l.Blocks}
	o.ByShared = l.SharedBytes / (ceilDiv(sharedBytes+sharedReserved, sharedUnit) * sharedUnit)
	perWarp := ceilDiv(registers*l.Warp, registerUnit) * registerUnit
	switch {
	case perWarp == 0:
		o.ByRegisters = l.Blocks
	case perWarp*ceilDiv(warps, partitions)*partitions > l.Registers:
		o.ByRegisters = 0
	default:
		o.ByRegisters = l.Registers / partitions / perWarp * partitions / max(warps, 1)
	}
	o.Blocks = min(o.ByRegisters, o.ByThreads, o.ByShared, o.ByMultiprocessor)
	return o
}

// Limit names the resources that run out first: "registers", "registers+threads".
func (o Occupancy) Limit() string {
	s := ""
	for _, r := range []struct {
		name   string
		blocks int
	}{{"registers", o.ByRegisters}, {"threads", o.ByThreads}, {"shared", o.ByShared}, {"blocks", o.ByMultiprocessor}} {
		if r.blocks == o.Blocks {
			if s != "" {
				s += "+"
			}
			s += r.name
		}
	}
	return s
}

// String is the occupancy in words: "5 blocks (registers 5, threads 8, shared 145, blocks 32)".
func (o Occupancy) String() string {
	return fmt.Sprintf("%d blocks (registers %d, threads %d, shared %d, blocks %d)", o.Blocks, o.ByRegisters, o.ByThreads, o.ByShared, o.ByMultiprocessor)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
