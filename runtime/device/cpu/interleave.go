package cpu

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/minfer/minfer/generated/gate"
	"github.com/minfer/minfer/generated/tile"
	"github.com/minfer/minfer/runtime/kernel"
	"github.com/minfer/minfer/runtime/op"
)

// tiles is a matrix in tiles of rows, and the kernels that read it.
type tiles struct {
	*tile.Format
	tileBytes int // of a tile: as many rows side by side, whole
	blocks    int // of a row
	kernels   []tileKernel
}

// tileKernel multiplies tiles with a panel of so many tokens.
type tileKernel struct {
	tokens int
	run    func(*tile.Args)
}

// newTiles finds the kernels of a weight in tiles, of the least memory; nil where its gate refuses all of them.
func (m *model) newTiles(w *op.Weight) (*tiles, []string) {
	for _, layout := range tile.Layouts {
		f, ok := tile.For(w.Type, layout)
		if !ok {
			continue
		}
		if kernels, names := m.tileKernels(w, kernel.Layout(layout)); len(kernels) > 0 {
			blocks := w.Cols / f.BlockElems
			return &tiles{Format: f, blocks: blocks, tileBytes: blocks * f.BlockBytes, kernels: kernels}, names
		}
	}
	return nil, nil
}

// layoutStretchBytes is about how much of a matrix is laid out between two looks at the context.
const layoutStretchBytes = 2 << 20

// interleave lays out the matrices that vector kernels read, by several goroutines, a stretch at a time: in tiles, or plain numbers as they
// are, in huge pages. What has been read of the file is let go behind.
func (m *model) interleave(ctx context.Context, threads int, progress func(done int64)) error {
	type stretch struct {
		m      *matrix
		lo, hi int // items
	}
	var work []stretch
	total := 0
	for _, w := range m.graph.Weights() {
		k := m.matrices[w]
		if k == nil || !k.laidOut {
			continue
		}
		step := max(1, layoutStretchBytes/k.itemBytes())
		for lo := 0; lo < k.items(); lo += step {
			work = append(work, stretch{k, lo, min(lo+step, k.items())})
		}
		total += k.layoutBytes()
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
		if s.lo == 0 {
			n := s.m.layoutBytes()
			s.m.data = arena[at:][:n:n]
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
				first, last := s.lo*itemRows, min(s.hi*itemRows, s.m.Rows)
				read := s.m.Data[first*s.m.rowBytes : last*s.m.rowBytes]
				if t := s.m.tiles; t != nil {
					if len(mem) < t.BlockElems {
						mem = make([]int8, t.BlockElems)
					}
					for r := first; r < last; r++ {
						t.Pack(s.m.item(r/itemRows), r%itemRows, s.m.Data[r*s.m.rowBytes:][:s.m.rowBytes], mem)
					}
				} else {
					copy(s.m.data[first*s.m.rowBytes:], read)
				}
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

// items is the number of items that the rows make.
func (m *matrix) items() int { return (m.Rows + itemRows - 1) / itemRows }

// itemBytes is the size of an item where the matrix is laid out: a tile, or rows as they are.
func (m *matrix) itemBytes() int {
	if m.tiles != nil {
		return m.tiles.tileBytes
	}
	return itemRows * m.rowBytes
}

// layoutBytes is what the matrix takes where it is laid out.
func (m *matrix) layoutBytes() int {
	if m.tiles != nil {
		return m.items() * m.tiles.tileBytes
	}
	return (m.Rows*m.rowBytes + alignBytes - 1) / alignBytes * alignBytes
}

// item is item i where the matrix is laid out.
func (m *matrix) item(i int) []byte {
	n := m.itemBytes()
	return m.data[i*n : min((i+1)*n, len(m.data))]
}

// alignBytes is what tiles, panels and scratch memory begin on: a cache line.
const alignBytes = 64

// aligned is memory that begins on a cache line.
func aligned(n int) []byte {
	b := make([]byte, n+alignBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % alignBytes)
	return b[skip:][:n:n]
}
