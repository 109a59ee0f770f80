//go:build !linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// WatchEnd watches a process that is no one's child here. The function that it
// gives waits until there is no process of that number.
func WatchEnd(pid int) (wait func(context.Context) error, err error) {
	return func(ctx context.Context) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("process %d has not ended", pid)
			case <-tick.C:
			}
		}
		return nil
	}, nil
}
