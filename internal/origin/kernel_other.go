//go:build !linux

package origin

import (
	"errors"
	"net"
	"net/netip"
)

// Of exists on Linux only: elsewhere the gate is a TCP stack of
// our own and brings Config.OriginalDst.
func Of(net.Conn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("original destination: unknown on this system")
}
