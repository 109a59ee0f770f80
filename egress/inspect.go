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
	"cloister/egress/verdict"
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

// An intercepted is a stream whose TLS ends here, on both sides.
type intercepted struct {
	s     *stream
	hello wire.Hello
}

// protocol is the protocol that the program gets: the server's choice or, where
// there is no server to choose, one in which the program can be notified.
func (i intercepted) protocol() string {
	if i.s.up.there() {
		if up, ok := i.s.up.Conn.(*tls.Conn); ok {
			return up.ConnectionState().NegotiatedProtocol
		}
	}
	switch {
	case len(i.s.up.offer) == 0:
		return ""
	case slices.Contains(i.s.up.offer, protoHTTP1):
		return protoHTTP1
	}
	return i.s.up.offer[0]
}

// intercept opens a TLS connection on both sides and serves the requests in
// it. The client gets the protocol that the server chose. Where the server
// cannot be reached, the first request is answered so.
func (i intercepted) intercept(ctx context.Context) {
	i.s.up.secure = true
	strict := i.s.judged.inspected() || i.s.judged.open == verdict.OpenHTTP
	if i.s.up.offer = i.hello.Offerable(); strict {
		i.s.up.offer = readable(i.hello.ALPN)
	}
	if len(i.hello.ALPN) > 0 && len(i.s.up.offer) == 0 {
		i.s.refuseTLS(verdict.Flow{
			Kind: verdict.Connect, Reason: "requests to this host are read, and the program offers no protocol that can be read",
			Detail: dial.Quote(strings.Join(i.hello.ALPN, ",")),
		})
		return
	}
	if i.s.e.cfg.CA == nil {
		i.s.refuseTLS(verdict.Flow{Kind: verdict.Connect, Reason: "connections to this host are inspected, and the key of " +
			"this session's certificates is gone with the guardian that made them: start the session again"})
		return
	}
	// A connection that served HTTP is none for a program that may speak something else.
	err := i.dial(ctx, strict || len(readable(i.s.up.offer)) > 0)
	switch {
	case err == nil:
	case len(i.s.up.offer) > 0 && len(readable(i.s.up.offer)) == 0: // no protocol in which it could be answered
		flow := i.s.dialFailed(verdict.Flow{Kind: verdict.Connect}, err)
		i.s.refuseAs(refusal.Undialed(flow, err))
		return
	default:
		i.s.e.log.Debug("dial before the first request", "authority", i.s.target.String(), "error", err)
	}
	proto := i.protocol()
	if i.s.up.offer = nil; proto != "" {
		i.s.up.offer = []string{proto} // from here on
	}
	config, err := i.s.e.cfg.CA.Config(i.s.target.Host(), proto)
	if err != nil {
		i.s.refuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
		return
	}
	i.s.client.readBy(i.s.e.limits.Handshake)
	i.s.client.Conn = sock.Swift(i.s.client.Conn)
	conn := tls.Server(i.s.client.Source, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		i.endHandshake(err, proto)
		return
	}
	i.s.e.cfg.CA.Took(i.s.target.Host(), proto)
	i.s.client.Source = peek.New(redact.Client(conn, i.s.e.cfg.Redact), i.s.lease)
	i.s.client.readBy(0)
	switch {
	case proto == protoHTTP2:
		i.s.judged.setInspected()
		serveHTTP2(i.s, ctx)
	case proto == protoHTTP1 || strict:
		i.s.judged.setInspected()
		i.s.serveRequests(ctx)
	default:
		i.within(ctx)
	}
}

// within serves what is spoken in TLS that was opened, where neither side has
// said what: HTTP is judged request by request, another protocol is relayed. The
// server may speak first.
func (i intercepted) within(ctx context.Context) {
	if !i.s.ensureDialed(ctx) {
		return
	}
	t := i.s.newTunnel()
	t.StartDown()
	kind, err := t.guess()
	switch {
	case err != nil && i.s.client.alert != "": // of TLS 1.3: the handshake was over for us
		i.s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		i.s.tellEnd()
	case err != nil:
		i.s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		t.closed(errors.Join(err, i.s.conns.killed()))
	case kind == wire.Raw && i.s.counted():
		t.finish()
	case kind == wire.HTTP && t.HaltDown():
		i.s.judged.setInspected()
		i.s.serveRequests(ctx)
	case kind == wire.Raw:
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.TLS:
		i.s.refuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: "TLS in TLS, whose inner server nobody can tell"})
		<-t.Done //nolint:errcheck // it ended because of the reset
	default:
		i.s.refuseForm("the server spoke first, which it never does in the protocol the program speaks")
	}
}

// dial opens TLS on what a proxy's client had dialled already, or takes a
// connection that served HTTP before, or dials.
func (i intercepted) dial(ctx context.Context, used bool) error {
	if i.s.up.there() && i.s.up.to == i.s.target {
		return i.s.up.dialTLS(ctx, i.s.target)
	}
	if used && i.s.up.borrow(i.s.target) {
		return nil
	}
	return i.s.up.dial(ctx, i.s.target)
}

// endHandshake ends a connection whose program did not take our certificate, or speaks
// TLS that no one should. A program that closes without an alert, once that certificate
// was taken in this session, ended or needed the connection no more: nothing is refused.
func (i intercepted) endHandshake(err error, proto string) {
	f := i.s.flow(verdict.Flow{Kind: verdict.Connect, Reason: "the program broke the TLS handshake off"})
	switch {
	case i.s.conns.killed() != nil:
		f.Reason = i.s.conns.killed().Error()
	case dial.AlertOf(err) != "":
		f.Reason, f.Hints = distrusted(dial.AlertOf(err), i.s.judged.tunnelHint(i.s.target))
	case dial.IsTimeout(err):
		f.Reason = "the program did not finish the TLS handshake in time"
	case dial.IsGone(err) && i.s.e.cfg.CA.Taken(i.s.target.Host(), proto):
		f.Duration = time.Since(f.Start)
		i.s.e.cfg.Journal.Closed(f)
		i.s.reset()
		return
	case !errors.Is(err, net.ErrClosed):
		f.Detail, f.Hints = dial.Quote(err.Error()), i.s.judged.tunnelHint(i.s.target)
	}
	i.s.e.refused(f)
	i.s.reset()
}

// echRequired is the alert of a program that takes no server but one which has the
// keys of its encrypted ClientHello (RFC 9849 6.1.6).
const echRequired = "121"

// distrusted says why a program ended TLS with an alert, and what would help.
func distrusted(alert string, hints []string) (reason string, _ []string) {
	if strings.Contains(alert, echRequired) || strings.Contains(alert, "encrypted client hello") {
		return "the program insists on an encrypted ClientHello, which is never passed on (" + alert + ")",
			[]string{"switch encrypted ClientHello off in the program: connections go to the name that they were made to"}
	}
	return "the program does not trust the session's certificate (" + alert + ")", hints
}

// A serverAlert is how a server ended TLS once the handshake was over for us.
type serverAlert struct{ word string }

func (e *serverAlert) Error() string {
	return errUpstream.Error() + ": it refused (" + e.word +
		"); if it wants a client certificate, tls: tunnel passes the connection on uninspected"
}

func (e *serverAlert) Is(target error) bool { return target == errUpstream }
