package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"cloister/internal/stackroom"
	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/landlock"
	"cloister/sandbox/plan"

	"golang.org/x/sys/unix"
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
	if err := unasked(spec, s.hosted, w); err != nil {
		return err
	}
	s.j.watched = watched(spec, s.hosted, w)
	if err := s.d.restrict(p, s.v.plan, spec, s.abi, s.j); err != nil {
		return err
	}
	p.signals(s.st)
	p.buildPayload(spec, s.j, slave, s.hosted)
	p.buildGuard(s.j, s.v.mounts, slave)
	return nil
}
