package cpu

import "golang.org/x/sys/unix"

// hugeBytes is the size of a huge page.
const hugeBytes = 2 << 20

// allocate takes memory of zeros from the system, in huge pages where it has them: weights are read from end to end for every
// token, and each page costs a look-up.
func allocate(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n+hugeBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	unix.Madvise(b, unix.MADV_HUGEPAGE) // a wish
	return b, nil
}

func release(b []byte) error { return unix.Munmap(b) }
