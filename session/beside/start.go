package beside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cloister/api"
	"cloister/devcontainer/services"
	"cloister/sandbox"
	"cloister/session"
	"cloister/workspace"
	"cloister/workspace/review"
)

// Set are the services that run.
type Set struct {
	p      *Plan
	relays *relays
	lock   *os.File
	driver sandbox.Driver
	list   []*running
	ended  context.CancelFunc
	over   chan struct{} // closed when they are to end
	watch  sync.WaitGroup
}

// running is one service.
type running struct {
	*member
	log  *journal
	end  chan string   // asks it to end
	up   chan struct{} // closed when its command runs
	gone chan struct{} // closed when it has ended

	box  sandbox.Handle
	spec sandbox.Spec

	res session.Result
	err error
}

// A Failure is a service without which the agent does not start.
type Failure struct {
	Service Service
	Session string
	Why     string
	Err     error
	Last    string // what it said last
}

func (e *Failure) Error() string {
	text := fmt.Sprintf("%s:%d: the service %s %s", e.Service.File, e.Service.Line, e.Service.Name, e.Why)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Last != "" {
		text += "; it said last:\n" + e.Last
	}
	return text
}

func (e *Failure) Unwrap() error { return e.Err }

// Hints are the words of what to do.
func (e *Failure) Hints() []string {
	return []string{"all that it said: cloister logs " + e.Session}
}

// Can refuses a driver by which nothing stands beside an agent, and an agent without a network.
func Can(driver sandbox.Driver, network bool) error {
	if _, can := driver.(sandbox.PeerDriver); can && !network {
		return errors.New("services beside an agent need its gate, and it is to have no network")
	} else if can {
		return nil
	}
	return &sandbox.Unsupported{
		Guarantee: "services beside the agent",
		Reason:    "--isolation " + driver.Name() + " has no way from one cloister to another",
		Fix:       "use --isolation docker or native, or start the agent alone: --image IMAGE",
	}
}

// Start starts the services, each when those that it waits for are there, and returns when
// all run and are healthy. It prepares the agent's shim, of which it copies what services
// have too. Whatever the error, nothing is left running.
func (p *Plan) Start(ctx context.Context, agent *session.Shim, driver sandbox.Driver) (_ *Set, err error) {
	if err := Can(driver, agent.Request.Network); err != nil {
		return nil, err
	}
	if sole, ok := driver.(sandbox.Separable); ok {
		driver = sole.Apart() // this process owns the agent's, and so none besides
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Set{p: p, relays: newRelays(whole), driver: driver, ended: cancel, over: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.lock, err = p.lock(); err != nil {
		return nil, err
	}
	for _, m := range p.members {
		if err := p.clear(m); err != nil {
			return nil, err
		}
	}
	signals, heard := s.interrupted(ctx, agent)
	defer heard()
	for _, m := range p.list {
		if err := s.await(signals, m.After); err != nil {
			return nil, err
		}
		r, err := s.begin(whole, m, agent)
		if err != nil {
			return nil, err
		}
		if err := s.started(signals, r); err != nil {
			return nil, err
		}
	}
	for _, r := range s.list {
		if err := s.healthy(signals, r); err != nil {
			return nil, err
		}
	}
	if err := s.await(signals, p.agent.After); err != nil {
		return nil, err
	}
	for _, r := range s.list {
		s.watch.Go(func() { s.attend(r) })
	}
	return s, s.dress(agent)
}

// interrupted ends a start when a signal of the agent's comes; the function that it gives
// leaves the rest of them to the agent.
func (s *Set) interrupted(ctx context.Context, agent *session.Shim) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case sig, ok := <-agent.Signals:
				if !ok {
					return
				}
				if sig != syscall.SIGWINCH {
					cancel(fmt.Errorf("interrupted by %s", sig))
				}
			case why := <-agent.End:
				cancel(errors.New("it was ended: " + why))
			}
		}
	}()
	return ctx, func() {
		close(stop)
		<-stopped
		cancel(nil)
	}
}

