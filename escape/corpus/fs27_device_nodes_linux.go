package corpus

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs27() escape.Case {
	return escape.Case{
		ID: "FS-27", Class: "device nodes", Attack: "make device nodes where writing is allowed; open memory, disks, kvm, fuse, loop, tun, input and graphics",
		Source: "the classic container escape", Layers: []string{"view", "capabilities", "landlock"},
		Except: map[escape.Column]string{escape.GVisor: "devices are gVisor's own, and none is the host's"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			node := func(name, path string, mode uint32, dev uint64, control escape.Control) {
				out = append(out, escape.Try{Name: name, Control: control, Do: func() error {
					defer os.Remove(path)
					return unix.Mknod(path, mode|0o666, int(dev))
				}})
			}
			node("make a character device in the project", in.Project+"/dev1", unix.S_IFCHR, unix.Mkdev(1, 1), escape.ByRoot)
			node("make a disk in /tmp", "/tmp/fs27-disk", unix.S_IFBLK, unix.Mkdev(8, 0), escape.ByRoot)
			node("make a whiteout", in.Project+"/whiteout", unix.S_IFCHR, 0, escape.ByAnybody)
			for _, path := range []string{"/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse", "/dev/loop0", "/dev/loop-control", "/dev/net/tun", "/dev/uinput", "/dev/dri/card0", "/dev/vsock", "/dev/vhost-vsock", "/dev/mapper/control", "/dev/console", "/dev/tty0", "/dev/rtc0", "/dev/hwrng"} {
				control, why := here(path, escape.ByRoot)
				if control == escape.ByRoot && openFor(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY) != nil && os.Geteuid() == 0 {
					control, why = escape.ByNobody, path+" cannot be opened on this host"
				}
				out = append(out, escape.Try{Name: "open " + path, Control: control, Why: why, Held: append(escape.Denied(), syscall.ENXIO, syscall.ENODEV), Do: func() error {
					return openFor(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
				}})
			}
			return out
		},
	}
}
