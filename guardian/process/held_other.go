//go:build !linux

package process

import "errors"

// Harden fails here: without these guarantees there is no guardian.
func Harden() error { return errors.ErrUnsupported }

// A Process is held on Linux alone.
type Process struct{}

// Hold fails here.
func Hold(int) (*Process, error) { return nil, errors.ErrUnsupported }

// Kill fails here.
func (*Process) Kill() error { return errors.ErrUnsupported }

// Close has nothing to let go.
func (*Process) Close() {}
