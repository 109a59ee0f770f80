package freeze

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// threads are those of a process; none where it is gone.
func threads(pid int) (out []int) {
	list, _ := numbers(fmt.Sprintf("/proc/%d/task", pid)) // it may be gone
	for _, t := range list {
		out = append(out, t.pid)
	}
	return out
}

// waits reports whether a thread does nothing in the kernel until another process lets it go on: its call waits for an
// answer (seccomp_unotify(2)), or for a child that shares its memory and is held itself (vfork(2)).
func waits(tid int) bool {
	text, _ := read(fmt.Sprintf("/proc/%d/wchan", tid)) // it may be gone, and then runs
	at := string(text)
	return strings.Contains(at, "seccomp") || at == "kernel_clone" || at == "_do_fork"
}

// stops reports whether a stop was sent to a process and waits for one of its threads (proc_pid_status(5), ShdPnd).
func stops(pid int) bool {
	text, _ := read(fmt.Sprintf("/proc/%d/status", pid)) // it may be gone
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			pending, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return err == nil && pending&(1<<(unix.SIGSTOP-1)) != 0
		}
	}
	return false
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
