//go:build !linux

package sock

import (
	"errors"
	"net"
	"net/netip"
)

// OriginalDst exists on Linux only: elsewhere the gate is a TCP stack of
// our own and brings Config.OriginalDst.
func OriginalDst(net.Conn) (netip.AddrPort, error) {
	return netip.AddrPort{}, errors.New("original destination: unknown on this system")
}
