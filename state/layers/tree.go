package layers

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kind is what a directory entry is.
type Kind string

// The kinds of entries.
const (
	File    Kind = "file"
	Dir     Kind = "dir"
	Link    Kind = "link"
	Special Kind = "special" // a pipe, socket or device
)

// Node describes one entry. The zero value means that there is none.
type Node struct {
	Kind   Kind   `json:"kind,omitempty"`
	Mode   uint32 `json:"mode,omitempty"` // permission and set-id bits
	Size   int64  `json:"size,omitempty"` // bytes, of a file
	Target string `json:"target,omitempty"`
	Stamp  Stamp  `json:"stamp,omitzero"`
}

// Exists reports whether there is an entry.
func (n Node) Exists() bool { return n.Kind != "" }

// Stamp reports whether an entry is still the one that was seen. Times are in nanoseconds
// since 1970; no program can set Ctime.
type Stamp struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"ino"`
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
	Size  int64  `json:"size"`
}

// SameContent compares all but the change time, which a rename moves on.
func (s Stamp) SameContent(t Stamp) bool {
	s.Ctime, t.Ctime = 0, 0
	return s == t
}

// whiteout is how overlayfs marks a removed name: a character device 0:0.
func whiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// Folder is an open folder. Names below it are resolved one component at a time.
type Folder struct {
	fd   int
	name string // for messages
	// closed is set in a layer: modes that deny its owner the way are widened there.
	closed *closedFolders
	shut   inodeOf // this folder, where Close puts its mode back
	listed bool    // its position is not at its beginning
}

// OpenFolder opens a folder of the host by its absolute path. Its last component must
// not be a symbolic link.
func OpenFolder(name string) (*Folder, error) {
	fd, err := unix.Open(name, openFolder, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Folder{fd: fd, name: name}, nil
}

// OpenLayer opens the folder of a layer, of which everything can be read and changed,
// whatever modes a payload gave to it.
func OpenLayer(name string) (*Folder, error) {
	above, err := OpenFolder(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	c := &closedFolders{modes: map[inodeOf]*closedMode{}}
	f, err := c.folder(above, filepath.Base(name), openFolder)
	return f, errors.Join(err, above.Close())
}

// openFile are the flags that files are opened with, for reading.
const openFile = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// openFolder are the flags that folders are opened with.
const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// Close gives the descriptor back.
func (f *Folder) Close() error {
	var err error
	if f.shut != (inodeOf{}) {
		err = f.closed.restore(f)
	}
	return errors.Join(err, unix.Close(f.fd))
}

// Fd is the descriptor, for system calls relative to the folder.
func (f *Folder) Fd() int { return f.fd }

func (f *Folder) error(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(f.name, name), Err: err}
}

// Absent reports whether an error says that a path leads through nothing, or through what
// is no folder.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Stat describes the entry of that name without following it. A missing entry is the
// zero Node.
func (f *Folder) Stat(name string) (Node, error) {
	node, _, err := f.stat(name)
	return node, err
}

func (f *Folder) stat(name string) (n Node, removed bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return Node{}, false, nil
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return f.statLink(name)
	}
	if err != nil {
		return Node{}, false, f.error("stat", name, err)
	}
	n, removed = f.nodeOf(&st)
	return n, removed, nil
}

// statLink looks at what was a link just now, by a descriptor: another entry may have its name at any moment, and the
// target of one would be taken for that of the other.
func (f *Folder) statLink(name string) (n Node, removed bool, err error) {
	fd, err := unix.Openat(f.fd, name, linkOnly|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return Node{}, false, nil
	}
	if err != nil {
		return Node{}, false, f.error("open", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Node{}, false, f.error("stat", name, err)
	}
	n, removed = f.nodeOf(&st)
	if n.Kind == Link {
		buf := make([]byte, unix.PathMax)
		size, err := unix.Readlinkat(fd, "", buf) // the link that is open itself (readlink(2))
		if err != nil {
			return Node{}, false, f.error("readlink", name, err)
		}
		n.Target = string(buf[:size])
	}
	return n, removed, nil
}

func (f *Folder) nodeOf(st *unix.Stat_t) (n Node, removed bool) {
	if whiteout(st) {
		return Node{Kind: Special}, true
	}
	n = nodeOf(st)
	if n.Kind == Dir && f.closed != nil {
		n.Mode = f.closed.modeOf(st, n.Mode)
	}
	return n, false
}

// StampOf tells which file an open one is.
func StampOf(f *os.File) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stamp{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return stampOf(&st), nil
}

func nodeOf(st *unix.Stat_t) Node {
	n := Node{Kind: Special, Mode: uint32(st.Mode) & 0o7777, Stamp: stampOf(st)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		n.Kind, n.Size = File, st.Size
	case unix.S_IFDIR:
		n.Kind = Dir
	case unix.S_IFLNK:
		n.Kind, n.Mode = Link, 0
	}
	return n
}

// Folder opens a folder in this one.
func (f *Folder) Folder(name string) (*Folder, error) {
	if f.closed != nil {
		return f.closed.folder(f, name, openFolder)
	}
	fd, err := unix.Openat(f.fd, name, openFolder, 0)
	if err != nil {
		return nil, f.error("open", name, err)
	}
	return &Folder{fd: fd, name: path.Join(f.name, name)}, nil
}

// Open opens a regular file in this folder for reading.
func (f *Folder) Open(name string) (*os.File, error) {
	fd, err := f.openClosed(name, openFile)
	if err != nil {
		return nil, f.error("open", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, f.error("open", name, errors.Join(err, errors.New("not a regular file")))
	}
	return os.NewFile(uintptr(fd), path.Join(f.name, name)), nil
}

// Names lists the folder.
func (f *Folder) Names() ([]string, error) {
	if f.listed {
		if _, err := unix.Seek(f.fd, 0, io.SeekStart); err != nil {
			return nil, f.error("read", ".", err)
		}
	}
	f.listed = true
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(f.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, f.error("read", ".", err)
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// opaque reports whether overlayfs shows nothing below this folder.
func (f *Folder) opaque() (bool, error) {
	var value [2]byte
	n, err := unix.Fgetxattr(f.fd, "user.overlay.opaque", value[:])
	if errors.Is(err, errNoXattr) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	if err != nil {
		return false, f.error("getxattr", ".", err)
	}
	return n == 1 && value[0] == 'y', nil
}

// copiedUp reports whether overlayfs took a file from the base, where its file systems
// let it remember that.
func (f *Folder) copiedUp(name string) bool {
	file, err := f.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	n, err := unix.Fgetxattr(int(file.Fd()), "user.overlay.origin", nil)
	return err == nil && n > 0
}
