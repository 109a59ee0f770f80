package passfd

import "golang.org/x/sys/unix"

// Private has no program that is started from here on get a descriptor but those that it is given: what
// this process was started with, such as a shell's lock or the end of a pipe, would be held for as long as
// such a program lives.
func Private() {
	// close_range(2) is there since Linux 5.9, and the word since 5.11: before them nothing changes.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
}
