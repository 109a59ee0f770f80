package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
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

// attach makes a connection part of the stream's fate.
func (s *stream) attach(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		sock.Reset(c)
		return s.cause
	}
	s.conns = append(s.conns, c)
	return nil
}

// detach is the end of a connection's part.
func (s *stream) detach(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
}

// A tracked connection is one of several of a stream: its part ends when it is
// closed, by whoever closes it.
type tracked struct {
	*net.TCPConn
	s *stream
}

func (t tracked) Close() error {
	t.s.detach(t.TCPConn)
	return t.TCPConn.Close()
}

// kill resets everything, from another goroutine.
func (s *stream) kill(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
	}
	for _, c := range s.conns {
		sock.Reset(c)
	}
}

func (s *stream) killed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *stream) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close() // closed twice is the rule here
	}
	s.conns = nil
}

// current is what Recheck asks about; passed says that it is TLS which was not opened.
func (s *stream) current() (q Query, inspected, passed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.query == nil {
		return Query{}, false, false, false
	}
	// A request is read whatever is said of its connection.
	return *s.query, s.inspect || s.query.HTTP != nil, s.passed, true
}

func (s *stream) setCurrent(q *Query, inspect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query, s.inspect = q, inspect
}

func (s *stream) inspected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inspect
}

// allow asks the Decider, and again if policy changed before the answer was in
// Recheck's sight: no connection outlives the rule that let it in.
func (s *stream) allow(ctx context.Context, q Query) Verdict {
	q.Once = &s.once
	for {
		generation := s.e.generation.Load()
		v := s.e.cfg.Decider.Decide(ctx, q)
		if !v.Allow {
			s.setCurrent(nil, s.inspected())
			return v
		}
		if s.setCurrent(&q, s.inspected() || v.Inspect); q.Kind == Connect && q.Login == nil {
			s.protocol, s.open = v.Protocol, v.Open
		}
		if s.e.generation.Load() == generation {
			return v
		}
	}
}

// dial connects to a, replacing what was dialled before.
func (s *stream) dial(ctx context.Context, a authority.Authority) error {
	s.hangUp()
	c, dialed, err := s.e.dialer.Dial(ctx, a)
	if err != nil {
		return err
	}
	if err := s.attach(c); err != nil {
		return err
	}
	s.up, s.upTarget, s.dialed, s.answered = peek.New(c, s.lease), a, dialed, false
	s.lent, s.whole, s.bound = false, false, false
	if !s.secure {
		return nil
	}
	return s.dialTLS(ctx, a)
}

// dialTLS opens TLS on what was dialled. From the second time on the protocol is
// the one that the program speaks by now.
func (s *stream) dialTLS(ctx context.Context, a authority.Authority) error {
	ctx, cancel := context.WithTimeout(ctx, s.e.limits.Handshake)
	defer cancel()
	conn, err := s.e.upstream.Handshake(ctx, s.up.Conn, a, s.offer)
	if err != nil {
		s.hangUp()
		return err
	}
	s.up.Conn = conn
	return nil
}

func (s *stream) hangUp() {
	if s.up == nil {
		return
	}
	s.detach(sock.Bare(s.up.Conn))
	_ = s.up.Close() // nothing more is wanted of it
	s.up = nil
}

