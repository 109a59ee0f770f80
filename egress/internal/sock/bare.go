package sock

import (
	"errors"
	"net"
)

// ErrWrite marks an error of the side that is written to.
var ErrWrite = errors.New("write")

// Bare is the kernel's connection below TLS and below what was looked at.
func Bare(c net.Conn) net.Conn {
	for {
		switch outer := c.(type) {
		case interface{ NetConn() net.Conn }:
			c = outer.NetConn()
		default:
			return c
		}
	}
}

// Reset closes with RST, which says at once that nothing was served.
func Reset(c net.Conn) {
	c = Bare(c)
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // then it is a plain close, and as closed
	}
	_ = c.Close()
}
