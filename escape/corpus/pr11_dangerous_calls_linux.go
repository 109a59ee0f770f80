package corpus

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr11() escape.Case {
	return escape.Case{
		ID: "PR-11", Class: "dangerous calls", Attack: "bpf, perf, userfaultfd, kexec, modules, syslog, accounting, quota, swap, reboot, clocks, host names and the rest of HARDENING's list",
		Source: "HARDENING 5.1", Layers: []string{"seccomp", "capabilities"},
		Tries: func(escape.Inside) []escape.Try {
			any := errnos(syscall.EINVAL, syscall.EFAULT, syscall.EBADF, syscall.ENOENT, syscall.ENOEXEC, syscall.ENOSPC, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.E2BIG, syscall.ESRCH, syscall.ENOTBLK)
			root := escape.ByRoot
			nowhere := mem("/nowhere/at/all")
			list := []call{
				{name: "bpf", nr: unix.SYS_BPF, args: []uintptr{99, 0, 0}, control: root},
				{name: "perf_event_open", nr: unix.SYS_PERF_EVENT_OPEN, args: []uintptr{0, 0, minusOne, minusOne, 0}, control: root},
				{name: "userfaultfd", nr: unix.SYS_USERFAULTFD, args: []uintptr{0xffff}, control: root},
				{name: "kexec_load", nr: unix.SYS_KEXEC_LOAD, args: []uintptr{0, minusOne, 0, 0xffff}, control: root},
				{name: "kexec_file_load", nr: unix.SYS_KEXEC_FILE_LOAD, args: []uintptr{minusOne, minusOne, 0, 0, 0xffff}, control: root},
				{name: "init_module", nr: unix.SYS_INIT_MODULE, args: []uintptr{0, 0, 0}, control: root},
				{name: "finit_module", nr: unix.SYS_FINIT_MODULE, args: []uintptr{minusOne, 0, 0}, control: root},
				{name: "delete_module", nr: unix.SYS_DELETE_MODULE, args: []uintptr{mem("escape_absent"), unix.O_NONBLOCK}, control: root},
				{name: "syslog", nr: unix.SYS_SYSLOG, args: []uintptr{10, 0, 0}, control: root},
				{name: "acct", nr: unix.SYS_ACCT, args: []uintptr{nowhere}, control: root},
				{name: "quotactl", nr: unix.SYS_QUOTACTL, args: []uintptr{minusOne, nowhere, 0, 0}},
				{name: "quotactl_fd", nr: unix.SYS_QUOTACTL_FD, args: []uintptr{minusOne, 0, 0, 0}},
				{name: "swapon", nr: unix.SYS_SWAPON, args: []uintptr{nowhere, 0}, control: root},
				{name: "swapoff", nr: unix.SYS_SWAPOFF, args: []uintptr{nowhere}, control: root},
				{name: "reboot", nr: unix.SYS_REBOOT, args: []uintptr{0, 0, 0, 0}, control: root},
				{name: "clock_settime", nr: unix.SYS_CLOCK_SETTIME, args: []uintptr{99, 0}, control: root},
				{name: "settimeofday", nr: unix.SYS_SETTIMEOFDAY, args: []uintptr{1, 0}, control: root},
				{name: "sethostname", nr: unix.SYS_SETHOSTNAME, args: []uintptr{0, minusOne}, control: root},
				{name: "setdomainname", nr: unix.SYS_SETDOMAINNAME, args: []uintptr{0, minusOne}, control: root},
				{name: "fanotify_init", nr: unix.SYS_FANOTIFY_INIT, args: []uintptr{0xffffffff, 0}, control: root},
				{name: "vhangup", nr: unix.SYS_VHANGUP, control: escape.ByNobody, why: "it would end the terminal of whoever runs this"},
				{name: "mbind", nr: unix.SYS_MBIND, args: []uintptr{1, 1, 99, 0, 0, 0}},
				{name: "set_mempolicy_home_node", nr: unix.SYS_SET_MEMPOLICY_HOME_NODE, args: []uintptr{1, 1, minusOne, 1}},
				{name: "lookup_dcookie", nr: unix.SYS_LOOKUP_DCOOKIE, args: []uintptr{0, 0, 0}, control: escape.ByNobody, why: "this kernel has not got it"},
				{name: "lsm_set_self_attr", nr: unix.SYS_LSM_SET_SELF_ATTR, args: []uintptr{99, 0, 0, 0}},
				{name: "listmount", nr: 458, args: []uintptr{0, 0, 0, 0}},
				{name: "statmount", nr: 457, args: []uintptr{0, 0, 0, 0}},
			}
			for i := range list {
				list[i].open = any
				if os.Geteuid() == 0 && list[i].control == root && errors.Is(list[i].try().Do(), syscall.ENOSYS) {
					list[i].control, list[i].why = escape.ByNobody, "this kernel has not got it"
				}
			}
			return calls(append(list, machineCalls()...)...)
		},
	}
}
