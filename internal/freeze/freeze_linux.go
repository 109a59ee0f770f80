// Package freeze holds the processes of one PID namespace still for a moment.
//
// The promise: when [Processes] returns nil no thread of the namespace but of its first
// process runs, and a process that was started meanwhile is stopped too. What goes on by
// itself before thaw, as a timer that sends SIGCONT has it, makes thaw return [ErrRan]. It
// needs no control group and no privilege but being the owner of the processes. It says
// so where the namespace does not come to rest in time, and lets all go on.
//
// The first process is the caller's own, and goes on. A stopped program notices
// nothing but the time that passed, unless its parent waits for stops.
package freeze

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRan says that something in the namespace ran before it was let go on: what was read
// meanwhile may be of different moments. All go on nevertheless.
var ErrRan = errors.New("freeze: a process went on while it was held still")

// within bounds the time until all are stopped.
const within = 2 * time.Second

// Processes stops all processes in the PID namespace of init, but init itself.
func Processes(init int) (thaw func() error, err error) {
	space, err := namespaceOf(init)
	if err != nil {
		return nil, fmt.Errorf("freeze: %w", err)
	}
	l := &looks{space: space, init: init, foreign: map[process]bool{}}
	var rest map[int]uint64 // the threads at rest, with how often each had run; nil while one runs
	thaw = func() error {
		running, stopped, err := l.members()
		if err == nil && rest != nil && (len(running) > 0 || !maps.Equal(rest, runs(stopped))) {
			err = ErrRan
		}
		for _, pid := range append(running, stopped...) {
			if kerr := unix.Kill(pid, unix.SIGCONT); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
				err = errors.Join(err, fmt.Errorf("thaw process %d: %w", pid, kerr))
			}
		}
		return err
	}
	// One process may let another go on that was already looked at, as a debugger may: the
	// namespace is at rest when two looks in a row find none that runs, and none that ran
	// between them.
	for deadline := time.Now().Add(within); ; {
		running, stopped, err := l.members()
		if err == nil && len(running) == 0 {
			now := runs(stopped)
			if rest != nil && maps.Equal(rest, now) {
				return thaw, nil
			}
			rest = now
		} else {
			rest = nil
		}
		for _, pid := range running {
			if kerr := unix.Kill(pid, unix.SIGSTOP); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
				err = errors.Join(err, kerr)
			}
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("the processes did not come to rest within %v: %d run", within, len(running))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("freeze: %w", err), thaw())
		}
	}
}

// namespaceOf names the PID namespace of which a process is the first. Any other process
// is refused: its namespace may be the host's own.
func namespaceOf(init int) (string, error) {
	if init <= 1 {
		return "", fmt.Errorf("process %d is not the first of a cloister", init)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", init))
	if err != nil {
		return "", err
	}
	if !firstInside(string(status)) {
		return "", fmt.Errorf("process %d is not the first of a cloister", init)
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if errors.Is(err, fs.ErrPermission) {
		space, err = namespaceOfChild(init) // the first process hides all of itself
	}
	if err == nil && space == own {
		err = fmt.Errorf("process %d is not the first of a cloister", init)
	}
	return space, err
}

// namespaceOfChild asks a child of the first process, which is in the same namespace.
func namespaceOfChild(init int) (string, error) {
	list, err := processes()
	if err != nil {
		return "", err
	}
	for _, p := range list {
		pid := p.pid
		if _, parent := state(pid); parent == init {
			if space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil {
				return space, nil
			}
		}
	}
	return "", fmt.Errorf("process %d has no child that can be looked at", init)
}

// firstInside reads the numbers that a process has in each namespace (proc(5), NSpid).
func firstInside(status string) bool {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			numbers := strings.Fields(rest)
			return len(numbers) > 1 && numbers[len(numbers)-1] == "1"
		}
	}
	return false
}

// atRest reports whether all threads of a process are stopped. Its first may have ended
// before the others: it is alive as long as one of them is. A thread that waits for another process, as one
// whose call is held does, stops when it is let go on, before it runs, where a stop was sent to its process.
func atRest(pid int) (still, alive bool) {
	still = true
	stopped, held := false, false
	for _, tid := range threads(pid) {
		switch letter, _ := state(tid); letter {
		case 'T', 't':
			alive, stopped = true, true
		case 'Z', 'X', 0:
		case 'D':
			alive, held = true, true
			still = still && waits(tid)
		default:
			still, alive = false, true
		}
	}
	return still && (!held || stopped || stops(pid)), alive
}
