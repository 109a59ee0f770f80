package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// machineCalls are calls of this kind of machine alone.
func machineCalls() []call {
	open := errnos(syscall.EINVAL)
	ports, why := escape.ByAnybody, ""
	if _, _, errno := syscall.Syscall(unix.SYS_IOPL, 99, 0, 0); errno == syscall.ENOSYS {
		ports, why = escape.ByNobody, "this kernel has not got it"
	}
	return []call{
		{name: "iopl", nr: unix.SYS_IOPL, args: []uintptr{99}, open: open, control: ports, why: why},
		{name: "ioperm", nr: unix.SYS_IOPERM, args: []uintptr{minusOne, 1, 0}, open: open, control: ports, why: why},
		{name: "modify_ldt", nr: unix.SYS_MODIFY_LDT, args: []uintptr{0, mem("        "), 8}, open: open},
		{name: "uselib", nr: unix.SYS_USELIB, args: []uintptr{mem("/nowhere")}, control: escape.ByNobody, why: "this kernel has not got it"},
		{name: "nfsservctl", nr: unix.SYS_NFSSERVCTL, control: escape.ByNobody, why: "this kernel has not got it"},
	}
}
