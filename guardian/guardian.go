// Package guardian is the daemon that every cloister depends on: the front
// desk of one user's host.
//
// The promise: it answers only its own user; it grants a session, a
// connection, a name only after the audit has the record; it never lets
// through what policy does not allow, also while it starts, reloads, stops or
// cannot write. When it dies, every session's egress ends at once; the
// sessions live on, and the next guardian takes them back.
//
// It does not build enclosures (the shim does), does not decide (policy does)
// and does not carry bytes (egress does): it wires them, and one table of
// routes says who may call what.
//
// Most readers want [Run], then routes.go.
package guardian

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"cloister/approval"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/egress"
	"cloister/git"
	"cloister/guardian/acts"
	"cloister/guardian/commands"
	"cloister/guardian/devices"
	"cloister/guardian/events"
	"cloister/guardian/folders"
	"cloister/guardian/hostcommands"
	"cloister/guardian/instance"
	"cloister/guardian/notify"
	"cloister/guardian/process"
	"cloister/guardian/sealed"
	"cloister/guardian/sessionctx"
	"cloister/guardian/workspaces"
	"cloister/internal/budget"
	"cloister/internal/xdg"
	"cloister/mcp"
	"cloister/policyset"
	"cloister/policyset/servers"
	"cloister/sandbox"
	"cloister/secret/inject"
	"cloister/secret/oauth"
	"cloister/secret/vault"
	"cloister/session/launch"
	"cloister/session/registry"
	"cloister/ui/web"
	"cloister/workspace/obeyed"
)

const (
	defaultIdle = 30 * time.Minute
	// defaultAdoption is how long sessions of the last guardian are waited
	// for. Their links look every 100 ms and re-adoption within 3 s is the
	// promise; a host under load gets some more.
	defaultAdoption = 5 * time.Second
	// farewell bounds the graceful end of plain requests.
	farewell = 2 * time.Second
)

// ErrAlreadyRunning says that another guardian has the socket.
var ErrAlreadyRunning = instance.ErrTaken

// Options of Run.
type Options struct {
	Dirs    xdg.Dirs
	Home    string // what ~ stands for in the configuration
	Version string
	Logger  *slog.Logger // for the operator; nil is silent
	// Sweep removes what dead sessions left on the host: called when the time
	// of re-adoption is over and when a session failed, with the IDs that
	// live, and again while it has an error. It must look for itself whether
	// the owner of anything else is dead.
	Sweep func(ctx context.Context, live []string) error
	// Ready is called once, when the socket answers.
	Ready func()
	// Idle is how long a guardian without sessions stays; 0 means 30 min.
	Idle time.Duration
	// Adoption is how long sessions of the last guardian may take to come
	// back; 0 means 5 s.
	Adoption time.Duration
	// Helper is the program with its arguments that serves hostexec.Keep; empty
	// means that no command runs on the host.
	Helper []string
	// HostEnv is the whole environment of a host command, its PATH among it, and
	// GitEnv that of git where it speaks with a remote.
	HostEnv, GitEnv []string
	Obeys           obeyed.Person // whose git obeys what comes into projects
	// AgentSocket is the person's SSH agent's; "" for none.
	AgentSocket string
	// Bus is the address of the person's session bus; "" for none.
	Bus string
	// Keyring keeps the key of the vault; nil where this host has none.
	Keyring vault.Keyring
	// SecretEnv is the whole environment of a command that prints a secret.
	SecretEnv []string
	// Shim is how this program starts itself as a shim, for cloisters that the window
	// starts; without a path it starts none.
	Shim launch.Self
	// Probe is the command line of this program that prints what doctor found, as JSON,
	// in the environment of Shim. The guardian itself cannot find out: what keeps its
	// memory to itself keeps it from making namespaces too.
	Probe []string
	// Hold holds a cloister still, by its isolation level.
	Hold func(isolation string, h sandbox.Handle) (thaw func() error, err error)
	// Door is where the terminal of a session is found, by its ID.
	Door func(id string) string
	// Shared says that the process is not the guardian's own, as in tests:
	// its dumpable bit and core limit are left alone.
	Shared bool
}

// Survived reports whether a guardian that is gone left cloisters that may live on.
func Survived(dirs xdg.Dirs) bool { return registry.Left(folders.Sessions(dirs)) }

// maxMemory bounds what passes through the guardian at once, of all sessions: connections,
// windows of HTTP/2, requests under way, MCP frames, bodies that are unpacked to be
// searched. spareMemory is besides, for two bodies of the longest window there is, of
// sessions that hold little.
const (
	maxMemory   = 88 << 20
	spareMemory = 34 << 20
)

