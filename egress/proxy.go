package egress

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// serveGate serves a connection to the gate's own address: the explicit proxy,
// for programs that insist on one, and nothing else.
func (s *stream) serveGate(ctx context.Context, dst netip.AddrPort) {
	if serve := s.e.cfg.Local[dst.Port()]; serve != nil {
		serve(ctx, s.client.Conn)
		return
	}
	if dst.Port() != 3128 && dst.Port() != 1080 {
		s.refuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: "nothing listens there; the proxy is " + gate.Proxy + ":3128",
			Detail: dst.String()})
		return
	}
	if !s.client.await(s.e.limits.Handshake) {
		return
	}
	// A SOCKS version is a control byte, with which no HTTP head begins.
	if s.client.Held()[0] == 5 || s.client.Held()[0] == 4 {
		s.via = verdict.ViaSOCKS5
		socks{s}.serve(ctx)
		return
	}
	s.via = verdict.ViaHTTP
	s.serveHTTP(ctx, true)
}

// named turns a synthetic address, which a program has resolved by itself,
// back to the name it means, and refuses the gate's own.
func (e *Engine) named(a authority.Authority) (authority.Authority, error) {
	if a.Host() == gate.Proxy {
		return authority.Authority{}, errors.New("the proxy is no destination")
	}
	addr, ok := a.Addr()
	if !ok {
		return a, nil
	}
	if gate.Is(addr) {
		return authority.Authority{}, errors.New("the proxy is no destination")
	}
	return e.target(netip.AddrPortFrom(addr, a.Port()))
}

// connect opens a tunnel for an HTTP CONNECT.
func (x *exchange) connect(ctx context.Context) {
	s, req := x.s, x.req
	s.via, x.via = verdict.ViaConnect, verdict.ViaConnect
	if err := x.connectTarget(); err != nil {
		x.settle(err)
		return
	}
	s.target, s.start = x.to, x.start
	v := s.judged.ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.target, Via: s.via})
	if !v.Allow {
		s.say(refusal.Of(v, s.target).Response(req))
		return
	}
	if err := s.up.dial(ctx, s.target); err != nil {
		f := s.dialFailed(verdict.Flow{Kind: verdict.Connect, Status: refusal.StatusOf(err)}, err)
		s.say(refusal.Undialed(f, err).Response(req))
		return
	}
	if _, err := s.client.Conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		s.refuseSilent(err)
		return
	}
	s.serveInner(ctx)
}

// connectTarget reads the authority-form; Host, which says the same, must.
func (x *exchange) connectTarget() error {
	if x.req.Body != wire.NoBody {
		return &verdict.Form{Status: 400, Reason: "CONNECT with a body"}
	}
	to, err := authority.ParseHostPort(x.req.Target, 0)
	if err != nil {
		return &verdict.Form{Status: 400, Reason: "CONNECT: " + err.Error()}
	}
	if x.req.Host != "" {
		host, err := authority.ParseHostPort(x.req.Host, to.Port())
		if err != nil || host.Host() != to.Host() {
			return &verdict.Form{Status: 400, Reason: "CONNECT: Host is another than the target",
				Detail: "Host " + dial.Quote(x.req.Host)}
		}
	}
	if x.to, err = x.s.e.named(to); err != nil {
		x.to = to
		return &verdict.Form{Status: http.StatusForbidden, Reason: err.Error()}
	}
	return nil
}

// A socks is a stream whose program speaks SOCKS to the gate.
type socks struct{ s *stream }

// serve opens a tunnel for SOCKS5.
func (k socks) serve(ctx context.Context) {
	k.s.client.readBy(k.s.e.limits.Handshake)
	to, err := k.read()
	if err != nil {
		k.refuse(err)
		return
	}
	k.s.target, k.s.start = to, time.Now()
	v := k.s.judged.ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: k.s.target, Via: k.s.via})
	if !v.Allow {
		k.s.say(wire.AppendSOCKSReply(nil, wire.SOCKSNotAllowed))
		return
	}
	if err := k.s.up.dial(ctx, k.s.target); err != nil {
		k.s.dialFailed(verdict.Flow{Kind: verdict.Connect}, err)
		k.s.say(wire.AppendSOCKSReply(nil, socksCode(err)))
		return
	}
	if _, err := k.s.client.Conn.Write(wire.AppendSOCKSReply(nil, wire.SOCKSGranted)); err != nil {
		k.s.refuseSilent(err)
		return
	}
	k.s.serveInner(ctx)
}

func (k socks) refuse(err error) {
	f := k.s.flow(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
	if !k.s.e.refused(f) {
		k.s.reset()
		return
	}
	if e, ok := errors.AsType[*wire.SOCKSError](err); ok {
		k.s.say(wire.AppendSOCKSReply(nil, e.Code))
		return
	}
	k.s.reset()
}

func socksCode(err error) byte {
	switch {
	case Forbidden(err):
		return wire.SOCKSNotAllowed
	case refusal.StatusOf(err) == http.StatusGatewayTimeout:
		return wire.SOCKSTimeout
	}
	return wire.SOCKSUnreachable
}

// read reads greeting and request.
func (k socks) read() (authority.Authority, error) {
	var none authority.Authority
	noAuth := false
	err := k.s.client.parse(func(b []byte) (n int, err error) {
		n, noAuth, err = wire.ParseSOCKSGreeting(b)
		return n, err
	})
	if err != nil {
		return none, err
	}
	if !noAuth {
		k.s.say([]byte{5, 0xff})
		return none, errors.New("socks5: no method without authentication")
	}
	if _, err := k.s.client.Conn.Write([]byte{5, 0}); err != nil {
		return none, err
	}
	var host string
	var port uint16
	err = k.s.client.parse(func(b []byte) (n int, err error) {
		n, host, port, err = wire.ParseSOCKSRequest(b)
		return n, err
	})
	if err != nil {
		return none, err
	}
	to, err := authority.Parse(host, port)
	if err != nil {
		return none, &wire.SOCKSError{Code: wire.SOCKSFailure, Msg: err.Error()}
	}
	if to, err = k.s.e.named(to); err != nil {
		return none, &wire.SOCKSError{Code: wire.SOCKSNotAllowed, Msg: err.Error()}
	}
	return to, nil
}
