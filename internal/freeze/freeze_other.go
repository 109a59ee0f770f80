//go:build !linux

// Package freeze holds the processes of one PID namespace still for a moment.
package freeze

import "errors"

// Processes needs Linux.
func Processes(int) (func() error, error) {
	return nil, errors.New("freeze: processes can be held still on Linux alone")
}

// ErrRan says that something ran before it was let go on.
var ErrRan = errors.New("freeze: a process went on while it was held still")
