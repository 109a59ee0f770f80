package corpus

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr07() escape.Case {
	return escape.Case{
		ID: "PR-07", Class: "user namespaces", Attack: "unshare, clone and clone3 with each kind of namespace, which opens a large part of the kernel",
		Source: "CVE-2021-41133; HARDENING 5.1", Layers: []string{"seccomp", "max_user_namespaces 0"},
		Tries: func(escape.Inside) []escape.Try {
			held := errnos(syscall.EPERM, syscall.ENOSYS, syscall.ENOSPC, syscall.EUSERS)
			var out, last []escape.Try
			for _, ns := range []struct {
				name string
				flag uintptr
			}{
				{"user", unix.CLONE_NEWUSER}, {"mount", unix.CLONE_NEWNS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID},
				{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP}, {"user and net", unix.CLONE_NEWUSER | unix.CLONE_NEWNET},
			} {
				// Last, since it changes the process that tries.
				last = append(last, call{name: "unshare " + ns.name, nr: unix.SYS_UNSHARE, args: []uintptr{ns.flag}, held: held, open: errnos(syscall.EINVAL)}.try())
				out = append(out,
					escape.Try{Name: "clone " + ns.name, Held: held, Do: func() error {
						c := exec.Command("/bin/true") //nolint:forbidigo // it ends by itself
						c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: ns.flag}
						return plain(c.Run())
					}})
			}
			args := mem(string([]byte{0, 0, 0, 0x10, 0, 0, 0, 0}) + string(make([]byte, 80)))
			return append(append(out, call{name: "clone3", nr: unix.SYS_CLONE3, args: []uintptr{args, 1}, held: held, open: errnos(syscall.EINVAL)}.try()), last...)
		},
	}
}
