//go:build !linux

package client

import (
	"context"
	"time"
)

// refuse has nothing to refuse: no driver builds a gate here.
func (l Listeners) refuse(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
