package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"cloister/api"
	"cloister/sandbox"
	"cloister/serve/database"
	"cloister/serve/givenup"
	"cloister/serve/snapshots"
	"cloister/serve/templates"
	"cloister/serve/tenants"
	"cloister/session/launch"
)

// Place is one tenant's instance of Cloister: its name, and the folder that everything of
// it lies in.
type Place struct{ Tenant, Dir string }

// Live is a running session, as its driver enters it.
type Live struct {
	Name   string
	Driver sandbox.Driver
	Handle sandbox.Handle
	Spec   sandbox.Spec
	Gone   <-chan struct{} // closed when the session is over
	// Files has what commands did with files and programs recorded.
	Files func(ctx context.Context, list []api.FileEvent) error
	// Ask has a person asked about a file that a command opens; without an error it is allowed.
	Ask func(ctx context.Context, q api.FileQuestion) error
}

// Engine starts and ends sessions in a tenant's instance.
type Engine interface {
	// Start starts a session and returns when its command runs.
	Start(ctx context.Context, at Place, o launch.Order) (Live, error)
	// Find gives a session that runs already, ErrNoSession for none.
	Find(ctx context.Context, at Place, name string) (Live, error)
	// Record has an act recorded in the tenant's record; one that is not must not be done.
	Record(ctx context.Context, at Place, a Act) error
	// Narrow replaces what a session's policy has less than the tenant's.
	Narrow(ctx context.Context, at Place, name string, forbid []api.CedarFile) error
	// Stop ends a session and returns when it is over.
	Stop(ctx context.Context, at Place, name, why string) error
}

// Act is what is done in a sandbox by a request.
type Act struct {
	Session string
	Kind    ActKind
	// Action is a word for it, and Resource the command, the path or the port.
	Action, Resource string
}

// ActKind is what an act is about.
type ActKind uint8

// The closed set of kinds.
const (
	ActCommand ActKind = iota
	ActFile
	ActPort
	ActSandbox // a session that was started ahead becomes a request's, or its network changes
	ActTemplate
	ActPerson
	ActLost // a sandbox of a server that is out of touch: no session here, and recorded once
)

// StartWithin bounds the start of a sandbox, of which a quiet machine needs a hundredth of
// a second.
const StartWithin = 2 * time.Minute

// ErrNoSession says that no session of that name runs.
var ErrNoSession = errors.New("no such session runs")

// ErrNone is the error of an ID that the tenant has no sandbox of.
var ErrNone = errors.New("sandbox not found")

// Over is the error of a bound that is reached.
type Over struct{ What string }

func (e *Over) Error() string { return e.What }

// Options are what a Host depends on.
type Options struct {
	Engine  Engine
	Tenants *tenants.Register
	// Shared has what several servers know of each other's sandboxes; nil for one that is alone.
	Shared *database.Client
	// Snapshots is where all servers find them; nil for this server's own folder.
	Snapshots *snapshots.Cell
	// Kept names further files that a tenant's sessions keep from their start, such as where its pods are made;
	// nil for none.
	Kept func(Place) []string
	// Program is Cloister itself, which is shown in each sandbox, read-only, for the
	// requests for files and ports.
	Program string
	Log     *slog.Logger
}

// Host keeps all sandboxes.
type Host struct {
	Options
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	all     map[string]*Sandbox      // by tenant/ID
	byID    map[string]*Sandbox      // the same by ID alone
	made    map[string]int           // sandboxes that are being made, by tenant
	spares  map[string][]*spare      // sandboxes that wait for a request, by tenant
	filling map[string]chan struct{} // tenants for which spares are being made: closed at the end
	undone  map[*Sandbox]undone      // sandboxes whose end failed
	shut    bool
	unknown map[*Sandbox]time.Time // what the database does not know yet, and when it learns
	gone    map[string]time.Time   // IDs to be struck: of sandboxes that were not made
	parted  chan error             // why this server can be none of several any more

	lostRows *givenup.List     // of servers that are out of touch
	snaps    *snapshots.Keeper // of all tenants

	lock *os.File
}

// Open finds the sandboxes that an earlier server left, and goes on with them.
func Open(ctx context.Context, o Options) (*Host, error) {
	lock, err := o.Tenants.Alone()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	h := &Host{
		Options: o, ctx: ctx, stop: stop, lock: lock,
		all: map[string]*Sandbox{}, byID: map[string]*Sandbox{}, made: map[string]int{},
		spares: map[string][]*spare{}, filling: map[string]chan struct{}{}, undone: map[*Sandbox]undone{},
		unknown: map[*Sandbox]time.Time{}, gone: map[string]time.Time{}, parted: make(chan error, 1),
	}
	h.lostRows = h.giving()
	h.snaps = &snapshots.Keeper{Home: o.Tenants.Home, Cell: o.Snapshots}
	err = h.join(ctx)
	if err == nil {
		err = h.find(ctx)
	}
	if err == nil {
		err = h.settleRows(ctx)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, lock.Close())
	}
	h.wg.Go(h.reap)
	h.wg.Go(h.keepLease)
	if o.Snapshots != nil {
		h.wg.Go(func() { o.Snapshots.Run(h.ctx) })
	}
	return h, nil
}

// find goes on with what an earlier server left of every tenant.
func (h *Host) find(ctx context.Context) error {
	list, err := h.Tenants.List()
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := h.snaps.Sweep(t.Name); err != nil {
			return err
		}
		found, err := h.records(t.Name)
		if err != nil {
			return err
		}
		for _, r := range found {
			h.readopt(ctx, r)
		}
	}
	return nil
}

