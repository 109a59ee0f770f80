//go:build !linux

package files

import (
	"errors"
	"io"
)

// Serve needs Linux, as every sandbox does.
func Serve(io.Reader, io.Writer) error { return errors.New("serve files: a sandbox needs Linux") }
