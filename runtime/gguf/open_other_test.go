//go:build !unix

package gguf

import "errors"

func fifo(string) error { return errors.ErrUnsupported }
