package cpu

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/op"
)

// tiles is a matrix in tiles of rows, and the kernels that read it.
type tiles struct {
	*tile.Format
	data      []byte // 64-byte aligned
	tileBytes int    // of a tile: as many rows side by side, whole
	blocks    int    // of a row
	kernels   []tileKernel
}

// tileKernel multiplies tiles with a panel of so many tokens.
type tileKernel struct {
	tokens int
	run    func(*tile.Args)
}

// newTiles finds the kernels of a weight in tiles; nil where its gate refuses all of them.
func (m *model) newTiles(w *op.Weight) (*tiles, []string) {
	f, ok := tile.For(w.Type)
	kernels, names := m.tileKernels(w)
	if !ok || len(kernels) == 0 {
		return nil, nil
	}
	blocks := w.Cols / f.BlockElems
	return &tiles{Format: f, blocks: blocks, tileBytes: blocks * f.BlockBytes, kernels: kernels}, names
}

func (t *tiles) count(w *op.Weight) int { return (w.Rows + tile.Rows - 1) / tile.Rows }

// stretchBytes is about how much of a matrix is laid out between two looks at the context.
const layoutStretchBytes = 2 << 20

// interleave lays the matrices that have tiles out in them, by several goroutines, a stretch at a time; what has been read of
// the file is let go behind.
func (m *model) interleave(ctx context.Context, threads int, progress func(done int64)) error {
	type stretch struct {
		m      *matrix
		lo, hi int // tiles
	}
	var work []stretch
	total := 0
	for _, w := range m.graph.Weights() {
		k := m.matrices[w]
		if k == nil || k.tiles == nil {
			continue
		}
		n := k.tiles.count(w)
		step := max(1, layoutStretchBytes/k.tiles.tileBytes)
		for lo := 0; lo < n; lo += step {
			work = append(work, stretch{k, lo, min(lo+step, n)})
		}
		total += n * k.tiles.tileBytes
	}
	if total == 0 {
		return nil
	}
	if have, known := availableBytes(); known && total > smallSession && uint64(total) > have {
		return fmt.Errorf("laying out the weights takes %s, but %s of memory is available; %s=0 reads them from the file, more slowly",
			size(uint64(total)), size(have), gate.CPUSwitches[0].Name)
	}
	arena, err := allocate(total)
	if err != nil {
		return fmt.Errorf("laying out the weights takes %s: %w; %s=0 does without, more slowly", size(uint64(total)), err, gate.CPUSwitches[0].Name)
	}
	m.arena = arena
	at := 0
	for _, s := range work {
		if t := s.m.tiles; s.lo == 0 {
			n := t.count(s.m.Weight) * t.tileBytes
			t.data = arena[at:][:n:n]
			at += n
		}
	}
	var next, done atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range threads {
		wg.Go(func() {
			var mem []int8
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(work) {
					return
				}
				s := work[i]
				t := s.m.tiles
				if len(mem) < t.BlockElems {
					mem = make([]int8, t.BlockElems)
				}
				last := min(s.hi*tile.Rows, s.m.Rows)
				for r := s.lo * tile.Rows; r < last; r++ {
					t.Pack(t.data[r/tile.Rows*t.tileBytes:][:t.tileBytes], r%tile.Rows, s.m.row(r), mem)
				}
				read := s.m.Data[s.lo*tile.Rows*s.m.rowBytes : last*s.m.rowBytes]
				if m.graph.Release != nil {
					m.graph.Release(read)
				}
				done.Add(int64(len(read)))
				if progress != nil {
					mu.Lock()
					progress(done.Load())
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// alignBytes is what tiles, panels and scratch memory begin on: a cache line.
const alignBytes = 64

// aligned is memory that begins on a cache line.
func aligned(n int) []byte {
	b := make([]byte, n+alignBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % alignBytes)
	return b[skip:][:n:n]
}
