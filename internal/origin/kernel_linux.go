package origin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// soOriginalDst is SO_ORIGINAL_DST (linux/netfilter_ipv4.h) and also
// IP6T_SO_ORIGINAL_DST (linux/netfilter_ipv6/ip6_tables.h).
const soOriginalDst = 80

// Of tells where the program wanted to go: as a Conn says, or connection tracking.
// It is looked up in the socket's own network namespace, so it works for a
// listener that was handed out of the cloister.
func Of(c net.Conn) (netip.AddrPort, error) {
	if said, ok := c.(*Conn); ok {
		return said.to()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errors.New("original destination: not a kernel connection")
	}
	local, ok := tcp.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("original destination: no local address")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("original destination: %w", err)
	}
	var dst netip.AddrPort
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		if local.AddrPort().Addr().Unmap().Is4() {
			dst, sockErr = originalDst4(int(fd))
		} else {
			dst, sockErr = originalDst6(int(fd))
		}
	})
	if err := errors.Join(err, sockErr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("original destination: %w", err)
	}
	return dst, nil
}

// originalDst4 reads a sockaddr_in through a struct of x/sys that is at least
// as large: family, port (network order), address.
func originalDst4(fd int) (netip.AddrPort, error) {
	m, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b := m.Multiaddr
	addr := netip.AddrFrom4([4]byte(b[4:8]))
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[2:4])), nil
}

// originalDst6 reads a sockaddr_in6, with which IPv6MTUInfo begins.
func originalDst6(fd int) (netip.AddrPort, error) {
	m, err := unix.GetsockoptIPv6MTUInfo(fd, unix.SOL_IPV6, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var port [2]byte
	binary.NativeEndian.PutUint16(port[:], m.Addr.Port)
	return netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), binary.BigEndian.Uint16(port[:])), nil
}
