package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
)

// Open maps a model into memory and reads its header. Any part of a split model opens all of them. The file
// stays mapped until [File.Close].
func Open(path string) (*File, error) {
	f := &opening{}
	model, err := f.open(path)
	if err != nil {
		f.close()
		return nil, err
	}
	model.maps = f.maps
	return model, nil
}

// opening collects the maps of an Open, to undo them if it fails.
type opening struct{ maps []mapping }

func (o *opening) close() error {
	var errs []error
	for _, m := range o.maps {
		errs = append(errs, m.close())
	}
	o.maps = nil
	return errors.Join(errs...)
}

func (o *opening) open(path string) (*File, error) {
	p, err := o.part(path)
	if err != nil {
		return nil, err
	}
	if p.splitCount <= 1 {
		return join(path, []*part{p})
	}
	parts, err := o.siblings(p)
	if err != nil {
		return nil, err
	}
	return join(path, parts)
}

// part maps and reads one file.
func (o *opening) part(path string) (*part, error) {
	m, err := mapPath(path)
	if err != nil {
		return nil, err
	}
	o.maps = append(o.maps, m)
	return parsePart(path, m.data)
}

// mapPath maps a regular file whole. What else a path may be is refused by what it is, without opening it: opening a FIFO
// would wait for a writer.
func mapPath(path string) (mapping, error) {
	refuse := func(reason string, err error) error {
		return &Error{File: path, Field: "the model", Offset: -1, Reason: reason, Kind: ErrFile, Err: err}
	}
	cannot := func(err error) error { return refuse("cannot be opened: "+cause(err), err) }
	info, err := os.Stat(path)
	if err != nil {
		if link, lerr := os.Readlink(path); lerr == nil && errors.Is(err, fs.ErrNotExist) {
			return mapping{}, refuse(fmt.Sprintf("cannot be opened: it is a link to %q: %s", link, cause(err)), err)
		}
		return mapping{}, cannot(err)
	}
	if what := irregular(info.Mode()); what != "" {
		return mapping{}, refuse("is "+what+", not a file", nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return mapping{}, cannot(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return mapping{}, cannot(err)
	}
	size := info.Size()
	if size == 0 { // cannot be mapped; the parser says that it is empty
		return mapping{}, nil
	}
	if size > math.MaxInt {
		return mapping{}, refuse(fmt.Sprintf("has %d bytes, more than this %d-bit system can map", size, 32<<(^uint(0)>>63)), nil)
	}
	m, err := mapFile(f, int(size))
	if err != nil {
		return mapping{}, refuse("cannot be mapped into memory: "+cause(err), err)
	}
	return m, nil
}

// irregular names what is not a regular file; "" for one that is.
func irregular(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special (" + mode.Type().String() + ")"
}

// cause is the system's reason without the path, which the error names already.
func cause(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// Close unmaps the file. Slices from [Tensor.Data] and values from Meta must not be used any more.
func (f *File) Close() error {
	maps := f.maps
	f.maps = nil
	for i := range f.Parts {
		if maps != nil {
			f.Parts[i].data = nil
		}
	}
	for _, t := range f.Tensors {
		if maps != nil {
			t.data = nil
		}
	}
	return (&opening{maps: maps}).close()
}
