package layers

import "golang.org/x/sys/unix"

const (
	errNoXattr = unix.ENODATA
	linkOnly   = unix.O_PATH | unix.O_NOFOLLOW // opens a link itself
)

func stampOf(st *unix.Stat_t) Stamp {
	return Stamp{Dev: st.Dev, Inode: st.Ino, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Size: st.Size}
}
