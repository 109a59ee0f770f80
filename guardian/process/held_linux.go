// Package process holds processes of the host by descriptor, so that a number which another
// process got meanwhile is never mistaken for them, and keeps the memory of this one its own.
//
// It promises that what it ends is what it held. It starts no process and waits for none, and
// works on Linux alone.
//
// Most readers want [Hold] and [Harden].
package process

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Harden keeps the guardian's memory its own: no core file, no ptrace, no
// /proc/PID/mem for another process of the same user (SE-15, PR-26).
func Harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid tracing: %w", err)
	}
	return nil
}

// Process holds one process, whatever becomes of its number.
type Process struct {
	mu sync.Mutex
	fd int // -1 once it is held no more
}

// Hold opens a pidfd; the peer that connected is alive while its
// connection is, unless it handed it on.
func Hold(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("hold process %d: %w", pid, err)
	}
	return &Process{fd: fd}, nil
}

// Kill ends the process. One that is gone, or held no more because its session
// ended just now, is no error: the descriptor may be another process's by then.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return nil
	}
	if err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Close lets go of the process.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Close(p.fd)
	p.fd = -1
}
