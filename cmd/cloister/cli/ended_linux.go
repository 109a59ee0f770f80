package cli

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// WatchEnd watches a process that is no one's child here. The function that it
// gives waits until the process has ended; whether its parent has taken note
// does not matter, which kill(2) could not tell.
func WatchEnd(pid int) (wait func(context.Context) error, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func(context.Context) error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return func(ctx context.Context) error {
		defer unix.Close(fd)
		for {
			const slice = 50 // ms, so that the end of ctx is noticed
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, slice)
			switch {
			case n > 0:
				return nil
			case err != nil && !errors.Is(err, unix.EINTR):
				return fmt.Errorf("watch process %d: %w", pid, err)
			case ctx.Err() != nil:
				return fmt.Errorf("process %d has not ended", pid)
			}
		}
	}, nil
}