// begin starts one service.
func (s *Set) begin(ctx context.Context, m *member, agent *session.Shim) (*running, error) {
	fail := func(err error) (*running, error) {
		return nil, &Failure{Service: m.Service, Session: m.session, Why: "does not start", Err: err}
	}
	binds, err := s.p.places(m, cmp.Or(string(agent.View.Home), "/home/agent"))
	if err != nil {
		return fail(err)
	}
	env, err := s.p.environment(m)
	if err != nil {
		return fail(err)
	}
	home := s.p.room(m, kept, "home")
	if err := folderOf(home); err != nil {
		return fail(err)
	}
	r := &running{member: m, end: make(chan string, 1), up: make(chan struct{}), gone: make(chan struct{})}
	if r.log, err = openJournal(filepath.Join(s.p.o.Logs, m.session+".log")); err != nil {
		return fail(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(errors.Join(err, r.log.close()))
	}
	shim := s.shim(r, agent, env, null)
	shim.Planned = func(v *workspace.View) {
		for i := range v.Binds {
			if v.Binds[i].Target == v.Home {
				v.Binds[i].Source = sandbox.HostPath(home)
			}
		}
		v.Binds = append(v.Binds, binds...)
		if m.Dir != "" {
			v.Dir = sandbox.GuestPath(path.Clean(m.Dir))
		} else if run := m.Image.Run; run != nil && path.IsAbs(run.Dir) {
			v.Dir = sandbox.GuestPath(path.Clean(run.Dir))
		}
	}
	s.list = append(s.list, r)
	go func() {
		defer close(r.gone)
		defer null.Close()
		r.res, r.err = shim.Run(ctx)
		s.relays.boxes.set(m.number, nil)
		r.err = errors.Join(r.err, r.log.close())
	}()
	return r, nil
}

// shim is what a service is run with: the agent's, less all that is the agent's own.
func (s *Set) shim(r *running, agent *session.Shim, env []string, null *os.File) *session.Shim {
	m := r.member
	request := api.SessionRequest{
		Name: m.session, Project: agent.Request.Project, Path: agent.Request.Path, Branch: agent.Request.Branch,
		Isolation: agent.Request.Isolation, Mode: agent.Request.Mode, Workspace: "none",
		Command: argv(m.Service), Image: m.Root.ID,
		Allow: agent.Request.Allow, Deny: agent.Request.Deny, Network: true, Cedar: agent.Request.Cedar,
		Projects: agent.Request.Projects, Accepted: agent.Request.Accepted, Reports: agent.Request.Reports,
		ShimPID: agent.Request.ShimPID, Beside: true,
	}
	if request.Reports { // what a mode reports is kept by no view, the agent's neither
		request.Closed = agent.Request.Closed
	}
	limits := agent.Limits.Least(sandbox.Limits{Memory: m.Memory, CPUs: m.CPUs, Pids: m.Pids})
	peers := m.peers
	folder := sandbox.HostPath(s.p.folder)
	return &session.Shim{
		Client: agent.Client, Request: request,
		Begun: sandbox.Begin(s.driver, sandbox.Ground{User: agent.User.ID, Root: m.Root, Network: true,
			Stdin: null, Stdout: r.log.pipe(), Stderr: r.log.pipe()}),
		Project: workspace.Project{Root: folder, Main: folder, Dir: folder},
		View: workspace.Options{
			Host: agent.View.Host, Home: agent.View.Home, Data: agent.View.Data, Locks: agent.View.Locks, None: true,
			KeepOut: agent.View.KeepOut, Sources: agent.View.Sources, Unprotected: agent.View.Unprotected,
		},
		Argv: argv(m.Service), Env: env, Term: agent.Term, User: agent.User, Limits: limits, Root: m.Root, Path: m.Image.Path,
		CAFile: agent.CAFile, CA: agent.CA, Java: agent.Java, Sums: agent.Sums, Denied: agent.Denied,
		Peers: &peers, OnPeers: func(sockets []*os.File) { s.relays.serve(m, sockets) },
		Stdin: null, Stdout: r.log.pipe(), Stderr: r.log.pipe(), Reviews: review.Store{},
		StartWithin: agent.StartWithin, End: r.end,
		Box: func(box sandbox.Box, spec sandbox.Spec) {
			if d, ok := box.(sandbox.PeerDialer); ok {
				s.relays.boxes.set(m.number, d)
			}
			r.box, r.spec = box.Handle(), spec
		},
		Running: func() { close(r.up) },
		Notify:  func(text string) { s.p.o.Say(m.Name + ": " + text) },
	}
}

// standing are variables that every cloister has of its own.
var standing = []string{"PATH", "HOME", "USER", "LOGNAME", "HOSTNAME", "SHELL", "TERM"}

// environment are the image's variables, those of files, and over both the service's own.
func (p *Plan) environment(m *member) ([]string, error) {
	all := slices.Clone(m.Image.Env)
	for _, name := range m.EnvFiles {
		text, err := p.o.EnvFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, services.Variables(text)...)
	}
	var out []string
	for _, e := range append(all, m.Env...) {
		name, _, _ := strings.Cut(e, "=")
		if slices.Contains(standing, name) || p.o.Reserved(name) != "" {
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

// dress gives the agent's shim its part: the way to the services, and its volumes.
func (s *Set) dress(agent *session.Shim) error {
	s.p.agent.Root = agent.Root
	binds, err := s.p.places(s.p.agent, cmp.Or(string(agent.View.Home), "/home/agent"), string(agent.Project.Root))
	if err != nil {
		return err
	}
	agent.Peers = &s.p.agent.peers
	agent.OnPeers = func(sockets []*os.File) { s.relays.serve(s.p.agent, sockets) }
	planned, box := agent.Planned, agent.Box
	agent.Planned = func(v *workspace.View) {
		v.Binds = append(v.Binds, binds...)
		for _, m := range s.p.agent.Mounts {
			if m.Kind == services.OfProject && m.Source != "." {
				to := filepath.Join(string(agent.Project.Root), m.Source)
				v.Links = append(v.Links, sandbox.Link{Path: sandbox.GuestPath(m.Target), Target: to})
			}
		}
		if planned != nil {
			planned(v)
		}
	}
	agent.Box = func(b sandbox.Box, spec sandbox.Spec) {
		if d, ok := b.(sandbox.PeerDialer); ok {
			s.relays.boxes.set(s.p.agent.number, d)
		}
		if box != nil {
			box(b, spec)
		}
	}
	return nil
}

// started waits until a service's command runs.
func (s *Set) started(ctx context.Context, r *running) error {
	select {
	case <-r.up:
		return nil
	case <-r.gone:
		if r.res.Ran {
			return nil // it is over already, which may be its way
		}
		return &Failure{Service: r.Service, Session: r.session, Why: "does not start", Err: r.err}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attend tells of a service that ends before its agent.
func (s *Set) attend(r *running) {
	select {
	case <-s.over:
		return
	case <-r.gone:
	}
	if status := r.res.Status.ExitCode(); status != 0 || r.err != nil {
		text := fmt.Sprintf("the service %s ended with status %d (cloister logs %s)", r.Name, status, r.session)
		if r.err != nil {
			text += ": " + r.err.Error()
		}
		s.p.o.Say(text)
	}
}

// Close ends the services and returns when nothing of them is left.
func (s *Set) Close() error {
	if s == nil {
		return nil
	}
	close(s.over)
	s.relays.close() // a server that waits for its clients ends at once
	for _, r := range s.list {
		r.end <- "its agent has ended"
	}
	var errs []error
	for _, r := range s.list {
		<-r.gone
		if r.err != nil && r.res.Ran {
			errs = append(errs, fmt.Errorf("the service %s: %w", r.Name, r.err))
		}
	}
	s.watch.Wait()
	s.ended()
	if s.lock == nil {
		return errors.Join(errs...)
	}
	for _, m := range s.p.members {
		errs = append(errs, s.p.clear(m))
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
