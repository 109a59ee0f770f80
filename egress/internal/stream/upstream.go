package stream

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

// An Upstream is a stream's connection to a server, if there is one, and what is known of
// the next.
type Upstream struct {
	*peek.Source // nil where none is dialled

	e      *Session
	conns  *Sockets
	lease  *budget.Lease
	To     authority.Authority
	Dialed netip.AddrPort

	Secure   bool     // TLS is opened on both sides
	Offer    []string // what is offered to a server by ALPN
	offered  string   // what was offered to this one
	Answered bool     // it has answered a request
	Lent     bool     // it came from the spares and has answered nothing yet
	Whole    bool     // it is at the end of a message
	Bound    bool     // it may be logged in as a user of its own
}

// There reports whether a connection is dialled.
func (u *Upstream) There() bool { return u.Source != nil }

// Dial connects to a, replacing what was dialled before.
func (u *Upstream) Dial(ctx context.Context, a authority.Authority) error {
	u.HangUp()
	c, dialed, err := u.e.Dialer.Dial(ctx, a)
	if err != nil {
		return err
	}
	if err := u.conns.Attach(c); err != nil {
		return err
	}
	u.Source, u.To, u.Dialed, u.Answered = peek.New(c, u.lease), a, dialed, false
	u.Lent, u.Whole, u.Bound = false, false, false
	if !u.Secure {
		return nil
	}
	return u.DialTLS(ctx, a)
}

// DialTLS opens TLS on what was dialled. From the second time on the protocol is
// the one that the program speaks by now.
func (u *Upstream) DialTLS(ctx context.Context, a authority.Authority) error {
	ctx, cancel := context.WithTimeout(ctx, u.e.Limits.Handshake)
	defer cancel()
	conn, err := u.e.TLS.Handshake(ctx, u.Conn, a, u.Offer)
	if err != nil {
		u.HangUp()
		return err
	}
	u.Conn = conn
	return nil
}

func (u *Upstream) HangUp() {
	if !u.There() {
		return
	}
	u.conns.detach(sock.Bare(u.Conn))
	_ = u.Close() // nothing more is wanted of it
	u.Source = nil
}

// reset ends the connection with RST.
func (u *Upstream) reset() {
	if u.There() {
		sock.Reset(u.Conn)
	}
}

// Borrow takes a spare connection to a server.
func (u *Upstream) Borrow(to authority.Authority) bool {
	u.offered = strings.Join(u.Offer, ",")
	got, ok := u.e.Spares.Take(to, u.offered)
	if !ok || u.conns.Attach(sock.Bare(got.Conn)) != nil {
		return false
	}
	u.Source, u.To, u.Dialed = peek.New(got.Conn, u.lease), got.To, got.Dialed
	u.Answered, u.Lent, u.Whole = true, true, true
	return true
}

// Lend gives the connection to a server to the program's next one, where it is at
// the end of a message.
func (u *Upstream) Lend(to authority.Authority) {
	if !u.Secure || !u.There() || u.To != to || !u.Whole || u.Bound || len(u.Held()) > 0 || u.conns.Killed() != nil {
		return
	}
	u.conns.detach(sock.Bare(u.Conn))
	u.e.Spares.Put(spares.Spare{To: to, Offer: u.offered, Conn: u.Conn, Dialed: u.Dialed})
	u.Source = nil
}

// DefaultPort is the port that the connection's scheme means.
func (u *Upstream) DefaultPort() uint16 {
	if u.Secure {
		return 443
	}
	return 80
}
