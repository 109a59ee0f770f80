//go:build !linux

package sock

import "net"

// WaitReadable leaves the waiting to Read.
func WaitReadable(net.Conn) (waited bool, err error) { return false, nil }

// StillIdle trusts a kept connection; if it is dead the next write or read
// says so.
func StillIdle(net.Conn) bool { return true }

// Swift leaves c as it is.
func Swift(c net.Conn) net.Conn { return c }

// Idle says whether what reads by c holds nothing.
func Idle(_, r net.Conn) bool { return empty(r) }
