package http1

import (
	"context"
	"net/http"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// connect opens a tunnel for an HTTP CONNECT.
func (x *exchange) connect(ctx context.Context, connected func(context.Context)) {
	s, req := x.Stream, x.req
	s.Via, x.Via = verdict.ViaConnect, verdict.ViaConnect
	if err := x.connectTarget(); err != nil {
		x.Settle(err)
		return
	}
	s.Target, s.Start = x.To, x.Start
	v := s.Judged.Ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.Target, Via: s.Via})
	if !v.Allow {
		s.Say(refusal.Of(v, s.Target).Response(req))
		return
	}
	if err := s.Server.Dial(ctx, s.Target); err != nil {
		f := s.DialFailed(verdict.Flow{Kind: verdict.Connect, Status: refusal.StatusOf(err)}, err)
		s.Say(refusal.Undialed(f, err).Response(req))
		return
	}
	if _, err := s.Client.Conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		s.RefuseSilent(err)
		return
	}
	connected(ctx)
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
	if x.To, err = x.Stream.Session.Named(to); err != nil {
		x.To = to
		return &verdict.Form{Status: http.StatusForbidden, Reason: err.Error()}
	}
	return nil
}
