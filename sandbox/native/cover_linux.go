package native

import (
	"cloister/sandbox"

	"golang.org/x/sys/unix"
)

// cover mounts a guest path on itself, read-only or pinned writable. A
// symbolic link is held like a file: it can be neither removed nor replaced.
func (v *view) cover(guest string, readOnly bool) {
	at, fd := v.at(guest), v.p.cell()
	v.p.sys("clone "+guest, unix.SYS_OPEN_TREE, at, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).to(fd)
	if readOnly {
		v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	v.attachAt(fd, at, guest)
	v.p.sys("close "+guest, unix.SYS_CLOSE, at)
}

// null hides a file of /proc behind /dev/null.
func (v *view) null(guest string) {
	fd := v.p.cell()
	v.p.sys("clone /dev/null", unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/dev/null",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID)
	v.attach(fd, guest)
}

// blankFile hides a file behind an empty, read-only one. /dev/null would swallow
// what is written to it, and is no file to programs that ask first.
func (v *view) blankFile(t sandbox.Protect) {
	if !v.made[blank] {
		v.made[blank] = true
		v.file(blank, nil, 0o444)
	}
	v.hideBehind(blank, t)
}

// hideBehind shows something of the read-only root in the place of a path.
func (v *view) hideBehind(what string, t sandbox.Protect) {
	guest, fd := string(t.Target), v.p.cell()
	v.p.sys("clone "+what, unix.SYS_OPEN_TREE, v.root, rel(what), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if t.Fleeting {
		v.attachIfThere(fd, guest)
		return
	}
	v.attach(fd, guest)
}

// empty hides a folder behind an empty, read-only one.
func (v *view) empty(guest string) {
	v.folder(nothing, 0o555)
	v.hideBehind(nothing, sandbox.Protect{Target: sandbox.GuestPath(guest)})
}

// protect lays read-only mounts over the writable ones, ancestors first, so
// that each later clone of a path is taken from what lies there already.
func (v *view) protect(list []sandbox.Protect) {
	for _, t := range list {
		guest := string(t.Target)
		switch {
		case t.Instead != "":
			v.hideBehind(string(t.Instead), t)
		case t.Empty && t.File:
			v.blankFile(t)
		case t.Empty:
			v.empty(guest)
		default:
			v.cover(guest, !t.Pin)
		}
	}
}
