package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// isClosed reports whether a writer is the stand-in that the Go runtime puts where standard output was closed when the
// program began: the null device, opened for reading too. A shell's > /dev/null opens it for writing alone.
func isClosed(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || f.Fd() != 1 {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(1, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	mode, err := unix.FcntlInt(1, unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR
}
