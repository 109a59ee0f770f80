//go:build !linux

package sock

import (
	"net"
	"net/netip"
	"syscall"
)

// Unpaced leaves a listener as it is.
func Unpaced(net.Listener) {}

// UnpacedTo leaves a socket as it is.
func UnpacedTo(netip.Addr, syscall.RawConn) {}
