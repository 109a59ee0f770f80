package watch

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// olderCalls are none here but renameat.
func olderCalls() []call {
	return []call{
		{nr: unix.SYS_RENAMEAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true},
		{nr: unix.SYS_RENAMEAT, use: writes, dir: 2, path: 3, flags: -1, nofollow: true},
	}
}
