package passfd

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pair gives two connected unix sockets of a kind, such as [unix.SOCK_STREAM], which no program that is started
// meanwhile has: macOS makes none that is closed by itself.
func Pair(kind int) ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return pair, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	return pair, nil
}
