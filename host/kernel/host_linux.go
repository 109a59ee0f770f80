package kernel

import (
	"os"

	"golang.org/x/sys/unix"
)

// ThisHost is the running one.
func ThisHost() Host {
	h := Host{FS: os.DirFS("/"), Root: os.Geteuid() == 0}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		h.Release = unix.ByteSliceToString(u.Release[:])
	}
	if v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 {
		h.Landlock = int(v)
	}
	return h
}
