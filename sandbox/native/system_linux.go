package native

import (
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox/plan"
)

// proc mounts a new /proc, and bounds by it what the kernel counts for a person and all that they
// own together.
func (v *view) proc(bounds []plan.Bound) {
	p, fd, mnt := v.p, v.p.cell(), v.p.cell()
	v.folder("/proc", 0o555)
	p.sys("open proc", unix.SYS_FSOPEN, "proc", unix.FSOPEN_CLOEXEC).to(fd)
	p.sys("create proc", unix.SYS_FSCONFIG, fd, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	p.sys("mount proc", unix.SYS_FSMOUNT, fd, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC).to(mnt)
	p.sys("close proc", unix.SYS_CLOSE, fd)
	v.attach(mnt, "/proc")
	for _, b := range bounds {
		limit, text := p.cell(), strconv.Itoa(b.Value)+"\n"
		p.sys("open "+b.Name, unix.SYS_OPENAT, v.root, "proc/sys/user/"+b.Name, unix.O_WRONLY|unix.O_CLOEXEC, 0).to(limit)
		p.sys("bound "+b.Name, unix.SYS_WRITE, limit, []byte(text), len(text)).want(int64(len(text)))
		p.sys("close "+b.Name, unix.SYS_CLOSE, limit)
	}
}

// terminals mounts a devpts of the box's own.
func (v *view) terminals(most int) {
	p, fs, mnt := v.p, v.p.cell(), v.p.cell()
	p.sys("open devpts", unix.SYS_FSOPEN, "devpts", unix.FSOPEN_CLOEXEC).to(fs)
	p.sys("set devpts newinstance", unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_FLAG, "newinstance", 0, 0)
	for _, o := range [][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}, {"max", strconv.Itoa(most)}} {
		p.sys("set devpts "+o[0], unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_STRING, o[0], o[1], 0)
	}
	p.sys("create devpts", unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	p.sys("mount devpts", unix.SYS_FSMOUNT, fs, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC).to(mnt)
	p.sys("close devpts", unix.SYS_CLOSE, fs)
	v.attach(mnt, "/dev/pts")
}

// device shows one of the host's devices.
func (v *view) device(at string) {
	v.file(at, 0o666)
	fd := v.p.cell()
	v.p.sys("clone "+at, unix.SYS_OPEN_TREE, unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(at, fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	v.attach(fd, at)
}
