package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/internal/stackroom"
	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/judge"
	"cloister/sandbox/landlock"
	"cloister/sandbox/onhost"
	"cloister/sandbox/plan"
	"cloister/sandbox/relay"
)

// begun is an enclosure that was begun before its Spec was known: namespaces,
// gate and the part of the view that every cloister has.
type begun struct {
	d         *Driver
	ground    sandbox.Ground
	asRoot    bool
	payloadID int
	abi       int
	hosted    *Hosted // a kernel that runs the command, or nil

	ready chan struct{} // closed when the beginning is over, well or not
	err   error
	taken bool
	b     *box
	j     *joint
	p     *program
	st    *childState
	v     *view
	gate  sandbox.Gate
	peers []*os.File // the sockets of the ground's peers
}

// Begin builds what needs no Spec, beside whatever the caller does meanwhile. The
// first part is written down at once: that is short, and a goroutine of its own
// would wait for a thread as long.
func (d *Driver) Begin(g sandbox.Ground) sandbox.Begun { return d.begin(g, nil) }

func (d *Driver) begin(g sandbox.Ground, h *Hosted) *begun {
	s := &begun{d: d, ground: g, hosted: h, asRoot: os.Geteuid() == 0, payloadID: os.Geteuid(), ready: make(chan struct{})}
	switch {
	case d.lent != nil:
		s.payloadID = d.lent.User
	case s.asRoot:
		s.payloadID = rootPayloadID()
	}
	if s.err = s.writeGround(); s.err != nil {
		close(s.ready)
		return s
	}
	go stackroom.For(func() {
		defer close(s.ready)
		s.err = s.begin()
	})
	return s
}

// Start builds the enclosure and runs the command.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return d.Begin(sandbox.Ground{User: s.User.ID, Root: s.Root, Network: s.Network, Peers: s.Peers,
		Stdin: w.Stdin, Stdout: w.Stdout, Stderr: w.Stderr}).Start(ctx, s, w)
}

// Close gives up what was begun and not started.
func (s *begun) Close() error {
	<-s.ready
	if s.err != nil || s.taken {
		return nil // the beginning cleaned up after itself, or the box is another's
	}
	s.taken = true
	return s.abort(nil)
}

// abort ends what there is and adds what went wrong meanwhile.
func (s *begun) abort(err error) error {
	s.j.closeParent()
	s.gate.Close()
	for _, f := range s.peers {
		f.Close()
	}
	s.b.unkept()
	return errors.Join(err, s.b.Close())
}

// step explains an error of the conversation with the child: what the child says
// about itself tells more than a broken pipe.
func (s *begun) step(err error, spec sandbox.Spec) error {
	if r, ok := s.b.failure(); ok {
		return s.p.explain(r, spec)
	}
	return s.b.died(err)
}

// writeGround opens the joint and writes the first part down.
func (s *begun) writeGround() error {
	if s.abi = landlockVersion(); s.abi < landlock.Least && s.hosted == nil {
		return &sandbox.Unsupported{
			Guarantee: "Landlock", Reason: fmt.Sprintf("this kernel offers ABI %d, %d is needed", s.abi, landlock.Least),
			Fix: "use Linux 6.10 or newer with landlock among its security modules (lsm=landlock,…)",
		}
	}
	err := hidesMemory(s.asRoot)
	if err != nil {
		return err
	}
	if s.j, err = newJoint(s.ground, s.hosted); err != nil {
		return err
	}
	s.p, s.st, s.b = newProgram(), newChildState(s.j), &box{hosted: s.hosted != nil, lent: s.d.lent}
	s.buildGround()
	mounts, err := s.passImage()
	if err == nil {
		s.v, err = s.p.beginView(s.ground.Root, mounts, s.hosted, s.d.lent)
	}
	if err != nil {
		s.j.closeChild()
		s.j.closeParent()
		return err
	}
	s.p.await("wait for the gate", s.j)
	return nil
}

// hidesMemory refuses a host on which a process that changes its user shows its
// memory (proc(5), /proc/sys/fs/suid_dumpable). Whatever root's shim runs inside
// becomes the payload's user, in memory that is the shim's: for a moment the payload
// could trace it, and write what root executes.
func hidesMemory(asRoot bool) error {
	if !asRoot {
		return nil // no user is changed
	}
	text, err := os.ReadFile("/proc/sys/fs/suid_dumpable")
	if err != nil {
		return fmt.Errorf("start native: %w", err)
	}
	if strings.TrimSpace(string(text)) != "1" {
		return nil
	}
	return &sandbox.Unsupported{
		Guarantee: "hidden memory",
		Reason:    "fs.suid_dumpable is 1: a process that changes its user shows its memory to that user",
		Fix:       "sysctl -w fs.suid_dumpable=0, or run cloister as an ordinary user",
	}
}

