package sock

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// FreeBind lets an IPv6 socket answer from an address that is routed here but
// assigned to no interface, which is what all addresses inside a cloister are.
// For IPv4 the route is enough (inet_addr_type); for IPv6 the kernel asks for
// assignment (ip6_datagram_send_ctl).
func FreeBind(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		sockErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	})
	return errors.Join(err, sockErr)
}
