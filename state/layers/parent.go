package layers

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Parent opens the folder above a relative path; no component of it may be a symbolic
// link. It is a descriptor of its own also where that is the top.
func Parent(top *Folder, rel string) (dir *Folder, name string, err error) {
	name = path.Base(rel)
	if above := path.Dir(rel); above != "." {
		if dir, err = top.descend(above); err == nil || !errors.Is(err, errOneByOne) {
			return dir, name, err
		}
	}
	parts := strings.Split(rel, "/")
	dir, err = top.Folder(".")
	for _, part := range parts[:len(parts)-1] {
		if err != nil {
			return nil, "", err
		}
		next, nerr := dir.Folder(part)
		err = errors.Join(nerr, dir.Close())
		dir = next
	}
	return dir, parts[len(parts)-1], err
}

// errOneByOne says that a path must be opened component by component.
var errOneByOne = errors.New("one by one")

// descend opens a folder below this one with one call.
func (f *Folder) descend(rel string) (*Folder, error) {
	fd, err := openBeneath(f.fd, rel)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, f.error("open", rel, unix.ENOTDIR)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, f.error("open", rel, err)
	case err != nil:
		return nil, errOneByOne // an older kernel, a filter, or a folder of a layer that is closed
	}
	sub := &Folder{fd: fd, name: path.Join(f.name, rel), closed: f.closed}
	if f.closed == nil {
		return sub, nil
	}
	f.closed.Lock()
	defer f.closed.Unlock()
	if err := f.closed.hold(sub, nil); err != nil {
		return nil, errors.Join(f.error("open", rel, err), unix.Close(fd))
	}
	return sub, nil
}
