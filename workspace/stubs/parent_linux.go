package stubs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// openParent opens the folder of a stub's path by folders alone: what an agent has
// made a link of since leads nowhere.
func openParent(dir string) (int, error) { return openFolder(dir, unix.O_RDONLY) }

func openFolder(dir string, flags uint64) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   flags | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// unshut opens the folders of a path to their owner, who may have shut them to keep stubs
// where they are. again shuts them as they were.
func unshut(dir string) (again func()) {
	again = func() {}
	fd, err := openFolder(dir, unix.O_PATH)
	if errors.Is(err, unix.EACCES) && dir != "/" { // one above is shut
		again = unshut(filepath.Dir(dir))
		fd, err = openFolder(dir, unix.O_PATH)
	}
	if err != nil {
		return again
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o700 == 0o700 {
		unix.Close(fd)
		return again
	}
	above, same := again, "/proc/self/fd/"+strconv.Itoa(fd)
	_ = unix.Chmod(same, st.Mode&0o7777|0o700) // who opens it next says why it cannot
	return func() {
		_ = unix.Chmod(same, st.Mode&0o7777) // it was the payload's own mode
		unix.Close(fd)
		above()
	}
}
