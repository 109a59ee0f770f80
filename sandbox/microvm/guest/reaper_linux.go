package guest

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper waits for every process of the guest, and knows which are commands.
type reaper struct {
	mu    sync.Mutex
	ends  map[int]chan unix.WaitStatus
	ended chan error // why the guest is to stop
}

func newReaper() *reaper {
	r := &reaper{ends: map[int]chan unix.WaitStatus{}, ended: make(chan error, 1)}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			r.reap()
		}
	}()
	return r
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		if !ws.Exited() && !ws.Signaled() {
			continue // a stop of one that had this process trace it (PTRACE_TRACEME), which has not ended
		}
		if end := r.ends[pid]; end != nil {
			delete(r.ends, pid)
			end <- ws
		}
	}
}

// Lock holds reaping back, so that a process is known before it can have ended.
func (r *reaper) Lock() { r.mu.Lock() }

// Unlock lets it go on.
func (r *reaper) Unlock() { r.mu.Unlock() }

// know is called under the lock.
func (r *reaper) know(pid int) chan unix.WaitStatus {
	end := make(chan unix.WaitStatus, 1)
	r.ends[pid] = end
	return end
}

// kill sends a signal to a command, or to its group in front where it has a terminal.
func (r *reaper) kill(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[pid] != nil {
		_ = unix.Kill(pid, sig) // it may have ended, and waits to be reaped
	}
}

// stop ends the guest.
func (r *reaper) stop(err error) {
	select {
	case r.ended <- err:
	default: // it ends already
	}
}
