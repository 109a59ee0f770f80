package layers

import (
	"errors"
	"io/fs"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// inodeOf names an entry of a file system.
type inodeOf struct{ dev, ino uint64 }

// closedFolders are the folders of a layer that deny their owner reading or searching
// them. Each is widened for as long as someone has it open, and then as before. A kill
// in between leaves one widened: that opens nothing to others.
type closedFolders struct {
	sync.Mutex

	modes map[inodeOf]*closedMode
}

type closedMode struct {
	mode  uint32
	users int
}

// folder opens a folder in f, and makes it one that can be read and searched.
func (c *closedFolders) folder(f *Folder, name string, flags int) (*Folder, error) {
	c.Lock()
	defer c.Unlock()
	fd, was, err := f.openWidened(name, flags, 0o700)
	if err != nil {
		return nil, f.error("open", name, err)
	}
	sub := &Folder{fd: fd, name: path.Join(f.name, name), closed: c}
	if err := c.hold(sub, was); err != nil {
		return nil, errors.Join(f.error("open", name, err), unix.Close(fd))
	}
	return sub, nil
}

// hold widens the mode of an open folder where it denies its owner something. was is
// what it had before, where it was widened to be opened.
func (c *closedFolders) hold(f *Folder, was *uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return err
	}
	at, mode := inodeOf{uint64(st.Dev), st.Ino}, uint32(st.Mode)&0o7777
	if known := c.modes[at]; known != nil {
		known.users++
		f.shut = at
		return nil
	}
	if was == nil {
		if mode&0o700 == 0o700 || unix.Faccessat(f.fd, ".", unix.R_OK|unix.X_OK, unix.AT_EACCESS) == nil {
			return nil
		}
		was = &mode
		if err := unix.Fchmod(f.fd, mode|0o700); err != nil {
			return err
		}
	}
	c.modes[at] = &closedMode{*was, 1}
	f.shut = at
	return nil
}

// restore puts a mode back with the last user.
func (c *closedFolders) restore(f *Folder) error {
	c.Lock()
	defer c.Unlock()
	known := c.modes[f.shut]
	if known.users--; known.users > 0 {
		return nil
	}
	delete(c.modes, f.shut)
	if err := unix.Fchmod(f.fd, known.mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: f.name, Err: err}
	}
	return nil
}

// modeOf is the mode that a folder has when no one holds it open.
func (c *closedFolders) modeOf(st *unix.Stat_t, mode uint32) uint32 {
	c.Lock()
	defer c.Unlock()
	if known := c.modes[inodeOf{uint64(st.Dev), st.Ino}]; known != nil {
		return known.mode
	}
	return mode
}

// openClosed opens a file, and one of a layer also where its mode denies that to its
// owner: the mode is widened for the moment of the call.
func (f *Folder) openClosed(name string, flags int) (int, error) {
	if f.closed == nil {
		return unix.Openat(f.fd, name, flags, 0)
	}
	f.closed.Lock()
	defer f.closed.Unlock()
	fd, was, err := f.openWidened(name, flags, 0o600)
	if err != nil || was == nil {
		return fd, err
	}
	if err := unix.Fchmod(fd, *was); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// openWidened opens an entry. Where its mode denies that to its owner it is widened, and
// was is what it had.
func (f *Folder) openWidened(name string, flags int, needed uint32) (fd int, was *uint32, err error) {
	fd, err = unix.Openat(f.fd, name, flags, 0)
	if !errors.Is(err, unix.EACCES) {
		return fd, nil, err
	}
	var st unix.Stat_t
	if serr := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); serr != nil {
		return -1, nil, err
	}
	kind, mode := st.Mode&unix.S_IFMT, uint32(st.Mode)&0o7777
	if kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, nil, err
	}
	if Chmod(f.fd, name, mode|needed) != nil {
		return -1, nil, err
	}
	fd, err = unix.Openat(f.fd, name, flags, 0)
	if err != nil {
		return -1, nil, errors.Join(err, Chmod(f.fd, name, mode))
	}
	return fd, &mode, nil
}
