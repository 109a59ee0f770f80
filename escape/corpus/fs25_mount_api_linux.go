package corpus

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs25() escape.Case {
	return escape.Case{
		ID: "FS-25", Class: "mount API", Attack: "mount, bind, move, remount and unmount by the old and the new calls; chroot and pivot_root",
		Source: "CVE-2021-41133 (the new mount API passed an old filter)", Layers: []string{"seccomp", "capabilities"}, Contained: true,
		Tries: func(in escape.Inside) []escape.Try {
			attr := mem("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00") // clear MOUNT_ATTR_RDONLY
			at := unix.AT_FDCWD
			cwd := uintptr(at)
			bad := errnos(syscall.EINVAL, syscall.EBADF, syscall.ENOENT, syscall.EBUSY, syscall.EFAULT, syscall.ENOTDIR)
			tries := calls(
				call{name: "mount tmpfs", nr: unix.SYS_MOUNT, args: []uintptr{mem("none"), mem("/mnt"), mem("tmpfs"), 0, 0}},
				call{name: "mount proc", nr: unix.SYS_MOUNT, args: []uintptr{mem("none"), mem("/mnt"), mem("proc"), 0, 0}, control: escape.ByNobody, why: "it takes a process namespace of its own"},
				call{name: "bind", nr: unix.SYS_MOUNT, args: []uintptr{mem(in.Project), mem("/mnt"), 0, unix.MS_BIND, 0}, open: bad},
				call{name: "remount writable", nr: unix.SYS_MOUNT, args: []uintptr{0, mem("/usr"), 0, unix.MS_REMOUNT | unix.MS_BIND, 0}, open: bad},
				call{name: "make shared", nr: unix.SYS_MOUNT, args: []uintptr{0, mem("/"), 0, unix.MS_SHARED | unix.MS_REC, 0}, open: bad},
				call{name: "umount of a protected path", nr: unix.SYS_UMOUNT2, args: []uintptr{mem(in.Project + "/.git/hooks"), unix.MNT_DETACH}, open: bad},
				call{name: "umount of /proc/sys", nr: unix.SYS_UMOUNT2, args: []uintptr{mem("/proc/sys"), unix.MNT_DETACH}, open: bad},
				call{name: "mount_setattr", nr: unix.SYS_MOUNT_SETATTR, args: []uintptr{cwd, mem("/usr"), 0, attr, 32}, open: bad},
				call{name: "open_tree", nr: unix.SYS_OPEN_TREE, args: []uintptr{cwd, mem("/"), unix.OPEN_TREE_CLONE}, open: bad},
				call{name: "move_mount", nr: unix.SYS_MOVE_MOUNT, args: []uintptr{cwd, mem("/proc"), cwd, mem("/mnt"), 0}, open: bad},
				call{name: "fsopen", nr: unix.SYS_FSOPEN, args: []uintptr{mem("tmpfs"), 0}, open: bad},
				call{name: "fsconfig", nr: unix.SYS_FSCONFIG, args: []uintptr{minusOne, 0, 0, 0, 0}, open: bad},
				call{name: "fsmount", nr: unix.SYS_FSMOUNT, args: []uintptr{minusOne, 0, 0}, open: bad},
				call{name: "fspick", nr: unix.SYS_FSPICK, args: []uintptr{cwd, mem("/"), 0}, open: bad},
				call{name: "pivot_root", nr: unix.SYS_PIVOT_ROOT, args: []uintptr{mem("."), mem(".")}, open: bad},
				call{name: "chroot", nr: unix.SYS_CHROOT, args: []uintptr{mem("/")}},
			)
			return append(tries, escape.Try{Name: "/usr is writable after all that", Held: []error{syscall.EROFS, syscall.EACCES}, Control: escape.ByNobody, Why: "it would change the host", Do: func() error {
				path := "/usr/share/escape-fs25"
				defer os.Remove(path)
				return create(path, "FS-25")
			}})
		},
	}
}