// begin forks the child and lets it build its ground.
func (s *begun) begin() error {
	flags := s.d.lent.namespaces(allNamespaces)
	if off(layerNet) {
		flags &^= unix.CLONE_NEWNET
	}
	if err := s.b.launch(flags, s.p, s.st, s.j); err != nil {
		return err
	}
	if s.d.lent == nil {
		if err := writeMaps(s.b.pid, s.ground.User, s.payloadID, s.asRoot); err != nil {
			return s.abort(s.step(err, sandbox.Spec{}))
		}
	}
	if err := s.j.say(); err != nil {
		return s.abort(s.step(err, sandbox.Spec{}))
	}
	return s.beginGate()
}

// buildGround adds the first steps: what the first process is.
func (s *begun) buildGround() {
	p, id := s.p, s.ground.User
	p.closeOthers(s.j.childFDs())
	p.await("wait for the id map", s.j)
	switch {
	case s.d.lent != nil:
		p.lend(s.d.lent)
	case s.asRoot:
		p.become(id)
	}
	p.sys("die with the shim", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	p.sys("name process", unix.SYS_PRCTL, unix.PR_SET_NAME, "cloister-init", 0, 0, 0)
	p.sys("set umask", unix.SYS_UMASK, 0)
	p.sys("lead a session", unix.SYS_SETSID)
}

// become adds the steps that make root's child the payload's user.
func (p *program) become(id int) {
	p.sys("leave groups", unix.SYS_SETGROUPS, 0, 0)
	p.sys("become the payload's group", unix.SYS_SETRESGID, id, id, id)
	p.sys("become the payload's user", unix.SYS_SETRESUID, id, id, id)
}

// beginGate writes the second part down while the first runs, and takes the
// gate's sockets.
func (s *begun) beginGate() error {
	s.p.in(&s.p.setup[partGate], stepsOfGate)
	gated := s.ground.Network && !off(layerNet)
	switch {
	case gated:
		s.p.buildGate(s.j.ctlC, s.ground.Peers)
	case !off(layerNet):
		s.p.buildLoopback()
	}
	s.p.await("wait for the rest", s.j)
	if err := s.j.say(); err != nil {
		return s.abort(s.step(err, sandbox.Spec{}))
	}
	if !gated {
		return nil
	}
	var err error
	if s.gate, err = receiveGate(s.j.ctlP); err == nil && s.ground.Peers != nil {
		s.peers, err = receivePeers(s.j.ctlP, s.ground.Peers)
	}
	if err != nil {
		return s.abort(s.step(err, sandbox.Spec{}))
	}
	return nil
}

// Start builds the rest and runs the command.
func (s *begun) Start(ctx context.Context, spec sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	<-s.ready
	switch {
	case s.err != nil:
		return nil, s.err
	case s.taken:
		return nil, errors.New("start native: started or given up already")
	case spec.Network != s.ground.Network || spec.User.ID != s.ground.User || spec.Root != s.ground.Root ||
		!spec.Peers.Equal(s.ground.Peers):
		return nil, errors.Join(errors.New("start native: begun for another user, root or network"), s.Close())
	}
	s.taken = true
	if err := s.writeRest(spec, w); err != nil {
		return nil, s.abort(err)
	}
	group, err := newGroup(groupPrefix(s.d.instance)+spec.ID, spec.Limits, judged(spec), s.d.lent.within())
	if err != nil && judged(spec) {
		return nil, s.abort(unjudged(err.Error()))
	}
	if err != nil && !accepted(spec, err) {
		return nil, s.abort(err)
	}
	s.b.group = group
	if err := s.j.say(); err != nil {
		return nil, s.abort(s.step(err, spec))
	}
	if spec.Network && !off(layerNet) {
		own := s.gate
		s.gate = sandbox.Gate{} // the taker's from here on
		if spec.Peers != nil {
			w.Peers(s.peers)
			s.peers = nil
			s.b.address = gate.PeerAddr(spec.Peers.Self)
		}
		if err := w.Arm(ctx, own); err != nil {
			return nil, s.abort(err)
		}
	}
	s.b.judged = func(pid int) (io.Closer, error) {
		if w.Judge == nil || group.Version2() == "" {
			return nil, unjudged("nothing judges them, or no control group of version 2 can be made")
		}
		return w.Judge(ctx, group.Version2(), pid, spec, s.b.lose)
	}
	return s.b.attach(s.p, s.j, w, spec, func(err error) error { return s.abort(s.step(err, spec)) })
}

// writeRest writes the third part, the payload and the guard down. As root it
// sends the mounts that the child cannot reach.
func (s *begun) writeRest(spec sandbox.Spec, w sandbox.Wiring) error {
	p := s.p
	p.in(&p.setup[partRest], stepsOfRest)
	name := plan.Hostname(spec.Name)
	p.sys("set host name", unix.SYS_SETHOSTNAME, name, len(name))
	p.sys("set domain name", unix.SYS_SETDOMAINNAME, "", 0)
	if s.asRoot {
		mounts, err := s.mounts(spec)
		defer mounts.close()
		if err != nil {
			return err
		}
		if s.v.mounts, err = p.passMounts(s.j, mounts); err != nil {
			return s.step(err, spec)
		}
	}
	if off(layerView) {
		s.v.hostView(spec)
	} else if err := s.v.finish(spec); err != nil {
		return err
	}
	slave := p.openTerminal(s.j)
	s.j.watched = watched(spec, s.hosted, w)
	if err := s.d.restrict(p, s.v.plan, spec, s.abi, s.j); err != nil {
		return err
	}
	p.signals(s.st)
	p.buildPayload(spec, s.j, slave, s.hosted)
	p.buildGuard(s.j, s.v.mounts, slave)
	return nil
}

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
	b := &box{group: group, guest: true, hosted: h != nil, lent: d.lent, left: w.Left}
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
	return p, st, nil
}

