//go:build !linux

package serve

import (
	"context"
	"errors"
	"time"
)

// Usage is what a sandbox uses at a moment.
type Usage struct {
	Time                time.Time
	CPUs                int
	CPU                 float64
	MemUsed, MemTotal   int64
	DiskUsed, DiskTotal int64
}

// Usage needs Linux, as every sandbox does.
func (s *Sandbox) Usage(context.Context) (Usage, error) {
	return Usage{}, errors.New("measure sandbox: it needs Linux")
}
