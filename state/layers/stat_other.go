//go:build !linux

package layers

import "golang.org/x/sys/unix"

const (
	errNoXattr = unix.ENOATTR
	linkOnly   = unix.O_SYMLINK // opens a link itself
)

func stampOf(st *unix.Stat_t) Stamp {
	return Stamp{Dev: uint64(st.Dev), Inode: st.Ino, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Size: st.Size}
}
