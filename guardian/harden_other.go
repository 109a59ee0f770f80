//go:build !linux

package guardian

import "errors"

// Without these guarantees there is no guardian.
func harden() error { return errors.ErrUnsupported }

type process struct{}

func holdProcess(int) (*process, error) { return nil, errors.ErrUnsupported }

func (*process) kill() error { return errors.ErrUnsupported }

func (*process) close() {}
