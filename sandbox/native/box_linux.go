package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Driver builds enclosures from the kernel's own parts.
type Driver struct {
	filter func() ([]unix.SockFilter, error)
	rules  func() (packetRules, error)
}

// New gives the driver. It begins to write down what is the same for every
// cloister at once, beside whatever its caller does before the first start.
func New() *Driver {
	d := &Driver{filter: sync.OnceValues(filter), rules: sync.OnceValues(ruleset)}
	go func() {
		// Errors come again to whoever needs the values.
		_, _ = d.rules()
		_, _ = d.filter()
	}()
	return d
}

// Name is "native".
func (*Driver) Name() string { return "native" }

// box is one enclosure, or one process that joined it.
type box struct {
	pid    int
	guest  bool // in a cloister that another box owns, and its group
	group  *cgroup
	term   *terminal
	status *os.File
	life   *os.File

	mu      sync.Mutex
	reaped  bool
	fate    unix.WaitStatus // of the first process
	reports []report
	lost    error // why the box was ended before its command
	keeping sync.WaitGroup
	over    *os.File      // hangs up when the first process is gone
	gone    chan struct{} // the first process has been waited for
	done    chan struct{} // nothing is left
	end     sandbox.Status
	err     error
}

// joint is what the parent and the child share while the box is built.
type joint struct {
	statusR, statusW int
	lifeR, lifeW     int
	goR, goW         int
	execR, execW     int
	ctlP, ctlC       int
	stdio            [3]int // duplicates of the caller's descriptors, for the child
	tty              [3]bool
	files            [3]stdFile
	mounts           detached
}

// Start builds the enclosure and runs the command.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	abi := landlockVersion()
	if abi < landlockABI {
		return nil, &sandbox.Unsupported{
			Guarantee: "Landlock", Reason: fmt.Sprintf("this kernel offers ABI %d, %d is needed", abi, landlockABI),
			Fix: "use Linux 6.10 or newer with landlock among its security modules (lsm=landlock,…)",
		}
	}
	j, err := newJoint(w)
	if err != nil {
		return nil, err
	}
	defer j.closeChild()
	asRoot := os.Geteuid() == 0
	payloadID := os.Geteuid()
	if asRoot {
		payloadID = rootPayloadID()
		if err := j.cloneMounts(s.Binds, payloadID); err != nil {
			j.closeParent()
			return nil, err
		}
	}
	p, st, err := d.startProgram(s, j, abi, asRoot)
	if err != nil {
		j.closeParent()
		return nil, err
	}
	group, err := newCgroup(s.ID, s.Limits)
	if err != nil {
		if !accepted(s, err) {
			j.closeParent()
			return nil, err
		}
	}
	b := &box{group: group}
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP)
	if p.without(layerNet, s, nil) {
		flags &^= unix.CLONE_NEWNET
	}
	return d.run(ctx, b, flags, p, st, j, w, func() error { return writeMaps(b.pid, s.User.ID, payloadID, asRoot) }, s)
}

// Exec runs one more command inside the enclosure whose first process is init.
func (d *Driver) Exec(ctx context.Context, init int, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	pidfd, err := openCommand(init)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	j, err := newJoint(w)
	if err != nil {
		return nil, err
	}
	defer j.closeChild()
	inside, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		j.closeParent()
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	defer unix.Close(inside)
	p, st, err := d.joinProgram(s, j, inside)
	if err != nil {
		j.closeParent()
		return nil, err
	}
	pid, err := command(init)
	if err != nil {
		j.closeParent()
		return nil, err
	}
	b := &box{group: findCgroup(pid, s.ID), guest: true}
	return d.run(ctx, b, 0, p, st, j, w, func() error { return nil }, s)
}

// openCommand opens a process by which to enter: the command, the one child
// that the first process made. The first process itself cannot be entered by:
// its memory is a copy of the shim's, hidden from every unprivileged process.
func openCommand(init int) (int, error) {
	pid, err := command(init)
	if err != nil {
		return -1, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("join cloister: open process %d: %w", pid, err)
	}
	return pidfd, nil
}

