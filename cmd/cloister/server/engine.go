package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/pods"
	"cloister/internal/exactjson"
	"cloister/internal/termsafe"
	"cloister/sandbox"
	"cloister/serve"
	"cloister/serve/tenants"
	"cloister/session/launch"
)

// engine starts sessions in the instances of tenants, as cloister run -d does in the
// person's own.
type engine struct {
	a        *Commands
	program  string
	register *tenants.Register

	mu  sync.Mutex
	own map[string]chan struct{} // sessions that this process started, by name: closed at the end
}

// at is this program in a tenant's instance: with folders of its own, and nothing of the
// person's environment.
func (e *engine) at(p serve.Place) (*cli.App, error) {
	d, err := e.a.Dirs()
	if err != nil {
		return nil, err
	}
	t := *e.a.App
	t.Env = cli.Environ{
		"HOME": serve.Home, "USER": serve.User, "LANG": "C.UTF-8", "TZ": "UTC",
		"PATH":            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"XDG_CONFIG_HOME": filepath.Join(p.Dir, "config"), "XDG_STATE_HOME": filepath.Join(p.Dir, "state"),
		"XDG_DATA_HOME": filepath.Join(p.Dir, "data"), "XDG_RUNTIME_DIR": filepath.Join(d.Runtime, "s", p.Tenant),
	}
	if engine := e.a.Env.Get("DOCKER_HOST"); engine != "" {
		t.Env["DOCKER_HOST"] = engine
	}
	return &t, nil
}

// kept is the file that says where a tenant's pods are made, and of what.
func (e *engine) kept(p serve.Place) []string {
	own, err := e.a.Dirs()
	if err != nil {
		return nil
	}
	t, err := e.at(p)
	if err != nil {
		return nil
	}
	dirs, err := t.Dirs()
	if err != nil {
		return nil // its next start says so
	}
	return []string{pods.Source(own, dirs)}
}

func (e *engine) Start(ctx context.Context, p serve.Place, o launch.Order) (serve.Live, error) {
	t, err := e.at(p)
	if err != nil {
		return serve.Live{}, err
	}
	dirs, err := t.Dirs()
	if err != nil {
		return serve.Live{}, err
	}
	own, err := e.a.Dirs()
	if err == nil {
		err = pods.Lend(own, dirs)
	}
	if err != nil {
		return serve.Live{}, err
	}
	self := t.Self(e.program, dirs)
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		self.Env = append(self.Env, name+"="+t.Env[name])
	}
	self.Dir = "/"
	child, err := self.Start(o)
	if err != nil {
		return serve.Live{}, err
	}
	gone := make(chan struct{})
	// A client that does not wait leaves no session that nothing counts: what was begun is
	// waited for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serve.StartWithin)
	defer cancel()
	answer, err := child.Answer(ctx)
	if ctx.Err() != nil {
		err = errors.Join(err, syscall.Kill(child.PID, syscall.SIGKILL), child.Wait())
	}
	if err != nil {
		return serve.Live{}, fmt.Errorf("start sandbox: %w", err)
	}
	e.mu.Lock()
	if e.own == nil {
		e.own = map[string]chan struct{}{}
	}
	e.own[answer.Name] = gone
	e.mu.Unlock()
	go func() {
		_ = child.Wait() // how it ended is in the record
		close(gone)
		e.mu.Lock()
		delete(e.own, answer.Name)
		e.mu.Unlock()
	}()
	return e.live(ctx, t, answer.Name, gone)
}

