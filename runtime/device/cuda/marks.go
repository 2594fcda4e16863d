//go:build cuda && linux && cgo

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/minfer/minfer/runtime/device/gpu"
)

// marks is a Driver whose kernels are compiled to log the moments that they mark.
type marks struct {
	*Driver
	log  gpu.Pointer // two u64 for each mark, then the u32 that counts them; 0 while nothing is logged
	room int
}

var _ gpu.Marker = (*marks)(nil)

// marksSymbol is the struct MinferMarks that each unit has: two pointers and two 64-bit numbers.
const marksSymbol = "minfer_marks"

// StartMarks implements gpu.Marker.
func (m *marks) StartMarks(room int) error {
	if room <= 0 {
		return fmt.Errorf("cuda:%d: log of %d marks: %w", m.index, room, gpu.ErrArgument)
	}
	if err := m.drop(); err != nil {
		return err
	}
	bytes := 16*int64(room) + 8
	p, err := m.Alloc(bytes)
	if err != nil {
		return err
	}
	m.log, m.room = p, room
	return errors.Join(m.Fill(p, 0, bytes), m.point(uint64(p), uint64(p)+16*uint64(room), uint64(room)))
}

// point writes where each unit logs.
func (m *marks) point(log, used, room uint64) error {
	leave, err := m.enter("marks", false)
	if err != nil {
		return err
	}
	defer leave()
	for i, u := range m.units {
		var data []byte
		for _, v := range []uint64{log, used, room, uint64(i)} {
			data = binary.LittleEndian.AppendUint64(data, v)
		}
		p, bytes, err := u.module.Global(marksSymbol)
		if err != nil {
			return m.fail("marks of "+u.name, err)
		}
		if bytes != int64(len(data)) {
			return fmt.Errorf("cuda:%d: %s of %s has %d bytes, not %d", m.index, marksSymbol, u.name, bytes, len(data))
		}
		if err := cu.MemcpyHtoDAsync(p, unsafe.Pointer(&data[0]), bytes, m.stream); err != nil {
			return m.fail("marks of "+u.name, err)
		}
		if err := m.waited("marks", m.stream.Synchronize()); err != nil {
			return err
		}
	}
	return nil
}

// drop ends logging.
func (m *marks) drop() error {
	if m.log == 0 {
		return nil
	}
	p := m.log
	m.log = 0
	return errors.Join(m.point(0, 0, 0), m.Free(p))
}

// StopMarks implements gpu.Marker.
func (m *marks) StopMarks() ([]gpu.Mark, error) {
	if m.log == 0 {
		return nil, fmt.Errorf("cuda:%d: marks: nothing is being logged", m.index)
	}
	data := make([]byte, 16*m.room+8)
	if err := m.Download(data, m.log); err != nil {
		return nil, err
	}
	used := int(binary.LittleEndian.Uint32(data[16*m.room:]))
	if used > m.room {
		return nil, errors.Join(fmt.Errorf("cuda:%d: %d moments were marked, and there is room for %d", m.index, used, m.room), m.drop())
	}
	all := make([]gpu.Mark, used)
	for i := range all {
		word := binary.LittleEndian.Uint64(data[16*i+8:])
		all[i] = gpu.Mark{Unit: m.units[word>>48].name, Moment: int(word >> 40 & 0xff), SM: int(word >> 24 & 0xffff), Block: int(word & 0xffffff),
			Nanos: int64(binary.LittleEndian.Uint64(data[16*i:]))}
	}
	return all, m.drop()
}
