package gguf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/minfer/minfer/generated/format"
)

// MaxWrittenNameBytes is the longest tensor name that is written: ggml keeps no more, though this package reads longer ones.
const MaxWrittenNameBytes = 63

// Writer builds a file: pairs and tensors in the order they are added, the same bytes for the same calls. Tensors' bytes are
// asked for one tensor at a time while the file is written, never kept.
type Writer struct {
	version   uint32
	alignment int64
	meta      Meta
	tensors   []outTensor
	byName    map[string]bool
	err       error // the first refusal; every later call gives it again
}

// Source writes the bytes of a tensor: exactly its size, which depends on type and shape.
type Source func(ctx context.Context, w io.Writer) error

// Bytes is a Source of bytes in memory.
func Bytes(b []byte) Source {
	return func(_ context.Context, w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// Reader is a Source that copies r. It can be written once.
func Reader(r io.Reader) Source {
	return func(_ context.Context, w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	}
}

type outTensor struct {
	name      string
	typ       format.Type
	dims      []uint64
	sizeBytes int64
	source    Source
}

// NewWriter makes a writer of version 3 with the default alignment.
func NewWriter() *Writer {
	return &Writer{version: 3, alignment: DefaultAlignment, byName: map[string]bool{}}
}

// SetVersion chooses version 2 or 3, which differ in the number alone.
func (w *Writer) SetVersion(v uint32) error {
	if v != 2 && v != 3 {
		return w.fail(ErrVersion, "version", fmt.Sprint(v), "versions 2 and 3 are written")
	}
	w.version = v
	return w.err
}

func (w *Writer) fail(kind error, field, value, reason string) error {
	if w.err == nil {
		w.err = &Error{File: "GGUF to be written", Field: field, Value: value, Offset: -1, Reason: reason, Kind: kind}
	}
	return w.err
}

// Set adds a pair. Setting general.alignment sets the alignment of the tensors.
func (w *Writer) Set(key string, v Value) error {
	if w.err != nil {
		return w.err
	}
	if reason := badName(key, MaxNameBytes); reason != "" {
		return w.fail(ErrName, "metadata key", clip(key), reason)
	}
	field := "metadata " + clip(key)
	if reason := badNesting(v, 0); reason != "" {
		return w.fail(ErrValue, field, "", reason)
	}
	if w.meta.Len() == MaxPairs {
		return w.fail(ErrCount, field, "", fmt.Sprintf("is one pair too many: at most %d are read", MaxPairs))
	}
	if !w.meta.add(key, v, -1) {
		return w.fail(ErrDuplicate, field, "", "is set for the second time: a key occurs once")
	}
	if key == keyAlignment {
		align, err := alignment(&w.meta)
		if err != nil {
			return w.fail(ErrAlignment, err.(*Error).Field, err.(*Error).Value, err.(*Error).Reason)
		}
		w.alignment = int64(align)
	}
	return nil
}

// badNesting says what is wrong with the depth of an array; "" if nothing is.
func badNesting(v Value, depth int) string {
	if v.typ != TypeArray || v.elem != TypeArray {
		return ""
	}
	if depth++; depth >= MaxNesting {
		return fmt.Sprintf("is an array nested more than %d deep: at most %d are read", MaxNesting, MaxNesting)
	}
	for e := range v.Elems() {
		if reason := badNesting(e, depth); reason != "" {
			return reason
		}
	}
	return ""
}

// Add adds a tensor of a type and dimensions (ne order: the one of adjacent elements first), whose bytes source gives when
// the file is written.
func (w *Writer) Add(name string, typ format.Type, dims []uint64, source Source) error {
	if w.err != nil {
		return w.err
	}
	field := "tensor " + clip(name)
	if reason := badName(name, MaxWrittenNameBytes); reason != "" {
		return w.fail(ErrName, "tensor name", clip(name), reason)
	}
	if w.byName[name] {
		return w.fail(ErrDuplicate, field, "", "is added for the second time: a name occurs once")
	}
	info, ok := format.Lookup(typ)
	if !ok {
		return w.fail(ErrTensorType, field+": type", fmt.Sprint(uint32(typ)), "no tensor type has this number")
	}
	if len(dims) > MaxDims {
		return w.fail(ErrDims, field+": number of dimensions", fmt.Sprint(len(dims)), fmt.Sprintf("a tensor has 0 to %d", MaxDims))
	}
	for i, d := range dims {
		if d == 0 {
			return w.fail(ErrDims, fmt.Sprintf("%s: dimension %d", field, i), "0", "every dimension is at least 1")
		}
	}
	_, size, err := sizes(info, dims)
	if err != nil {
		return w.fail(err.(*Error).Kind, field+err.(*Error).Field, err.(*Error).Value, err.(*Error).Reason)
	}
	if len(w.tensors) == MaxTensors {
		return w.fail(ErrCount, field, "", fmt.Sprintf("is one tensor too many: at most %d are read", MaxTensors))
	}
	w.byName[name] = true
	w.tensors = append(w.tensors, outTensor{name, typ, append([]uint64(nil), dims...), size, source})
	return nil
}

// header makes all bytes before the tensors, padding included, and the offset of each tensor and of the end from there.
func (w *Writer) header(meta *Meta, tensors []outTensor) (head []byte, offsets []int64, err error) {
	le := binary.LittleEndian
	str := func(s string) {
		head = le.AppendUint64(head, uint64(len(s)))
		head = append(head, s...)
	}
	head = append(head, magic...)
	head = le.AppendUint32(head, w.version)
	head = le.AppendUint64(head, uint64(len(tensors)))
	head = le.AppendUint64(head, uint64(meta.Len()))
	for key, v := range meta.All() {
		str(key)
		head = le.AppendUint32(head, uint32(v.typ))
		head = v.append(head)
	}
	var at int64
	offsets = append(offsets, 0)
	for _, t := range tensors {
		str(t.name)
		head = le.AppendUint32(head, uint32(len(t.dims)))
		for _, d := range t.dims {
			head = le.AppendUint64(head, d)
		}
		head = le.AppendUint32(head, uint32(t.typ))
		head = le.AppendUint64(head, uint64(at))
		size, ok := padded(t.sizeBytes, w.alignment)
		if !ok || at > math.MaxInt64-size {
			return nil, nil, w.fail(ErrOverflow, "tensor "+clip(t.name)+": size in bytes", fmt.Sprint(t.sizeBytes),
				"with the tensors before it, it must fit in 63 bits")
		}
		at += size
		offsets = append(offsets, at)
	}
	if len(tensors) > 0 {
		size, _ := padded(int64(len(head)), w.alignment)
		head = append(head, make([]byte, size-int64(len(head)))...)
	}
	return head, offsets, nil
}

// SizeBytes is the size of the file that the calls so far make, as one file.
func (w *Writer) SizeBytes() (int64, error) {
	if w.err != nil {
		return 0, w.err
	}
	head, offsets, err := w.header(&w.meta, w.tensors)
	if err != nil {
		return 0, err
	}
	return int64(len(head)) + offsets[len(w.tensors)], nil
}

// Progress hears how many bytes are written, from 0 to the total.
type Progress func(doneBytes, totalBytes int64)

// Write writes the file to out. It ends early with the context's error when the context ends; progress may be nil.
func (w *Writer) Write(ctx context.Context, out io.Writer, progress Progress) error {
	if w.err != nil {
		return w.err
	}
	total, err := w.SizeBytes()
	if err != nil {
		return err
	}
	c := &counter{ctx: ctx, out: out, progress: progress, total: total}
	return w.write(c, &w.meta, w.tensors)
}

func (w *Writer) write(c *counter, meta *Meta, tensors []outTensor) error {
	head, offsets, err := w.header(meta, tensors)
	if err != nil {
		return err
	}
	c.report()
	if _, err := c.Write(head); err != nil {
		return err
	}
	pad := make([]byte, w.alignment)
	for i, t := range tensors {
		l := &limited{out: c, name: t.name, left: t.sizeBytes, size: t.sizeBytes}
		if err := t.source(c.ctx, l); err != nil {
			return err
		}
		if l.left > 0 {
			return &Error{File: "GGUF to be written", Field: "tensor " + clip(t.name), Offset: -1, Kind: ErrTruncated,
				Reason: fmt.Sprintf("has %d bytes and its source gave %d", t.sizeBytes, t.sizeBytes-l.left)}
		}
		if _, err := c.Write(pad[:offsets[i+1]-offsets[i]-t.sizeBytes]); err != nil {
			return err
		}
	}
	return c.ctx.Err()
}

// counter counts what goes through it, and stops when the context ends.
type counter struct {
	ctx         context.Context
	out         io.Writer
	progress    Progress
	done, total int64
	reported    int64
}

// reportBytes is how much is written between two calls of the progress function.
const reportBytes = 4 << 20

func (c *counter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.out.Write(b)
	c.done += int64(n)
	if c.done-c.reported >= reportBytes || c.done == c.total {
		c.report()
	}
	return n, err
}

func (c *counter) report() {
	c.reported = c.done
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
}

// limited refuses more than a tensor's size.
type limited struct {
	out        io.Writer
	name       string
	left, size int64
}

func (l *limited) Write(b []byte) (int, error) {
	if int64(len(b)) > l.left {
		return 0, &Error{File: "GGUF to be written", Field: "tensor " + clip(l.name), Offset: -1, Kind: ErrCount,
			Reason: fmt.Sprintf("has %d bytes and its source gave more", l.size)}
	}
	n, err := l.out.Write(b)
	l.left -= int64(n)
	return n, err
}

// WriteFile writes the file to a path: a reader finds the old file or the whole new one there, never a part, whatever goes
// wrong meanwhile. progress may be nil.
func (w *Writer) WriteFile(ctx context.Context, path string, progress Progress) error {
	return replace(path, func(out io.Writer) error { return w.Write(ctx, out, progress) })
}

// Split says where a split model is cut: a part ends before the tensor that would make it exceed a limit. 0 is no limit.
type Split struct {
	MaxBytes   int64 // of tensors in a part; a larger tensor gets a part of its own
	MaxTensors int
}

// WriteSplit writes the model as the parts PREFIX-00001-of-0000N.gguf and gives their paths. The first holds the metadata, and
// all hold the split.* keys. If it fails, parts that were complete stay.
func (w *Writer) WriteSplit(ctx context.Context, prefix string, s Split, progress Progress) ([]string, error) {
	if w.err != nil {
		return nil, w.err
	}
	cut := w.cut(s)
	if len(cut) > MaxParts {
		return nil, &Error{File: prefix, Field: "the number of parts", Value: fmt.Sprint(len(cut)), Offset: -1, Kind: ErrSplit, Reason: fmt.Sprintf("at most %d are written", MaxParts)}
	}
	metas := make([]*Meta, len(cut))
	c := &counter{ctx: ctx, progress: progress}
	for i, tensors := range cut {
		meta := &Meta{}
		for key, v := range w.meta.All() {
			if i == 0 || key == keyAlignment {
				meta.add(key, v, -1)
			}
		}
		if !meta.add(keySplitNo, Of(uint16(i)), -1) || !meta.add(keySplitCount, Of(uint16(len(cut))), -1) ||
			!meta.add(keySplitTensors, Of(int32(len(w.tensors))), -1) {
			return nil, w.fail(ErrDuplicate, "the metadata", "", "holds split.* keys already: they are written for each part")
		}
		head, offsets, err := w.header(meta, tensors)
		if err != nil {
			return nil, err
		}
		c.total += int64(len(head)) + offsets[len(tensors)]
		metas[i] = meta
	}
	var paths []string
	for i, tensors := range cut {
		path := PartPath(prefix, i, len(cut))
		err := replace(path, func(out io.Writer) error {
			c.out = out
			return w.write(c, metas[i], tensors)
		})
		if err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// cut deals the tensors into parts, at least one.
func (w *Writer) cut(s Split) [][]outTensor {
	parts := [][]outTensor{nil}
	var size int64
	for _, t := range w.tensors {
		bytes, _ := padded(t.sizeBytes, w.alignment) // header refuses what does not fit
		last := len(parts) - 1
		if n := len(parts[last]); n > 0 && (n == s.MaxTensors || s.MaxBytes > 0 && size+bytes > s.MaxBytes) {
			parts, size, last = append(parts, nil), 0, last+1
		}
		parts[last] = append(parts[last], t)
		size += bytes
	}
	return parts
}

// Marshal gives the file as bytes in memory.
func (w *Writer) Marshal() ([]byte, error) {
	var b bytes.Buffer
	err := w.Write(context.Background(), &b, nil)
	return b.Bytes(), err
}

// replace writes a file beside path under another name, and gives it the name when it is whole and on the disk.
func replace(path string, write func(io.Writer) error) (err error) {
	refuse := func(reason string, err error) error {
		return &Error{File: path, Field: "the file", Offset: -1, Reason: reason, Kind: ErrFile, Err: err}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse("cannot be written: it is "+irregular(info.Mode()), nil)
	}
	// Not os.CreateTemp: it makes a file for its owner alone, and a model is for whom the umask lets read it.
	name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%08x.part", filepath.Base(path), rand.Uint32()))
	tmp, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return refuse("cannot be written: "+cause(err), err)
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	buf := bufio.NewWriterSize(tmp, 1<<20)
	system := func(err error) error {
		if err == nil {
			return nil
		}
		return refuse("cannot be written: "+cause(err), err)
	}
	out := &failing{out: buf}
	if err = write(out); err == nil {
		err = system(buf.Flush())
	} else if out.err != nil {
		err = system(out.err)
	}
	if err != nil {
		return err
	}
	if err = system(tmp.Sync()); err != nil {
		return err
	}
	if err = system(tmp.Close()); err != nil {
		return err
	}
	return system(os.Rename(tmp.Name(), path))
}

// failing remembers an error of the disk, to tell it from a source's.
type failing struct {
	out io.Writer
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	n, err := f.out.Write(b)
	if err != nil {
		f.err = err
	}
	return n, err
}
