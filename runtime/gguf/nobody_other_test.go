//go:build !linux

package gguf

import (
	"os"
	"testing"
)

func asNobody(t *testing.T, do func()) {
	if os.Getuid() <= 0 {
		t.Skip("this user may read everything")
	}
	do()
}
