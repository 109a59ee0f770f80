package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cloister/api"
	"cloister/internal/durable"
	"cloister/serve/files"
	"cloister/serve/templates"
	"cloister/serve/tenants"
	"cloister/session/filerecord"
	"cloister/session/launch"
	"cloister/workspace/homes"
)

// State is what a sandbox does.
type State string

// The closed set of states. A sandbox that is neither is gone.
const (
	Running State = "running"
	Paused  State = "paused"
	ended   State = "ended"
)

// Record is what of a sandbox is written down.
type Record struct {
	ID       string            `json:"id"`
	Tenant   string            `json:"tenant"`
	Template string            `json:"template"`
	Made     templates.Made    `json:"made,omitzero"` // as the template was at its start
	Metadata map[string]string `json:"metadata,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Created  time.Time         `json:"created"`
	End      time.Time         `json:"end"`
	State    State             `json:"state"`
	// Token opens the sandbox's files and processes, Traffic its ports.
	Token   string `json:"token"`
	Traffic string `json:"traffic"`
	// Cold says that a pause kept the files alone.
	Cold      bool    `json:"cold,omitempty"`
	AutoPause bool    `json:"auto_pause,omitempty"`
	KeepDisk  bool    `json:"keep_disk,omitempty"`
	AutoStart bool    `json:"auto_start,omitempty"`
	Network   Network `json:"network,omitzero"`
	// Offline says that its session has no network of which anything could be allowed.
	Offline bool `json:"offline,omitempty"`
	// Private says that the ports need the Traffic token.
	Private bool `json:"private,omitempty"`
	// PortHost is the Host of requests for its ports, with ${PORT}; empty for the client's.
	PortHost string `json:"port_host,omitempty"`
}

// Sandbox is one sandbox of a tenant.
type Sandbox struct {
	host   *Host
	tenant tenants.Tenant

	turn sync.Mutex // begin, pause, resume and end, one after the other
	file sync.Mutex // the record is written down, one writer at a time

	expiring atomic.Bool // what its maker wanted at its end is on its way

	mu     sync.Mutex
	record Record
	live   *Live
	thaw   func() error // of a pause that keeps the processes
	pool   *files.Pool
	procs  map[uint32]*Process
	seen   *filerecord.Set // what commands do with files and programs; nil until there is one
	next   uint32
	ending bool
	carry  context.CancelFunc   // ends the carrying of files that a pause or a resume waits for; nil for none
	ports  map[uint16]time.Time // when requests for a port were recorded last
}

// Usage is what a sandbox uses at a moment.
type Usage struct {
	Time                time.Time
	CPUs                int
	CPU                 float64 // percent of one processor since the sandbox began
	MemUsed, MemTotal   int64
	DiskUsed, DiskTotal int64
}

// NotRunning is the error of a sandbox that is paused or gone.
type NotRunning struct{ ID string }

func (e *NotRunning) Error() string { return "the sandbox is not running" }

func token() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it cannot fail (crypto/rand)
	return hex.EncodeToString(raw[:])
}

// Record is what the sandbox is now.
func (s *Sandbox) Record() Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// Tenant is whose it is.
func (s *Sandbox) Tenant() string { return s.tenant.Name }

func (s *Sandbox) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.State == ended
}

func (s *Sandbox) dir() string {
	return filepath.Join(s.host.Tenants.Home(s.tenant.Name), "sandboxes", s.record.ID)
}

// work is the empty folder that is the session's project: its private home is the
// sandbox's disk.
func (s *Sandbox) work() string { return filepath.Join(s.dir(), "w") }

// save writes down what the sandbox is now. Two at once would let the older record be the
// last: one from before its network was narrowed.
func (s *Sandbox) save() error {
	s.file.Lock()
	defer s.file.Unlock()
	r := s.Record()
	if err := s.write(r); err != nil {
		return err
	}
	s.host.note(s, r)
	return nil
}

func (s *Sandbox) write(r Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write down sandbox: %w", err)
	}
	return durable.WriteFile(filepath.Join(s.dir(), "record.json"), append(text, '\n'), 0o600)
}

func readRecord(file string) (Record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Record{}, fmt.Errorf("read sandbox: %w", err)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read sandbox: %s: %w", file, err)
	}
	return r, nil
}

// Verb is the hidden command of Cloister that runs in a sandbox.
const Verb = "inside"

// User is what the user of every sandbox is called, and Home is their folder.
const (
	User = "user"
	Home = "/home/user"
)

// order is the session of the sandbox.
func (s *Sandbox) order() (launch.Order, error) {
	r := s.Record()
	// The variables of its maker are given to each command: its session may be older than
	// they are.
	o := launch.Order{
		Verb: "run", Args: []string{s.host.Program, "serve", Verb, "hold"},
		Name: r.ID, Project: s.work(), Workspace: "none", User: User,
		Expose: []string{s.host.Program + ":ro"},
		Memory: s.tenant.Limits.Memory, CPUs: s.tenant.Limits.CPUs, Awaited: true,
	}
	o.Image, o.Isolation = r.Made.Image, r.Made.Isolation
	if r.Made.Forbid != "" {
		o.Cedar = append(o.Cedar, api.CedarFile{Name: "template", Text: r.Made.Forbid})
	}
	return o, r.Network.Apply(&o)
}

// begin starts the session.
func (s *Sandbox) begin(ctx context.Context) error {
	o, err := s.order()
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	live, err := s.host.Engine.Start(ctx, s.host.place(s.tenant.Name), o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.record.Offline = o.NoNetwork
	s.mu.Unlock()
	s.enter(live)
	return nil
}

// enter takes a session that runs as the sandbox's.
func (s *Sandbox) enter(live Live) {
	pool := &files.Pool{Start: s.program, Record: func(ctx context.Context, action, path string) error {
		return s.recorded(ctx, ActFile, action, path)
	}}
	s.mu.Lock()
	s.live, s.pool, s.procs = &live, pool, map[uint32]*Process{}
	s.mu.Unlock()
	s.host.wg.Go(func() {
		select {
		case <-live.Gone:
			s.lost(&live)
		case <-s.host.ctx.Done():
		}
	})
}

// recorded has an act recorded before it is done. What was begun is recorded, whether or
// not its client waits.
func (s *Sandbox) recorded(ctx context.Context, kind ActKind, action, resource string) error {
	at := s.host.place(s.tenant.Name)
	return s.host.Engine.Record(context.WithoutCancel(ctx), at, Act{s.record.ID, kind, action, resource})
}

// lost ends a sandbox whose session ended by itself.
func (s *Sandbox) lost(live *Live) {
	s.mu.Lock()
	mine := s.live != nil && s.live.Name == live.Name && s.live.Handle == live.Handle && !s.ending
	s.mu.Unlock()
	if !mine {
		return
	}
	s.host.Log.Info("a sandbox ended by itself", "tenant", s.tenant.Name, "sandbox", s.record.ID)
	if err := s.Kill(context.WithoutCancel(s.host.ctx)); err != nil && !errors.Is(err, ErrNone) {
		s.host.Log.Error("remove a sandbox", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
	}
}

// readopt goes on with a sandbox of an earlier server.
func (h *Host) readopt(ctx context.Context, r Record) {
	t, err := h.Tenants.Named(r.Tenant)
	if err != nil {
		return
	}
	s := &Sandbox{host: h, tenant: t, record: r}
	live, err := h.Engine.Find(ctx, h.place(t.Name), r.ID)
	switch {
	case err == nil && r.State != ended:
		s.enter(live)
	case r.State == Paused:
		s.record.Cold = true // the host was started anew: its processes are gone, its files are not
	default:
		h.Log.Info("a sandbox is gone that an earlier server had", "tenant", t.Name, "sandbox", r.ID, "error", err)
		if err := s.discard(ctx, "its session is gone"); err != nil {
			h.Log.Error("remove a sandbox", "tenant", t.Name, "sandbox", r.ID, "error", err)
		} else if r.State == ended { // its session may be on its way yet: it ends by itself, and leaves its home
			h.mu.Lock()
			h.undone[s] = undone{"no server waits for it", time.Now().Add(StartWithin)}
			h.mu.Unlock()
		}
		return
	}
	h.mu.Lock()
	h.keep(s)
	h.mu.Unlock()
}

// leave lets go of the sandbox without ending it.
func (s *Sandbox) leave() {
	s.mu.Lock()
	pool, procs, seen := s.pool, s.procs, s.seen
	s.procs, s.seen = nil, nil
	s.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
	for _, p := range procs {
		p.end()
	}
	if seen != nil {
		s.host.wg.Go(func() { s.missed(seen.Close()) })
	}
}

// Kill ends the sandbox and removes all of it.
func (s *Sandbox) Kill(ctx context.Context) error { return s.end(ctx, "the server was asked to") }

func (s *Sandbox) end(ctx context.Context, why string) error {
	s.mu.Lock()
	if s.carry != nil {
		s.carry()
	}
	s.mu.Unlock()
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	if s.record.State == ended {
		s.mu.Unlock()
		return ErrNone
	}
	s.record.State, s.ending = ended, true
	s.mu.Unlock()
	s.host.forget(s)
	return s.discard(ctx, why)
}

// discard ends the session, if there is one, and removes what the sandbox had. Where that
// fails, as while the guardian is on its way out, it is tried again until it does not.
func (s *Sandbox) discard(ctx context.Context, why string) error {
	err := s.remove(ctx, why)
	if err != nil {
		s.host.mu.Lock()
		s.host.undone[s] = undone{why, time.Now().Add(retryAfter)}
		s.host.mu.Unlock()
	}
	return err
}

func (s *Sandbox) remove(ctx context.Context, why string) error {
	s.mu.Lock()
	thaw := s.thaw
	s.thaw = nil
	s.mu.Unlock()
	if thaw != nil {
		_ = thaw() // they are ended next
	}
	s.leave()
	err := s.host.Engine.Stop(ctx, s.host.place(s.tenant.Name), s.record.ID, why)
	if errors.Is(err, ErrNoSession) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("end sandbox %s: %w", s.record.ID, err)
	}
	data := filepath.Join(s.host.Tenants.Home(s.tenant.Name), "data", "cloister")
	err = homes.Home{Dir: homes.Of(data, s.work()), Project: s.work()}.Remove()
	if rerr := os.RemoveAll(s.dir()); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return err
	}
	return s.host.strike(ctx, s.record.ID) // the last, so that the tenant has room only now
}

// due says that the sandbox's time is over.
func (s *Sandbox) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.State == Running && !s.ending && now.After(s.record.End)
}

// expire does at a sandbox's end what its maker wanted.
func (s *Sandbox) expire(ctx context.Context) error {
	if !s.due(time.Now()) || !s.expiring.CompareAndSwap(false, true) {
		return nil
	}
	defer s.expiring.Store(false)
	if s.Record().AutoPause {
		_, err := s.Pause(ctx, !s.Record().KeepDisk)
		if _, no := errors.AsType[*BadRequest](err); no { // a level that holds no processes still
			_, err = s.Pause(ctx, false)
		}
		_, over := errors.AsType[*Over](err)
		_, lost := errors.AsType[*notKept](err)
		if !over && !(lost && time.Since(s.Record().End) > keepFor) {
			return err
		}
		s.host.Log.Error("pause a sandbox: it ends", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
	}
	err := s.Kill(ctx)
	if errors.Is(err, ErrNone) {
		return nil
	}
	return err
}

// SetEnd gives the sandbox another time to live from now on. With extend it is never
// shortened.
func (s *Sandbox) SetEnd(d time.Duration, extend bool) error {
	if d < 0 || d > s.tenant.Limits.Lifetime {
		return tooLong(s.tenant.Limits)
	}
	s.mu.Lock()
	if s.record.State != Running {
		s.mu.Unlock()
		return &NotRunning{s.record.ID}
	}
	if end := time.Now().Add(d); !extend || end.After(s.record.End) {
		s.record.End = end
	}
	s.mu.Unlock()
	return s.save()
}

// Bounds of what a request may hold.
const (
	maxPairs = 100
	maxValue = 4096
)

func tooLong(l tenants.Limits) error {
	return &BadRequest{What: fmt.Sprintf("timeout: want at most %d seconds", int(l.Lifetime/time.Second))}
}

func (q Request) check(l tenants.Limits) error {
	if q.Timeout < 0 || q.Timeout > l.Lifetime {
		return tooLong(l)
	}
	for what, pairs := range map[string]map[string]string{"metadata": q.Metadata, "envVars": q.Env} {
		if len(pairs) > maxPairs {
			return &BadRequest{What: fmt.Sprintf("%s: want at most %d entries", what, maxPairs)}
		}
		for name, value := range pairs {
			if len(name) > 256 || len(value) > maxValue {
				return &BadRequest{What: fmt.Sprintf("%s: an entry is too long", what)}
			}
		}
	}
	if err := q.Network.Check(); err != nil { // of which a sandbox that was started ahead asks nothing
		return err
	}
	return checkEnv(q.Env)
}
