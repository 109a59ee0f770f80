package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"cloister/egress/internal/sock"
	"cloister/internal/authority"
)

// TLS are the settings for servers: verification always on, one cache of
// tickets for the session. They are not changed after they are made
// (CVE-2025-68121).
type TLS struct {
	base *tls.Config
}

// NewTLS trusts these authorities; nil for the host's.
func NewTLS(roots *x509.CertPool) *TLS {
	return &TLS{base: &tls.Config{
		RootCAs:                     roots,
		MinVersion:                  tls.VersionTLS12,
		ClientSessionCache:          tls.NewLRUClientSessionCache(256),
		DynamicRecordSizingDisabled: true,
	}}
}

// Handshake opens TLS to a server that must prove to be a.
func (u *TLS) Handshake(ctx context.Context, c net.Conn, a authority.Authority, offer []string) (*tls.Conn, error) {
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
	e := &Error{Status: 502, Words: "TLS with " + a.String() + ": failed", Err: err}
	var (
		invalid  x509.CertificateInvalidError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		version  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		e.Words = "TLS with " + a.String() + ": its certificate is signed by an authority that this host does not trust"
		e.Hints = []string{"if it is your own authority, in config.yaml: proxy: {upstream_ca: [FILE.pem]}; if the program " +
			"shall check it alone: " + TunnelRule(a)}
	case errors.As(err, &hostname):
		e.Words = "TLS with " + a.String() + ": its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.Words = "TLS with " + a.String() + ": its certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		e.Words = "TLS with " + a.String() + ": its certificate is not valid for a server"
	case asked:
		e.Words = "TLS with " + a.String() + ": it asks for a client certificate"
		e.Hints = []string{"to pass the connection on uninspected, in config.yaml: " + TunnelRule(a)}
	case errors.As(err, &version):
		e.Words = "TLS with " + a.String() + ": it does not speak TLS"
	case AlertOf(err) != "":
		e.Words = "TLS with " + a.String() + ": it refused (" + AlertOf(err) + ")"
	case errors.Is(err, context.DeadlineExceeded), IsTimeout(err):
		e.Status, e.Words = 504, "TLS with "+a.String()+": timed out"
	}
	return e
}

// TunnelRule are the words by which TLS to a is passed on as it is.
func TunnelRule(a authority.Authority) string {
	ports := ""
	if a.Port() != 443 {
		ports = fmt.Sprintf(", ports: [%d]", a.Port())
	}
	return "proxy: {allow: [{domain: " + a.Host() + ports + ", tls: tunnel}]}"
}

// AlertOf is the alert with which a peer ended a handshake; empty for none.
// crypto/tls gives it no type of its own.
func AlertOf(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return strings.TrimPrefix(op.Err.Error(), "tls: ")
	}
	return ""
}
