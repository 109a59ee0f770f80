package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"

	"cloister/egress/internal/mint"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// A CA is a session's certificate authority: programs inside trust it, so that
// connections which rules must read can be opened. Its key never leaves this
// process.
type CA = mint.Authority

// CAs gives each session an authority of its own.
type CAs = mint.Supply

// protoHTTP1 is HTTP/1.1 in the words of ALPN.
const protoHTTP1 = "http/1.1"

// upstreamTLS are the settings for servers: verification always on, one cache of
// tickets for the session. They are not changed after they are made
// (CVE-2025-68121).
type upstreamTLS struct {
	base *tls.Config
}

func newUpstreamTLS(roots *x509.CertPool) *upstreamTLS {
	return &upstreamTLS{base: &tls.Config{
		RootCAs:                     roots,
		MinVersion:                  tls.VersionTLS12,
		ClientSessionCache:          tls.NewLRUClientSessionCache(256),
		DynamicRecordSizingDisabled: true,
	}}
}

// handshake opens TLS to a server that must prove to be a.
func (u *upstreamTLS) handshake(ctx context.Context, c net.Conn, a authority.Authority, offer []string) (*tls.Conn, error) {
	config := u.base.Clone()
	config.ServerName, config.NextProtos = a.Host(), offer
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &tls.Certificate{}, nil
	}
	conn := tls.Client(sock.Swift(c), config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, describeTLS(a, err, asked)
	}
	return conn, nil
}

// describeTLS words what a server did wrong; the words go to the program inside.
func describeTLS(a authority.Authority, err error, asked bool) error {
	e := &dialError{status: 502, words: "TLS with " + a.String() + ": failed", err: err}
	var (
		invalid  x509.CertificateInvalidError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		version  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		e.words = "TLS with " + a.String() + ": its certificate is signed by an authority that this host does not trust"
		e.hints = []string{"if it is your own authority, in config.yaml: proxy: {upstream_ca: [FILE.pem]}"}
	case errors.As(err, &hostname):
		e.words = "TLS with " + a.String() + ": its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.words = "TLS with " + a.String() + ": its certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		e.words = "TLS with " + a.String() + ": its certificate is not valid for a server"
	case asked:
		e.words = "TLS with " + a.String() + ": it asks for a client certificate"
		e.hints = []string{"to pass the connection on unopened, in config.yaml: proxy: {allow: [{domain: " + a.Host() + ", tls: tunnel}]}"}
	case errors.As(err, &version):
		e.words = "TLS with " + a.String() + ": it does not speak TLS"
	case alertOf(err) != "":
		e.words = "TLS with " + a.String() + ": it refused (" + alertOf(err) + ")"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		e.status, e.words = 504, "TLS with "+a.String()+": timed out"
	}
	return e
}

// alertOf is the alert with which a peer ended a handshake; empty for none.
// crypto/tls gives it no type of its own.
func alertOf(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return strings.TrimPrefix(op.Err.Error(), "tls: ")
	}
	return ""
}

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
// there is no server to choose, one in which the program can be told so.
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
// cannot be reached, the first request is told.
func (s *stream) serveInspected(ctx context.Context, hello wire.Hello) {
	s.secure = true
	s.offer = readable(hello.ALPN)
	if len(hello.ALPN) > 0 && len(s.offer) == 0 {
		s.refuseTLS(Flow{
			Kind: Connect, Reason: "rules read the requests to this host, and the program offers no protocol that can be read",
			Detail: quote(strings.Join(hello.ALPN, ",")),
		})
		return
	}
	if err := s.dialInspected(ctx); err != nil {
		s.e.log.Debug("dial before the first request", "authority", s.target.String(), "error", err)
	}
	if s.e.cfg.CA == nil {
		s.refuseTLS(Flow{Kind: Connect, Reason: "rules read the requests to this host, and the key of this session's certificates is gone with the guardian that made them: start the session again"})
		return
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
		s.refuseHandshake(err)
		return
	}
	s.client = &source{Conn: conn}
	s.readBy(0)
	if proto == protoHTTP2 {
		s.serveHTTP2(ctx)
		return
	}
	s.serveRequests(ctx)
}

// dialInspected opens TLS on what a proxy's client had dialled already, or dials.
func (s *stream) dialInspected(ctx context.Context) error {
	if s.up != nil && s.upTarget == s.target {
		return s.dialTLS(ctx, s.target)
	}
	if s.borrow() {
		return nil
	}
	return s.dial(ctx, s.target)
}

// refuseHandshake ends a connection whose program did not take our certificate,
// or speaks TLS that nobody should.
func (s *stream) refuseHandshake(err error) {
	f := s.flow(Flow{Kind: Connect, Reason: "the program broke the TLS handshake off"})
	switch {
	case s.killed() != nil:
		f.Reason = s.killed().Error()
	case alertOf(err) != "":
		f.Reason = "the program does not trust the session's certificate (" + alertOf(err) + "); if it pins its server's, tls: tunnel passes the connection on unopened"
	case isTimeout(err):
		f.Reason = "the program did not finish the TLS handshake in time"
	case !errors.Is(err, net.ErrClosed):
		f.Detail = quote(err.Error())
	}
	s.e.refused(f)
	s.reset()
}
