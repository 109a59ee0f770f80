package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/mint"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
)

// A CA is a session's certificate authority: programs inside trust it, so that
// connections can be inspected. Its key never leaves this process but by Marshal.
type CA = mint.Authority

// CAs gives each session an authority of its own.
type CAs = mint.Supply

// RestoreCA is the authority that CA.Marshal wrote.
func RestoreCA(text []byte) (*CA, error) { return mint.Restore(text) }

// protoHTTP1 is HTTP/1.1 in the words of ALPN.
const protoHTTP1 = "http/1.1"

// readable are the protocols among those offered that can be read here.
func readable(offered []string) []string {
	var out []string
	for _, proto := range offered {
		if proto == protoHTTP1 || proto == protoHTTP2 {
			out = append(out, proto)
		}
	}
	return out
}

// spoken is the protocol that the program gets: the server's choice or, where
// there is no server to choose, one in which the program can be notified.
func (s *stream) spoken() string {
	if s.up != nil {
		if up, ok := s.up.Conn.(*tls.Conn); ok {
			return up.ConnectionState().NegotiatedProtocol
		}
	}
	switch {
	case len(s.offer) == 0:
		return ""
	case slices.Contains(s.offer, protoHTTP1):
		return protoHTTP1
	}
	return s.offer[0]
}

// serveInspected opens a TLS connection on both sides and serves the requests in
// it. The client gets the protocol that the server chose. Where the server
// cannot be reached, the first request is answered so.
func (s *stream) serveInspected(ctx context.Context, hello wire.Hello) {
	s.secure = true
	strict := s.inspected() || s.open == OpenHTTP
	if s.offer = hello.Offerable(); strict {
		s.offer = readable(hello.ALPN)
	}
	if len(hello.ALPN) > 0 && len(s.offer) == 0 {
		s.refuseTLS(Flow{
			Kind: Connect, Reason: "requests to this host are read, and the program offers no protocol that can be read",
			Detail: dial.Quote(strings.Join(hello.ALPN, ",")),
		})
		return
	}
	if s.e.cfg.CA == nil {
		s.refuseTLS(Flow{Kind: Connect, Reason: "connections to this host are inspected, and the key of this session's " +
			"certificates is gone with the guardian that made them: start the session again"})
		return
	}
	// A connection that served HTTP is none for a program that may speak something else.
	err := s.dialInspected(ctx, strict || len(readable(s.offer)) > 0)
	switch {
	case err == nil:
	case len(s.offer) > 0 && len(readable(s.offer)) == 0: // no protocol in which it could be told
		flow := s.dialFailed(Flow{Kind: Connect}, err)
		s.refuseAs(refusal.Undialed(flow, err))
		return
	default:
		s.e.log.Debug("dial before the first request", "authority", s.target.String(), "error", err)
	}
	proto := s.spoken()
	if s.offer = nil; proto != "" {
		s.offer = []string{proto} // from here on
	}
	config, err := s.e.cfg.CA.Config(s.target.Host(), proto)
	if err != nil {
		s.refuseRaw(Flow{Kind: Connect, Reason: err.Error()})
		return
	}
	s.readBy(s.e.limits.Handshake)
	s.client.Conn = sock.Swift(s.client.Conn)
	conn := tls.Server(s.client, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		s.endHandshake(err, proto)
		return
	}
	s.e.cfg.CA.Took(s.target.Host(), proto)
	s.client = peek.New(redact.Client(conn, s.e.cfg.Redact), s.lease)
	s.readBy(0)
	switch {
	case proto == protoHTTP2:
		s.setInspected()
		s.serveHTTP2(ctx)
	case proto == protoHTTP1 || strict:
		s.setInspected()
		s.serveRequests(ctx)
	default:
		s.serveWithin(ctx)
	}
}

