package gguf

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of refusal. Each reaches the caller wrapped in an [*Error]; test with [errors.Is].
var (
	// ErrFile: the path is not a readable regular file. The system's reason is wrapped beside it.
	ErrFile = errors.New("unreadable model file")
	// ErrMagic: the file is not GGUF at all.
	ErrMagic = errors.New("not a GGUF file")
	// ErrVersion: a version of GGUF, or a byte order, that is not read.
	ErrVersion = errors.New("unsupported GGUF version")
	// ErrTruncated: the file ends before something it declares. Mostly an incomplete download.
	ErrTruncated = errors.New("truncated GGUF file")
	// ErrCount: a count or length is larger than the rest of the file, or than a stated limit.
	ErrCount = errors.New("impossible count")
	// ErrName: a key or tensor name is empty, too long, or holds bytes that no name may hold.
	ErrName = errors.New("invalid name")
	// ErrDuplicate: a key or tensor name occurs twice.
	ErrDuplicate = errors.New("duplicate name")
	// ErrValue: a metadata value is none of those its key or type allows.
	ErrValue = errors.New("invalid metadata value")
	// ErrValueType: a metadata value has another type than the one wanted, or a type that does not exist.
	ErrValueType = errors.New("wrong metadata type")
	// ErrMissing: a metadata key or tensor is not in the file.
	ErrMissing = errors.New("missing from GGUF file")
	// ErrAlignment: general.alignment is not usable.
	ErrAlignment = errors.New("invalid alignment")
	// ErrDims: the dimensions of a tensor are too many or zero, or do not suit its type.
	ErrDims = errors.New("invalid tensor dimensions")
	// ErrTensorType: a tensor has a type that does not exist (any more).
	ErrTensorType = errors.New("unknown tensor type")
	// ErrOverflow: a number of elements or bytes does not fit in 63 bits.
	ErrOverflow = errors.New("size overflow")
	// ErrOffset: a tensor's offset is unaligned, or its bytes overlap another tensor's.
	ErrOffset = errors.New("invalid tensor offset")
	// ErrSplit: the parts of a split model do not belong together, or one is absent.
	ErrSplit = errors.New("invalid split model")
)

// Error is a refusal. It reads as one sentence: the file, the field, the value found, where it lies, and what is allowed.
type Error struct {
	File   string // name of the file, as given to Open or Parse
	Field  string // what was being read: "tensor count", `tensor "blk.0.attn_q.weight": dimension 2`, `metadata "a.b"`
	Value  string // the value found, printed; "" where there is none
	Offset int64  // of the field from the start of the file in bytes; -1 where no one place is at fault
	Reason string // what is allowed, or what to do
	Kind   error  // one of the sentinels
	Err    error  // the system's reason, or nil
}

// Error gives the sentence.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	b.WriteString(": ")
	b.WriteString(e.Field)
	if e.Value != "" {
		fmt.Fprintf(&b, " is %s", e.Value)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	if e.Reason != "" {
		if e.Value != "" || e.Offset >= 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(" ")
		}
		b.WriteString(e.Reason)
	}
	return b.String()
}

// Unwrap lets errors.Is find the kind and the system's reason.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// clip prints a string from a file for a message: quoted, and shortened so that a message stays a line.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}