// launch forks the child, which begins to build. After an error nothing of the
// joint is left open.
func (b *box) launch(flags uintptr, p *program, st *childState, j *joint) error {
	b.done, b.gone, b.alone = make(chan struct{}), make(chan struct{}), make(chan sandbox.Status, 1)
	forked := make(chan error, 1)
	// Until its ids are mapped the child's /proc files must be this user's; the
	// child hides the memory again before anything else runs inside. A process
	// starts one box, so none is open to another's payload meanwhile: the first
	// process of each shares this memory. One that joins a box has no ids to map.
	if flags&unix.CLONE_NEWUSER != 0 {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			j.closeChild()
			j.closeParent()
			return fmt.Errorf("start native: %w", err)
		}
	}
	// One thread forks and stays until the child is gone: the signal that ends
	// the child with its parent is bound to the thread (prctl(2)).
	go func() {
		runtime.LockOSThread()
		syscall.ForkLock.Lock()
		pid, errno := spawn(flags, p, st)
		syscall.ForkLock.Unlock()
		if errno != 0 {
			forked <- namespaceError(errno)
			return
		}
		b.pid = pid
		forked <- nil
		b.reap()
		runtime.KeepAlive(st)
		p.alive()
	}()
	err := <-forked
	j.closeChild()
	if err != nil {
		j.closeParent()
		return err
	}
	if err := unix.SetNonblock(j.statusR, true); err != nil {
		panic(err) // of a descriptor that was just made
	}
	b.status = os.NewFile(uintptr(j.statusR), "status")
	b.life = os.NewFile(uintptr(j.lifeW), "life")
	j.statusR, j.lifeW = -1, -1
	// The end waits for the keeper, or for the word that there is none.
	b.keeping.Add(1)
	b.unkept = sync.OnceFunc(b.keeping.Done)
	go b.settle()
	return nil
}

// attach connects the caller to the command and lets it go.
func (b *box) attach(p *program, j *joint, w sandbox.Wiring, s sandbox.Spec,
	fail func(error) error) (sandbox.Box, error) {
	if j.wantsTerminal() {
		fds, err := receive(j.ctlP, 1)
		if err != nil {
			return nil, fail(err)
		}
		if b.lent != nil {
			err = b.lent.give(fds[0])
		} else {
			b.term, err = relay.New(fds[0], [3]*os.File{w.Stdin, w.Stdout, w.Stderr}, j.tty, w.Heard)
		}
		if err != nil {
			return nil, fail(fmt.Errorf("start native: %w", err))
		}
	}
	if j.watched {
		if err := b.beginWatch(j, w, s); err != nil {
			return nil, fail(err)
		}
	}
	if b.group == nil && judged(s) {
		return nil, fail(unjudged("the cloister's control group is not to be found"))
	}
	if b.group != nil {
		// The command alone enters the group: the first process shares the
		// shim's memory, and a group that is out of memory would end both.
		if err := j.hear(); err != nil {
			return nil, fail(err)
		}
		pid, err := command(b.pid)
		if err == nil {
			err = b.group.Add(pid)
		}
		switch {
		case err != nil || !judged(s):
		case b.guest: // with the group it has entered what is judged, unless that was lost
			err = judge.Kept(b.group.Version2())
		default:
			err = b.beginJudge(pid)
		}
		if err != nil {
			return nil, fail(err)
		}
	}
	if b.watch != nil {
		if b.group == nil {
			if err := j.hear(); err != nil { // its own looks at its walls are over
				return nil, fail(err)
			}
		}
		b.watch.Started()
	}
	if err := j.say(); err != nil {
		return nil, fail(err)
	}
	// The pipe ends when the command has been executed, or was not.
	executed := os.NewFile(uintptr(j.execR), "exec")
	j.execR = -1
	_, err := io.ReadAll(executed)
	executed.Close()
	if err != nil {
		return nil, fail(fmt.Errorf("start native: %w", err))
	}
	if r, ok := b.failure(); ok {
		return nil, fail(p.explain(r, s))
	}
	j.closeParent()
	b.listen()
	if b.guest || len(s.Protect) == 0 || off(layerProtect) {
		b.unkept()
		return b, nil
	}
	b.startKeeper(s)
	return b, nil
}
