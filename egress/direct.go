package egress

import (
	"context"
	"errors"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/http1"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// A connection is a stream of an engine, which serves it by what its program speaks.
type connection struct {
	*stream.Stream
	engine *Engine
}

// serveDirect serves a connection whose destination the kernel named.
func (s connection) serveDirect(ctx context.Context) {
	v := s.Judged.Ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.Target, Via: s.Via})
	if !v.Allow {
		s.RefuseAs(refusal.Of(v, s.Target))
		return
	}
	s.serveInner(ctx)
}

// serveInner serves a connection that is allowed to reach s.target, whoever
// brought it: the kernel, CONNECT or SOCKS. What it speaks decides the rest.
func (s connection) serveInner(ctx context.Context) {
	if s.Judged.Protocol != "" {
		s.serveSpeaker(ctx)
		return
	}
	switch s.Target.Port() {
	case 443:
		s.serveTLSPort(ctx)
	case 80:
		http1.Serve(ctx, s.Stream)
	default:
		s.serveAnyPort(ctx)
	}
}

// serveTLSPort takes TLS, and SSH for hosts that offer it on 443 to get
// through proxies.
func (s connection) serveTLSPort(ctx context.Context) {
	s.Client.ReadBy(s.Session.Limits.Handshake)
	isTLS, err := wire.LooksLikeTLS(s.Client.Held())
	for errors.Is(err, wire.ErrShort) {
		if ferr := s.Client.Fill(wire.MaxHello); ferr != nil {
			s.RefuseSilent(ferr)
			return
		}
		isTLS, err = wire.LooksLikeTLS(s.Client.Held())
	}
	switch {
	case isTLS:
		hello, ok := s.checkHello()
		if !ok {
			return
		}
		if s.Judged.Opens(hello) {
			intercepted{s, hello}.intercept(ctx)
			return
		}
		s.Judged.SetPassed()
	case s.Judged.Inspected():
		s.RefuseForm(unread)
		return
	case s.Client.IsSSH():
	default:
		s.RefuseForm("port 443 takes TLS or SSH only")
		return
	}
	if !s.Counted() || !s.EnsureDialed(ctx) {
		return
	}
	t := s.NewTunnel()
	t.StartDown()
	t.PassOn()
}

// checkHello reads the whole ClientHello and holds its name to the target.
func (s connection) checkHello() (wire.Hello, bool) {
	s.Client.ReadBy(s.Session.Limits.Handshake)
	var scan wire.HelloScan
	for {
		hello, err := scan.Next(s.Client.Held())
		if errors.Is(err, wire.ErrShort) {
			if err = s.Client.Fill(wire.MaxHello + peek.First); err == nil {
				continue
			}
			err = errors.New("clienthello: " + stream.EndOf(err))
		}
		detail := ""
		if err == nil {
			if detail, err = hello.For(s.Target); detail != "" {
				detail = "server name " + dial.Quote(detail)
			}
		}
		if err != nil {
			s.RefuseTLS(verdict.Flow{Kind: verdict.Connect, Reason: err.Error(), Detail: detail})
			return wire.Hello{}, false
		}
		return hello, true
	}
}

// serveAnyPort serves a port without a fixed protocol. The upstream may speak
// first; nothing goes up before it is known what the program speaks.
func (s connection) serveAnyPort(ctx context.Context) {
	if s.Judged.Inspected() {
		s.serveReadable(ctx)
		return
	}
	if !s.EnsureDialed(ctx) {
		return
	}
	t := s.NewTunnel()
	t.StartDown()
	kind, err := t.Guess()
	switch {
	case err != nil:
		s.Reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		t.Closed(errors.Join(err, s.Conns.Killed()))
	case kind == wire.Raw && !s.Counted():
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.Raw:
		t.PassOn()
	default:
		if !t.HaltDown() {
			s.RefuseForm("the server spoke first, which it never does in the protocol the program speaks")
			return
		}
		s.serveSpoken(ctx, kind)
	}
}

// unread is why something that is neither HTTP nor TLS is refused.
const unread = "rules read the requests to this host, and this is no HTTP"

// serveReadable serves a port without a fixed protocol for a host whose requests
// are read: nothing is dialled, and the server does not speak first.
func (s connection) serveReadable(ctx context.Context) {
	s.Client.ReadBy(s.Session.Limits.Idle)
	for {
		kind, err := wire.GuessProtocol(s.Client.Held())
		switch {
		case errors.Is(err, wire.ErrShort):
			if err := s.Client.Fill(wire.MaxHead); err != nil {
				s.RefuseSilent(err)
				return
			}
		case err == nil && kind == wire.HTTP:
			http1.Serve(ctx, s.Stream)
			return
		case err == nil && kind == wire.TLS:
			if hello, ok := s.checkHello(); ok {
				intercepted{s, hello}.intercept(ctx)
			}
			return
		default:
			s.RefuseForm(unread)
			return
		}
	}
}

// serveSpoken serves a protocol that was recognised on another port.
func (s connection) serveSpoken(ctx context.Context, kind wire.Guess) {
	if kind == wire.HTTP {
		http1.Serve(ctx, s.Stream)
		return
	}
	hello, ok := s.checkHello()
	switch {
	case !ok:
		return
	case s.Judged.Opens(hello):
		intercepted{s, hello}.intercept(ctx)
		return
	case !s.Counted():
		return
	}
	s.Judged.SetPassed()
	t := s.NewTunnel()
	t.StartDown()
	t.PassOn()
}
