package layers

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE
)

// cloneFile shares the content where the file system can (reflink).
func cloneFile(out, in *os.File) error { return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) }

func mknod(dir int, name string, st *unix.Stat_t) error {
	return unix.Mknodat(dir, name, st.Mode, int(st.Rdev))
}

func mknodWhiteout(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }

// renameNew renames an entry and replaces none.
func renameNew(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}
