package hostexec

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// left says whether the other end has closed, also while there are bytes of it
// that nobody has read yet (POLLRDHUP, Linux 2.6.17).
func left(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	over := false
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(poll, 0); err == nil && n > 0 {
			over = true
		}
	})
	return over || err != nil
}
