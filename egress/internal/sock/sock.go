// Package sock asks the kernel about sockets what net does not tell, and asks it for
// bytes in fewer steps.
//
// Promise: a connection does what it does without this room: deadlines and Close
// hold. What only looks consumes nothing, and where there is no Linux a function
// says so or leaves the work to net.
//
// It does not judge or dial.
//
// Most readers want Swift.
package sock

import (
	"errors"
	"net"
	"os"
	"time"
)

// empty reports whether what reads by a connection, as crypto/tls does, holds nothing.
func empty(r net.Conn) bool {
	var one [1]byte
	_ = r.SetReadDeadline(time.Unix(1, 0)) // then it gives what it holds, and never reads more
	n, err := r.Read(one[:])
	_ = r.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
