package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/remount"
)

// keepAfter is when the keeper first looks: at all that changed since the start,
// and not at all when the command is over before.
const keepAfter = 5 * time.Millisecond

// startKeeper begins to watch over the protected paths.
func (b *box) startKeeper(s sandbox.Spec) {
	go func() {
		defer b.unkept()
		first := time.NewTimer(keepAfter)
		defer first.Stop()
		select {
		case <-b.gone:
		case <-first.C:
			b.keep(s)
		}
	}()
}

// keep watches over the protected paths while the command runs. The kernel takes
// a mount away when the file under it is removed or replaced from outside, as
// an editor or git on the host does; the path is covered again at once. Where
// that fails the cloister is ended, and Wait tells why.
func (b *box) keep(s sandbox.Spec) {
	if err := b.watchMounts(s); err != nil {
		b.mu.Lock()
		b.lost = err
		b.mu.Unlock()
		// Whether the kill finds someone or not: Wait tells the reason.
		_ = b.kill()
	}
}

func (b *box) watchMounts(s sandbox.Spec) error {
	over, end, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch protected paths: %w", err)
	}
	defer over.Close()
	go func() {
		<-b.gone
		end.Close()
	}()
	f, err := os.Open("/proc/" + strconv.Itoa(b.pid) + "/mountinfo")
	if err != nil {
		return b.unlessGone(fmt.Errorf("watch protected paths: %w", err))
	}
	defer f.Close()
	return b.unlessGone(remount.Watch(f, over, func(mounted map[string]bool) (bool, error) { return b.mend(mounted, s) }))
}

// unlessGone is nil when the cloister has ended meanwhile: then there is nothing
// to protect, and every error comes from that.
func (b *box) unlessGone(err error) error {
	if err == nil {
		return nil
	}
	patience := 200 * time.Millisecond
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) || errors.Is(err, errEnded) {
		// A process without a mount namespace is on its way out (fs/proc_namespace.c),
		// as is a cloister without its command: on a busy machine the rest of the way
		// takes longer.
		patience = 10 * time.Second
	}
	select {
	case <-b.gone:
		return nil
	case <-time.After(patience):
		select {
		case <-b.gone:
			return nil
		default:
			return err
		}
	}
}

// mend covers what has lost its mount.
func (b *box) mend(mounted map[string]bool, s sandbox.Spec) (whole bool, err error) {
	there := func(at sandbox.GuestPath) bool { return mounted[b.viewPath(at)] }
	missing, whole := remount.Missing(s.Protect, there, b.look)
	if len(missing) == 0 {
		return whole, nil
	}
	pidfd, err := openCommand(b.pid)
	if err != nil {
		return false, err
	}
	defer unix.Close(pidfd)
	p, st := newProgram(), &childState{status: -1}
	p.closeOthers([]int{0, 1, 2, pidfd})
	p.sys("enter the cloister", unix.SYS_SETNS, pidfd, b.lent.namespaces(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	switch {
	case b.lent != nil:
		p.lend(b.lent)
		p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	case os.Geteuid() == 0:
		p.sys("become the payload's group", unix.SYS_SETRESGID, s.User.ID, s.User.ID, s.User.ID)
		p.sys("become the payload's user", unix.SYS_SETRESUID, s.User.ID, s.User.ID, s.User.ID)
		// The memory is the shim's own, and the first process's too.
		p.sys("hide memory", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	v := &view{p: p, root: p.cell()}
	p.sys("open root", unix.SYS_OPENAT, unix.AT_FDCWD, b.viewPath("/"), unix.O_PATH|unix.O_CLOEXEC, 0).to(v.root)
	for _, t := range missing { // ancestors first
		v.cover(t)
	}
	p.sys("end", unix.SYS_EXIT_GROUP, 0)
	err = runHelper(p, st, "cover protected paths again")
	if errors.Is(err, unix.ENOENT) {
		err = nil // replaced once more; the next round covers it
	}
	return false, err
}

// look gives the kind of file at a protected path.
func (b *box) look(t sandbox.Protect) (kind uint32, ok bool) {
	var st unix.Stat_t
	err := unix.Lstat("/proc/"+strconv.Itoa(b.pid)+"/root"+b.viewPath(t.Target), &st)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		// The first process is closed to its own user; the project lies at the
		// same path outside.
		err = unix.Lstat(string(t.Target), &st)
	}
	return st.Mode & unix.S_IFMT, err == nil
}

// runHelper runs a program that consists of set-up alone and waits for it.
func runHelper(p *program, st *childState, what string) error {
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	pid, errno := spawn(0, p, st)
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	if errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	runtime.KeepAlive(st)
	p.alive()
	if ws.ExitStatus() == 0 && !ws.Signaled() {
		return nil
	}
	if r := st.report; r.Kind == reportSetup && int(r.Index) < len(p.setup[partView]) {
		return fmt.Errorf("%s: %s: %w", what, p.setup[partView][r.Index].name, unix.Errno(r.Errno))
	}
	return fmt.Errorf("%s: the helper ended with %v", what, ws)
}