// memoryWithin is how long what can wait waits for some.
const memoryWithin = 10 * time.Second

// memoryLimit is when the collector works harder rather than let memory grow: the program
// itself and its stacks stay below 256 MiB with it.
const memoryLimit = 200 << 20

// guardian is the state of one Run.
type guardian struct {
	o           Options
	log         *slog.Logger
	started     time.Time
	socket      string
	records     *recorder.Recorder
	sessions    *registry.Registry
	queue       *approval.Queue       // what waits for a person
	bus         *events.Bus           // what happened, for those who watch
	host        *hostcommands.Service // what runs on the host for cloisters
	authorities egress.CAs
	seals       sealed.Key
	notifier    *notify.Notifier
	policies    *policyset.Holder
	vault       vaultDoor
	pins        *mcp.Pins // what tools of MCP servers may say of themselves
	uses        inject.Uses
	values      inject.Values
	memory      *budget.Budget
	logins      oauth.Desk
	left        chan struct{} // has one while a session that is over may have left something
	notices     []string      // of the start

	ctx  context.Context // ends when the guardian does
	stop context.CancelCauseFunc

	window     window // where browsers come in, once a person asked for it
	devices    *devices.Service
	commands   *commands.List
	losses     acts.Losses
	workspaces *workspaces.Room
	own        sync.Map // pids of shims and probes that the guardian started

	// reloading is held for writing by a reload, for reading while a session
	// opens: each session has either the old policy and is in live when the
	// new one comes, or the new one.
	reloading sync.RWMutex

	mu      sync.Mutex
	live    map[string]*live // by session ID
	closing bool
	links   sync.WaitGroup // one for each link that is served
	aside   sync.WaitGroup // what is not waited for before the end
	used    atomic.Int64   // the last request or end of a session, as time since the start: clocks are set
}

// errAsked is the cause of a stop by request; errIdle that of an idle end.
var (
	errAsked = errors.New("asked to stop")
	errIdle  = errors.New("idle")
)

// Run is the guardian's life: it returns nil when ctx ended, when a caller
// asked it to stop, or when it was idle for long, after everything recorded
// is on the disk. Any other error is one line that says why it did not start
// or cannot go on.
func Run(ctx context.Context, o Options) error {
	if err := run(ctx, o); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	return nil
}

func run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	if o.Adoption == 0 {
		o.Adoption = defaultAdoption
	}
	if !o.Shared {
		if err := process.Harden(); err != nil {
			return err
		}
	}
	unlock, err := instance.Take(o.Dirs.Runtime)
	if err != nil {
		return err
	}
	defer unlock()
	g, err := open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(g.serve(), g.close())
}

// open gathers what the guardian cannot do without; on an error nothing
// stays open.
func open(ctx context.Context, o Options) (*guardian, error) {
	g := &guardian{
		o:        o,
		log:      o.Logger,
		started:  time.Now(),
		socket:   folders.Socket(o.Dirs),
		policies: policyset.NewHolder(o.Dirs.Config, o.Home, o.resolver()),
		live:     map[string]*live{},
		bus:      events.New(),
		seals:    sealed.Key{Path: filepath.Join(o.Dirs.State, "session.key")},
		left:     make(chan struct{}, 1),
	}
	g.notifier = notify.New(notify.Options{
		Bus: o.Bus, Config: g.policies.Notify, Env: o.SecretEnv, Resolver: o.resolver(), Log: g.log,
	})
	g.queue = g.newQueue()
	g.pins = mcp.OpenPins(servers.PinsFile(o.Dirs), time.Now)
	g.memory = budget.New(maxMemory, spareMemory, memoryWithin)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // a person's GOMEMLIMIT stays
		debug.SetMemoryLimit(memoryLimit)
	}
	g.commands = commands.New(g.bus)
	g.host = hostcommands.New(hostcommands.Options{
		Helper: o.Helper, Env: o.HostEnv, Runtime: o.Dirs.Runtime, Policies: g.policies, Commands: g.commands,
		Depots: git.NewDepots(filepath.Join(o.Dirs.Data, "git"), o.GitEnv, o.resolver()), Notice: g.notice,
		Resolver: o.resolver(), Obeys: o.Obeys,
		Known: g.knownSecrets,
	})
	g.touch()
	records, err := recorder.Open(folders.Audit(o.Dirs), g.log, g.audited)
	if err != nil {
		return nil, err
	}
	g.records, g.losses.Dir = records, folders.Audit(o.Dirs)
	sessions, note, err := registry.OpenRegistry(folders.Sessions(o.Dirs), registry.Options{})
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	g.sessions = sessions
	g.workspaces = &workspaces.Room{
		Dirs: o.Dirs, Audit: folders.Audit(o.Dirs), Record: g.recordState, Hold: g.holdStill,
		Begin: g.beginShim, Logs: o.Shim.Logs, Obeys: o.Obeys,
	}
	if note != "" {
		g.notice(note)
	}
	if err := g.begin(ctx); err != nil {
		return nil, errors.Join(err, sessions.Close(), records.Close())
	}
	g.ctx, g.stop = context.WithCancelCause(ctx)
	g.aside.Go(func() { g.notifier.Run(g.ctx) })
	g.devices = devices.Open(g.ctx, devices.Options{
		State: o.Dirs.State, Queue: g.queue, Record: g.records.Append, Log: g.log, Notice: g.notice,
	})
	return g, nil
}

