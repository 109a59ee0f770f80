package watch

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// olderCalls are those that newer architectures have not got.
func olderCalls() []call {
	return []call{
		{nr: unix.SYS_OPEN, use: reads, dir: -1, path: 0, flags: 1},
		{nr: unix.SYS_CREAT, use: writes, dir: -1, path: 0, flags: -1},
		{nr: unix.SYS_UNLINK, use: writes, dir: -1, path: 0, flags: -1, nofollow: true},
		{nr: unix.SYS_RMDIR, use: writes, dir: -1, path: 0, flags: -1, nofollow: true},
		{nr: unix.SYS_MKDIR, use: writes, dir: -1, path: 0, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_MKNOD, use: writes, dir: -1, path: 0, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_RENAME, use: writes, dir: -1, path: 0, flags: -1, nofollow: true},
		{nr: unix.SYS_RENAME, use: writes, dir: -1, path: 1, flags: -1, nofollow: true},
		{nr: unix.SYS_RENAMEAT, use: writes, dir: 0, path: 1, flags: -1, nofollow: true},
		{nr: unix.SYS_RENAMEAT, use: writes, dir: 2, path: 3, flags: -1, nofollow: true},
		{nr: unix.SYS_LINK, use: writes, dir: -1, path: 0, flags: -1, nofollow: true, from: true},
		{nr: unix.SYS_LINK, use: writes, dir: -1, path: 1, flags: -1, nofollow: true, fresh: true},
		{nr: unix.SYS_SYMLINK, use: writes, dir: -1, path: 1, flags: -1, nofollow: true, fresh: true},
	}
}
