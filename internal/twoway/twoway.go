// Package twoway makes one connection of two.
//
// The promise: each direction ends by itself, as its source does; an error ends both. It
// opens and closes nothing else, and bounds nothing.
//
// Most readers want [Join].
package twoway

import (
	"io"
	"net"
)

// Join copies between two connections until both directions have ended.
func Join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		oneWay(b, a)
	}()
	oneWay(a, b)
	<-done
}

// oneWay copies until its source ends, and passes the end on.
func oneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// Refuse closes a connection as a port does on which nothing listens.
func Refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
