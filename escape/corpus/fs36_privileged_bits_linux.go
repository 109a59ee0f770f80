package corpus

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func fs36() escape.Case {
	return escape.Case{
		ID: "FS-36", Class: "privileged bits out", Attack: "make set-id files and folders and file capabilities in the project by every call that can; the host finds none",
		Source: "the classic bind mount escalation", Layers: []string{"seccomp", "capabilities"},
		Tries: func(in escape.Inside) []escape.Try {
			file, dir := in.Project+"/setid", in.Project+"/setid-dir"
			at := unix.AT_FDCWD
			cwd := uintptr(at)
			ready := func() error { return create(file, "FS-36") }
			tries := []escape.Try{
				on("chmod u+s", func() error {
					if err := ready(); err != nil {
						return err
					}
					return unix.Chmod(file, 0o4755)
				}),
				on("chmod g+s", func() error { return unix.Chmod(file, 0o2755) }),
				on("fchmod", func() error {
					fd, err := fdOf(file, os.O_RDWR)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return unix.Fchmod(fd, 0o4755)
				}),
				on("open with the bit", func() error {
					fd, err := unix.Open(file+"2", os.O_CREATE|os.O_RDWR, 0o4755)
					if err == nil {
						unix.Close(fd)
					}
					return err
				}),
				on("mkdir with the bit, then chmod", func() error {
					if err := unix.Mkdir(dir, 0o2755); err != nil {
						return err
					}
					if fi, err := os.Stat(dir); err != nil || fi.Mode()&os.ModeSetgid == 0 {
						return unix.Chmod(dir, 0o2755)
					}
					return nil
				}),
				// EINVAL: no root is mapped to whom it could belong. EOPNOTSUPP: gVisor has none.
				{Name: "file capability", Control: escape.ByRoot, Held: append(escape.Denied(), unix.EINVAL, unix.EOPNOTSUPP), Do: func() error {
					return unix.Setxattr(file, "security.capability", []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"), 0)
				}},
				// EOVERFLOW: in a mount with mapped owners root is nobody.
				{Name: "give it to root", Control: escape.ByRoot, Held: append(escape.Denied(), unix.EINVAL, unix.EOVERFLOW), Do: func() error { return os.Chown(file, 0, 0) }},
			}
			tries = append(tries, calls(
				call{name: "fchmodat", nr: unix.SYS_FCHMODAT, args: []uintptr{cwd, mem(file), 0o4755}},
				call{name: "fchmodat2", nr: unix.SYS_FCHMODAT2, args: []uintptr{cwd, mem(file), 0o4755, 0}},
				call{name: "mknod", nr: unix.SYS_MKNODAT, args: []uintptr{cwd, mem(file + "3"), unix.S_IFREG | 0o4755, 0}},
				call{name: "openat2", nr: unix.SYS_OPENAT2, args: []uintptr{cwd, mem(file + "4"), mem("\x42\x00\x00\x00\x00\x00\x00\x00\xed\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 24}},
			)...)
			return tries
		},
		Host: func(w *escape.World) []escape.Finding {
			bits, err := modeBits(w.Project)
			clean(w.Project+"/setid", w.Project+"/setid2", w.Project+"/setid3", w.Project+"/setid4", w.Project+"/setid-dir")
			return []escape.Finding{found("the host finds no set-id bit and no device", err == nil && len(bits) == 0, "%v %s", err, strings.Join(bits, ", "))}
		},
	}
}
