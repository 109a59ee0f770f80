package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr03() escape.Case {
	return escape.Case{
		ID: "PR-03", Class: "signals", Attack: "signal a process of the host by kill, tgkill, sigqueue, pidfd, F_SETOWN and the process group",
		Source: "Landlock's signal scope (ABI 6, erratum 2)", Layers: []string{"pid namespace", "landlock"},
		Tries: func(in escape.Inside) []escape.Try {
			pid := uintptr(in.PID)
			held := errnos(syscall.ESRCH, syscall.EPERM)
			info := mem("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + string(make([]byte, 116))) // SI_QUEUE
			tries := calls(
				call{name: "kill", nr: unix.SYS_KILL, args: []uintptr{pid, 0}, held: held},
				call{name: "kill its group", nr: unix.SYS_KILL, args: []uintptr{-pid, 0}, held: held},
				call{name: "tkill", nr: unix.SYS_TKILL, args: []uintptr{pid, 0}, held: held},
				call{name: "tgkill", nr: unix.SYS_TGKILL, args: []uintptr{pid, pid, 0}, held: held},
				call{name: "sigqueue", nr: unix.SYS_RT_SIGQUEUEINFO, args: []uintptr{pid, 0, info}, held: errnos(syscall.ESRCH), open: errnos(syscall.EPERM, syscall.EINVAL)},
			)
			return append(tries, escape.Try{Name: "F_SETOWN", Held: held, Do: func() error {
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				_, err = unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, in.PID)
				return err
			}})
		},
	}
}
