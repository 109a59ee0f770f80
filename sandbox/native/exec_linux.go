package native

import (
	"context"
	"errors"
	"fmt"
	"os"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/onhost"
	"cloister/sandbox/plan"

	"golang.org/x/sys/unix"
)

// Exec runs one more command inside an enclosure.
func (d *Driver) Exec(_ context.Context, b sandbox.Handle, spec sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return d.exec(b, spec, w, nil)
}

func (d *Driver) exec(of sandbox.Handle, spec sandbox.Spec, w sandbox.Wiring, h *Hosted) (sandbox.Box, error) {
	init, err := onhost.Process(of)
	if err != nil {
		return nil, err
	}
	pidfd, err := openCommand(init)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	if err := d.lent.joined(); err != nil {
		return nil, err
	}
	j, err := newJoint(sandbox.Ground{Stdin: w.Stdin, Stdout: w.Stdout, Stderr: w.Stderr}, h)
	if err != nil {
		return nil, err
	}
	give := func(err error) (sandbox.Box, error) {
		j.closeChild()
		j.closeParent()
		return nil, err
	}
	inside, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return give(fmt.Errorf("join cloister: %w", err))
	}
	defer unix.Close(inside)
	// The host may have taken one away just now, which the keeper mends, or the
	// whole project, in which a person still wants to look around.
	spec.Protect = nil
	if err := unasked(spec, h, w); err != nil {
		return give(err)
	}
	j.watched = watched(spec, h, w)
	p, st, err := d.joinProgram(spec, j, inside, h)
	if err != nil {
		return give(err)
	}
	pid, err := command(init)
	if err != nil {
		return give(err)
	}
	group, err := cgroup.Of(pid, "-"+spec.ID)
	if err != nil {
		return give(err)
	}
	b := &box{group: group, guest: true, hosted: h != nil, outlives: h.outlives(), lent: d.lent, left: w.Left}
	if err := b.launch(0, p, st, j); err != nil {
		return nil, err
	}
	fail := func(err error) error {
		if r, ok := b.failure(); ok {
			err = p.explain(r, spec)
		} else {
			err = b.died(err)
		}
		j.closeParent()
		b.unkept()
		return errors.Join(err, b.Close())
	}
	if err := j.say(); err != nil {
		return nil, fail(err)
	}
	return b.attach(p, j, w, spec, fail)
}

// joinProgram is Exec's: enter the namespaces, then the same restrictions.
func (d *Driver) joinProgram(s sandbox.Spec, j *joint, pidfd int, h *Hosted) (*program, *childState, error) {
	p, st := newProgram(), newChildState(j)
	st.outlives = h.outlives()
	p.closeOthers(j.childFDs(pidfd))
	p.await("wait for the parent", j)
	p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	p.sys("enter the cloister", unix.SYS_SETNS, pidfd, d.lent.namespaces(allNamespaces))
	p.sys("close the way in", unix.SYS_CLOSE, pidfd)
	switch {
	case d.lent != nil:
		p.lend(d.lent)
		p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	case os.Geteuid() == 0:
		p.become(s.User.ID)
		p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	p.sys("die with the shim", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	p.sys("lead a session", unix.SYS_SETSID)
	slave := p.openTerminal(j)
	walls := plan.New(plan.Facts{Hosted: h.planned()})
	if err := d.restrict(p, walls, s, landlockVersion(), j); err != nil {
		return nil, nil, err
	}
	p.signals(st)
	p.buildPayload(s, j, slave, h)
	p.buildGuard(j, nil, slave)
	// From here on it ends by the pipe that the shim holds, when it has waited for the command.
	p.sys("outlive the shim by that", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
	return p, st, nil
}
