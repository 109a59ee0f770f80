package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/dns"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/names"
	"cloister/egress/internal/quota"
	"cloister/egress/internal/refused"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/spares"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/internal/origin"
)

// An Engine is the egress of one session.
type Engine struct {
	cfg         Config
	limits      Limits
	log         *slog.Logger
	names       *names.Names
	dns         *dns.Server
	dialer      *dial.Dialer
	upstream    *dial.TLS
	quota       *quota.Counter
	memory      *budget.Share
	originalDst func(net.Conn) (netip.AddrPort, error)

	slots    chan struct{} // one per open connection
	dnsConns chan struct{} // one per DNS connection
	tasks    sync.WaitGroup
	buffers  buffer.Pool
	batches  sock.Memory
	// generation counts the policy changes that were reported.
	generation atomic.Uint64
	overflow   atomic.Int64 // when a refusal at the cap was last recorded

	lates  lates
	spares spares.Pool
	over   chan struct{} // closed when every connection is

	mu      sync.Mutex
	streams map[*stream]struct{}
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
		cfg:         cfg,
		limits:      cfg.Limits.withDefaults(),
		log:         cfg.Logger,
		upstream:    dial.NewTLS(cfg.Roots),
		originalDst: cfg.OriginalDst,
		streams:     map[*stream]struct{}{},
		over:        make(chan struct{}),
	}
	e.lates.e = e
	e.spares.Idle = sock.Idle
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.originalDst == nil {
		e.originalDst = origin.Of
	}
	e.memory = cfg.Memory
	e.quota = newQuota(cfg.Quota, e.limits.Names)
	e.names = names.New(cfg.Session, e.limits.Names)
	for _, name := range cfg.Names {
		if _, err := e.names.Address(name); err != nil {
			break // as full as it was before
		}
	}
	e.dialer = &dial.Dialer{Guard: g, Pins: pins, Resolver: cfg.Resolver, Timeout: e.limits.Dial,
		Budget: e.quota.Name, Within: cfg.Within}
	if e.dialer.Resolver == nil {
		e.dialer.Resolver = dial.HostResolver{}
	}
	e.dns = &dns.Server{Decider: cfg.Decider, Names: e.names, Quota: e.quota, Pins: pins, Refused: e.refused, Log: e.log,
		Wait: e.limits.Handshake}
	e.slots = make(chan struct{}, e.limits.Connections)
	e.dnsConns = make(chan struct{}, e.limits.DNSConns)
	return e, nil
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	setTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Connections, 1024)
	set(&l.Names, 8192)
	set(&l.DNSConns, 64)
	setTime(&l.Handshake, 10*time.Second)
	setTime(&l.Idle, time.Minute)
	setTime(&l.Dial, 10*time.Second)
	setTime(&l.HalfClosed, time.Minute)
	return l
}

// Serve answers on the listeners until ctx ends, then closes them with every
// connection and waits for all of its goroutines. It returns nil when ctx was
// the reason, and the error of a listener that cannot serve otherwise. An
// Engine serves once.
func (e *Engine) Serve(ctx context.Context, l Listeners) error {
	ctx, cancel := context.WithCancelCause(ctx)
	accept := gate.Acceptor{Memory: e.memory, Log: e.log, Go: e.tasks.Go}
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
		serve(func() error { return accept.Serve(ctx, ln, e.slots, e.full, e.handle) })
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

// full records that the session's cap was hit, at most once in a second: a
// program that opens connections in a loop shall not fill the audit too.
func (e *Engine) full(reason string) {
	now := time.Now()
	last := e.overflow.Load()
	if now.UnixNano()-last < int64(time.Second) || !e.overflow.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	e.refused(verdict.Flow{
		Kind: verdict.Connect, Via: verdict.ViaDirect, Start: now,
		Reason: reason,
	})
}

// refused tells the Journal, and whether an explanation may be given.
func (e *Engine) refused(f verdict.Flow) bool {
	f.Duration = time.Since(f.Start)
	if f.Rule != "" {
		e.quota.Limit()
	}
	if err := e.cfg.Journal.Refused(f); err != nil {
		e.log.Error("refusal could not be recorded", "error", err)
		return false
	}
	return true
}

func (e *Engine) handleDNS(ctx context.Context, c net.Conn) {
	s := e.newStream(c, nil)
	if !e.enter(s, c) {
		return
	}
	defer e.leave(s)
	e.dns.Conn(ctx, c)
}

// handle serves one connection of a program.
func (e *Engine) handle(ctx context.Context, c net.Conn) {
	lease := e.memory.Lease()
	defer lease.End()
	s := e.newStream(c, lease)
	if !e.enter(s, c) {
		return
	}
	defer e.leave(s)
	if k, ok := c.(*net.TCPConn); ok {
		_ = k.SetKeepAliveConfig(dial.KeepAlive()) // without it a vanished peer is noticed later
	}
	dst, err := e.originalDst(c)
	if err != nil {
		s.refuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error()})
		return
	}
	if gate.Is(dst.Addr()) {
		s.serveGate(ctx, dst)
		return
	}
	if s.target, err = e.target(dst); err != nil {
		s.refuseRaw(verdict.Flow{Kind: verdict.Connect, Reason: err.Error(), Detail: dst.String()})
		return
	}
	s.serveDirect(ctx)
}

// target finds the name a program meant by an address.
func (e *Engine) target(dst netip.AddrPort) (authority.Authority, error) {
	if name, ok := e.names.Name(dst.Addr()); ok {
		return authority.Parse(name, dst.Port())
	}
	if names.IsSynthetic(dst.Addr()) {
		return authority.Authority{}, errors.New("no name has this address in this session: it must be asked of DNS again")
	}
	return authority.FromAddrPort(dst)
}

// enter registers a connection so that Recheck and the end of Serve find it.
func (e *Engine) enter(s *stream, c net.Conn) bool {
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
	return s.conns.attach(c) == nil
}

func (e *Engine) leave(s *stream) {
	e.mu.Lock()
	delete(e.streams, s)
	e.mu.Unlock()
	s.conns.close()
}

func (e *Engine) killAll() {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	for _, s := range e.snapshot() {
		s.conns.kill(errShutdown)
	}
	close(e.over)
	e.spares.Clear(true)
}

func (e *Engine) snapshot() []*stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*stream, 0, len(e.streams))
	for s := range e.streams {
		out = append(out, s)
	}
	return out
}

// Recheck asks the Decider about every open connection again, and resets
// those that are no longer allowed. What is being decided meanwhile is decided
// once more by its own goroutine.
func (e *Engine) Recheck(ctx context.Context) {
	e.generation.Add(1)
	e.spares.Clear(false)
	for _, s := range e.snapshot() {
		s.judged.recheck(ctx)
	}
}

var (
	errShutdown = errors.New("the session's network was closed")
	errNoLonger = errors.New("no longer allowed after a policy change")
	errNowRead  = errors.New("rules read the requests to this host since a policy change")
)
