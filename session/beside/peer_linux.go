package beside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"cloister/sandbox/gate"
)

// soOriginalDst is SO_ORIGINAL_DST (linux/netfilter_ipv4.h).
const soOriginalDst = 80

// peerOf asks connection tracking, in the socket's own network namespace, where the program
// wanted to go. The answer is a sockaddr_in, with which the option's struct is read.
func peerOf(c net.Conn) (number uint8, port uint16, err error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0, 0, errors.New("not a connection of the kernel's")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var m *unix.IPv6Mreq
	var sockErr error
	if err := raw.Control(func(fd uintptr) {
		m, sockErr = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst)
	}); err != nil || sockErr != nil {
		return 0, 0, fmt.Errorf("original destination: %w", errors.Join(err, sockErr))
	}
	b := m.Multiaddr
	return gate.PeerNumber(netip.AddrFrom4([4]byte(b[4:8]))), binary.BigEndian.Uint16(b[2:4]), nil
}
