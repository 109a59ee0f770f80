package guardian

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// harden keeps the guardian's memory its own: no core file, no ptrace, no
// /proc/PID/mem for another process of the same user (SE-15, PR-26).
func harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid tracing: %w", err)
	}
	return nil
}

// process holds one process, whatever becomes of its number.
type process struct{ fd int }

// holdProcess opens a pidfd; the peer that connected is alive while its
// connection is, unless it handed it on.
func holdProcess(pid int) (process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return process{}, fmt.Errorf("hold process %d: %w", pid, err)
	}
	return process{fd: fd}, nil
}

func (p process) kill() error { return unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0) }

func (p process) close() { _ = unix.Close(p.fd) }
