//go:build !linux

package gguf

func advise([]byte, Advice) error { return nil }

func populate(b []byte) error { return touch(b) }

func release([]byte) {}
