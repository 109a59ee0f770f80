package watch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// path is what a call names, without links, as it is seen inside: "" where nothing lies
// there and the call makes nothing.
func (w *Watch) path(n *notice, c call) (string, lying, error) {
	tid := int(n.tid)
	w.fixed = false
	name, err := text(tid, n.args[c.path])
	if err != nil {
		return "", file, err
	}
	proc := "/proc/" + strconv.Itoa(tid)
	if !path.IsAbs(name) {
		base := proc + "/cwd"
		if c.dir >= 0 && int32(n.args[c.dir]) != unix.AT_FDCWD {
			base = proc + "/fd/" + strconv.Itoa(int(int32(n.args[c.dir])))
		}
		at, err := os.Readlink(base)
		if err != nil && c.use == executes && w.root < 0 {
			at, err = w.dir, nil // it becomes the command, which begins there
		}
		switch {
		case err != nil:
			return "", file, fmt.Errorf("resolve %q: %w", name, err)
		case name == "": // AT_EMPTY_PATH: the descriptor itself
			return strings.TrimSuffix(at, " (deleted)"), file, nil
		}
		name = at + "/" + name
	}
	if at, ok := descriptor(proc, name); ok {
		return at, file, nil
	}
	name = past(proc, name)
	if w.root < 0 {
		if w.root, err = open(proc+"/root", unix.O_PATH|unix.O_DIRECTORY); err != nil {
			w.root = -1
			if c.use == executes {
				// The process shares this one's memory still, and is hidden: it becomes the command.
				w.pending = name
				return "", file, nil
			}
			return "", file, err
		}
		if !waits(int(w.listener.Fd()), n.id) { // it may be that of another process with its number
			unix.Close(w.root)
			w.root = -1
			return "", file, unix.ESRCH
		}
		w.leads()
	}
	follow := c.use != writes || !c.nofollow
	at, lies, err := w.find(name, follow)
	makes := c.use == writes || c.flags >= 0 && n.args[c.flags]&unix.O_CREAT != 0
	switch {
	case err == nil:
		return at, lies, nil
	case errors.Is(err, unix.ENOENT) && makes:
		if at, err = w.made(name, follow); err == nil {
			return at, nothing, nil
		}
	}
	if err = w.strange(err); err == nil && w.table.byPattern() {
		err = w.own(proc, name)
	}
	return "", file, err
}

// own is the error of a name that leads through a link to a place of the process's own below /proc,
// which is none for whoever looks.
func (w *Watch) own(proc, name string) error {
	for range 40 { // as many as the kernel follows
		if at, ok := descriptor(proc, name); ok && w.table.matches(at) {
			return unix.ELOOP
		}
		at, next := "/", ""
		parts := strings.Split(name, "/")
		for i, part := range parts {
			switch part {
			case "", ".":
				continue
			case "..":
				at = path.Dir(at)
				continue
			}
			at = path.Join(at, part)
			if rest := parts[i+1:]; magic(at) && slices.ContainsFunc(rest, func(s string) bool { return s != "" }) {
				return unix.ELOOP
			}
			to, err := w.link(at)
			if err != nil {
				continue // what is there is no link, or nothing
			}
			next = strings.Join(append([]string{to}, parts[i+1:]...), "/")
			if !path.IsAbs(to) {
				next = path.Dir(at) + "/" + next
			}
			break
		}
		if next == "" {
			return nil
		}
		name = next
	}
	return unix.ELOOP
}

// magic reports whether a name below /proc is one by which a process's own folders are reached.
func magic(at string) bool {
	rest, ok := strings.CutPrefix(at, "/proc/")
	base := path.Base(rest)
	return ok && (base == "cwd" || base == "root" || path.Base(path.Dir(rest)) == "fd" ||
		path.Base(path.Dir(rest)) == "map_files")
}

// strange is the error of a path that could be another one for whoever calls, as by a link of /proc
// to a process's own. Only patterns depend on it: any other call goes on, to the view.
func (w *Watch) strange(err error) error {
	if !w.table.byPattern() || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}

