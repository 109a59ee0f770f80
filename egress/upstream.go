package egress

import (
	"context"
	"net/netip"
	"strings"

	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/spares"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// An upstream is a stream's connection to a server, if there is one, and what is known of
// the next.
type upstream struct {
	*peek.Source // nil where none is dialled

	e      *Engine
	conns  *sockets
	lease  *budget.Lease
	to     authority.Authority
	dialed netip.AddrPort

	secure   bool     // TLS is opened on both sides
	offer    []string // what is offered to a server by ALPN
	offered  string   // what was offered to this one
	answered bool     // it has answered a request
	lent     bool     // it came from the spares and has answered nothing yet
	whole    bool     // it is at the end of a message
	bound    bool     // it may be logged in as a user of its own
}

// there reports whether a connection is dialled.
func (u *upstream) there() bool { return u.Source != nil }

// dial connects to a, replacing what was dialled before.
func (u *upstream) dial(ctx context.Context, a authority.Authority) error {
	u.hangUp()
	c, dialed, err := u.e.dialer.Dial(ctx, a)
	if err != nil {
		return err
	}
	if err := u.conns.attach(c); err != nil {
		return err
	}
	u.Source, u.to, u.dialed, u.answered = peek.New(c, u.lease), a, dialed, false
	u.lent, u.whole, u.bound = false, false, false
	if !u.secure {
		return nil
	}
	return u.dialTLS(ctx, a)
}

// dialTLS opens TLS on what was dialled. From the second time on the protocol is
// the one that the program speaks by now.
func (u *upstream) dialTLS(ctx context.Context, a authority.Authority) error {
	ctx, cancel := context.WithTimeout(ctx, u.e.limits.Handshake)
	defer cancel()
	conn, err := u.e.upstream.Handshake(ctx, u.Conn, a, u.offer)
	if err != nil {
		u.hangUp()
		return err
	}
	u.Conn = conn
	return nil
}

func (u *upstream) hangUp() {
	if !u.there() {
		return
	}
	u.conns.detach(sock.Bare(u.Conn))
	_ = u.Close() // nothing more is wanted of it
	u.Source = nil
}

// reset ends the connection with RST.
func (u *upstream) reset() {
	if u.there() {
		sock.Reset(u.Conn)
	}
}

// borrow takes a spare connection to a server.
func (u *upstream) borrow(to authority.Authority) bool {
	u.offered = strings.Join(u.offer, ",")
	got, ok := u.e.spares.Take(to, u.offered)
	if !ok || u.conns.attach(sock.Bare(got.Conn)) != nil {
		return false
	}
	u.Source, u.to, u.dialed = peek.New(got.Conn, u.lease), got.To, got.Dialed
	u.answered, u.lent, u.whole = true, true, true
	return true
}

// lend gives the connection to a server to the program's next one, where it is at
// the end of a message.
func (u *upstream) lend(to authority.Authority) {
	if !u.secure || !u.there() || u.to != to || !u.whole || u.bound || len(u.Held()) > 0 || u.conns.killed() != nil {
		return
	}
	u.conns.detach(sock.Bare(u.Conn))
	u.e.spares.Put(spares.Spare{To: to, Offer: u.offered, Conn: u.Conn, Dialed: u.dialed})
	u.Source = nil
}

// defaultPort is the port that the connection's scheme means.
func (u *upstream) defaultPort() uint16 {
	if u.secure {
		return 443
	}
	return 80
}