// Close leaves the sandboxes alive for the next server; what runs in them by a request of
// this one ends, and so do those that no request has used.
func (h *Host) Close() {
	h.mu.Lock()
	h.shut = true
	all := make([]*Sandbox, 0, len(h.all))
	for _, s := range h.all {
		all = append(all, s)
	}
	h.mu.Unlock()
	for _, s := range all {
		s.leave()
	}
	h.drop(h.ctx, h.stale(time.Time{}))
	h.stop()
	h.wg.Wait()
	_ = h.lock.Close() // it was only held
}

func (h *Host) place(tenant string) Place { return Place{tenant, h.Tenants.Home(tenant)} }

// Record has an act for a tenant recorded before it is done.
func (h *Host) Record(ctx context.Context, tenant string, a Act) error {
	return h.Engine.Record(ctx, h.place(tenant), a)
}

func key(tenant, id string) string { return tenant + "/" + id }

// newID makes an ID that is one label of a host name without a meaning.
func newID() string { return "i" + strings.ToLower(rand.Text()[:19]) }

// Request is what a new sandbox is.
type Request struct {
	Template  string
	Made      templates.Made // what the template stands for
	Metadata  map[string]string
	Env       map[string]string
	Timeout   time.Duration
	AutoPause bool
	KeepDisk  bool // an automatic pause keeps the files alone
	AutoStart bool // a request for a paused sandbox resumes it
	Network   Network
	Private   bool   // the ports need a token
	PortHost  string // of requests for its ports
	// From is a snapshot whose files the sandbox begins with.
	From *Snapshot
}

// Create makes a sandbox for a tenant.
func (h *Host) Create(ctx context.Context, t tenants.Tenant, q Request) (*Sandbox, error) {
	if err := h.reserve(t); err != nil {
		return nil, err
	}
	s, err := h.create(ctx, t, q)
	h.release(t, s)
	return s, err
}

// create makes a sandbox that is counted, and in no table yet.
func (h *Host) create(ctx context.Context, t tenants.Tenant, q Request) (*Sandbox, error) {
	if err := q.check(t.Limits); err != nil {
		return nil, err
	}
	h.settle(ctx, t)
	now := time.Now()
	r := Record{
		ID: newID(), Tenant: t.Name, Template: q.Template, Made: q.Made, Metadata: q.Metadata, Env: q.Env,
		Created: now, End: now.Add(q.Timeout), State: Running, Token: token(), Traffic: token(),
		AutoPause: q.AutoPause, KeepDisk: q.KeepDisk, AutoStart: q.AutoStart,
		Network: q.Network, Private: q.Private, PortHost: q.PortHost,
	}
	s, err := h.session(ctx, t, q, r)
	if err != nil {
		return nil, err
	}
	if q.From != nil {
		err = s.fill(ctx, q.From)
	}
	if err == nil {
		err = s.save()
	}
	if err != nil {
		return nil, errors.Join(err, s.discard(context.WithoutCancel(ctx), "it could not be made"))
	}
	return s, nil
}

// session gives a new sandbox a session: one that was started ahead, or its own. It is entered in
// what servers share first.
func (h *Host) session(ctx context.Context, t tenants.Tenant, q Request, r Record) (*Sandbox, error) {
	_ = h.configure(t) // one that was started under what held before is no spare any more; enter says an error
	if sp := h.take(ctx, t, q); sp != nil {
		r.ID = sp.s.record.ID
		if err := h.enter(ctx, t, r); err != nil {
			h.drop(ctx, []*spare{sp}) // which strikes it, too
			return nil, err
		}
		if s := sp.give(ctx, r); s != nil {
			return s, nil
		}
		r.ID = newID() // that one was ended, and struck
	}
	if err := h.enter(ctx, t, r); err != nil {
		return nil, err
	}
	s, err := h.start(ctx, t, r)
	if err != nil {
		h.strikeSoon(r.ID)
	}
	return s, err
}

// start starts the session of a sandbox that is in no table yet. Should this server be
// killed before it is, the next one ends what there is.
func (h *Host) start(ctx context.Context, t tenants.Tenant, r Record) (*Sandbox, error) {
	s := &Sandbox{host: h, tenant: t, record: r}
	if err := os.MkdirAll(s.work(), 0o700); err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	// Whoever removes the tenant from here on finds the folder, and waits for its end.
	if h.removed(t, h.Tenants.Named) && h.removed(t, h.Tenants.Latest) {
		return nil, errors.Join(&BadRequest{What: "the tenant was removed"}, os.RemoveAll(s.dir()))
	}
	half := r
	half.State = ended
	err := s.write(half)
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.discard(context.WithoutCancel(ctx), "it could not be made"))
	}
	return s, nil
}

// reserve counts a sandbox before it is made, so that many requests at once stay within
// the limit too.
func (h *Host) reserve(t tenants.Tenant) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return &Over{"the server is on its way out"}
	}
	if n := h.used(t.Name); n >= t.Limits.Sandboxes {
		return &Over{fmt.Sprintf("the tenant has %d sandboxes, which is its limit", n)}
	}
	h.made[t.Name]++
	return nil
}

// keep enters a sandbox in the tables. The lock is held.
func (h *Host) keep(s *Sandbox) {
	h.all[key(s.tenant.Name, s.record.ID)], h.byID[s.record.ID] = s, s
}
