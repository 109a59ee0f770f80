package origin

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Report has the kernel tell which address each datagram of a socket was sent to. A socket
// that is bound to the wildcard must answer from that one: an answer from another address
// is dropped by every resolver.
func Report(c *net.UDPConn) error {
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok && a.AddrPort().Addr().Unmap().Is4() {
		return ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true)
	}
	if err := ipv6.NewPacketConn(c).SetControlMessage(ipv6.FlagDst, true); err != nil {
		return err
	}
	// A dual-stack socket also gets IPv4 datagrams, whose destination comes in
	// IP_PKTINFO; on an IPv6-only socket the option is harmless.
	_ = ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true)
	return nil
}

// Reply turns the "sent to" message of a datagram into the "send from" message of its
// answer. Nil, which lets the kernel choose, if there is none.
func Reply(oob []byte) []byte {
	var c4 ipv4.ControlMessage
	if err := c4.Parse(oob); err == nil && c4.Dst != nil {
		return (&ipv4.ControlMessage{Src: c4.Dst}).Marshal()
	}
	var c6 ipv6.ControlMessage
	if err := c6.Parse(oob); err == nil && c6.Dst != nil {
		if a, ok := netip.AddrFromSlice(c6.Dst); ok && !a.Is4In6() {
			return (&ipv6.ControlMessage{Src: c6.Dst}).Marshal()
		}
	}
	return nil
}