// serveWithin serves what is spoken in TLS that was opened, where neither side has
// said what: HTTP is judged request by request, another protocol is relayed. The
// server may speak first.
func (s *stream) serveWithin(ctx context.Context) {
	if !s.ensureDialed(ctx) {
		return
	}
	t := s.newTunnel()
	t.StartDown()
	kind, err := s.guess(t)
	switch {
	case err != nil && s.alert != "": // of TLS 1.3: the handshake was over for us
		s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		s.tellEnd()
	case err != nil:
		s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		s.closed(t, errors.Join(err, s.killed()))
	case kind == wire.Raw && s.counted():
		s.finishTunnel(t)
	case kind == wire.HTTP && t.HaltDown():
		s.setInspected()
		s.serveRequests(ctx)
	case kind == wire.Raw:
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.TLS:
		s.refuseRaw(Flow{Kind: Connect, Reason: "TLS in TLS, whose inner server nobody can tell"})
		<-t.Done //nolint:errcheck // it ended because of the reset
	default:
		s.refuseForm("the server spoke first, which it never does in the protocol the program speaks")
	}
}

// dialInspected opens TLS on what a proxy's client had dialled already, or takes a
// connection that served HTTP before, or dials.
func (s *stream) dialInspected(ctx context.Context, used bool) error {
	if s.up != nil && s.upTarget == s.target {
		return s.dialTLS(ctx, s.target)
	}
	if used && s.borrow() {
		return nil
	}
	return s.dial(ctx, s.target)
}

// endHandshake ends a connection whose program did not take our certificate, or speaks
// TLS that no one should. A program that closes without an alert, once that certificate
// was taken in this session, ended or needed the connection no more: nothing is refused.
func (s *stream) endHandshake(err error, proto string) {
	f := s.flow(Flow{Kind: Connect, Reason: "the program broke the TLS handshake off"})
	switch {
	case s.killed() != nil:
		f.Reason = s.killed().Error()
	case dial.AlertOf(err) != "":
		f.Reason, f.Hints = s.distrusted(dial.AlertOf(err))
	case dial.IsTimeout(err):
		f.Reason = "the program did not finish the TLS handshake in time"
	case dial.IsGone(err) && s.e.cfg.CA.Taken(s.target.Host(), proto):
		f.Duration = time.Since(f.Start)
		s.e.cfg.Journal.Closed(f)
		s.reset()
		return
	case !errors.Is(err, net.ErrClosed):
		f.Detail, f.Hints = dial.Quote(err.Error()), s.tunnelHint()
	}
	s.e.refused(f)
	s.reset()
}

// echRequired is the alert of a program that takes no server but one which has the
// keys of its encrypted ClientHello (RFC 9849 6.1.6).
const echRequired = "121"

// distrusted says why a program ended TLS with an alert, and what would help.
func (s *stream) distrusted(alert string) (reason string, hints []string) {
	if strings.Contains(alert, echRequired) || strings.Contains(alert, "encrypted client hello") {
		return "the program insists on an encrypted ClientHello, which is never passed on (" + alert + ")",
			[]string{"switch encrypted ClientHello off in the program: connections go to the name that they were made to"}
	}
	return "the program does not trust the session's certificate (" + alert + ")", s.tunnelHint()
}

// tunnelHint says how a connection is passed on uninspected, where a rule may say so.
func (s *stream) tunnelHint() []string {
	if s.open == OpenHTTP {
		return []string{"connections to this host are always inspected: have the program trust the session's authority " +
			"(SSL_CERT_FILE inside)"}
	}
	return []string{"if the program pins its server's certificate, or shows one of its own, in config.yaml: " +
		dial.TunnelRule(s.target)}
}

// A serverAlert is how a server ended TLS once the handshake was over for us.
type serverAlert struct{ word string }

func (e *serverAlert) Error() string {
	return errUpstream.Error() + ": it refused (" + e.word +
		"); if it wants a client certificate, tls: tunnel passes the connection on uninspected"
}

func (e *serverAlert) Is(target error) bool { return target == errUpstream }
