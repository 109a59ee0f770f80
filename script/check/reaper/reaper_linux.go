// Package reaper finds processes, mounts and the like that checks leave behind on this machine.
//
// The promise: a process that is orphaned below this one becomes its child, and the zombies
// among those are waited for; the others are os/exec's.
//
// It ends nothing that lives: whoever asks does.
//
// Most readers want [Adopt] and [All].
package reaper

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

// Start starts a process, known before it can end.
func Start(p *exec.Cmd) error {
	children.Lock()
	defer children.Unlock()
	if err := p.Start(); err != nil {
		return err
	}
	children.pids[p.Process.Pid] = true
	return nil
}

// Reaped forgets a process that was waited for.
func Reaped(p *exec.Cmd) {
	children.Lock()
	defer children.Unlock()
	delete(children.pids, p.Process.Pid)
}

// Adopt makes this process the parent of everything that is orphaned below it
// (prctl(2), PR_SET_CHILD_SUBREAPER), so that what is left behind can be found.
func Adopt() error {
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
	for _, p := range All() {
		if p.Parent == os.Getpid() && p.State == "Z" && !children.pids[p.PID] {
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil) // it is gone either way
		}
	}
}

// A Process as /proc shows it.
type Process struct {
	PID, Parent int
	State, Name string
}

// All lists every process: proc_pid_stat(5).
func All() []Process {
	var out []Process
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
		out = append(out, Process{pid, parent, fields[0], string(text)[:at+1]})
	}
	return out
}

// Line is the command line of a process, and what the kernel calls it.
func (p Process) Line() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // a kernel's has none
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")) + " " + p.Name
}
