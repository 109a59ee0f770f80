package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// children are the processes that this program waits for itself.
var children = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// start starts a process, known before it can end.
func start(p *exec.Cmd) error {
	children.Lock()
	defer children.Unlock()
	if err := p.Start(); err != nil {
		return err
	}
	children.pids[p.Process.Pid] = true
	return nil
}

func reaped(p *exec.Cmd) {
	children.Lock()
	defer children.Unlock()
	delete(children.pids, p.Process.Pid)
}

// adoptOrphans makes this process the parent of everything that is orphaned below it
// (prctl(2), PR_SET_CHILD_SUBREAPER), so that what is left behind can be found.
func adoptOrphans() error {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("adopt orphans: %w", errno)
	}
	go func() { // until this program ends: cleaning up waits for the adopted too
		for range time.Tick(2 * time.Second) {
			reapOrphans()
		}
	}()
	return nil
}

// reapOrphans ends the zombies among the adopted. os/exec waits for the others.
func reapOrphans() {
	children.Lock()
	defer children.Unlock()
	for _, p := range processes() {
		if p.parent == os.Getpid() && p.state == "Z" && !children.pids[p.pid] {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) // it is gone either way
		}
	}
}

// A process as /proc shows it.
type process struct {
	pid, parent int
	state, name string
}

// processes lists every process: proc_pid_stat(5).
func processes() []process {
	var out []process
	names, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, name := range names {
		text, err := os.ReadFile(name)
		at := strings.LastIndex(string(text), ") ")
		if err != nil || at < 0 {
			continue // it ended meanwhile
		}
		fields := strings.Fields(string(text)[at+2:])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(fields[1])
		out = append(out, process{pid, parent, fields[0], string(text)[:at+1]})
	}
	return out
}

// line is the command line of a process, and what the kernel calls it.
func (p process) line() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // a kernel's has none
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")) + " " + p.name
}
