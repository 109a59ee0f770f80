// Package sigquit has SIGQUIT, which Ctrl-\ sends, end this process as it ends any other program.
//
// Go has it print the stacks of all goroutines, which means nothing to a person. The promise: after [Plain] the
// signal ends the process without a word, until signal.Notify asks for it; from then on it goes where it was asked to.
// It starts no goroutine, which signal.Notify for each command of a person's would.
package sigquit

import (
	"os/signal"
	"syscall"
)

// Plain gives the signal the kernel's own effect. An error leaves Go's.
func Plain() error {
	signal.Ignore(syscall.SIGQUIT) // from here on the runtime has no handler of its own, and installs one for Notify
	return byDefault()
}
