//go:build unix

package gguf

import "golang.org/x/sys/unix"

func fifo(path string) error { return unix.Mkfifo(path, 0o644) }