// command is the host's number of the first child of a cloister's first process.
func command(init int) (int, error) {
	n := strconv.Itoa(init)
	text, err := os.ReadFile("/proc/" + n + "/task/" + n + "/children")
	if err != nil {
		return 0, fmt.Errorf("find command: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, errors.New("find command: it has ended")
	}
	return pid, nil
}

// rootPayloadID is the unprivileged host id of a payload that root starts: one
// of a range that systemd's list of uses leaves free, different for each shim.
func rootPayloadID() int { return 1_900_000_000 + os.Getpid()%4_194_304 }

func accepted(s sandbox.Spec, err error) bool {
	var u *sandbox.Unsupported
	return errors.As(err, &u) && u.Residue != "" && slices.Contains(s.Accepted, u.Residue)
}

func newJoint(w sandbox.Wiring) (*joint, error) {
	j := &joint{}
	pipe := func(r, wr *int) error {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("start native: open pipe: %w", err)
		}
		*r, *wr = fds[0], fds[1]
		return nil
	}
	for _, f := range []*int{&j.statusR, &j.statusW, &j.lifeR, &j.lifeW, &j.goR, &j.goW, &j.execR, &j.execW, &j.ctlP, &j.ctlC, &j.stdio[0], &j.stdio[1], &j.stdio[2]} {
		*f = -1
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start native: open socket pair: %w", err)
	}
	j.ctlP, j.ctlC = pair[0], pair[1]
	err = errors.Join(pipe(&j.statusR, &j.statusW), pipe(&j.lifeR, &j.lifeW), pipe(&j.goR, &j.goW), pipe(&j.execR, &j.execW))
	for i, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if err == nil {
			err = j.take(i, f)
		}
	}
	if err != nil {
		j.closeChild()
		j.closeParent()
		return nil, err
	}
	return j, nil
}

// take duplicates one of the caller's descriptors for the child. A terminal is
// never handed in, only relayed; a folder would be a way out of the view.
func (j *joint) take(i int, f *os.File) error {
	name := [3]string{"standard input", "standard output", "standard error"}[i]
	if f == nil {
		return fmt.Errorf("start native: %s is missing", name)
	}
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("start native: look at %s: %w", name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFBLK:
		return fmt.Errorf("start native: %s is a folder or a disk, which would be a way out of the cloister", name)
	}
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		j.tty[i] = true
		return nil
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return fmt.Errorf("start native: pass %s on: %w", name, err)
	}
	j.stdio[i] = dup
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return fmt.Errorf("start native: look at %s: %w", name, err)
		}
		j.files[i] = stdFile{dup, map[int]uint64{
			unix.O_RDONLY: unix.LANDLOCK_ACCESS_FS_READ_FILE,
			unix.O_WRONLY: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
			unix.O_RDWR:   unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		}[flags&unix.O_ACCMODE]}
	}
	return nil
}

func (j *joint) wantsTerminal() bool { return j.tty[0] || j.tty[1] || j.tty[2] }

