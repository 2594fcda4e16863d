package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
)

// Keys of the parts of a split model, as llama.cpp's gguf-split writes them.
const (
	keySplitNo      = "split.no"            // from 0
	keySplitCount   = "split.count"         // of parts
	keySplitTensors = "split.tensors.count" // over all parts
)

// MaxParts is the most parts of a split model: the keys that number them are u16.
const MaxParts = 1<<16 - 1

// partName is how a part's name ends; the number counts from 1.
var partName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// PartPath is the path of part no (from 0) of count of the model PREFIX: "PREFIX-00001-of-00003.gguf".
func PartPath(prefix string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no+1, count)
}

// readSplit reads the split.* keys.
func (p *part) readSplit() (err error) {
	if p.splitCount, err = p.meta.unsignedBelow(keySplitCount, 1, MaxParts); err != nil {
		return err
	}
	if p.splitNo, err = p.meta.unsignedBelow(keySplitNo, 0, MaxParts); err != nil {
		return err
	}
	if p.splitCount > 1 && p.splitNo >= p.splitCount {
		return p.meta.Fail(keySplitNo, fmt.Sprintf("it counts from 0 and there are %d parts", p.splitCount))
	}
	p.splitTensorsDeclared = p.meta.Has(keySplitTensors)
	p.splitTensors, err = p.meta.unsignedBelow(keySplitTensors, 0, math.MaxInt32)
	return err
}

// siblings opens the parts that belong with one, and gives all in order. Each part's own word is held against the first
// one's: the number of parts, its place among them, and the number of tensors in all.
func (o *opening) siblings(one *part) ([]*part, error) {
	count, no := int(one.splitCount), int(one.splitNo)
	wrong := func(p *part, field, reason string, err error) error {
		return &Error{File: p.Name, Field: field, Offset: -1, Reason: reason, Kind: ErrSplit, Err: err}
	}
	m := partName.FindStringSubmatch(one.Name)
	if m == nil || PartPath(m[1], no, count) != one.Name {
		want := filepath.Base(PartPath("NAME", no, count))
		return nil, wrong(one, "the file", fmt.Sprintf("is part %d of %d of a split model, whose others are found by name: it should be called %s", no+1, count, want), nil)
	}
	parts := make([]*part, count) // at most MaxParts
	parts[no] = one
	tensors := 0
	for i := range parts {
		if parts[i] == nil {
			path := PartPath(m[1], i, count)
			p, err := o.part(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, wrong(one, "the file", fmt.Sprintf("is part %d of %d of a split model: part %d is missing: %s", no+1, count, i+1, path), err)
			}
			if err != nil {
				return nil, err
			}
			if p.splitCount != one.splitCount {
				return nil, wrong(p, "the file", fmt.Sprintf("says that it is one of %d parts, %s that it is one of %d: they are not of the same model", p.splitCount, one.Name, count), nil)
			}
			if p.splitNo != uint64(i) {
				return nil, wrong(p, "the file", fmt.Sprintf("holds part %d: its name says part %d", p.splitNo+1, i+1), nil)
			}
			parts[i] = p
		}
		tensors += len(parts[i].tensors)
	}
	for _, p := range parts {
		if p.splitTensorsDeclared && p.splitTensors != uint64(tensors) {
			return nil, wrong(p, "metadata \""+keySplitTensors+"\"", fmt.Sprintf("is %d: the %d parts hold %d tensors", p.splitTensors, count, tensors), nil)
		}
	}
	return parts, nil
}
