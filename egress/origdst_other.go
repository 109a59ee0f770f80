//go:build !linux

package egress

import (
	"errors"
	"net"
	"net/netip"
)

// kernelOriginalDst exists on Linux only: elsewhere the gate is a TCP stack of
// our own and brings Config.OriginalDst.
func kernelOriginalDst(net.Conn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("original destination: unknown on this system")
}
