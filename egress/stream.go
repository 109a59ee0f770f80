package egress

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// classifyRefused is how long a refused connection may take to show what it
// speaks, so that it can be refused in that protocol. Programs that speak
// first do so within a round trip over loopback.
const classifyRefused = 250 * time.Millisecond

// A stream is one connection of a program, from its first byte to its end.
type stream struct {
	e      *Engine
	target authority.Authority // where it goes; of a proxy connection: not yet
	via    string
	start  time.Time
	lease  *budget.Lease // of what is held of it to be looked at

	conns   sockets
	judged  judged
	client  program
	up      upstream
	scratch []byte // memory for heads
	// What the bodies of requests that were read have come to.
	bodiesUp, bodiesDown atomic.Int64
}

// newStream is a connection of a program that begins now.
func (e *Engine) newStream(c net.Conn, lease *budget.Lease) *stream {
	s := &stream{e: e, via: verdict.ViaDirect, start: time.Now(), lease: lease}
	s.judged.e, s.judged.conns = e, &s.conns
	s.client.Source, s.client.handshake = peek.New(c, lease), e.limits.Handshake
	s.up.e, s.up.conns, s.up.lease = e, &s.conns, lease
	return s
}

// serveDirect serves a connection whose destination the kernel named.
func (s *stream) serveDirect(ctx context.Context) {
	v := s.judged.ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.target, Via: s.via})
	if !v.Allow {
		s.refuseAs(refusal.Of(v, s.target))
		return
	}
	s.serveInner(ctx)
}

// serveInner serves a connection that is allowed to reach s.target, whoever
// brought it: the kernel, CONNECT or SOCKS. What it speaks decides the rest.
func (s *stream) serveInner(ctx context.Context) {
	if s.judged.protocol != "" {
		s.serveSpeaker(ctx)
		return
	}
	switch s.target.Port() {
	case 443:
		s.serveTLSPort(ctx)
	case 80:
		s.serveRequests(ctx)
	default:
		s.serveAnyPort(ctx)
	}
}

// serveTLSPort takes TLS, and SSH for hosts that offer it on 443 to get
// through proxies.
func (s *stream) serveTLSPort(ctx context.Context) {
	s.client.readBy(s.e.limits.Handshake)
	isTLS, err := wire.LooksLikeTLS(s.client.Held())
	for errors.Is(err, wire.ErrShort) {
		if ferr := s.client.Fill(wire.MaxHello); ferr != nil {
			s.refuseSilent(ferr)
			return
		}
		isTLS, err = wire.LooksLikeTLS(s.client.Held())
	}
	switch {
	case isTLS:
		hello, ok := s.checkHello()
		if !ok {
			return
		}
		if s.judged.opens(hello) {
			intercepted{s, hello}.intercept(ctx)
			return
		}
		s.judged.setPassed()
	case s.judged.inspected():
		s.refuseForm(unread)
		return
	case s.client.isSSH():
	default:
		s.refuseForm("port 443 takes TLS or SSH only")
		return
	}
	if !s.counted() || !s.ensureDialed(ctx) {
		return
	}
	t := s.newTunnel()
	t.StartDown()
	t.finish()
}

// checkHello reads the whole ClientHello and holds its name to the target.
func (s *stream) checkHello() (wire.Hello, bool) {
	s.client.readBy(s.e.limits.Handshake)
	var scan wire.HelloScan
	for {
		hello, err := scan.Next(s.client.Held())
		if errors.Is(err, wire.ErrShort) {
			if err = s.client.Fill(wire.MaxHello + peek.First); err == nil {
				continue
			}
			err = errors.New("clienthello: " + endOf(err))
		}
		detail := ""
		if err == nil {
			if detail, err = hello.For(s.target); detail != "" {
				detail = "server name " + dial.Quote(detail)
			}
		}
		if err != nil {
			s.refuseTLS(verdict.Flow{Kind: verdict.Connect, Reason: err.Error(), Detail: detail})
			return wire.Hello{}, false
		}
		return hello, true
	}
}

// serveAnyPort serves a port without a fixed protocol. The upstream may speak
// first; nothing goes up before it is known what the program speaks.
func (s *stream) serveAnyPort(ctx context.Context) {
	if s.judged.inspected() {
		s.serveReadable(ctx)
		return
	}
	if !s.ensureDialed(ctx) {
		return
	}
	t := s.newTunnel()
	t.StartDown()
	kind, err := t.guess()
	switch {
	case err != nil:
		s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		t.closed(errors.Join(err, s.conns.killed()))
	case kind == wire.Raw && !s.counted():
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.Raw:
		t.finish()
	default:
		if !t.HaltDown() {
			s.refuseForm("the server spoke first, which it never does in the protocol the program speaks")
			return
		}
		s.serveSpoken(ctx, kind)
	}
}

// unread is why something that is neither HTTP nor TLS is refused.
const unread = "rules read the requests to this host, and this is no HTTP"

// serveReadable serves a port without a fixed protocol for a host whose requests
// are read: nothing is dialled, and the server does not speak first.
func (s *stream) serveReadable(ctx context.Context) {
	s.client.readBy(s.e.limits.Idle)
	for {
		kind, err := wire.GuessProtocol(s.client.Held())
		switch {
		case errors.Is(err, wire.ErrShort):
			if err := s.client.Fill(wire.MaxHead); err != nil {
				s.refuseSilent(err)
				return
			}
		case err == nil && kind == wire.HTTP:
			s.serveRequests(ctx)
			return
		case err == nil && kind == wire.TLS:
			if hello, ok := s.checkHello(); ok {
				intercepted{s, hello}.intercept(ctx)
			}
			return
		default:
			s.refuseForm(unread)
			return
		}
	}
}

// serveSpoken serves a protocol that was recognised on another port.
func (s *stream) serveSpoken(ctx context.Context, kind wire.Guess) {
	if kind == wire.HTTP {
		s.serveRequests(ctx)
		return
	}
	hello, ok := s.checkHello()
	switch {
	case !ok:
		return
	case s.judged.opens(hello):
		intercepted{s, hello}.intercept(ctx)
		return
	case !s.counted():
		return
	}
	s.judged.setPassed()
	t := s.newTunnel()
	t.StartDown()
	t.finish()
}

// ensureDialed dials the target unless that is done, and refuses if it fails.
func (s *stream) ensureDialed(ctx context.Context) bool {
	if s.up.there() && s.up.to == s.target {
		return true
	}
	err := s.up.dial(ctx, s.target)
	if err == nil {
		return true
	}
	flow := s.dialFailed(verdict.Flow{Kind: verdict.Connect}, err)
	s.refuseAs(refusal.Undialed(flow, err))
	return false
}
