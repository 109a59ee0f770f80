//go:build !linux

package workspace

import (
	"errors"
	"os"
)

// makeSocket makes none: a folder serves instead.
func (stub) makeSocket(*os.Root) error { return errors.ErrUnsupported }
