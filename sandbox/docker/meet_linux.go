package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"cloister/internal/cgroup"
	"cloister/internal/peercred"
	"cloister/sandbox"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/docker/refuse"
	"cloister/sandbox/gate"
)

// meet waits for the first process and the gate, and has the gate build.
func (st *start) meet(ctx context.Context, b *box) error {
	met := make(chan error, 1)
	go func() {
		g, _, err := st.greet(ctx, st.doors.gate, inside.RoleGate, 0)
		b.keeper = g
		met <- err
	}()
	c, pid, err := st.greet(ctx, st.doors.init, inside.RoleInit, st.user.UID)
	if gateErr := <-met; err == nil {
		err = gateErr // of both the engine's fault is the same
	}
	if err != nil {
		c.Close()
		return err
	}
	defer c.Close()
	b.pid = pid
	if err := st.bounded(pid); err != nil {
		return err
	}
	spaces, err := c.Take(3)
	if err != nil {
		return err
	}
	files := append(spaces, st.marks...)
	err = b.keeper.Say(inside.Message{Build: &st.build}, files...)
	closeFiles(files)
	st.marks = nil
	if err != nil {
		return err
	}
	b.command, err = control(c, inside.Message{Control: true})
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// greet takes the one caller that a container is.
func (st *start) greet(ctx context.Context, l *net.UnixListener, role string, uid int) (inside.Line, int, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	none := inside.Line{}
	u, err := st.caller(ctx, l, role)
	l.Close()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		if why := context.Cause(ctx); why != nil {
			return none, 0, why
		}
		return none, 0, err
	}
	if err != nil {
		return none, 0, &sandbox.Unsupported{
			Guarantee: "engine",
			Reason:    fmt.Sprintf("the %s container started and did not reach this process within %s", role, meetWithin),
			Fix: "the engine must run on this machine itself, not in a machine of its own (Docker Desktop); " +
				"or use --isolation native",
		}
	}
	cred, err := peercred.Require(u, uid)
	if err != nil {
		return none, 0, fmt.Errorf("%w (%w)", refuse.Rootless(), errors.Join(err, u.Close()))
	}
	c := inside.NewLine(u)
	m, err := c.Hear()
	if err == nil && m.Hello == nil {
		err = errors.New("something else than the container came in")
	}
	if err == nil {
		err = errors.Join(refuse.IDs(m.Hello.IDs), refuse.Spaces(m.Hello.Spaces, st.a.Podman, cgroup.Unified()),
			refuse.Given(m.Hello.Lacks))
	}
	if err != nil {
		c.Close()
		return none, 0, err
	}
	return c, int(cred.PID), nil
}

// caller waits for a container's word. One that takes long is looked at: it may
// have ended without any.
func (st *start) caller(ctx context.Context, l *net.UnixListener, role string) (*net.UnixConn, error) {
	for began := time.Now(); ; {
		if err := l.SetDeadline(time.Now().Add(lookAfter)); err != nil {
			return nil, err
		}
		u, err := l.AcceptUnix()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > meetWithin {
			return u, err
		}
		if id := st.container(role); id != "" {
			if state, over := st.a.over(ctx, id); over {
				return nil, fmt.Errorf("the %s container ended before it said a word (%s)", role, state)
			}
		}
	}
}

// lookAfter is longer than a container takes to say its first word where nothing
// else keeps the machine busy.
const lookAfter = 3 * time.Second

// meetWithin bounds the time from the engine's work to the first word: on a
// machine that does much else a container needs seconds.
const meetWithin = 60 * time.Second

// hearGate takes the gate's sockets, has them served, and waits until it is built.
func (st *start) hearGate(ctx context.Context, b *box, w sandbox.Wiring) error {
	stop := context.AfterFunc(ctx, func() { b.keeper.Close() })
	defer stop()
	var armed chan error // nil until there are sockets
	for {
		m, err := b.keeper.Hear()
		if err != nil {
			if why := context.Cause(ctx); why != nil {
				return why
			}
			return fmt.Errorf("the gate ended early (%s)", st.a.state(context.WithoutCancel(ctx), b.gate))
		}
		switch {
		case m.Failed != nil:
			return refuse.Explained(m.Failed)
		case m.Peers:
			files, err := b.keeper.Take(st.spec.Peers.Sockets())
			if err != nil {
				return err
			}
			w.Peers(files)
		case m.Gate:
			g, err := takeGate(b.keeper)
			if err != nil {
				return err
			}
			armed = make(chan error, 1)
			go func() { armed <- w.Arm(ctx, g) }()
		case m.Built && armed == nil:
			return nil
		case m.Built:
			return <-armed
		}
	}
}

func takeGate(c inside.Line) (sandbox.Gate, error) {
	files, err := c.Take(len(gate.Sockets(gate.HaveIPv6())) + 1)
	if err != nil {
		return sandbox.Gate{}, err
	}
	return sandbox.GateOf(files), nil
}
