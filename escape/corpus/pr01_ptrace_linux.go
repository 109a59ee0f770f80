package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr01() escape.Case {
	return escape.Case{
		ID: "PR-01", Class: "ptrace across", Attack: "attach to and seize the first process, the guardian and a process of the host",
		Source: "HARDENING 5.1", Layers: []string{"not dumpable", "pid namespace"},
		Tries: func(in escape.Inside) []escape.Try {
			pids := map[string]int{"a process of the host": in.PID}
			if !in.Control {
				pids["the first process"], pids["the guardian"], pids["oneself"] = 1, in.Guardian, syscall.Getpid()
			} else {
				// The control needs one that may be traced.
				pids["the first process"], pids["the guardian"], pids["oneself"] = in.PID, in.PID, in.PID
			}
			var out []escape.Try
			for _, name := range []string{"a process of the host", "the first process", "the guardian", "oneself"} {
				pid := uintptr(pids[name])
				// A second tracer is refused with EPERM: the first control is the one
				// that counts, so each lets go at once.
				out = append(out, escape.Try{Name: "seize " + name, Held: errnos(syscall.EPERM, syscall.ESRCH), Do: func() error {
					lockThread()
					_, _, errno := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, pid, 0, 0, 0, 0)
					if errno != 0 {
						return errno
					}
					_, _, _ = syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, pid, 0, 0, 0, 0)
					_, _ = unix.Wait4(int(pid), nil, unix.WALL, nil)
					_, _, _ = syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, pid, 0, 0, 0, 0)
					return nil
				}})
			}
			return out
		},
	}
}