// begin records the start and the policy that rules from here on.
func (g *guardian) begin(ctx context.Context) error {
	if err := g.records.Append(ctx, audit.Event{
		Kind:     audit.GuardianStart,
		Action:   "start",
		Resource: g.socket,
		Reason:   "version " + g.o.Version,
		PID:      os.Getpid(),
	}); err != nil {
		return err
	}
	_, err := g.reload(ctx)
	return err
}

// serve answers until the guardian's context ends.
func (g *guardian) serve() error {
	listener, err := instance.Listen(g.socket, g.log)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           g.handler(),
		ConnContext:       instance.WithPeer,
		BaseContext:       func(net.Listener) context.Context { return g.ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	var others sync.WaitGroup
	others.Go(func() { g.records.Watch(g.ctx) })
	others.Go(g.settle)
	others.Go(g.sweep)
	others.Go(func() {
		if err := g.host.Sweep(); err != nil {
			g.notice(err.Error())
		}
	})
	others.Go(g.idle)
	served := make(chan error, 1)
	others.Go(func() { served <- server.Serve(listener) })
	if web.Left(g.o.Dirs.Runtime) {
		others.Go(g.reopenWindow)
	}

	if g.o.Ready != nil {
		g.o.Ready()
	}
	g.log.Info("the guardian answers", "socket", g.socket, "pid", os.Getpid())
	select {
	case <-g.ctx.Done():
		err = nil
	case err = <-served:
		g.stop(err)
	}
	g.farewell(server)
	others.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// farewell lets requests finish and links end. Sessions stay live: their
// shims offer them to the next guardian.
func (g *guardian) farewell(server *http.Server) {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	// The guardian's own context has ended; these seconds are its last.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), farewell)
	defer cancel()
	g.closeWindow()
	g.logins.Close()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
	g.links.Wait()
}

// close records the end and makes everything durable.
func (g *guardian) close() error {
	cause := context.Cause(g.ctx)
	g.devices.Close()
	g.records.Rest(context.WithoutCancel(g.ctx))
	err := g.records.Append(context.WithoutCancel(g.ctx), audit.Event{
		Kind:     audit.GuardianStop,
		Action:   "stop",
		Resource: g.socket,
		Reason:   fmt.Sprintf("%v; %d sessions live on without egress", cause, g.sessions.Live()),
		PID:      os.Getpid(),
		Policy:   g.policies.Current().Snapshot().Digest(),
	})
	g.log.Info("the guardian ends", "cause", cause)
	g.stop(nil) // a guardian that could not serve has not ended what runs beside it
	g.aside.Wait()
	return errors.Join(err, g.sessions.Close(), g.records.Close())
}

// settle ends the time in which sessions of the last guardian may come back.
func (g *guardian) settle() {
	timer := time.NewTimer(g.o.Adoption)
	defer timer.Stop()
	select {
	case <-g.ctx.Done():
		return // the next guardian waits for them
	case <-timer.C:
	}
	lost, err := g.sessions.Settle(g.ctx, g.o.Sweep)
	if err != nil {
		g.sweepSoon() // which reports it, should it fail once more
	}
	for _, info := range lost {
		event := sessionctx.Frame(info, "")
		event.Kind, event.Action, event.Reason = audit.SessionStop, "lost", info.Reason
		g.records.Note(g.ctx, event)
	}
}

// idle ends a guardian that no session needs: none lives, and none may come
// back.
func (g *guardian) idle() {
	tick := time.NewTicker(max(g.o.Idle/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
		since := time.Since(g.started) - time.Duration(g.used.Load())
		if g.sessions.Live() == 0 && g.queue.Watchers() == 0 && since >= g.o.Idle {
			g.stop(errIdle)
			return
		}
	}
}

func (g *guardian) touch() { g.used.Store(int64(time.Since(g.started))) }
