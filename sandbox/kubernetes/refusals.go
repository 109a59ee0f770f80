package kubernetes

import (
	"os"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
	"cloister/sandbox"
)

// refusals makes the socket by which the guardian is given what the pod's kernel tells of refused
// datagrams. tell writes to it; what has no room is lost, as in the kernel's own.
func refusals(g *sandbox.Gate) (tell func([]byte), err error) {
	fds, err := passfd.Pair(unix.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	g.Refusals = os.NewFile(uintptr(fds[0]), "refusals")
	own := os.NewFile(uintptr(fds[1]), "refusals")
	return func(m []byte) {
		_ = unix.Sendto(int(own.Fd()), m, unix.MSG_DONTWAIT, nil) // no room, or no guardian at the moment
	}, nil
}
