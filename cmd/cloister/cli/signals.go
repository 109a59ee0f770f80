package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// PassSignals begins to receive the signals that a wrapped command gets instead of this
// process, until signal.Stop or the end of it.
func PassSignals(to chan<- os.Signal) {
	signal.Notify(to, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH)
}

// Signals begins to receive the signals that are passed on, until the process ends. It
// works beside its caller, since the runtime hands each from thread to thread,
// 1 ms for all: until then a signal does what it does to any process.
func Signals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	go PassSignals(c)
	return c
}
