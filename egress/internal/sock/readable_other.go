//go:build !linux

package sock

import (
	"io"
	"net"
)

// WaitReadable leaves the waiting to Read.
func WaitReadable(net.Conn) (waited bool, err error) { return false, nil }

// Ended cannot say.
func Ended(net.Conn) bool { return false }

// Swift leaves c as it is.
func Swift(c net.Conn) net.Conn { return c }

// Idle reports whether c holds nothing. One of the kernel's alone is trusted: if it is
// dead the next write or read says so.
func Idle(c net.Conn) bool {
	_, above := c.(interface{ NetConn() net.Conn })
	return !above || empty(c)
}

// A Batch is never made.
type Batch struct{}

// A Memory holds none.
type Memory struct{}

// NewBatch gives none.
func NewBatch(_, _ net.Conn, _ *Memory) *Batch { return nil }

// Copy copies.
func (*Batch) Copy(w io.Writer, r io.Reader, buf []byte) (int64, error) {
	return io.CopyBuffer(w, r, buf)
}
