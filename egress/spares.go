package egress

import (
	"strings"

	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/spares"
	"cloister/egress/internal/wire"
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

// repeatable reports whether a request may be sent again where a connection that was
// lent ends without a word: it has no body, and asks for nothing but an answer
// (RFC 9110 9.2.2).
func (x *exchange) repeatable() bool {
	return repeatable(x.req.Method) && x.req.Body == wire.NoBody && x.out == nil && x.upgrade == ""
}

func repeatable(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}

// bindsConnection reports whether a request logs its connection in, and not itself.
func bindsConnection(h wire.Header) bool {
	v, _ := h.Get("Authorization")
	scheme, _, _ := strings.Cut(strings.ToLower(v), " ")
	return scheme == "ntlm" || scheme == "negotiate"
}
