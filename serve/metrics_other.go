//go:build !linux

package serve

import (
	"context"
	"errors"
)

// Usage needs Linux, as every sandbox does.
func (s *Sandbox) Usage(context.Context) (Usage, error) {
	return Usage{}, errors.New("measure sandbox: it needs Linux")
}
