package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
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
		// Whether the kill finds somebody or not: Wait tells the reason.
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
	// Milliseconds. The event comes at once, but one in some twenty was missed
	// when a file was replaced (Linux 6.18), so the mounts are also looked at
	// unasked; a look costs 0.1 ms.
	const idle = 250
	// What is being replaced is back in a moment. What stays away, as a folder of
	// the project that somebody took away on the host does, is looked for at the
	// cost of half a hundredth of a processor.
	const soon, late = 2, 32
	wait, absent := 0, soon // the first look is at what changed before the watch began
	for {
		// mountinfo is in error when it has changed (proc(5)).
		ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}, {Fd: int32(over.Fd())}}
		changed, err := unix.Poll(ready, wait)
		select {
		case <-b.gone:
			return nil
		default:
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch protected paths: %w", err)
		}
		whole, err := b.mend(f, s)
		if err != nil {
			return b.unlessGone(err)
		}
		if changed > 0 {
			absent = soon
		}
		wait = idle
		if !whole {
			wait, absent = absent, min(2*absent, late)
		}
	}
}

// unlessGone is nil when the cloister has ended meanwhile: then there is nothing
// to protect, and every error comes from that.
func (b *box) unlessGone(err error) error {
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

// mend covers what has lost its mount. It is not whole as long as one of the
// paths is absent or just being replaced: the kernel takes the mount away in the
// midst of a rename, when the new file cannot be mounted on yet.
func (b *box) mend(mountinfo *os.File, s sandbox.Spec) (whole bool, err error) {
	mounted, err := mountPoints(mountinfo)
	if err != nil {
		return false, err
	}
	var missing []sandbox.Protect
	whole = true
	for _, t := range s.Protect {
		if mounted[string(t.Target)] {
			continue
		}
		whole = false
		fi, err := b.look(t)
		if err != nil {
			continue
		}
		if t.Yields && (t.File == fi.IsDir() || !fi.IsDir() && fi.Mode()&os.ModeSocket == 0) {
			t.Empty = false // somebody's own by now: it is held as it is
		}
		if fi.IsDir() {
			t.Instead = ""
		}
		t.File = !fi.IsDir()
		missing = append(missing, t)
	}
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
	p.sys("enter the cloister", unix.SYS_SETNS, pidfd, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)
	if os.Geteuid() == 0 {
		p.sys("become the payload's group", unix.SYS_SETRESGID, s.User.ID, s.User.ID, s.User.ID)
		p.sys("become the payload's user", unix.SYS_SETRESUID, s.User.ID, s.User.ID, s.User.ID)
	}
	v := &view{p: p, root: p.cell(), made: map[string]bool{nothing: true, blank: true}}
	p.sys("open root", unix.SYS_OPENAT, unix.AT_FDCWD, "/", unix.O_PATH|unix.O_CLOEXEC, 0).to(v.root)
	v.protect(missing)
	p.sys("end", unix.SYS_EXIT_GROUP, 0)
	err = runHelper(p, st, "cover protected paths again")
	if errors.Is(err, unix.ENOENT) {
		err = nil // replaced once more; the next round covers it
	}
	return false, err
}

// look looks at a protected path.
func (b *box) look(t sandbox.Protect) (os.FileInfo, error) {
	fi, err := os.Lstat("/proc/" + strconv.Itoa(b.pid) + "/root" + string(t.Target))
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		// The first process is closed to its own user; the project lies at the
		// same path outside.
		fi, err = os.Lstat(string(t.Target))
	}
	return fi, err
}

// mountPoints are the places on which something is mounted.
func mountPoints(mountinfo *os.File) (map[string]bool, error) {
	if _, err := mountinfo.Seek(0, 0); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var text strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := mountinfo.Read(buf)
		text.Write(buf[:n])
		if err != nil || n == 0 {
			break // the end; a cloister that has gone has no mounts, and nothing to mend
		}
	}
	out := map[string]bool{}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text.String()) {
		if fields := strings.Fields(line); len(fields) > 4 {
			out[unescape.Replace(fields[4])] = true
		}
	}
	return out, nil
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
