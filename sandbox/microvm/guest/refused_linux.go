package guest

import (
	"errors"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"cloister/internal/origin"
	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
	"cloister/sandbox/microvm/wire"
)

// refusedQueue is room for what this kernel tells of refused datagrams, some 8,000 of them: what comes beyond that
// while none is read is refused all the same, and not counted.
const refusedQueue = 8 << 20

// refusals tells the monitor of each datagram that the rules here refuse. The monitor sends one to the same destination
// in the enclosure's network, where it is refused again, and recorded as any program's.
func refusals(s *yamux.Session) error {
	fd, err := lay.Say(unix.NETLINK_NETFILTER, gate.Refusals())
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, refusedQueue); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	go func() {
		defer func() { _ = unix.Close(fd) }() // the monitor is gone
		_ = tellRefused(fd, s)
	}()
	return nil
}

// tellRefused reads the kernel's log until the monitor is gone. The stream begins with the first that is refused.
func tellRefused(fd int, s *yamux.Session) error {
	var to *yamux.Stream
	buf := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			continue
		}
		if err != nil {
			return err
		}
		at, ok := origin.Refused(buf[:n])
		if !ok {
			continue
		}
		if to == nil {
			if to, err = wire.Open(s, wire.Head{Refused: true}); err != nil {
				return err
			}
		}
		if err := wire.WriteFrame(to, []byte(at.String())); err != nil {
			return err
		}
	}
}
