package kubernetes

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// refusals makes the socket by which the guardian is given what the pod's kernel tells of refused
// datagrams. tell writes to it; what has no room is lost, as in the kernel's own.
func refusals(g *sandbox.Gate) (tell func([]byte), err error) {
	syscall.ForkLock.RLock() // no program that is started meanwhile has them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	g.Refusals = os.NewFile(uintptr(fds[0]), "refusals")
	own := os.NewFile(uintptr(fds[1]), "refusals")
	return func(m []byte) {
		_ = unix.Sendto(int(own.Fd()), m, unix.MSG_DONTWAIT, nil) // no room, or no guardian at the moment
	}, nil
}
