// Package peercred tells which user is at the other end of a unix socket.
//
// The promise: an answer comes from the kernel, never from what the peer
// wrote, and where the kernel cannot answer the result is an error, so that a
// caller who refuses on error refuses everywhere.
//
// It does not authenticate a program: any process of the same user passes.
//
// Most readers want [Require].
package peercred

import (
	"fmt"
	"net"
)

// Cred identifies the peer at the time it connected or, for a listener, at
// the time it called listen(2).
type Cred struct {
	UID int
	PID int // in the caller's pid namespace; 0 when the peer is in none of ours
}

// Mismatch is the error for a peer of another user.
type Mismatch struct {
	Want, Got int
}

// Error names both users.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("peer credentials: the other end belongs to uid %d, not %d", m.Got, m.Want)
}

// Require returns the peer of c, or an error when it is not uid.
func Require(c *net.UnixConn, uid int) (Cred, error) {
	cred, err := Of(c)
	if err != nil {
		return Cred{}, err
	}
	if cred.UID != uid {
		return Cred{}, &Mismatch{Want: uid, Got: cred.UID}
	}
	return cred, nil
}

// Of asks the kernel who is at the other end of c.
func Of(c *net.UnixConn) (Cred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred Cred
	var asked error
	if err := raw.Control(func(fd uintptr) { cred, asked = ask(int(fd)) }); err != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", err)
	}
	if asked != nil {
		return Cred{}, fmt.Errorf("peer credentials: %w", asked)
	}
	return cred, nil
}
