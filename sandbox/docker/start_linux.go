package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/internal/passfd"
	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/docker/judged"
	"cloister/sandbox/docker/refuse"
	"cloister/sandbox/gate"
	"cloister/sandbox/plan"
)

// api is the engine in a version that both speak.
type api struct {
	*engine.Client
	version string
}

func (a *api) call(ctx context.Context, method, path string, in, out any) error {
	return a.Client.Call(ctx, method, "/"+a.version+path, in, out)
}

func (d *Driver) connect(ctx context.Context) (*api, error) {
	e := engine.New(d.o.Socket)
	e.Within = d.within
	ctx, cancel := context.WithTimeoutCause(ctx, e.Soon(), engine.ErrNoAnswer)
	defer cancel()
	version, err := e.Ping(ctx)
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("start docker: %w", err)
	}
	return &api{e, version}, nil
}

// start is one start on its way.
type start struct {
	d     *Driver
	a     *api
	spec  sandbox.Spec
	user  inside.User
	doors *doors
	std   *standard
	build inside.Build
	marks []*os.File // user namespaces for the gate

	mu          sync.Mutex
	agent, gate string // containers that exist
	unsure      bool   // another may come to be
	box         *box
}

// exists notes a container.
func (st *start) exists(role, id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if role == inside.RoleInit {
		st.agent = id
	} else {
		st.gate = id
	}
}

// container is the one of a role; empty where there is none yet.
func (st *start) container(role string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if role == inside.RoleInit {
		return st.agent
	}
	return st.gate
}

// Start builds the enclosure and runs the command. The two containers start side
// by side: that the agent's joined the gate's would cost the half again of what
// docker run costs, one after the other (docs/decisions/0015).
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (_ sandbox.Box, err error) {
	if err := errors.Join(judged.Refuse(s, w), refuse.Binds(s.Binds)); err != nil {
		return nil, err
	}
	std, err := takeStandard(w)
	if err != nil {
		return nil, err
	}
	program, err := d.program(os.Geteuid() == 0)
	if err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	a, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	st := &start{d: d, a: a, spec: s, user: user(s), std: std}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.undo(ctx))
		}
	}()
	if err := d.rootful(ctx, a); err != nil {
		return nil, err
	}
	if st.doors, err = d.openDoors(s.ID); err != nil {
		return nil, err
	}
	if err := st.plan(ctx); err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	if err := st.run(ctx, program, w); err != nil {
		return nil, err
	}
	return st.box, nil
}

// undo removes what there is of a start that failed, whoever has given up.
func (st *start) undo(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if st.box != nil {
		st.box.hangUp()
	}
	for _, f := range st.marks {
		f.Close()
	}
	err := st.removeAll(ctx)
	if st.box != nil && st.box.last != nil {
		err = errors.Join(err, st.box.last.Close())
	}
	st.a.Close()
	switch {
	case st.doors == nil:
		return err
	case !st.unsure:
		return st.doors.after(err)
	}
	st.doors.leave()
	return errors.Join(err, fmt.Errorf("a container that the engine may still make carries "+
		"the label %s and is removed when the guardian, or a cloister in containers, starts next", labelInstance))
}

// removeAll removes the containers that exist. An engine that does not answer now is
// not waited for as long as a removal may take.
func (st *start) removeAll(ctx context.Context) error {
	var ids []string
	for _, id := range []string{st.agent, st.gate} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	within, cancel := context.WithTimeoutCause(ctx, st.a.Soon(), engine.ErrNoAnswer)
	defer cancel()
	if _, err := st.a.Ping(within); err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, st.a.remove(ctx, id))
	}
	return errors.Join(errs...)
}

// run creates, starts and connects both containers.
func (st *start) run(ctx context.Context, program string, w sandbox.Wiring) error {
	began, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Where one of the two fails, nobody waits for the other.
	var wait sync.WaitGroup
	for _, role := range []string{inside.RoleGate, inside.RoleInit} {
		wait.Go(func() {
			if err := st.up(began, role, program); err != nil {
				cancel(err)
			}
		})
	}
	late, enough := context.WithCancel(began)
	wait.Go(func() { st.d.sweepLate(late, filepath.Base(st.doors.dir)) })
	b := &box{ctx: context.WithoutCancel(ctx), a: st.a, doors: st.doors, user: st.user, done: make(chan struct{})}
	if p := st.spec.Peers; p != nil {
		b.address = gate.PeerAddr(p.Self).String()
	}
	st.box = b
	if err := st.meet(began, b); err != nil {
		cancel(err)
	}
	enough() // a healthy start waits for no other session's engine
	wait.Wait()
	b.agent, b.gate = st.agent, st.gate
	// What failed first is why the rest did.
	if why := context.Cause(began); why != nil {
		return fmt.Errorf("start docker: %w", why)
	}
	return st.finish(ctx, b, w)
}

