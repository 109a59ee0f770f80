package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs28a() escape.Case {
	return escape.Case{
		ID: "FS-28a", Class: "snapshots of the disk", Attack: "have btrfs make a snapshot of all that a file's subvolume holds, or make and remove subvolumes, by a descriptor of the project",
		Source: "attack on this code: kernels before 6.7 take any file of it for the subvolume", Layers: []string{"seccomp"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, r := range []struct {
				name    string
				request uintptr
			}{
				{"SNAP_CREATE", 0x50009401}, {"SNAP_CREATE_V2", 0x50009417}, {"SUBVOL_CREATE", 0x5000940e}, {"SUBVOL_CREATE_V2", 0x50009418}, {"SNAP_DESTROY", 0x5000940f}, {"SNAP_DESTROY_V2", 0x5000943f},
				{"SNAP_CREATE with high bits", 0x50009401 | 0xbeef<<32},
			} {
				// The kernel knows the request on btrfs alone: any answer of a file system is
				// one that nothing stood before.
				out = append(out, escape.Try{Name: r.name, Held: errnos(syscall.EPERM), Open: errnos(syscall.ENOTTY, syscall.EINVAL, syscall.ENOENT, syscall.EFAULT), Do: func() error {
					fd, err := fdOf(in.Project, unix.O_RDONLY|unix.O_DIRECTORY)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), r.request, mem(string(make([]byte, 4096)))); errno != 0 {
						return errno
					}
					return nil
				}})
			}
			return out
		},
	}
}
