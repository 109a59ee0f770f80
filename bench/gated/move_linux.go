package gated

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

const (
	both       = "both sides changed it"
	unreadable = "it cannot be read"
)

// errMoving says that an entry changes while it is read.
var errMoving = errors.New("it is being written")

// at looks at a path of one side. A path that leads through no folder is absent.
func at(top int, rel string) (entry, error) {
	parent, name, err := parentOf(top, rel)
	if err != nil {
		if absent(err) {
			return entry{}, nil
		}
		return entry{}, err
	}
	defer func() { _ = unix.Close(parent) }()
	return entryAt(parent, name)
}

func parentOf(top int, rel string) (fd int, name string, err error) {
	fd, err = beneath(top, path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	return fd, path.Base(rel), err
}

// out brings a path from the payload's side to the project, if it is what a payload may bring.
func (w *Writer) out(rel string) error {
	in, err := at(w.upper, rel)
	if err != nil {
		return err
	}
	k, have := w.known[rel]
	if have && in == k.in || !have && in.kind == none {
		return nil
	}
	host, err := at(w.project, rel)
	if err != nil {
		return err
	}
	if gone := in.kind == none || in.kind == whiteout; gone && host.kind == none {
		w.known[rel] = pair{in, host}
		w.tell(rel, "")
		return nil
	}
	if !w.Ungated {
		if why := held(rel, in); why != "" {
			w.tell(rel, why)
			return nil
		}
	}
	if !have && host.kind == none && w.changing(rel) {
		w.tell(rel, both) // the person removed what the payload goes on with
		return nil
	}
	if !w.expected(host, k, have) && !(in.kind == dir && host.kind == dir) {
		return w.agree(rel, in, host)
	}
	placed, err := w.place(rel, in, host)
	switch {
	case errors.Is(err, errMoving):
		w.note(toHost, []event{{rel: rel, rest: writing}})
		w.count(func(c *Counts) { c.Again++ })
		return nil
	case errors.Is(err, unix.EEXIST):
		return w.agree(rel, in, host)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		w.tell(rel, unreadable)
		return nil
	case err != nil:
		return err
	}
	w.known[rel] = pair{in, placed}
	w.tell(rel, "")
	w.count(func(c *Counts) { c.Out++; c.Bytes += in.size })
	return nil
}

// expected reports whether the project has what both sides last had: what is not known was
// there before the writer began.
func (w *Writer) expected(host entry, k pair, have bool) bool {
	if have {
		return host == k.out
	}
	return host.kind == none || host.kind == dir || host.ctime < w.began
}

// changing reports whether the person changed a path that is not looked at yet.
func (w *Writer) changing(rel string) bool {
	return w.due[toView].has(rel)
}

// agree takes a path that both sides changed for settled where they made the same of it, and
// tells it otherwise.
func (w *Writer) agree(rel string, in, host entry) error {
	same := in.kind == host.kind && in.target == host.target
	if same && in.kind == file {
		same = in.size == host.size && in.mode&0o777 == host.mode&0o777
		if same {
			var err error
			if same, err = w.equal(rel); err != nil {
				return err
			}
		}
	}
	if !same {
		w.tell(rel, both)
		return nil
	}
	w.known[rel] = pair{in, host}
	w.tell(rel, "")
	return nil
}

func (w *Writer) equal(rel string) (same bool, err error) {
	var open [2]*os.File
	for i, top := range []int{w.upper, w.project} {
		fd, err := beneath(top, rel, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return false, nil // it is another thing by now: that is told
		}
		open[i] = os.NewFile(uintptr(fd), rel)
		defer func() { _ = open[i].Close() }()
	}
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := open[0].Read(a)
		m, err2 := open[1].Read(b[:max(n, 1)])
		if n != m || string(a[:n]) != string(b[:m]) {
			return false, nil
		}
		if n == 0 {
			return err != nil && err2 != nil, nil
		}
	}
}

// place makes a path of the project what the payload's side has.
func (w *Writer) place(rel string, in, host entry) (entry, error) {
	parent, name, err := parentOf(w.project, rel)
	if errors.Is(err, unix.ENOENT) && path.Dir(rel) != "." {
		// The folder's own event may come later, or it waits itself.
		if err = w.out(path.Dir(rel)); err == nil {
			parent, name, err = parentOf(w.project, rel)
		}
	}
	if err != nil {
		return entry{}, fmt.Errorf("reach its folder: %w", err)
	}
	defer func() { _ = unix.Close(parent) }()
	if host.kind == dir && in.kind != dir {
		if err := w.removeFolder(parent, name, rel); err != nil {
			return entry{}, err
		}
		if host, err = entryAt(parent, name); err != nil || host.kind != none {
			return entry{}, errors.Join(err, unix.EEXIST)
		}
	}
	switch in.kind {
	case none, whiteout:
		if host.kind == none {
			return host, nil
		}
		return entry{}, w.take(parent, name, host)
	case dir:
		return w.folder(parent, name, rel, in, host)
	case link:
		if err := unix.Symlinkat(in.target, w.stage, stagedName); err != nil {
			return entry{}, err
		}
		err = w.own(w.stage)
	default: // a file, or whatever the control without a gate finds
		err = w.copy(w.upper, rel, in, w.stage)
	}
	if err != nil {
		return entry{}, errors.Join(err, w.unstage())
	}
	return w.put(parent, name, host)
}

// stagedName is the one entry of the stage and of the inbox: the writer does one thing at a time.
const stagedName = "staged"

