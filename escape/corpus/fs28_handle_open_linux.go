package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs28() escape.Case {
	return escape.Case{
		ID: "FS-28", Class: "handle open", Attack: "name_to_handle_at and open_by_handle_at, which walk around the view; link an unnamed file",
		Source: "shocker (2014)", Layers: []string{"seccomp", "capabilities"},
		Tries: func(in escape.Inside) []escape.Try {
			at := unix.AT_FDCWD
			cwd := uintptr(at)
			handle := mem("\x80\x00\x00\x00\x00\x00\x00\x00")
			tries := calls(
				call{name: "name_to_handle_at", nr: unix.SYS_NAME_TO_HANDLE_AT, args: []uintptr{cwd, mem("/"), handle, mem("    "), 0}, open: errnos(syscall.EOVERFLOW, syscall.EOPNOTSUPP, syscall.EINVAL)},
				call{name: "open_by_handle_at", nr: unix.SYS_OPEN_BY_HANDLE_AT, args: []uintptr{cwd, handle, 0}, control: escape.ByRoot, open: errnos(syscall.ESTALE, syscall.EINVAL)},
			)
			return append(tries, escape.Try{Name: "link a descriptor of a file outside", Held: append(escape.Denied(), syscall.EXDEV), Do: func() error {
				fd, err := fdOf(in.Outside+"/canary", unix.O_PATH)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				defer clean(in.Outside + "/by-handle")
				return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(fd), unix.AT_FDCWD, in.Outside+"/by-handle", unix.AT_SYMLINK_FOLLOW)
			}})
		},
	}
}
