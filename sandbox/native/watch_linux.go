package native

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/watch"
)

// judged reports whether the kernel's own judge is what keeps or tells of files and programs.
func judged(s sandbox.Spec) bool { return s.InKernel || len(s.Judged) > 0 }

// unjudged refuses a command of which the kernel's judge would not be asked: Landlock leaves to that
// what a list permits.
func unjudged(reason string) error {
	return &sandbox.Unsupported{
		Guarantee: "files and programs judged by the kernel", Reason: "start native: " + reason,
		Fix: "run as root or install root's service (cloister lsm install), with control groups of version 2; start it anew",
	}
}

// watched reports whether a box tells of files and programs: where its caller listens, and the
// host's kernel runs the command.
func watched(s sandbox.Spec, h *Hosted, w sandbox.Wiring) bool {
	if judged(s) && !s.Watched.ByName {
		return false // the kernel tells
	}
	return w.Watched != nil && h == nil && s.Watched.Any()
}

// unasked refuses a box with files about which no person is asked: the caller does not, or nothing holds
// a call.
func unasked(s sandbox.Spec, h *Hosted, w sandbox.Wiring) error {
	if len(s.Watched.Asked) == 0 || w.Ask != nil && watched(s, h, w) && !judged(s) {
		return nil
	}
	return &sandbox.Unsupported{
		Guarantee: "a person is asked about files", Reason: "start native: ask is not possible here: nothing holds a call " +
			"until a person has answered",
		Fix: "permit or forbid the file, or go on without the statement (--accept residue:policy:NAME)",
	}
}

// buildWatch adds the filter by which the kernel asks before certain calls, and hands its
// listener to the parent. It is not killed by signals in between: Go's runtime sends itself
// some all the time, and a call that is asked for again each time would never be made.
func (p *program) buildWatch(about sandbox.Watched, j *joint) error {
	f, err := watch.Filter(about)
	if err != nil {
		return err
	}
	prog := &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	p.keep = append(p.keep, f)
	space := make([]byte, unix.CmsgSpace(4))
	h := cmsgAt(space)
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	h.SetLen(unix.CmsgLen(4))
	listener := &cmsgInts(space, 1)[0]
	p.sys("watch system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, pointerTo(prog)).to(listener)
	p.send("hand out the listener", j.ctlC, space)
	p.sys("close the listener", unix.SYS_CLOSE, listener)
	return nil
}

// beginWatch takes the listener and serves it: the child waits for that at its next call.
func (b *box) beginWatch(j *joint, w sandbox.Wiring, s sandbox.Spec) error {
	fds, err := receive(j.ctlP, 1)
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	b.watch = watch.Begin(os.NewFile(uintptr(fds[0]), "listener"), b.pid, string(s.Dir), s.Watched, w.Watched,
		w.Ask)
	return nil
}