// live reads how a session is entered.
func (e *engine) live(ctx context.Context, t *cli.App, name string, gone <-chan struct{}) (serve.Live, error) {
	c, err := t.Reach(ctx)
	if err != nil {
		return serve.Live{}, err
	}
	defer c.Close()
	info, err := cli.Enterable(ctx, c, name)
	if err != nil {
		return serve.Live{}, err
	}
	d, err := e.a.Driver(t, info.Isolation)
	if err != nil {
		return serve.Live{}, err
	}
	live := serve.Live{Name: name, Driver: d, Handle: sandbox.Handle(info.Handle), Gone: gone,
		Files: func(ctx context.Context, list []api.FileEvent) error {
			c, err := t.Reach(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Files(ctx, name, list)
		},
		Ask: func(ctx context.Context, q api.FileQuestion) error {
			c, err := t.Reach(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.AskFile(ctx, info.ID, q)
		}}
	if err := exactjson.Unmarshal(info.Exec, &live.Spec); err != nil {
		return live, fmt.Errorf("enter sandbox: read its description: %w", err)
	}
	return live, nil
}

func (e *engine) Find(ctx context.Context, p serve.Place, name string) (serve.Live, error) {
	t, err := e.at(p)
	if err != nil {
		return serve.Live{}, err
	}
	c, err := t.Reach(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return serve.Live{}, serve.ErrNoSession
	}
	if err != nil {
		return serve.Live{}, err
	}
	defer c.Close()
	info, err := c.Session(ctx, name)
	if missing(err) || err == nil && info.State != api.StateRunning && info.State != api.StateStarting {
		return serve.Live{}, serve.ErrNoSession
	}
	if err != nil {
		return serve.Live{}, err
	}
	ended, err := cli.WatchEnd(info.PID)
	if err != nil {
		return serve.Live{}, serve.ErrNoSession
	}
	gone := make(chan struct{})
	go func() {
		_ = ended(context.WithoutCancel(ctx)) // an error means that it cannot be watched any more
		close(gone)
	}()
	return e.live(ctx, t, name, gone)
}

func missing(err error) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && refused.Code == api.CodeNotFound
}

// actKinds are the record's words for what a server does.
var actKinds = map[serve.ActKind]audit.Kind{
	serve.ActCommand: audit.Exec, serve.ActFile: audit.TenantFile, serve.ActPort: audit.TenantPort,
	serve.ActSandbox: audit.TenantSandbox, serve.ActTemplate: audit.TenantTemplate,
	serve.ActPerson: audit.TenantPerson, serve.ActLost: audit.TenantSandbox,
}

func (e *engine) Record(ctx context.Context, p serve.Place, a serve.Act) error {
	return e.write(ctx, p, api.TenantRecord{
		Session: a.Session, Kind: actKinds[a.Kind], Action: a.Action, Resource: termsafe.Clip(a.Resource, maxActShown),
		Reason: "a request to cloister serve", Lost: a.Kind == serve.ActLost,
	})
}

// maxActShown bounds what the guardian is sent of a command.
const maxActShown = 4 << 10

// write has the guardian of a tenant's instance write a record; it is started where there
// is none.
func (e *engine) write(ctx context.Context, p serve.Place, r api.TenantRecord) error {
	t, err := e.at(p)
	if err != nil {
		return err
	}
	c, err := t.Ensure(ctx)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer c.Close()
	if err := c.RecordTenant(ctx, r); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

func (e *engine) Narrow(ctx context.Context, p serve.Place, name string, forbid []api.CedarFile) error {
	t, err := e.at(p)
	if err != nil {
		return err
	}
	c, err := t.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.NarrowSession(ctx, name, api.SessionNarrow{Narrow: forbid})
}

// stopGrace is how long a sandbox's own first command may take to end.
const stopGrace = 2 * time.Second

func (e *engine) Stop(ctx context.Context, p serve.Place, name, why string) error {
	t, err := e.at(p)
	if err != nil {
		return err
	}
	c, err := t.Reach(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return serve.ErrNoSession
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.StopSession(ctx, name, why, stopGrace); missing(err) {
		return serve.ErrNoSession
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	gone := e.own[name]
	e.mu.Unlock()
	if gone != nil {
		<-gone // the shim removes what it made
	}
	return nil
}
