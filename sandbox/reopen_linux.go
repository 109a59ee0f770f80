package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// LetReopen lets a command open one of its standard files again by name, as scripts do
// with /dev/stderr: where root starts it, it is another user, and a pipe is its maker's
// alone (0600, pipe(7)). It may do so in the direction that it was given, and nobody
// else can who could not before: a pipe has no name but in /proc of those who hold it,
// which look there themselves. Named pipes and files of root's keep their modes, since
// they have names: those cannot be opened again.
func LetReopen(f *os.File) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	fd := int(f.Fd())
	if os.Geteuid() != 0 || unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.PIPEFS_MAGIC || unix.Fstat(fd, &st) != nil {
		return
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return
	}
	way := map[int]uint32{unix.O_RDONLY: 0o4, unix.O_WRONLY: 0o2}[flags&unix.O_ACCMODE]
	_ = unix.Fchmod(fd, st.Mode&0o777|way) // where it fails, it cannot be opened again
}