func (w *Writer) unstage() error {
	err := unix.Unlinkat(w.stage, stagedName, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (w *Writer) own(at int) error {
	if w.uid < 0 {
		return nil
	}
	return unix.Fchownat(at, stagedName, w.uid, w.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// copy stages a file as it is on one side. It must be the one that was looked at, before and
// afterwards.
func (w *Writer) copy(top int, rel string, want entry, stage int) (err error) {
	fd, err := beneath(top, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		if absent(err) || errors.Is(err, unix.ENXIO) {
			return errMoving
		}
		return err
	}
	src := os.NewFile(uintptr(fd), rel)
	defer func() { _ = src.Close() }()
	same := func() bool {
		var st unix.Stat_t
		return unix.Fstat(fd, &st) == nil && entryOf(&st) == want
	}
	if !same() {
		return errMoving
	}
	to, err := unix.Openat(stage, stagedName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(to), stagedName)
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := layers.CopyFile(dst, src); err != nil {
		return err
	}
	if !same() {
		return errMoving
	}
	if err := w.own(stage); err != nil {
		return err
	}
	if err := unix.Fchmod(to, want.mode&0o777); err != nil {
		return err
	}
	when := unix.NsecToTimespec(want.mtime)
	return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(to), []unix.Timespec{when, when}, 0)
}

// put moves what is staged to its place. What it replaces must be what was seen: it is looked
// at where no one can change its name any more, and put back otherwise.
func (w *Writer) put(parent int, name string, old entry) (entry, error) {
	staged, err := entryAt(w.stage, stagedName)
	if err != nil {
		return entry{}, err
	}
	if old.kind == none {
		if err := unix.Renameat2(w.stage, stagedName, parent, name, unix.RENAME_NOREPLACE); err != nil {
			return entry{}, errors.Join(err, w.unstage())
		}
	} else {
		swap := func() error { return unix.Renameat2(w.stage, stagedName, parent, name, unix.RENAME_EXCHANGE) }
		if err := swap(); err != nil {
			return entry{}, errors.Join(err, w.unstage())
		}
		was, err := entryAt(w.stage, stagedName)
		if err == nil && was.moved() != old.moved() {
			err = unix.EEXIST
		}
		if err != nil {
			return entry{}, errors.Join(err, swap(), w.unstage())
		}
		if err := w.unstage(); err != nil {
			return entry{}, err
		}
	}
	now, err := entryAt(parent, name)
	if err == nil && now.moved() == staged.moved() {
		return now, nil
	}
	return staged, err // the person was faster: what is there now is theirs
}

// take removes what the project has, if it is what was seen.
func (w *Writer) take(parent int, name string, old entry) error {
	if err := unix.Renameat2(parent, name, w.stage, stagedName, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	was, err := entryAt(w.stage, stagedName)
	if err == nil && was.moved() != old.moved() {
		err = unix.EEXIST
	}
	if err != nil {
		return errors.Join(err, unix.Renameat2(w.stage, stagedName, parent, name, unix.RENAME_NOREPLACE))
	}
	return w.unstage()
}

// removeFolder removes what both sides had of a folder of the project, and the folder where
// nothing is left in it.
func (w *Writer) removeFolder(parent int, name, rel string) error {
	f, names, err := list(parent, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fd := int(f.Fd())
	for _, n := range names {
		sub := path.Join(rel, n)
		gone, err := w.remove(fd, n, sub)
		if err != nil {
			return err
		}
		if gone {
			delete(w.known, sub)
		}
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// remove removes a name of the project, unless it waits for a review or is not what both sides
// had. It reports whether it did.
func (w *Writer) remove(parent int, name, rel string) (bool, error) {
	e, err := entryAt(parent, name)
	if err != nil {
		return false, err
	}
	k, have := w.known[rel]
	switch {
	case !w.Ungated && held(rel, e) != "":
		w.tell(rel, runs)
		return false, nil
	case e.kind == dir:
		err = w.removeFolder(parent, name, rel)
	case !w.expected(e, k, have):
		w.tell(rel, both)
		return false, nil
	default:
		err = w.take(parent, name, e)
	}
	return err == nil, err
}

// folder makes a folder of the project, or gives it the payload's mode. One that the payload
// made anew in place of the project's own shows nothing of that: what is left there goes.
func (w *Writer) folder(parent int, name, rel string, in, host entry) (entry, error) {
	if host.kind != none && host.kind != dir {
		if err := w.take(parent, name, host); err != nil {
			return entry{}, err
		}
		host = entry{}
	}
	if host.kind == none {
		if err := unix.Mkdirat(parent, name, in.mode&0o777|0o700); err != nil {
			return entry{}, err
		}
		if w.uid >= 0 {
			if err := unix.Fchownat(parent, name, w.uid, w.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return entry{}, err
			}
		}
		return entryAt(parent, name)
	}
	if k, have := w.known[rel]; !have || k.in.ino != in.ino {
		if err := w.hidden(parent, name, rel); err != nil {
			return entry{}, err
		}
	}
	return entryAt(parent, name)
}

// hidden removes what an opaque folder of the upper no longer shows.
func (w *Writer) hidden(parent int, name, rel string) error {
	up, err := beneath(w.upper, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil // it is another thing by now, which has its own event
	}
	defer func() { _ = unix.Close(up) }()
	var value [2]byte
	if n, err := unix.Fgetxattr(up, "user.overlay.opaque", value[:]); err != nil || n != 1 || value[0] != 'y' {
		return nil // it has no such mark
	}
	f, names, err := list(parent, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fd := int(f.Fd())
	for _, n := range names {
		sub := path.Join(rel, n)
		if e, err := entryAt(up, n); err != nil || e.kind != none {
			continue
		}
		if _, err := w.remove(fd, n, sub); err != nil {
			return err
		}
	}
	return nil
}
