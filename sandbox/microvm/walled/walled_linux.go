// Package walled starts programs from a thread that has put itself behind walls: Landlock,
// seccomp, no privileges but those that are named.
//
// The promise: a wall that cannot be put up ends the start, and what was started has every
// wall that was named, whatever it executes. It chooses none of them. Most readers want
// [Start].
package walled

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox/landlock"
	"cloister/sandbox/seccomp"
)

// Walls are what a program is put behind.
type Walls struct {
	User     int    // whose it is; 0: the caller's own
	Keep     uint64 // the capabilities that it keeps, as bits
	Landlock []landlock.Rule
	Filter   []unix.SockFilter
}

// Program is what is executed.
type Program struct {
	Files []string // that it may be, in their order: one that is not there is passed over
	Argv  []string
	Env   []string
	Dir   string
	Std   []*os.File // its descriptors from 0 on
	// Terminal is which of Std is to be its controlling terminal; -1: none.
	Terminal int
}

// Started is called with the number of the process before anyone can have waited for it.
type Started func(pid int)

// Lock holds the caller's reaper back until a process is known to it.
type Lock interface {
	Lock()
	Unlock()
}

// Start starts a program. An error of execution is a syscall.Errno. held is locked while the
// process is begun and Started is called; it may be nil.
func Start(w Walls, p Program, held Lock, started Started) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread is behind the walls, and ends with this goroutine.
		runtime.LockOSThread()
		if err := w.enter(); err != nil {
			done <- err
			return
		}
		if held != nil {
			held.Lock()
			defer held.Unlock()
		}
		pid, err := p.fork()
		if err == nil {
			started(pid)
		}
		done <- err
	}()
	return <-done
}

func (w Walls) enter() error {
	if err := w.privileges(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if len(w.Landlock) > 0 {
		abi, err := landlock.Version()
		if err != nil {
			return fmt.Errorf("ask for Landlock: %w", err)
		}
		if err := landlock.EnterRules(abi, w.Landlock, nil); err != nil {
			return err
		}
	}
	if len(w.Filter) > 0 {
		return seccomp.Enter(w.Filter)
	}
	return nil
}

// privileges leaves the thread its capabilities of Keep.
func (w Walls) privileges() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("leave ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // the kernel knows no such capability
		}
		if w.Keep>>c&1 == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
	}
	if w.User != 0 {
		if err := become(w.User); err != nil {
			return err
		}
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(w.Keep), uint32(w.Keep>>32)
	sets := []unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low},
		{Effective: high, Permitted: high, Inheritable: high}}
	if err := unix.Capset(header, &sets[0]); err != nil {
		return fmt.Errorf("leave capabilities: %w", err)
	}
	for c := range 64 {
		if w.Keep>>c&1 == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return fmt.Errorf("hand on capability %d: %w", c, err)
		}
	}
	return nil
}

// become changes the thread's user alone: the calls of package syscall change all threads'.
func become(id int) error {
	n := uintptr(id)
	for _, c := range []struct {
		name    string
		nr      uintptr
		a, b, c uintptr
	}{
		{"leave groups", unix.SYS_SETGROUPS, 0, 0, 0},
		{"become the group", unix.SYS_SETRESGID, n, n, n},
		{"become the user", unix.SYS_SETRESUID, n, n, n},
	} {
		if _, _, e := unix.RawSyscall(c.nr, c.a, c.b, c.c); e != 0 {
			return fmt.Errorf("%s: %w", c.name, e)
		}
	}
	return nil
}

// fork tries the files that the program may be.
func (p Program) fork() (int, error) {
	attr := &syscall.ProcAttr{Dir: p.Dir, Env: p.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	if p.Terminal >= 0 {
		attr.Sys.Setctty, attr.Sys.Ctty = true, p.Terminal
	}
	for _, f := range p.Std {
		attr.Files = append(attr.Files, f.Fd())
	}
	worst := error(syscall.ENOENT)
	for _, file := range p.Files {
		pid, err := syscall.ForkExec(file, p.Argv, attr)
		if err == nil {
			return pid, nil
		}
		gone := errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
		if !gone && errors.Is(worst, syscall.ENOENT) {
			worst = err
		}
	}
	return 0, worst
}