func closeAll(fds ...*int) {
	for _, fd := range fds {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

func (j *joint) closeChild() {
	closeAll(&j.statusW, &j.lifeR, &j.goR, &j.execW, &j.ctlC, &j.stdio[0], &j.stdio[1], &j.stdio[2])
	for source, fd := range j.mounts {
		unix.Close(fd)
		delete(j.mounts, source)
	}
}

func (j *joint) closeParent() { closeAll(&j.statusR, &j.lifeW, &j.goW, &j.execR, &j.ctlP) }

// childFDs are the descriptors that the child keeps at first.
func (j *joint) childFDs(more ...int) []int {
	out := []int{0, 1, 2}
	for _, fd := range append([]int{j.statusW, j.lifeR, j.goR, j.execW, j.ctlC, j.stdio[0], j.stdio[1], j.stdio[2]}, more...) {
		if fd >= 0 {
			out = append(out, fd)
		}
	}
	for _, fd := range j.mounts {
		out = append(out, fd)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// closeOthers adds the steps that close every descriptor but those listed.
func (p *program) closeOthers(keep []int) {
	next := 0
	for _, fd := range keep {
		if fd > next {
			p.sys("close descriptors", unix.SYS_CLOSE_RANGE, next, fd-1, 0)
		}
		next = fd + 1
	}
	p.sys("close descriptors", unix.SYS_CLOSE_RANGE, next, uintptr(^uint32(0)), 0)
}

func newChildState(j *joint) *childState {
	return &childState{status: int32(j.statusW), life: int32(j.lifeR), signals: -1}
}

// await adds the step that waits for the parent's word.
func (p *program) await(name string, j *joint) {
	p.sys(name, unix.SYS_READ, j.goR, make([]byte, 1), 1).want(1)
}

func (d *Driver) startProgram(s sandbox.Spec, j *joint, abi int, asRoot bool) (*program, *childState, error) {
	p, st := newProgram(), newChildState(j)
	p.closeOthers(j.childFDs())
	p.await("wait for the id map", j)
	if asRoot {
		p.sys("leave groups", unix.SYS_SETGROUPS, 0, 0)
		p.sys("become the payload's group", unix.SYS_SETRESGID, s.User.ID, s.User.ID, s.User.ID)
		p.sys("become the payload's user", unix.SYS_SETRESUID, s.User.ID, s.User.ID, s.User.ID)
	}
	p.sys("die with the shim", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	p.sys("name process", unix.SYS_PRCTL, unix.PR_SET_NAME, "cloister-init", 0, 0, 0)
	p.sys("set umask", unix.SYS_UMASK, 0)
	p.sys("set host name", unix.SYS_SETHOSTNAME, hostname(s), len(hostname(s)))
	p.sys("set domain name", unix.SYS_SETDOMAINNAME, "", 0)
	p.sys("lead a session", unix.SYS_SETSID)
	if s.Network && !p.without(layerNet, s, nil) {
		if err := d.buildGate(p, j.ctlC); err != nil {
			return nil, nil, err
		}
	}
	if !p.without(layerView, s, j.mounts) {
		if _, err := p.buildView(s, j.mounts); err != nil {
			return nil, nil, err
		}
	}
	slave := p.openTerminal(j)
	p.buildLimits(s.Limits)
	if err := d.restrict(p, s, abi, j); err != nil {
		return nil, nil, err
	}
	p.signals(st)
	p.buildPayload(s, j, slave)
	p.buildGuard(j, slave)
	return p, st, nil
}

// joinProgram is Exec's: enter the namespaces, then the same restrictions.
func (d *Driver) joinProgram(s sandbox.Spec, j *joint, pidfd int) (*program, *childState, error) {
	p, st := newProgram(), newChildState(j)
	p.closeOthers(j.childFDs(pidfd))
	p.await("wait for the parent", j)
	p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	p.sys("enter the cloister", unix.SYS_SETNS, pidfd, unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWNET|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS|unix.CLONE_NEWCGROUP)
	p.sys("close the way in", unix.SYS_CLOSE, pidfd)
	if os.Geteuid() == 0 {
		p.sys("leave groups", unix.SYS_SETGROUPS, 0, 0)
		p.sys("become the payload's group", unix.SYS_SETRESGID, s.User.ID, s.User.ID, s.User.ID)
		p.sys("become the payload's user", unix.SYS_SETRESUID, s.User.ID, s.User.ID, s.User.ID)
		p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	p.sys("die with the shim", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	p.sys("lead a session", unix.SYS_SETSID)
	slave := p.openTerminal(j)
	p.buildLimits(s.Limits)
	if err := d.restrict(p, s, landlockVersion(), j); err != nil {
		return nil, nil, err
	}
	p.signals(st)
	p.buildPayload(s, j, slave)
	p.buildGuard(j, slave)
	return p, st, nil
}

// restrict adds the walls that a process puts around itself, seccomp last.
func (d *Driver) restrict(p *program, s sandbox.Spec, abi int, j *joint) error {
	if !p.without(layerCapabilities, s, nil) {
		p.buildPrivileges()
	}
	if !p.without(layerLandlock, s, nil) {
		p.buildLandlock(abi, writable(s), j.files)
	}
	if p.without(layerSeccomp, s, nil) {
		return nil
	}
	return d.buildSeccomp(p)
}

// writable lists the places that Landlock lets the payload write.
func writable(s sandbox.Spec) []string {
	out := []string{"/tmp"}
	for _, b := range s.Binds {
		if b.Access == sandbox.ReadWrite {
			out = append(out, string(b.Target))
		}
	}
	return out
}

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
	p.sys("open terminal", unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0).to(master)
	p.sys("unlock terminal", unix.SYS_IOCTL, master, unix.TIOCSPTLCK, make([]byte, 4))
	p.sys("open terminal's inside", unix.SYS_IOCTL, master, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC).to(slave)
	p.send("hand out the terminal", j.ctlC, space)
	p.sys("close terminal", unix.SYS_CLOSE, master)
	return slave
}

// signals opens the descriptor on which the first process hears signals. All
// stay blocked in it.
func (p *program) signals(st *childState) {
	st.sigset = ^uint64(0)
	p.sys("open signal descriptor", unix.SYS_SIGNALFD4, -1, pointerTo(&st.sigset), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK).to(&st.signals)
}

func (p *program) buildPayload(s sandbox.Spec, j *joint, slave *int32) {
	p.in(&p.payload)
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
	p.sys("go to "+string(s.Dir), unix.SYS_CHDIR, string(s.Dir))
	p.buildProbe(s)
	p.sys("tell that the command is there", unix.SYS_WRITE, j.ctlC, []byte{1}, 1).optional()
	p.await("wait for the guardian", j)
	p.sys("close descriptors at execution", unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	p.sys("let signals in", unix.SYS_RT_SIGPROCMASK, 2, make([]byte, 8), 0, 8)
	argv, env := p.words(s.Argv), p.words(s.Env)
	for _, file := range candidates(s) {
		o := p.sys("execute "+file, unix.SYS_EXECVE, file, argv, env)
		o.kind = execute
	}
}

// buildGuard lets go of what only the payload needs.
func (p *program) buildGuard(j *joint, slave *int32) {
	p.in(&p.afterFork)
	null := p.cell()
	p.sys("open /dev/null", unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0).to(null)
	for i := range 3 {
		p.sys("disconnect standard descriptor", unix.SYS_DUP3, null, i, 0)
	}
	p.sys("close /dev/null", unix.SYS_CLOSE, null)
	for _, fd := range []int{j.execW, j.goR, j.ctlC, j.stdio[0], j.stdio[1], j.stdio[2]} {
		if fd >= 0 {
			p.sys("close descriptor", unix.SYS_CLOSE, fd)
		}
	}
	if slave != nil {
		p.sys("close terminal", unix.SYS_CLOSE, slave)
	}
}

// run forks, lets the child build, and hands its sockets to the caller.
func (d *Driver) run(ctx context.Context, b *box, flags uintptr, p *program, st *childState, j *joint, w sandbox.Wiring, admit func() error, s sandbox.Spec) (sandbox.Box, error) {
	b.done, b.gone = make(chan struct{}), make(chan struct{})
	forked := make(chan error, 1)
	// Until its ids are mapped the child's /proc files must be this user's; the
	// child hides the memory again before anything else runs inside. A shim
	// starts one box, so none is open to another's payload meanwhile.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		j.closeParent()
		return nil, errors.Join(fmt.Errorf("start native: %w", err), b.group.remove())
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
		return nil, errors.Join(err, b.group.remove())
	}
	b.status = os.NewFile(uintptr(j.statusR), "status")
	b.life = os.NewFile(uintptr(j.lifeW), "life")
	// The end waits for the keeper, or for the word that there is none.
	b.keeping.Add(1)
	unkept := sync.OnceFunc(b.keeping.Done)
	go b.settle()
	control, word, executed := os.NewFile(uintptr(j.ctlP), "control"), os.NewFile(uintptr(j.goW), "go"), os.NewFile(uintptr(j.execR), "exec")
	defer control.Close()
	defer word.Close()
	defer executed.Close()

	abort := func(err error) (sandbox.Box, error) {
		unkept()
		return nil, errors.Join(err, b.Close())
	}
	step := func(err error) error {
		// What the child says about itself explains more than a broken pipe.
		if r, ok := b.failure(); ok {
			return p.explain(r, s)
		}
		return b.died(err)
	}
	if err := admit(); err != nil {
		return abort(step(err))
	}
	if _, err := word.Write([]byte{1}); err != nil {
		return abort(step(fmt.Errorf("start native: %w", err)))
	}
	if flags&unix.CLONE_NEWNET != 0 && s.Network {
		gate, err := receiveGate(int(control.Fd()))
		if err != nil {
			return abort(step(err))
		}
		if err := w.Arm(ctx, gate, b.pid); err != nil {
			return abort(err)
		}
	}
	if j.wantsTerminal() {
		fds, err := receive(int(control.Fd()), 1)
		if err != nil {
			return abort(step(err))
		}
		b.term, err = newTerminal(fds[0], w, j.tty)
		if err != nil {
			return abort(err)
		}
	}
	if b.group != nil {
		// The command alone enters the group: the first process shares the
		// shim's memory, and a group that is out of memory would end both.
		if _, err := control.Read(make([]byte, 1)); err != nil {
			return abort(step(fmt.Errorf("start native: %w", err)))
		}
		pid, err := command(b.pid)
		if err == nil {
			err = b.group.add(pid)
		}
		if err != nil {
			return abort(step(err))
		}
	}
	if _, err := word.Write([]byte{1}); err != nil {
		return abort(step(fmt.Errorf("start native: %w", err)))
	}
	// The pipe ends when the command has been executed, or was not.
	if _, err := io.ReadAll(executed); err != nil {
		return abort(fmt.Errorf("start native: %w", err))
	}
	if r, ok := b.failure(); ok {
		return abort(p.explain(r, s))
	}
	if flags == 0 || len(s.Protect) == 0 || p.without(layerProtect, s, nil) {
		unkept()
	} else {
		over, end, err := os.Pipe()
		if err != nil {
			return abort(fmt.Errorf("start native: %w", err))
		}
		b.over = over
		go func() {
			defer unkept()
			defer over.Close()
			b.keep(s)
		}()
		go func() {
			<-b.gone
			end.Close()
		}()
	}
	return b, nil
}

// died adds how the first process ended to an error that its end explains.
func (b *box) died(err error) error {
	select {
	case <-b.gone:
	case <-time.After(100 * time.Millisecond):
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fate.Signaled() {
		return fmt.Errorf("%w (the first process was ended by %v)", err, b.fate.Signal())
	}
	return err
}

// reap waits for the first process, and with it for everything inside: the
// kernel ends a process namespace before its first process can be waited for.
func (b *box) reap() {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(b.pid, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	b.mu.Lock()
	b.reaped, b.fate = true, ws
	b.mu.Unlock()
	close(b.gone)
}

// settle runs once the first process is gone: it learns how the command ended
// and removes what Start made.
func (b *box) settle() {
	<-b.gone
	reports := b.drain()
	b.end = sandbox.Status{Signal: int(unix.SIGKILL)} // unless the command's own end was reported
	for _, r := range reports {
		if r.Kind == reportEnd {
			ws := unix.WaitStatus(r.Value)
			b.end = sandbox.Status{Code: ws.ExitStatus()}
			if ws.Signaled() {
				b.end = sandbox.Status{Signal: int(ws.Signal())}
			}
		}
	}
	if b.term != nil {
		b.term.finish()
	}
	b.mu.Lock()
	b.status.Close()
	b.status = nil
	b.mu.Unlock()
	b.life.Close()
	b.keeping.Wait()
	b.err = b.lost
	if !b.guest {
		b.err = errors.Join(b.err, b.group.remove())
	}
	close(b.done)
}

// drain takes the reports that are there and gives all that ever came.
func (b *box) drain() []report {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status == nil {
		return slices.Clone(b.reports)
	}
	fd := int(b.status.Fd())
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 0); err != nil || n == 0 || ready[0].Revents&unix.POLLIN == 0 {
			return slices.Clone(b.reports)
		}
		var r report
		if n, err := unix.Read(fd, r.bytes()); err != nil || n != len(r.bytes()) {
			return slices.Clone(b.reports)
		}
		b.reports = append(b.reports, r)
	}
}

func (b *box) failure() (report, bool) {
	for _, r := range b.drain() {
		if r.Kind != reportEnd {
			return r, true
		}
	}
	return report{}, false
}

// Init is the first process.
func (b *box) Init() int { return b.pid }

// Signal passes a signal on: the first process hears it and hands it over.
func (b *box) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal cloister: %v is no signal", sig)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return os.ErrProcessDone
	}
	return unix.Kill(b.pid, n)
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	if b.term == nil {
		return nil
	}
	return b.term.resize()
}

// Wait returns when the command has ended and all of it is gone.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.done
	return b.end, b.err
}

// Close ends everything at once.
func (b *box) Close() error {
	if err := b.kill(); err != nil {
		return err
	}
	<-b.done
	return b.err
}

func (b *box) kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return nil
	}
	if err := unix.Kill(b.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end cloister: %w", err)
	}
	return nil
}

// explain puts a child's report into words.
func (p *program) explain(r report, s sandbox.Spec) error {
	list := p.setup
	switch r.Kind {
	case reportPayload:
		list = p.payload
	case reportAfter:
		list = p.afterFork
	case reportExec:
		errno := unix.Errno(r.Errno)
		missing := errno == 0 || errno == unix.ENOENT || errno == unix.ENOTDIR
		return &sandbox.ExecError{Command: s.Argv[0], NotFound: missing, Err: errno}
	}
	name, errno := "fork", unix.Errno(r.Errno)
	var o op
	if r.Index >= 0 && int(r.Index) < len(list) {
		o = list[r.Index]
		name = o.name
	}
	if o.expect == failWith && errno == 0 {
		return fmt.Errorf("start native: %s: it was not", name)
	}
	if errno == 0 {
		return fmt.Errorf("start native: %s: unexpected answer", name)
	}
	return stepError(name, errno)
}

// stepError adds the fix to the failures that a host's settings explain.
func stepError(name string, errno unix.Errno) error {
	err := fmt.Errorf("start native: %s: %w", name, errno)
	if errno == unix.EPERM || errno == unix.EACCES {
		switch name {
		case "make mounts private", "create tmpfs", "mount tmpfs":
			return &sandbox.Unsupported{Guarantee: "mount view", Reason: err.Error(), Fix: "a security module keeps user namespaces from mounting: see cloister doctor"}
		case "create proc", "mount proc":
			return &sandbox.Unsupported{Guarantee: "process isolation", Reason: err.Error(), Fix: "the host's /proc is masked, as in a container: start the container with --security-opt systempaths=unconfined"}
		}
	}
	return err
}

// namespaceError says why the kernel gave no namespaces.
func namespaceError(errno syscall.Errno) error {
	u := &sandbox.Unsupported{Guarantee: "namespaces", Reason: "start native: create namespaces: " + errno.Error(), Fix: "see cloister doctor"}
	switch errno {
	case unix.EPERM:
		u.Fix = "let this user make user namespaces: sysctl kernel.unprivileged_userns_clone=1; on Ubuntu 24.04 also kernel.apparmor_restrict_unprivileged_userns=0 or a profile for cloister (cloister doctor)"
	case unix.ENOSPC, unix.EUSERS:
		u.Fix = "raise user.max_user_namespaces (and max_net_namespaces, max_mnt_namespaces)"
	}
	return u
}

// writeMaps gives the child its one id: inside the user's, outside the payload's.
func writeMaps(pid, inside, outside int, asRoot bool) error {
	one := strconv.Itoa(inside) + " " + strconv.Itoa(outside) + " 1\n"
	group := one
	if !asRoot {
		group = strconv.Itoa(inside) + " " + strconv.Itoa(os.Getegid()) + " 1\n"
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if !asRoot {
		// Without the power over groups, giving up setgroups is the price of a
		// group map (user_namespaces(7)).
		if err := writeProc(proc+"/setgroups", "deny"); err != nil {
			return fmt.Errorf("start native: give up groups: %w", err)
		}
	}
	if err := writeProc(proc+"/uid_map", one); err != nil {
		return fmt.Errorf("start native: map user id: %w", err)
	}
	if err := writeProc(proc+"/gid_map", group); err != nil {
		return fmt.Errorf("start native: map group id: %w", err)
	}
	return nil
}

func writeProc(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// receive takes n descriptors that the child sent in one message.
func receive(socket, n int) ([]int, error) {
	space, data := make([]byte, unix.CmsgSpace(4*n)), make([]byte, 1)
	for {
		got, oob, flags, _, err := unix.Recvmsg(socket, data, space, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("start native: hear from the child: %w", err)
		}
		if got == 0 || flags&unix.MSG_CTRUNC != 0 {
			return nil, errors.New("start native: the child ended early")
		}
		messages, err := unix.ParseSocketControlMessage(space[:oob])
		if err != nil || len(messages) != 1 {
			return nil, fmt.Errorf("start native: read the child's descriptors: %w", err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != n {
			return nil, fmt.Errorf("start native: read the child's descriptors: %d of %d: %w", len(fds), n, err)
		}
		return fds, nil
	}
}

func receiveGate(socket int) (sandbox.Gate, error) {
	n := 3
	if haveIPv6() {
		n = 6
	}
	fds, err := receive(socket, n)
	if err != nil {
		return sandbox.Gate{}, err
	}
	file := func(i int, name string) *os.File {
		if i >= len(fds) {
			return nil
		}
		return os.NewFile(uintptr(fds[i]), name)
	}
	return sandbox.Gate{
		TCP4: file(0, "gate"), DNS4: file(1, "dns"), DNSTCP4: file(2, "dns over tcp"),
		TCP6: file(3, "gate6"), DNS6: file(4, "dns6"), DNSTCP6: file(5, "dns6 over tcp"),
	}, nil
}

// cloneMounts takes detached copies of the binds' mounts while the parent still
// may, with the owner's files shown as the payload's.
func (j *joint) cloneMounts(binds []sandbox.Bind, payloadID int) error {
	j.mounts = detached{}
	spaces := map[uint32]*idSpace{}
	defer func() {
		for _, s := range spaces {
			s.close()
		}
	}()
	for _, b := range binds {
		if b.System || j.mounts[b.Source] != 0 {
			continue
		}
		at, err := unix.Openat2(unix.AT_FDCWD, string(b.Source), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return fmt.Errorf("start native: open %s: %w", b.Source, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(at, &st)
		fd := -1
		if err == nil {
			fd, err = unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
		}
		unix.Close(at)
		if err != nil {
			return fmt.Errorf("start native: clone mount of %s: %w", b.Source, err)
		}
		j.mounts[b.Source] = fd
		space := spaces[st.Uid]
		if space == nil {
			if space, err = newIDSpace(int(st.Uid), int(st.Gid), payloadID); err != nil {
				return err
			}
			spaces[st.Uid] = space
		}
		attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space.fd)}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
			return &sandbox.Unsupported{
				Guarantee: "file ownership", Reason: fmt.Sprintf("start native: map the owner of %s: %v", b.Source, err),
				Fix: "the file system under it has no id-mapped mounts (Linux 5.12 and ext4, xfs, btrfs, tmpfs have): run cloister as an ordinary user there",
			}
		}
	}
	return nil
}

// idSpace is a user namespace that only serves to map a file owner.
type idSpace struct{ fd int }

func (s *idSpace) close() { unix.Close(s.fd) }

// newIDSpace makes a user namespace in which the owner on disk is the payload.
func newIDSpace(uid, gid, payloadID int) (*idSpace, error) {
	var hold [2]int
	if err := unix.Pipe2(hold[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("start native: map file owner: %w", err)
	}
	p := newProgram()
	p.sys("let go", unix.SYS_CLOSE, hold[1])
	p.sys("hold the namespace", unix.SYS_READ, hold[0], make([]byte, 1), 1).optional()
	p.sys("end", unix.SYS_EXIT_GROUP, 0)
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	st := &childState{status: -1}
	pid, errno := spawn(unix.CLONE_NEWUSER, p, st)
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	unix.Close(hold[0])
	if errno != 0 {
		unix.Close(hold[1])
		return nil, namespaceError(errno)
	}
	proc := "/proc/" + strconv.Itoa(pid)
	err := errors.Join(
		writeProc(proc+"/uid_map", fmt.Sprintf("%d %d 1\n", uid, payloadID)),
		writeProc(proc+"/gid_map", fmt.Sprintf("%d %d 1\n", gid, payloadID)),
	)
	fd := -1
	if err == nil {
		fd, err = unix.Open(proc+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	unix.Close(hold[1])
	for {
		if _, e := unix.Wait4(pid, nil, 0, nil); e != unix.EINTR {
			break
		}
	}
	runtime.KeepAlive(st)
	p.alive()
	if err != nil {
		return nil, fmt.Errorf("start native: map file owner: %w", err)
	}
	return &idSpace{fd: fd}, nil
}

// candidates are the files that the command's name may mean inside.
func candidates(s sandbox.Spec) []string {
	name := s.Argv[0]
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, e := range s.Env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				if dir == "" {
					dir = "."
				}
				out = append(out, dir+"/"+name)
			}
		}
	}
	return out
}
