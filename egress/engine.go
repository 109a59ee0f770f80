package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/dns"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/names"
	"cloister/egress/internal/refused"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/verdict"
	"cloister/internal/origin"
)

// An Engine is the egress of one session.
type Engine struct {
	session     stream.Session
	cfg         Config
	dns         *dns.Server
	originalDst func(net.Conn) (netip.AddrPort, error)

	slots    chan struct{} // one per open connection
	dnsConns chan struct{} // one per DNS connection
	tasks    sync.WaitGroup
	over     chan struct{} // closed when every connection is

	mu      sync.Mutex
	streams map[*stream.Stream]struct{}
	closing bool
}

// New checks cfg and makes an Engine. It opens nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.Decider == nil || cfg.Journal == nil {
		return nil, errors.New("egress: a decider and a journal are required")
	}
	g := guard.New()
	pins, err := dial.ParsePins(cfg.Hosts, g)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	e := &Engine{
		session: stream.Session{Decider: cfg.Decider, Journal: cfg.Journal, CA: cfg.CA, Redact: cfg.Redact,
			Limits: cfg.Limits.WithDefaults(), Log: cfg.Logger, TLS: dial.NewTLS(cfg.Roots), Memory: cfg.Memory},
		cfg:         cfg,
		originalDst: cfg.OriginalDst,
		streams:     map[*stream.Stream]struct{}{},
		over:        make(chan struct{}),
	}
	e.session.Late.Go, e.session.Late.Over = e.tasks.Go, e.over
	e.session.Spares.Idle = sock.Idle
	if e.session.Log == nil {
		e.session.Log = slog.New(slog.DiscardHandler)
	}
	if e.originalDst == nil {
		e.originalDst = origin.Of
	}
	e.session.Quota = stream.NewQuota(cfg.Quota, e.session.Limits.Names)
	e.session.Names = names.New(cfg.Session, e.session.Limits.Names)
	for _, name := range cfg.Names {
		if _, err := e.session.Names.Address(name); err != nil {
			break // as full as it was before
		}
	}
	e.session.Dialer = &dial.Dialer{Guard: g, Pins: pins, Resolver: cfg.Resolver, Timeout: e.session.Limits.Dial,
		Budget: e.session.Quota.Name, Within: cfg.Within}
	if e.session.Dialer.Resolver == nil {
		e.session.Dialer.Resolver = dial.HostResolver{}
	}
	e.dns = &dns.Server{Decider: cfg.Decider, Names: e.session.Names, Quota: e.session.Quota, Pins: pins,
		Refused: e.session.Refused, Log: e.session.Log, Wait: e.session.Limits.Handshake}
	e.slots = make(chan struct{}, e.session.Limits.Connections)
	e.dnsConns = make(chan struct{}, e.session.Limits.DNSConns)
	return e, nil
}

// Serve answers on the listeners until ctx ends, then closes them with every
// connection and waits for all of its goroutines. It returns nil when ctx was
// the reason, and the error of a listener that cannot serve otherwise. An
// Engine serves once.
func (e *Engine) Serve(ctx context.Context, l Listeners) error {
	ctx, cancel := context.WithCancelCause(ctx)
	accept := gate.Acceptor{Memory: e.session.Memory, Log: e.session.Log, Go: e.tasks.Go}
	var loops sync.WaitGroup
	serve := func(f func() error) {
		loops.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	for _, ln := range l.TCP {
		sock.Unpaced(ln)
		serve(func() error { return accept.Serve(ctx, ln, e.slots, e.session.Full, e.handle) })
	}
	for _, ln := range l.DNSTCP {
		serve(func() error { return accept.Serve(ctx, ln, e.dnsConns, func(string) {}, e.handleDNS) })
	}
	for _, pc := range l.DNS {
		serve(func() error { return e.dns.Datagrams(ctx, pc) })
	}
	if l.Refusals != nil {
		log := refused.Log{Report: e.datagrams}
		serve(func() error { return log.Serve(ctx, l.Refusals) })
	}
	<-ctx.Done()
	l.Unlisten()
	e.killAll()
	loops.Wait()
	e.tasks.Wait()
	l.Close()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("egress: serve: %w", err)
	}
	return nil
}

func (e *Engine) handleDNS(ctx context.Context, c net.Conn) {
	s := e.session.NewStream(c, nil)
	if !e.enter(s, c) {
		return
	}
	defer e.leave(s)
	e.dns.Conn(ctx, c)
}

// handle serves one connection of a program.
func (e *Engine) handle(ctx context.Context, c net.Conn) {
	lease := e.session.Memory.Lease()
	defer lease.End()
	s := e.session.NewStream(c, lease)
	if !e.enter(s, c) {
		return
	}
	defer e.leave(s)
	if k, ok := c.(*net.TCPConn); ok {
		_ = k.SetKeepAliveConfig(dial.KeepAlive()) // without it a vanished peer is noticed later
	}
	dst, err := e.originalDst(c)
	if err != nil {
		s.RefuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
		return
	}
	if gate.Is(dst.Addr()) {
		connection{s, e}.serveGate(ctx, dst)
		return
	}
	if s.Target, err = e.session.Target(dst); err != nil {
		s.RefuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error(), Detail: dst.String()})
		return
	}
	connection{s, e}.serveDirect(ctx)
}

// enter registers a connection so that Recheck and the end of Serve find it.
func (e *Engine) enter(s *stream.Stream, c net.Conn) bool {
	e.mu.Lock()
	closing := e.closing
	if !closing {
		e.streams[s] = struct{}{}
	}
	e.mu.Unlock()
	if closing {
		sock.Reset(c)
		return false
	}
	return s.Conns.Attach(c) == nil
}

func (e *Engine) leave(s *stream.Stream) {
	e.mu.Lock()
	delete(e.streams, s)
	e.mu.Unlock()
	s.Conns.Close()
}

func (e *Engine) killAll() {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	for _, s := range e.snapshot() {
		s.Conns.Kill(errShutdown)
	}
	close(e.over)
	e.session.Spares.Clear(true)
}

func (e *Engine) snapshot() []*stream.Stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*stream.Stream, 0, len(e.streams))
	for s := range e.streams {
		out = append(out, s)
	}
	return out
}

// Recheck asks the Decider about every open connection again, and resets
// those that are no longer allowed. What is being decided meanwhile is decided
// once more by its own goroutine.
func (e *Engine) Recheck(ctx context.Context) {
	e.session.Generation.Add(1)
	e.session.Spares.Clear(false)
	for _, s := range e.snapshot() {
		s.Judged.Recheck(ctx)
	}
}

var errShutdown = errors.New("the session's network was closed")
