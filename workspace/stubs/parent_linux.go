package stubs

import "golang.org/x/sys/unix"

// openParent opens the folder of a stub's path by folders alone: what an agent has
// made a link of since leads nowhere.
func openParent(dir string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
