package native

import (
	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// openTerminal opens a terminal of the cloister's own when the caller has one,
// and hands its master to the parent.
func (p *program) openTerminal(j *joint) *int32 {
	if !j.wantsTerminal() {
		return nil
	}
	space := make([]byte, unix.CmsgSpace(4))
	h := cmsgAt(space)
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	h.SetLen(unix.CmsgLen(4))
	master, slave := &cmsgInts(space, 1)[0], p.cell()
	p.sys("open terminal", unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC,
		0).to(master)
	p.sys("unlock terminal", unix.SYS_IOCTL, master, unix.TIOCSPTLCK, make([]byte, 4))
	p.sys("open terminal's inside", unix.SYS_IOCTL, master, unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC).to(slave)
	p.send("hand out the terminal", j.ctlC, space)
	p.sys("close terminal", unix.SYS_CLOSE, master)
	return slave
}

// signals opens the descriptor on which the first process receives signals. All
// stay blocked in it.
func (p *program) signals(st *childState) {
	st.sigset = ^uint64(0)
	p.sys("open signal descriptor", unix.SYS_SIGNALFD4, -1, pointerTo(&st.sigset), 8,
		unix.SFD_CLOEXEC|unix.SFD_NONBLOCK).to(&st.signals)
}

func (p *program) buildPayload(s sandbox.Spec, j *joint, slave *int32, h *Hosted) {
	p.in(&p.payload, stepsOfPayload)
	p.sys("lead a session", unix.SYS_SETSID)
	p.sys("die with the first process", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	for i := range 3 {
		if j.tty[i] {
			p.sys("connect terminal", unix.SYS_DUP3, slave, i, 0)
		} else {
			p.sys("connect standard descriptor", unix.SYS_DUP3, j.stdio[i], i, 0)
		}
	}
	if slave != nil {
		p.sys("control terminal", unix.SYS_IOCTL, slave, unix.TIOCSCTTY, 0)
	}
	p.sys("set umask", unix.SYS_UMASK, 0o022)
	if h != nil {
		p.runHosted(s, j, h)
		return
	}
	p.sys("go to "+string(s.Dir), unix.SYS_CHDIR, string(s.Dir))
	p.buildProbe(s)
	p.sys("tell that the command is there", unix.SYS_WRITE, j.ctlC, []byte{1}, 1).optional()
	p.await("wait for the guardian", j)
	p.sys("close descriptors at execution", unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	p.sys("let signals in", unix.SYS_RT_SIGPROCMASK, 2, make([]byte, 8), 0, 8)
	argv, env := p.words(s.Argv), p.words(s.Env)
	for _, file := range plan.Candidates(s.Argv[0], s.Env) {
		o := p.sys("execute "+file, unix.SYS_EXECVE, file, argv, env)
		o.kind = execute
	}
}

// buildGuard lets go of what only the payload needs.
func (p *program) buildGuard(j *joint, mounts map[place]*int32, slave *int32) {
	p.in(&p.afterFork, stepsOfGuard)
	null := p.cell()
	p.sys("open /dev/null", unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0).to(null)
	for i := range 3 {
		p.sys("disconnect standard descriptor", unix.SYS_DUP3, null, i, 0)
	}
	p.sys("close /dev/null", unix.SYS_CLOSE, null)
	for _, fd := range append([]int{j.execW, j.goR, j.ctlC, j.stdio[0], j.stdio[1], j.stdio[2]}, j.pass...) {
		if fd >= 0 {
			p.sys("close descriptor", unix.SYS_CLOSE, fd)
		}
	}
	for at, fd := range mounts {
		p.sys("close mount of "+string(at.source), unix.SYS_CLOSE, fd)
	}
	if slave != nil {
		p.sys("close terminal", unix.SYS_CLOSE, slave)
	}
}