// up creates and starts one of the two.
func (st *start) up(ctx context.Context, role, program string) error {
	// Also for who sweeps, should this process be killed meanwhile.
	note := filepath.Join(st.doors.dir, noteUnsure+role)
	err := os.WriteFile(note, nil, 0o600)
	if err != nil {
		return err
	}
	var id string
	if role == inside.RoleGate {
		id, err = st.a.createGate(ctx, st.spec, st.d.gateContainer(st.spec, program, st.doors))
	} else {
		id, err = st.createAgent(ctx, program)
	}
	st.exists(role, id)
	if _, ok := errors.AsType[*unsureError](err); ok {
		st.mu.Lock()
		st.unsure = true
		st.mu.Unlock()
	} else if rerr := os.Remove(note); rerr != nil {
		return errors.Join(err, rerr)
	}
	if err != nil {
		if err = st.accept(err, id); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return st.a.start(ctx, id)
}

// accept passes over a limit that the engine does not keep, where a person said so.
func (st *start) accept(err error, id string) error {
	u, ok := errors.AsType[*sandbox.Unsupported](err)
	if !ok || u.Residue == "" || id == "" {
		return err
	}
	if slices.Contains(st.spec.Accepted, u.Residue) {
		return nil
	}
	return err
}

func (st *start) createAgent(ctx context.Context, program string) (string, error) {
	image, err := st.d.imageID(ctx, st.a, st.spec.Root)
	if err != nil {
		return "", err
	}
	body, err := st.d.agentContainer(st.spec, image, program, st.doors, st.user)
	if err != nil {
		return "", err
	}
	if st.a.Podman {
		if err := profileAsFile(body, filepath.Join(st.doors.dir, noteProfile)); err != nil {
			return "", err
		}
	}
	id, err := st.a.create(ctx, st.spec, inside.RoleInit, body)
	if engine.IsStatus(err, http.StatusNotFound) {
		err = &NoImage{image}
	}
	return id, err
}

// bounded reads the limits back that the engine was told.
func (st *start) bounded(pid int) error {
	l := st.spec.Limits
	err := cgroup.Holds(pid, cgroup.Bounds{Memory: l.Memory, PIDs: maxPids(st.spec), CPUs: l.CPUs})
	if err == nil {
		return nil
	}
	return st.accept(&sandbox.Unsupported{
		Guarantee: "resource limits", Reason: "the engine keeps no limits: " + err.Error(), Fix: "see docker info",
		Residue: "cgroup-limits",
	}, st.container(inside.RoleInit))
}

// plan writes down what the gate makes.
func (st *start) plan(ctx context.Context) error {
	b := inside.Build{
		Host: plan.Hostname(st.spec.Name), User: st.user, Network: st.spec.Network, Peers: st.spec.Peers,
		Protect: inside.Protected(st.spec.Protect), Links: st.spec.Links,
	}
	owners := map[[2]uint32]int{}
	for _, bind := range st.spec.Binds {
		out := inside.Bind{Target: string(bind.Target), ReadOnly: bind.Access == sandbox.ReadOnly, Overlay: bind.Overlay}
		var err error
		if out.Device, out.Inode, out.Space, err = st.place(ctx, bind, owners); err != nil {
			return err
		}
		if u := bind.Upper; u != nil && bind.Overlay {
			up := &inside.Upper{Upper: *u, At: storeAt(st.spec, u.Store)}
			up.Device, up.Inode, up.Space, err = st.place(ctx, sandbox.Bind{Source: u.Store}, owners)
			if err != nil {
				return err
			}
			out.Upper = up
		}
		b.Binds = append(b.Binds, out)
	}
	if len(st.marks) > passfd.MaxFiles-3 {
		return fmt.Errorf("folders of %d owners are shown; at most %d can be as root", len(st.marks), passfd.MaxFiles-3)
	}
	for _, f := range st.spec.Files {
		text, err := f.Content()
		if err != nil {
			return err
		}
		b.Files = append(b.Files, sandbox.File{Path: f.Path, Data: text, Mode: f.Mode})
	}
	st.build = b
	return nil
}

// place tells which file a bind shows, and which of the marks maps its owner.
func (st *start) place(
	ctx context.Context, bind sandbox.Bind, owners map[[2]uint32]int,
) (dev, inode uint64, space int, err error) {
	var at unix.Stat_t
	if err := unix.Stat(string(bind.Source), &at); err != nil {
		return 0, 0, 0, fmt.Errorf("look at %s: %w", bind.Source, err)
	}
	if os.Geteuid() != 0 || bind.System {
		return at.Dev, at.Ino, 0, nil
	}
	owner := [2]uint32{at.Uid, at.Gid}
	if owners[owner] == 0 {
		f, err := st.d.newIDSpace(ctx, owner, st.user)
		if err != nil {
			return 0, 0, 0, err
		}
		st.marks = append(st.marks, f)
		owners[owner] = len(st.marks)
	}
	if err := refuse.Unmapped(string(bind.Source), st.marks[owners[owner]-1]); err != nil {
		return 0, 0, 0, err
	}
	return at.Dev, at.Ino, owners[owner], nil
}

// finish arms the gate, has the command's process try the walls, and lets it go.
func (st *start) finish(ctx context.Context, b *box, w sandbox.Wiring) error {
	built := make(chan error, 1)
	go func() { built <- st.hearGate(ctx, b, w) }()
	// The walls are tried when all of them stand, so the command comes after.
	if err := <-built; err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	if judged.Wanted(st.spec) {
		// What the command is given has arrived by then, and nothing of the payload has run.
		b.judged = func() (err error) {
			b.last, err = judged.Begin(ctx, st.spec, w, judged.Container{PID: b.pid, ID: b.agent}, b.lose)
			return err
		}
	}
	if err := b.launch(st.command(), st.std); err != nil {
		return err
	}
	b.begin()
	return nil
}

// command is what the first process starts.
func (st *start) command() inside.Command { return commandOf(st.spec, st.user, st.std.tty) }

func commandOf(s sandbox.Spec, u inside.User, tty [3]bool) inside.Command {
	c := inside.Command{Argv: s.Argv, Env: s.Env, Dir: string(s.Dir), TTY: tty, User: u, Network: s.Network}
	for _, one := range plan.Probes(s) {
		switch step := one.(type) {
		case plan.Absent:
			c.Denied = append(c.Denied, step.Path)
		case plan.Held:
			if step.Fleeting {
				c.Hidden = append(c.Hidden, step.Path)
			} else {
				c.Held = append(c.Held, step.Path)
			}
		case plan.Overlaid:
			c.Over = append(c.Over, step.Path)
		default: // no probe
		}
	}
	return c
}

// Exec runs one more command in a box that another process may own: by the socket
// of its session, without the engine.
func (d *Driver) Exec(
	ctx context.Context, _ sandbox.Handle, s sandbox.Spec, w sandbox.Wiring,
) (_ sandbox.Box, err error) {
	w, pipes, err := judged.Piped(s, w)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pipes.Close())
		}
	}()
	std, err := takeStandard(w)
	if err != nil {
		return nil, err
	}
	u, err := dialUnix(ctx, d.folder(s.ID)+"/"+doorShims)
	if err != nil {
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	c := inside.NewLine(u)
	defer c.Close()
	command, err := control(c, inside.Message{Join: true})
	if err != nil {
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	b := &box{ctx: context.WithoutCancel(ctx), command: command, done: make(chan struct{}), guest: true}
	m, err := c.Hear()
	if err == nil && m.Hello == nil {
		err = errors.New("the shim does not answer")
	}
	if err != nil {
		command.Close()
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	who := user(s)
	if _, err := fmt.Sscanf(m.Hello.IDs, "%d %d %d", &b.pid, &who.UID, &who.GID); err != nil {
		command.Close()
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	s.Protect = nil // the host may have taken one away just now, which the keeper mends
	if judged.Wanted(s) {
		b.judged, b.last = func() error { return judged.Kept(b.pid) }, pipes
	}
	if err := b.launch(commandOf(s, who, std.tty), std); err != nil {
		b.hangUp()
		return nil, err
	}
	pipes.Given()
	b.begin()
	return b, nil
}
