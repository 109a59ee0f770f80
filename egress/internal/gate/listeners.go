// Package gate is the cloister's end of its only network: where programs reach it, the
// sockets that it listens on, and the connections that it accepts.
//
// Promise: a session has no more connections open than its slots and its memory allow;
// one more is reset at once. It reads nothing of a connection and judges none.
package gate

import (
	"net"

	"cloister/egress/internal/refused"
)

// Listeners are the gate's sockets. Serve owns them: they are closed when it
// returns.
type Listeners struct {
	TCP    []net.Listener
	DNS    []net.PacketConn // *net.UDPConn answers from the address that was asked
	DNSTCP []net.Listener
	// Refusals is the kernel's log of the datagrams that it refused; nil for none.
	Refusals *refused.Socket
}

// Close closes all.
func (l Listeners) Close() {
	l.Unlisten()
	if l.Refusals != nil {
		_ = l.Refusals.Close() // it was only read
	}
}

// Unlisten closes what programs reach; the errors of closing a listener carry nothing
// to act on.
func (l Listeners) Unlisten() {
	for _, ln := range l.TCP {
		_ = ln.Close()
	}
	for _, ln := range l.DNSTCP {
		_ = ln.Close()
	}
	for _, pc := range l.DNS {
		_ = pc.Close()
	}
}
