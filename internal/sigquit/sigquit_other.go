//go:build !linux

package sigquit

import (
	"os/signal"
	"syscall"
)

// byDefault leaves the signal to Go, which ends the process as well.
func byDefault() error {
	signal.Reset(syscall.SIGQUIT)
	return nil
}
