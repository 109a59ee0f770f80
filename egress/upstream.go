package egress

import (
	"context"
	"strings"

	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/spares"
	"cloister/internal/authority"
)

// borrow takes a spare for the stream's target.
func (s *stream) borrow() bool {
	s.offered = strings.Join(s.offer, ",")
	got, ok := s.e.spares.Take(s.target, s.offered)
	if !ok || s.attach(sock.Bare(got.Conn)) != nil {
		return false
	}
	s.up, s.upTarget, s.dialed, s.answered, s.lent, s.whole = peek.New(got.Conn, s.lease), got.To, got.Dialed,
		true, true, true
	return true
}

// lend gives the connection to the server to the program's next one, where it is at
// the end of a message.
func (s *stream) lend() {
	if !s.secure || s.up == nil || s.upTarget != s.target || !s.whole || s.bound || len(s.up.Held()) > 0 ||
		s.killed() != nil {
		return
	}
	s.detach(sock.Bare(s.up.Conn))
	s.e.spares.Put(spares.Spare{To: s.target, Offer: s.offered, Conn: s.up.Conn, Dialed: s.dialed})
	s.up = nil
}

// dial connects to a, replacing what was dialled before.
func (s *stream) dial(ctx context.Context, a authority.Authority) error {
	s.hangUp()
	c, dialed, err := s.e.dialer.Dial(ctx, a)
	if err != nil {
		return err
	}
	if err := s.attach(c); err != nil {
		return err
	}
	s.up, s.upTarget, s.dialed, s.answered = peek.New(c, s.lease), a, dialed, false
	s.lent, s.whole, s.bound = false, false, false
	if !s.secure {
		return nil
	}
	return s.dialTLS(ctx, a)
}

// dialTLS opens TLS on what was dialled. From the second time on the protocol is
// the one that the program speaks by now.
func (s *stream) dialTLS(ctx context.Context, a authority.Authority) error {
	ctx, cancel := context.WithTimeout(ctx, s.e.limits.Handshake)
	defer cancel()
	conn, err := s.e.upstream.Handshake(ctx, s.up.Conn, a, s.offer)
	if err != nil {
		s.hangUp()
		return err
	}
	s.up.Conn = conn
	return nil
}

func (s *stream) hangUp() {
	if s.up == nil {
		return
	}
	s.detach(sock.Bare(s.up.Conn))
	_ = s.up.Close() // nothing more is wanted of it
	s.up = nil
}
