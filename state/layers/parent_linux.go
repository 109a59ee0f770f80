package layers

import "golang.org/x/sys/unix"

// openBeneath opens a folder by a path of which no component is a link (Linux 5.6).
func openBeneath(dir int, rel string) (int, error) {
	return unix.Openat2(dir, rel, &unix.OpenHow{
		Flags: openFolder, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}
