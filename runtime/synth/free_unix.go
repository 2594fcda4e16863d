//go:build linux || darwin || freebsd

package synth

import "golang.org/x/sys/unix"

// freeBytes is how much a user may still write to the disk of a folder; false where the system does not say.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
