//go:build !linux

package egress

import "net"

// waitReadable leaves the waiting to Read.
func waitReadable(net.Conn) (waited bool, err error) { return false, nil }

// stillIdle trusts a kept connection; if it is dead the next write or read
// says so.
func stillIdle(net.Conn) bool { return true }