// serveDirect serves a connection whose destination the kernel named.
func (s *stream) serveDirect(ctx context.Context) {
	v := s.allow(ctx, Query{Kind: Connect, Authority: s.target, Via: s.via})
	if !v.Allow {
		s.refuseAs(refusalOf(v, s.target))
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

// counted counts a connection that is not read, and refuses it where that is one
// too many.
func (s *stream) counted() bool {
	err := s.e.quota.Take()
	if err == nil {
		return true
	}
	f := s.flow(Flow{Kind: Connect})
	if form, ok := errors.AsType[*formError](err); ok {
		f.refused(form)
	}
	if !s.e.refused(f) {
		s.reset()
		return false
	}
	s.refuseAs(f.refusal())
	return false
}

// isSSH waits for as much of a banner as tells.
func (s *stream) isSSH() bool {
	const banner = "SSH-2.0-"
	for {
		n := min(len(s.client.Held()), len(banner))
		switch {
		case string(s.client.Held()[:n]) != banner[:n]:
			return false
		case n == len(banner):
			return true
		case s.client.Fill(wire.MaxHello) != nil:
			return false
		}
	}
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
				detail = "server name " + quote(detail)
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

// setPassed notes that TLS is passed on as it is, which a policy change may end.
func (s *stream) setPassed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = true
}

// setInspected notes that requests are read from here on.
func (s *stream) setInspected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = true
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

// endOf says in plain words how reading ended.
func endOf(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "the program closed the connection"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "not there in time"
	case errors.Is(err, peek.ErrTooLong):
		return "too long"
	case errors.Is(err, budget.ErrFull):
		return err.Error()
	}
	return "the connection broke"
}

// readBy sets the time by which the client must have been read; 0 for none.
func (s *stream) readBy(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	s.deadline = t
	_ = s.client.SetReadDeadline(t) // fails on a closed connection only, as the read will
}

// readSoon is readBy of at most d and hardly less: a deadline that is there already
// and will do is left, since each that is set may wake a thread.
func (s *stream) readSoon(d time.Duration) {
	if left := time.Until(s.deadline); left > d || left < d-d/4 {
		s.readBy(d)
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
	s.refuseAs(flow.undialed(err))
	return false
}

// dialFailed records a dial that led to nothing: forbidden addresses as our
// refusal, the rest as the end of what had been allowed.
func (s *stream) dialFailed(f Flow, err error) Flow {
	f, refused := s.undialed(s.flow(f), err)
	if refused {
		s.e.refused(f)
		return f
	}
	s.e.cfg.Journal.Closed(f)
	return f
}

// undialed is f with why its dial led to nothing, and whether that is a refusal of ours.
func (s *stream) undialed(f Flow, err error) (_ Flow, refused bool) {
	f.Reason = err.Error()
	if forbidden, ok := errors.AsType[*guard.Forbidden](err); ok {
		f.Detail = forbidden.Detail()
		return f, true
	}
	if form, ok := errors.AsType[*formError](err); ok {
		f.refused(form)
		return f, true
	}
	if d, ok := errors.AsType[*dial.Error](err); ok && d.Err != nil {
		s.e.log.Info("dial", "authority", f.Authority.String(), "error", d.Err)
	}
	f.Duration = time.Since(f.Start)
	return f, false
}

// flow fills in what is the stream's.
func (s *stream) flow(f Flow) Flow {
	if !f.Authority.IsValid() {
		f.Authority = s.target
	}
	f.Via, f.Dialed = s.via, s.dialed
	if f.Start.IsZero() {
		f.Start = s.start
	}
	return f
}

func (s *stream) newTunnel() *tunnel.Tunnel {
	t := tunnel.New(s.client.Conn, s.up.Conn, &s.e.buffers, s.e.limits.HalfClosed)
	t.Up.Meter(s.e.quota, s.e.quota.Host(s.target.Host()))
	return t
}

// finishTunnel sends what was looked at, then copies to the end.
func (s *stream) finishTunnel(t *tunnel.Tunnel) {
	held := s.client.Take(len(s.client.Held()))
	if err := t.Up.Spend(int64(len(held))); err != nil {
		s.reset()
		s.closed(t, errors.Join(err, <-t.Done))
		return
	}
	n, err := s.up.Conn.Write(held)
	t.Up.N.Add(int64(n))
	s.client.Forget()
	if err != nil {
		t.Down.Limit(s.e.limits.HalfClosed) // an answer may be on its way all the same
		s.closed(t, errors.Join(err, <-t.Done, s.killed()))
		return
	}
	s.closed(t, errors.Join(t.Finish(), s.killed()))
}

// closed tells the end of a tunnel.
func (s *stream) closed(t *tunnel.Tunnel, err error) {
	f := s.flow(Flow{Kind: Connect, Up: t.Up.N.Load(), Down: t.Down.N.Load()})
	f.Duration = time.Since(f.Start)
	form, bounded := errors.AsType[*formError](err)
	switch cause := s.killed(); {
	case cause != nil:
		f.Reason = cause.Error()
	case bounded:
		f.refused(form)
		s.e.refused(f)
		return
	case dial.AlertOf(err) != "": // one side's, in TLS that was opened
		f.Reason, f.Hints = "TLS was broken off ("+dial.AlertOf(err)+")", s.tunnelHint()
		s.e.refused(f)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = "silent for too long after one side had ended"
	case err != nil:
		f.Reason = "connection broken"
	}
	s.e.cfg.Journal.Closed(f)
}
