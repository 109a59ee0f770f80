package gated

import (
	"errors"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// in brings what the person changed to the payload's view, through the overlay: what changes
// below one is not promised to be seen in it.
func (w *Writer) in(rel string) error {
	host, err := at(w.project, rel)
	if err != nil {
		return err
	}
	k, have := w.known[rel]
	switch {
	case have && host == k.out:
		return nil
	case !have && host.kind != none && host.kind != dir && host.ctime < w.began:
		return nil
	}
	in, err := at(w.upper, rel)
	if err != nil {
		return err
	}
	changed := in.kind != none && in.kind != dir
	if have {
		// A folder is copied up with whatever is put into it, which has entries of its own.
		changed = in != k.in && !(in.kind == dir && (k.in.kind == none || k.in.kind == dir))
	}
	if changed {
		return w.agree(rel, in, host)
	}
	in, err = w.show(rel, host)
	switch {
	case errors.Is(err, errMoving):
		w.note(toView, []event{{rel: rel, rest: writing}})
		w.count(func(c *Counts) { c.Again++ })
		return nil
	case absent(err):
		return nil // its folder is gone by now, which is told by itself
	case err != nil:
		return err
	}
	w.known[rel] = pair{in, host}
	w.tell(rel, "")
	w.count(func(c *Counts) { c.In++; c.Bytes += host.size })
	return nil
}

// show makes a path of the view what the project has, and gives what the upper has then.
func (w *Writer) show(rel string, host entry) (entry, error) {
	parent, name, err := parentOf(w.view, rel)
	if err != nil {
		if host.kind == none && absent(err) {
			return entry{}, nil
		}
		return entry{}, err
	}
	defer func() { _ = unix.Close(parent) }()
	now, err := entryAt(parent, name)
	if err != nil {
		return entry{}, err
	}
	if now.kind == dir && host.kind != dir {
		if err := w.hide(parent, name, rel); err != nil {
			return entry{}, err
		}
	}
	var staged entry
	switch host.kind {
	case none:
		if now.kind != dir {
			err = drop(parent, name, 0)
		}
	case dir:
		if now.kind != none && now.kind != dir {
			if err := drop(parent, name, 0); err != nil {
				return entry{}, err
			}
		}
		if now.kind != dir {
			err = unix.Mkdirat(parent, name, host.mode&0o777)
		}
	case link:
		err = unix.Symlinkat(host.target, w.inbox, stagedName)
	case file:
		err = w.copy(w.project, rel, host, w.inbox)
	default:
		return entry{}, nil // pipes and sockets of the host are not the payload's
	}
	if err == nil && (host.kind == link || host.kind == file) {
		if staged, err = at(w.upper, inbox+"/"+stagedName); err == nil {
			err = unix.Renameat(w.inbox, stagedName, parent, name)
		}
	}
	if err != nil {
		if gone := unix.Unlinkat(w.inbox, stagedName, 0); !errors.Is(gone, unix.ENOENT) {
			err = errors.Join(err, gone)
		}
		return entry{}, err
	}
	in, err := at(w.upper, rel)
	if err == nil && staged.kind != none && in.moved() != staged.moved() {
		return staged, nil // the payload was faster: what is there now is its own
	}
	return in, err
}

// hide removes a folder of the view, but for what the payload changed in it.
func (w *Writer) hide(parent int, name, rel string) error {
	f, names, err := list(parent, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fd := int(f.Fd())
	for _, n := range names {
		sub := path.Join(rel, n)
		e, err := entryAt(fd, n)
		if err != nil {
			return err
		}
		in, err := at(w.upper, sub)
		if err != nil {
			return err
		}
		k := w.known[sub]
		switch {
		case e.kind == dir:
			err = w.hide(fd, n, sub)
		case in.kind != none && in != k.in:
			w.tell(sub, both)
			continue
		default:
			err = drop(fd, n, 0)
		}
		if err != nil {
			return err
		}
		if in, err = at(w.upper, sub); err != nil {
			return err
		}
		w.known[sub] = pair{in: in}
	}
	err = drop(parent, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// drop removes a name of the view. Where the person removed it below, and the overlay had looked
// it up before, it can neither be removed (ENOENT: below there is nothing to cover) nor made
// anew (EEXIST). Once it is copied up, which any change of its owner does, it can.
func drop(parent int, name string, flags int) error {
	err := unix.Unlinkat(parent, name, flags)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	e, err := entryAt(parent, name)
	if err != nil || e.kind == none {
		return err
	}
	if err := unix.Fchownat(parent, name, -1, -1, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return unix.Unlinkat(parent, name, flags)
}

// refresh makes the overlay forget the names that nobody uses. Of a folder that the person removed
// and made again, a name that was looked up before leads to the old one, in which nothing can be
// listed and which can neither be removed (ENOENT) nor made (EEXIST). A remount drops all names
// but those in use (Linux 6.18: 1 to 10 ms), and is allowed to who mounted the overlay.
func (w *Writer) refresh() error {
	w.count(func(c *Counts) { c.Refreshed++ })
	at := "/proc/self/fd/" + strconv.Itoa(w.view)
	return unix.Mount("none", at, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "")
}
