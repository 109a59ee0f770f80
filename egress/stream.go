package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/wire"
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
	client *peek.Conn
	target authority.Authority // where it goes; of a proxy connection: not yet
	via    string
	start  time.Time
	lease  *budget.Lease // of what is held of it to be looked at

	// The connection that is dialled, and for which user.
	up       *peek.Conn
	upTarget authority.Authority
	dialed   netip.AddrPort
	answered bool      // it has answered a request
	deadline time.Time // by which the client must have been read
	scratch  []byte    // memory for heads
	// Of the connection to the server: what was offered by ALPN; it came from the
	// spares and has answered nothing yet; it is at the end of a message; it may be
	// logged in as whom no one else is.
	offered            string
	lent, whole, bound bool

	protocol string   // in which the connection must say who wants what
	open     Opening  // of TLS whose requests no rule reads
	passed   bool     // TLS was passed on as it is
	alert    string   // with which the program ended TLS
	secure   bool     // TLS is opened on both sides
	offer    []string // what is offered to a server by ALPN
	// What the bodies of requests that were read have come to.
	bodiesUp, bodiesDown atomic.Int64

	mu      sync.Mutex
	conns   []net.Conn
	cause   error  // why it was killed
	query   *Query // what it is doing by leave of the Decider
	inspect bool   // requests are read, or it ends
	streams []*openStream
	once    Once // what a person allowed for it alone
}

// serveDirect serves a connection whose destination the kernel named.
func (s *stream) serveDirect(ctx context.Context) {
	v := s.allow(ctx, Query{Kind: Connect, Authority: s.target, Via: s.via})
	if !v.Allow {
		s.refuseAs(refusal.Of(v, s.target))
		return
	}
	s.serveInner(ctx)
}

// serveInner serves a connection that is allowed to reach s.target, whoever
// brought it: the kernel, CONNECT or SOCKS. What it speaks decides the rest.
func (s *stream) serveInner(ctx context.Context) {
	if s.protocol != "" {
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
	s.readBy(s.e.limits.Handshake)
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
		if s.opens(hello) {
			s.serveInspected(ctx, hello)
			return
		}
		s.setPassed()
	case s.inspected():
		s.refuseForm(unread)
		return
	case s.isSSH():
	default:
		s.refuseForm("port 443 takes TLS or SSH only")
		return
	}
	if !s.counted() || !s.ensureDialed(ctx) {
		return
	}
	t := s.newTunnel()
	t.StartDown()
	s.finishTunnel(t)
}

// checkHello reads the whole ClientHello and holds its name to the target.
func (s *stream) checkHello() (wire.Hello, bool) {
	s.readBy(s.e.limits.Handshake)
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
			s.refuseTLS(Flow{Kind: Connect, Reason: err.Error(), Detail: detail})
			return wire.Hello{}, false
		}
		return hello, true
	}
}

// serveAnyPort serves a port without a fixed protocol. The upstream may speak
// first; nothing goes up before it is known what the program speaks.
func (s *stream) serveAnyPort(ctx context.Context) {
	if s.inspected() {
		s.serveReadable(ctx)
		return
	}
	if !s.ensureDialed(ctx) {
		return
	}
	t := s.newTunnel()
	t.StartDown()
	kind, err := s.guess(t)
	switch {
	case err != nil:
		s.reset()
		<-t.Done //nolint:errcheck // it ended because of the reset
		s.closed(t, errors.Join(err, s.killed()))
	case kind == wire.Raw && !s.counted():
		<-t.Done //nolint:errcheck // it ended because of the reset
	case kind == wire.Raw:
		s.finishTunnel(t)
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
	s.readBy(s.e.limits.Idle)
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
				s.serveInspected(ctx, hello)
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
	case s.opens(hello):
		s.serveInspected(ctx, hello)
		return
	case !s.counted():
		return
	}
	s.setPassed()
	t := s.newTunnel()
	t.StartDown()
	s.finishTunnel(t)
}

// opens reports whether TLS that begins so is inspected. An encrypted ClientHello never
// goes out: whoever has its key could be told another name by it. One that a browser
// sends as grease is the same to anyone else, so it is inspected too.
func (s *stream) opens(h wire.Hello) bool {
	return s.inspected() || s.open != OpenNothing || h.ECH
}

// guess waits for the program's first bytes. A program that ends without a
// line of its own has sent nothing that needs a check.
func (s *stream) guess(t *tunnel.Tunnel) (wire.Guess, error) {
	s.readBy(s.e.limits.Idle)
	for spoken := len(s.client.Held()) > 0; ; {
		kind, err := wire.GuessProtocol(s.client.Held())
		if !errors.Is(err, wire.ErrShort) {
			return kind, err
		}
		err = s.client.Fill(wire.MaxHead)
		switch {
		case errors.Is(err, io.EOF):
			return wire.Raw, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !spoken && t.Down.N.Load() > 0:
			s.readBy(0) // the server spoke; now the program may take its time
		case err != nil:
			s.alert = dial.AlertOf(err)
			return wire.Raw, errors.New("first bytes: " + endOf(err))
		case !spoken:
			spoken = true
			s.readBy(s.e.limits.Handshake)
		}
	}
}

// ensureDialed dials the target unless that is done, and refuses if it fails.
func (s *stream) ensureDialed(ctx context.Context) bool {
	if s.up != nil && s.upTarget == s.target {
		return true
	}
	err := s.dial(ctx, s.target)
	if err == nil {
		return true
	}
	flow := s.dialFailed(Flow{Kind: Connect}, err)
	s.refuseAs(refusal.Undialed(flow, err))
	return false
}
