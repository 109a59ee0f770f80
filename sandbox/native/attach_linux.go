package native

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/sandbox/onhost"
	"cloister/sandbox/relay"

	"golang.org/x/sys/unix"
)

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
	// The command is to be ended before this process and the guardian, and inherits that: its own file
	// belongs to root until it is executed. The first process has this one's memory, and with it its score.
	b.unscored = onhost.EndedFirst()
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
	defer b.unscored()
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
