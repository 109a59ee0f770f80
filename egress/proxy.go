package egress

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/http1"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// serveGate serves a connection to the gate's own address: the explicit proxy,
// for programs that insist on one, and nothing else.
func (s connection) serveGate(ctx context.Context, dst netip.AddrPort) {
	if serve := s.engine.cfg.Local[dst.Port()]; serve != nil {
		serve(ctx, s.Client.Conn)
		return
	}
	if dst.Port() != 3128 && dst.Port() != 1080 {
		s.RefuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: "nothing listens there; the proxy is " + gate.Proxy + ":3128",
			Detail: dst.String()})
		return
	}
	if !s.Client.Await(s.Session.Limits.Handshake) {
		return
	}
	// A SOCKS version is a control byte, with which no HTTP head begins.
	if s.Client.Held()[0] == 5 || s.Client.Held()[0] == 4 {
		s.Via = verdict.ViaSOCKS5
		socks{s}.serve(ctx)
		return
	}
	s.Via = verdict.ViaHTTP
	http1.ServeAll(ctx, s.Stream, s.serveInner)
}

// A socks is a stream whose program speaks SOCKS to the gate.
type socks struct{ s connection }

// serve opens a tunnel for SOCKS5.
func (k socks) serve(ctx context.Context) {
	k.s.Client.ReadBy(k.s.Session.Limits.Handshake)
	to, err := k.read()
	if err != nil {
		k.refuse(err)
		return
	}
	k.s.Target, k.s.Start = to, time.Now()
	v := k.s.Judged.Ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: k.s.Target, Via: k.s.Via})
	if !v.Allow {
		k.s.Say(wire.AppendSOCKSReply(nil, wire.SOCKSNotAllowed))
		return
	}
	if err := k.s.Server.Dial(ctx, k.s.Target); err != nil {
		k.s.DialFailed(verdict.Flow{Kind: verdict.Connect}, err)
		k.s.Say(wire.AppendSOCKSReply(nil, socksCode(err)))
		return
	}
	if _, err := k.s.Client.Conn.Write(wire.AppendSOCKSReply(nil, wire.SOCKSGranted)); err != nil {
		k.s.RefuseSilent(err)
		return
	}
	k.s.serveInner(ctx)
}

func (k socks) refuse(err error) {
	f := k.s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
	if !k.s.Session.Refused(f) {
		k.s.Reset()
		return
	}
	if e, ok := errors.AsType[*wire.SOCKSError](err); ok {
		k.s.Say(wire.AppendSOCKSReply(nil, e.Code))
		return
	}
	k.s.Reset()
}

func socksCode(err error) byte {
	switch {
	case dial.Forbidden(err):
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
	err := k.s.Client.Parse(func(b []byte) (n int, err error) {
		n, noAuth, err = wire.ParseSOCKSGreeting(b)
		return n, err
	})
	if err != nil {
		return none, err
	}
	if !noAuth {
		k.s.Say([]byte{5, 0xff})
		return none, errors.New("socks5: no method without authentication")
	}
	if _, err := k.s.Client.Conn.Write([]byte{5, 0}); err != nil {
		return none, err
	}
	var host string
	var port uint16
	err = k.s.Client.Parse(func(b []byte) (n int, err error) {
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
	if to, err = k.s.Session.Named(to); err != nil {
		return none, &wire.SOCKSError{Code: wire.SOCKSNotAllowed, Msg: err.Error()}
	}
	return to, nil
}