// made is where a name comes to be that is not there yet: where links lead to it that lead nowhere
// else, the kernel makes what the last one names.
func (w *Watch) made(name string, follow bool) (string, error) {
	for range 40 { // as many as the kernel follows
		name = strings.TrimRight(name, "/")
		dir, base := path.Split(name)
		at, err := w.resolve("/" + strings.TrimLeft(dir, "/"))
		if err != nil {
			return "", err
		}
		if base == "." || base == ".." || base == "" {
			return "", unix.ENOENT // it is there or cannot be made
		}
		full := path.Join(at, base)
		to, err := w.link(full)
		switch {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || !follow:
			return full, nil
		case err != nil:
			return "", err
		case path.IsAbs(to):
			name = to
		default:
			name = at + "/" + to
		}
	}
	return "", unix.ELOOP
}

// link is what a symbolic link says; EINVAL is the error where there is none.
func (w *Watch) link(at string) (string, error) {
	fd, err := w.openInside(at, unix.O_PATH, false)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EINVAL // what is there is no link
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// leads adds where the links of what is permitted lead, as they do at the start.
func (w *Watch) leads() {
	list := w.table.about.Permits.List
	for _, p := range list {
		if at, err := w.resolve(string(p.Path)); err == nil && sandbox.Led(p.Path) && at != string(p.Path) {
			p.Path = sandbox.GuestPath(at)
			w.table.about.Permits.List = append(slices.Clip(w.table.about.Permits.List), p)
		}
	}
}

// descriptor is what a name below /proc/self/fd leads to.
func descriptor(proc, name string) (string, bool) {
	clean := path.Clean(name)
	if rest, ok := strings.CutPrefix(clean, "/dev/fd/"); ok {
		clean = "/proc/self/fd/" + rest
	}
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		rest, ok := strings.CutPrefix(clean, self)
		if !ok || !strings.HasPrefix(rest, "fd/") && rest != "exe" {
			continue
		}
		if at, err := os.Readlink(proc + "/" + rest); err == nil && path.IsAbs(at) {
			return strings.TrimSuffix(at, " (deleted)"), true
		}
	}
	return "", false
}

// past is a name without a process's own link of /proc at its beginning: what lies in a folder that
// the process has open, or is in.
func past(proc, name string) string {
	rest, ok := strings.CutPrefix(name, "/dev/fd/")
	if ok {
		rest = "fd/" + rest
	}
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if !ok {
			rest, ok = strings.CutPrefix(name, self)
		}
	}
	first, below, deep := strings.Cut(rest, "/")
	if first == "fd" {
		var number string
		number, below, deep = strings.Cut(below, "/")
		first += "/" + number
	}
	if !ok || !deep || first != "cwd" && first != "root" && !strings.HasPrefix(first, "fd/") {
		return name
	}
	at, err := os.Readlink(proc + "/" + first)
	if err != nil || !path.IsAbs(at) {
		return name
	}
	return at + "/" + below
}

// resolve is a path inside without links.
func (w *Watch) resolve(name string) (string, error) {
	at, _, err := w.find(name, true)
	return at, err
}

// find is a path inside without links, and what lies there.
func (w *Watch) find(name string, follow bool) (string, lying, error) {
	fd, err := w.openInside(name, unix.O_PATH, follow)
	if err != nil {
		return "", file, err
	}
	defer unix.Close(fd)
	lies := file
	var st unix.Stat_t
	w.fixed = false
	if unix.Fstat(fd, &st) == nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			lies = folder
		}
		// A pipe or a device may be written on any mount.
		var fs unix.Statfs_t
		held := lies == folder || st.Mode&unix.S_IFMT == unix.S_IFREG
		w.fixed = held && unix.Fstatfs(fd, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0
	}
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return at, lies, err
}

func (w *Watch) openInside(name string, flags int, follow bool) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	for range 8 {
		fd, err := unix.Openat2(w.root, strings.TrimPrefix(name, "/"), &how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) { // a rename on the way
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

func open(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
