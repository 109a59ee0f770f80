package hostexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
)

// Keep is the helper's life: a process of its own for each host command. It
// starts the command, adopts everything that the command leaves behind
// (PR_SET_CHILD_SUBREAPER, Linux 3.4), and ends all of it when the command is
// over or the guardian says so, or dies.
func Keep() error {
	for _, fd := range []int{fdControl, fdReport, fdDir, fdScript} {
		unix.CloseOnExec(fd) // fdScript may be none of ours; then this does nothing
	}
	report := os.NewFile(fdReport, "report")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep host command: %w", err)
	}
	orders := json.NewDecoder(os.NewFile(fdControl, "control"))
	var j job
	if err := errors.Join(orders.Decode(&j), exactjson.Restore(&j)); err != nil {
		return fmt.Errorf("keep host command: %w", err)
	}
	if j.CPU > 0 {
		// A second more, for what it does with the first signal (setrlimit(2)).
		if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: uint64(j.CPU), Max: uint64(j.CPU) + 1}); err != nil {
			return fmt.Errorf("keep host command: %w", err)
		}
	}
	k := &keeper{}
	last := k.run(j, orders)
	if err := json.NewEncoder(report).Encode(last); err != nil {
		return fmt.Errorf("keep host command: %w", err)
	}
	return nil
}

type keeper struct {
	mu     sync.Mutex
	main   int  // process id of the command; 0 when it has been reaped
	ending bool // everything is to end
}

func (k *keeper) run(j job, orders *json.Decoder) ended {
	argv := make([]string, len(j.Argv))
	for i, a := range j.Argv {
		argv[i] = string(a)
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if j.Script > 0 {
		argv[j.Script] = "/proc/self/fd/3"
		files = append(files, os.NewFile(fdScript, "script"))
	}
	p, err := os.StartProcess(j.Path, argv, &os.ProcAttr{
		Dir: "/proc/self/fd/" + strconv.Itoa(fdDir), Env: j.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return ended{Status: statusRefused, Error: fmt.Sprintf("execute %s: %v", j.Path, errors.Unwrap(err))}
	}
	// The streams are the command's now: their end must be seen when it is over.
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		f.Close()
	}
	k.main = p.Pid
	go k.obey(orders)
	return ended{Status: k.reap(p.Pid)}
}

// obey passes signals on; the end of orders is the end of everything.
func (k *keeper) obey(orders *json.Decoder) {
	for {
		var n int
		if err := orders.Decode(&n); err != nil {
			k.mu.Lock()
			k.ending = true
			k.mu.Unlock()
			endAll()
			return
		}
		k.mu.Lock()
		if k.main > 0 && n > 0 && n < 65 {
			// To its group, as a terminal would: it was made for it alone.
			_ = unix.Kill(-k.main, unix.Signal(n))
		}
		k.mu.Unlock()
	}
}

// reap waits for every descendant, and returns the command's status.
func (k *keeper) reap(main int) int {
	status := 128 + int(syscall.SIGKILL)
	for {
		// Before the process is gone its number is no one else's.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return status // ECHILD: no process is left
		}
		k.mu.Lock()
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		over := err == nil && pid == main
		if over {
			k.main = 0
			status = ws.ExitStatus()
			if ws.Signaled() {
				status = 128 + int(ws.Signal())
			}
		}
		k.ending = k.ending || over
		ending := k.ending
		k.mu.Unlock()
		if ending {
			endAll() // what it left behind, which may begin more until it is dead
		}
	}
}

// endAll kills every child of this process, again and again: the children of
// those that die become its own.
func endAll() {
	for _, pid := range childrenOf(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// childrenOf lists the processes with this parent, at any thread.
func childrenOf(parent int) []int {
	var out []int
	self := strconv.Itoa(parent)
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // the pattern is a constant
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it is gone
		}
		// The name in brackets may hold anything, also brackets (proc(5)).
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != self || fields[0] == "Z" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
