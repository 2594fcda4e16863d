//go:build !unix || solaris || aix

package emu

import (
	"context"
	"errors"
)

func lockFile(context.Context, string) (func(), error) {
	return nil, errors.New("this system has no file locks that the emulator knows")
}
