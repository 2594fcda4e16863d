package gguf

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs do with the file rights of a user who is not root: root may read everything.
func asNobody(t *testing.T, do func()) {
	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody = 65534
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Skipf("file rights cannot be dropped here: %v", err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	do()
}
