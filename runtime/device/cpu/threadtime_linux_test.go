package cpu

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threadTime is the time that this thread has run, in nanoseconds.
func threadTime(tb testing.TB) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return t.Nano()
}
