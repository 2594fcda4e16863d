//go:build !linux

package cpu

import (
	"testing"
	"time"
)

var start = time.Now()

// threadTime is the time since the start: other systems are not asked for a thread's own.
func threadTime(testing.TB) int64 { return int64(time.Since(start)) }
