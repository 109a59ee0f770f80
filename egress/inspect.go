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
	"cloister/egress/internal/http1"
	"cloister/egress/internal/http2"
	"cloister/egress/internal/mint"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
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
		if proto == protoHTTP1 || proto == http2.Proto {
			out = append(out, proto)
		}
	}
	return out
}

// An intercepted is a stream whose TLS ends here, on both sides.
type intercepted struct {
	s     connection
	hello wire.Hello
}

// protocol is the protocol that the program gets: the server's choice or, where
// there is no server to choose, one in which the program can be notified.
func (i intercepted) protocol() string {
	if i.s.Server.There() {
		if up, ok := i.s.Server.Conn.(*tls.Conn); ok {
			return up.ConnectionState().NegotiatedProtocol
		}
	}
	switch {
	case len(i.s.Server.Offer) == 0:
		return ""
	case slices.Contains(i.s.Server.Offer, protoHTTP1):
		return protoHTTP1
	}
	return i.s.Server.Offer[0]
}

// intercept opens a TLS connection on both sides and serves the requests in
// it. The client gets the protocol that the server chose. Where the server
// cannot be reached, the first request is answered so.
func (i intercepted) intercept(ctx context.Context) {
	i.s.Server.Secure = true
	strict := i.s.Judged.Inspected() || i.s.Judged.Open == verdict.OpenHTTP
	if i.s.Server.Offer = i.hello.Offerable(); strict {
		i.s.Server.Offer = readable(i.hello.ALPN)
	}
	if len(i.hello.ALPN) > 0 && len(i.s.Server.Offer) == 0 {
		i.s.RefuseTLS(verdict.Flow{
			Kind: verdict.Connect, Reason: "requests to this host are read, and the program offers no protocol that can be read",
			Detail: dial.Quote(strings.Join(i.hello.ALPN, ",")),
		})
		return
	}
	if i.s.Session.CA == nil {
		i.s.RefuseTLS(verdict.Flow{Kind: verdict.Connect, Reason: "connections to this host are inspected, and the key of " +
			"this session's certificates is gone with the guardian that made them: start the session again"})
		return
	}
	// A connection that served HTTP is no connection for a program that may speak something else.
	err := i.dial(ctx, strict || len(readable(i.s.Server.Offer)) > 0)
	switch {
	case err == nil:
	case len(i.s.Server.Offer) > 0 && len(readable(i.s.Server.Offer)) == 0: // no protocol in which it could be answered
		flow := i.s.DialFailed(verdict.Flow{Kind: verdict.Connect}, err)
		i.s.RefuseAs(refusal.Undialed(flow, err))
		return
	default:
		i.s.Session.Log.Debug("dial before the first request", "authority", i.s.Target.String(), "error", err)
	}
	proto := i.protocol()
	if i.s.Server.Offer = nil; proto != "" {
		i.s.Server.Offer = []string{proto} // from here on
	}
	config, err := i.s.Session.CA.Config(i.s.Target.Host(), proto)
	if err != nil {
		i.s.RefuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
		return
	}
	i.s.Client.ReadBy(i.s.Session.Limits.Handshake)
	i.s.Client.Conn = sock.Swift(i.s.Client.Conn)
	conn := tls.Server(i.s.Client.Source, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		i.endHandshake(err, proto)
		return
	}
	i.s.Session.CA.Took(i.s.Target.Host(), proto)
	i.s.Client.Source = peek.New(redact.Client(conn, i.s.Session.Redact), i.s.Lease)
	i.s.Client.ReadBy(0)
	switch {
	case proto == http2.Proto:
		i.s.Judged.SetInspected()
		http2.Serve(ctx, i.s.Stream)
	case proto == protoHTTP1 || strict:
		i.s.Judged.SetInspected()
		http1.Serve(ctx, i.s.Stream)
	default:
		i.within(ctx)
	}
}

// within serves what is spoken in TLS that was opened, where neither side has
// said what: HTTP is judged request by request, another protocol is relayed. The
// server may speak first.
func (i intercepted) within(ctx context.Context) {
	if !i.s.EnsureDialed(ctx) {
		return
	}
	t := i.s.NewTunnel()
	t.StartDown()
	kind, err := t.Guess()
	switch {
	case err != nil && i.s.Client.Alert != "": // of TLS 1.3: the handshake was over for us
		i.s.Reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		i.s.TellEnd()
	case err != nil:
		i.s.Reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		t.Closed(errors.Join(err, i.s.Conns.Killed()))
	case kind == wire.Raw && i.s.Counted():
		t.PassOn()
	case kind == wire.HTTP && t.HaltDown():
		i.s.Judged.SetInspected()
		http1.Serve(ctx, i.s.Stream)
	case kind == wire.Raw:
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.TLS:
		i.s.RefuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: "TLS in TLS, whose inner server nobody can tell"})
		<-t.Done //nolint:errcheck // it ended because of the reset
	default:
		i.s.RefuseForm("the server spoke first, which it never does in the protocol the program speaks")
	}
}

// dial opens TLS on what a proxy's client had dialled already, or takes a
// connection that served HTTP before, or dials.
func (i intercepted) dial(ctx context.Context, used bool) error {
	if i.s.Server.There() && i.s.Server.To == i.s.Target {
		return i.s.Server.DialTLS(ctx, i.s.Target)
	}
	if used && i.s.Server.Borrow(i.s.Target) {
		return nil
	}
	return i.s.Server.Dial(ctx, i.s.Target)
}

// endHandshake ends a connection whose program did not take our certificate, or speaks TLS that no
// one should. A program that closes without an alert, after that certificate was accepted once in
// this session, has ended or does not need the connection any more: nothing is refused.
func (i intercepted) endHandshake(err error, proto string) {
	f := i.s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: "the program broke the TLS handshake off"})
	switch {
	case i.s.Conns.Killed() != nil:
		f.Reason = i.s.Conns.Killed().Error()
	case dial.AlertOf(err) != "":
		f.Reason, f.Hints = stream.Distrusted(dial.AlertOf(err), i.s.Judged.TunnelHint(i.s.Target))
	case dial.IsTimeout(err):
		f.Reason = "the program did not finish the TLS handshake in time"
	case dial.IsGone(err) && i.s.Session.CA.Taken(i.s.Target.Host(), proto):
		f.Duration = time.Since(f.Start)
		i.s.Session.Journal.Closed(f)
		i.s.Reset()
		return
	case !errors.Is(err, net.ErrClosed):
		f.Detail, f.Hints = dial.Quote(err.Error()), i.s.Judged.TunnelHint(i.s.Target)
	}
	i.s.Session.Refused(f)
	i.s.Reset()
}
