package sample

// Values that must never change: texts made with a seed could not be made again.
var (
	pinnedStream = []uint64{4971928291090985182, 5528821527542695328, 2134937714366092113}
	pinnedIDs    = []int32{
		1839, 1756, 2594, 3878, 4434, 1516, 2537, 3878, 4559, 2537, 1516, 4559, 2537, 2537, 2744, 2744,
	}
)

const pinnedMath = 0x32bba88757daf02a
