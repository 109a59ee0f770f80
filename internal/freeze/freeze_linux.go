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
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
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

// looks are several looks at the processes of the machine.
type looks struct {
	space string
	init  int
	// foreign are of other namespaces, which no process leaves.
	foreign map[process]bool
}

// process tells a process from a later one of the same number, by the inode of its folder.
type process struct {
	pid   int
	inode uint64
}

// members lists the processes of the namespace, those that run apart from the stopped. One
// that cannot be looked at counts where the first process is above it.
func (l *looks) members() (running, stopped []int, err error) {
	list, err := processes()
	if err != nil {
		return nil, nil, err
	}
	above := map[int]int{}
	for _, p := range list {
		pid := p.pid
		if pid == l.init || pid == os.Getpid() || l.foreign[p] {
			continue
		}
		at, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err == nil && at != l.space {
			l.foreign[p] = p.inode > 1 // below that the kernel knew none
			continue
		}
		if err != nil && !below(pid, l.init, above) {
			continue
		}
		still, alive := atRest(pid)
		switch {
		case !alive:
		case still:
			stopped = append(stopped, pid)
		default:
			running = append(running, pid)
		}
	}
	return running, stopped, nil
}

// atRest reports whether all threads of a process are stopped. Its first may have ended
// before the others: it is alive as long as one of them is.
func atRest(pid int) (still, alive bool) {
	still = true
	for _, tid := range threads(pid) {
		switch letter, _ := state(tid); letter {
		case 'T', 't':
			alive = true
		case 'Z', 'X', 0:
		default:
			still, alive = false, true
		}
	}
	return still, alive
}

// threads are those of a process; none where it is gone.
func threads(pid int) (out []int) {
	list, _ := numbers(fmt.Sprintf("/proc/%d/task", pid)) // it may be gone
	for _, t := range list {
		out = append(out, t.pid)
	}
	return out
}

// runs is how often each thread of some processes got a processor. It stays the same as long
// as a thread is stopped (proc_pid_status(5), ctxt_switches).
func runs(pids []int) map[int]uint64 {
	out := map[int]uint64{}
	for _, pid := range pids {
		for _, tid := range threads(pid) {
			text, _ := read(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid)) // it may be gone
			var n uint64
			for line := range strings.Lines(string(text)) {
				if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "ctxt_switches") {
					times, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64) // the kernel writes a number
					n += times
				}
			}
			out[tid] = n
		}
	}
	return out
}

// read reads a file of /proc, whose text is short, at one go.
func read(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Read(fd, buf)
		if !errors.Is(err, unix.EINTR) {
			return buf[:max(0, n)], err
		}
	}
}

// processes are those of the machine.
func processes() ([]process, error) { return numbers("/proc") }

// numbers are the entries of a folder of /proc whose names are numbers.
func numbers(folder string) ([]process, error) {
	dir, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", folder, err)
	}
	defer func() { _ = unix.Close(dir) }()
	var out []process
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", folder, err)
		}
		if n == 0 {
			return out, nil
		}
		for list := buf[:n]; len(list) > 0; {
			// getdents64(2): inode, offset, length, kind, name
			size := int(binary.NativeEndian.Uint16(list[16:]))
			name, _, _ := bytes.Cut(list[19:size], []byte{0})
			if pid, err := strconv.Atoi(string(name)); err == nil {
				out = append(out, process{pid, binary.NativeEndian.Uint64(list)})
			}
			list = list[size:]
		}
	}
}

// below reports whether a process has another above it. above are the parents that are
// known already.
func below(pid, ancestor int, above map[int]int) bool {
	for range 100 { // a chain of parents has an end
		parent, known := above[pid]
		if !known {
			_, parent = state(pid)
			above[pid] = parent
		}
		if parent == ancestor || parent <= 1 {
			return parent == ancestor
		}
		pid = parent
	}
	return false
}

// state is a process's letter and parent (proc(5)), 0 for one that is gone.
func state(pid int) (letter byte, parent int) {
	text, err := read(fmt.Sprintf("/proc/%d/stat", pid))
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
