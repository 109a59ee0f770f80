//go:build !linux

package passfd

import "golang.org/x/sys/unix"

// Private has no program that is started from here on get a descriptor but those that it is given: what
// this process was started with, such as a shell's lock or the end of a pipe, would be held for as long as
// such a program lives.
func Private() {
	for fd := 3; fd < 1024; fd++ {
		unix.CloseOnExec(fd)
	}
}
