package native

import (
	"cloister/sandbox"
	"cloister/sandbox/plan"

	"golang.org/x/sys/unix"
)

// cover lays something read-only over a guest path: what hides it, or itself, read-only or pinned
// writable. A symbolic link is held like a file: it can be neither removed nor replaced.
func (v *view) cover(t sandbox.Protect) {
	guest := string(t.Target)
	if behind := plan.OnHost.Behind(t); behind != "" {
		v.hideBehind(behind, t)
		return
	}
	at, fd := v.at(guest), v.p.cell()
	v.p.sys("clone "+guest, unix.SYS_OPEN_TREE, at, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).to(fd)
	if !t.Pin {
		v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	v.attachAt(fd, at, guest)
	v.p.sys("close "+guest, unix.SYS_CLOSE, at)
}

// null hides a file of /proc behind /dev/null. What is hidden of a project is behind an empty
// file: this one would swallow what is written to it, and is no file to programs that ask first.
func (v *view) null(guest string) {
	fd := v.p.cell()
	v.p.sys("clone /dev/null", unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/dev/null",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID)
	v.attach(fd, guest)
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
