// Package freeze holds the processes of one PID namespace still for a moment.
//
// The promise: when [Processes] returns nil no process of the namespace but its first
// runs, until thaw is called; a process that was started meanwhile is stopped too. It
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
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// within bounds the time until all are stopped.
const within = 2 * time.Second

// Processes stops all processes in the PID namespace of init, but init itself.
func Processes(init int) (thaw func() error, err error) {
	space, err := namespaceOf(init)
	if err != nil {
		return nil, fmt.Errorf("freeze: %w", err)
	}
	thaw = func() error {
		running, stopped, err := members(space, init)
		for _, pid := range append(running, stopped...) {
			if kerr := unix.Kill(pid, unix.SIGCONT); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
				err = errors.Join(err, fmt.Errorf("thaw process %d: %w", pid, kerr))
			}
		}
		return err
	}
	// One process may let another go on that was already looked at, as a debugger may: the
	// namespace is at rest when two looks in a row find none that runs.
	for deadline, atRest := time.Now().Add(within), false; ; {
		running, _, err := members(space, init)
		if err == nil && len(running) == 0 {
			if atRest {
				return thaw, nil
			}
			atRest = true
			continue
		}
		atRest = false
		for _, pid := range running {
			if kerr := unix.Kill(pid, unix.SIGSTOP); kerr != nil && !errors.Is(kerr, unix.ESRCH) {
				err = errors.Join(err, kerr)
			}
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("%d processes did not stop within %v", len(running), within)
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
	pids, err := processes()
	if err != nil {
		return "", err
	}
	for _, pid := range pids {
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

// members lists the processes of a namespace, those that run apart from the stopped. One
// that cannot be looked at counts where the first process is above it.
func members(space string, init int) (running, stopped []int, err error) {
	pids, err := processes()
	if err != nil {
		return nil, nil, err
	}
	for _, pid := range pids {
		if pid == init || pid == os.Getpid() {
			continue
		}
		at, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil && !below(pid, init) || err == nil && at != space {
			continue
		}
		switch letter, _ := state(pid); letter {
		case 'T', 't':
			stopped = append(stopped, pid)
		case 'Z', 'X', 0:
		default:
			running = append(running, pid)
		}
	}
	return running, stopped, nil
}

func processes() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// below reports whether a process has another above it.
func below(pid, ancestor int) bool {
	for range 100 { // a chain of parents has an end
		_, parent := state(pid)
		if parent == ancestor || parent <= 1 {
			return parent == ancestor
		}
		pid = parent
	}
	return false
}

// state is a process's letter and parent (proc(5)), 0 for one that is gone.
func state(pid int) (letter byte, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	at := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[at+1:]))
	if at < 0 || len(fields) < 2 {
		return 0, 0
	}
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}
